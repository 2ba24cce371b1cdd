"""An epoch that is saved and gone on from: Dataset.state_dict and load_state_dict."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle, write_small_tiles
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

N_CELLS = 8_000
BATCH = 250  # 32 batches


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    """8,000 cells in 17 fetch units."""
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 200)


def small(path, **arguments) -> ps.Dataset:
    """32 batches whose shuffle spans three of the 17 units."""
    given = {"sparse": True, "batch_size": BATCH, "memory_budget": "700KiB", "seed": 3}
    return ps.Dataset(path, **{**given, **arguments})


def ids(batch) -> list[int]:
    return np.asarray(batch[1]["soma_joinid"]).tolist()


def same(left, right) -> bool:
    return (
        ids(left) == ids(right)
        and (left[0] != right[0]).nnz == 0
        and left[0].shape == right[0].shape
    )


def through_json(state):
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("taken", [0, 1, 13, 31, 32])
@pytest.mark.parametrize("shuffle", [True, False])
def test_goes_on_bit_for_bit(tiled, taken: int, shuffle: bool) -> None:
    whole = small(tiled, shuffle=shuffle)
    epochs = [list(whole), list(whole)]
    assert len(epochs[0]) == 32

    first = small(tiled, shuffle=shuffle)
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    state = through_json(first.state_dict())
    assert state["epoch"] == (1 if taken == 32 else 0)

    other = small(tiled, shuffle=shuffle)
    other.load_state_dict(state)
    assert other.state_dict() == state or taken == 0
    rest = list(other)
    expected = epochs[0][taken:] if taken < 32 else epochs[1]
    assert len(rest) == len(expected)
    assert all(same(a, b) for a, b in zip(rest, expected, strict=True))
    if taken < 32:
        after = list(other)
        assert all(same(a, b) for a, b in zip(after, epochs[1], strict=True))


def test_the_shuffle_spans_less_than_the_epoch_and_less_is_read(tiled) -> None:
    ds = small(tiled)
    everything = list(ds)
    whole = ds.stats
    assert 1 < whole.units_in_shuffle < whole.units / 2
    again = small(tiled)
    batches = iter(again)
    for _ in range(24):
        next(batches)
    other = small(tiled)
    other.load_state_dict(again.state_dict())
    assert sum(X.shape[0] for X, _ in other) == sum(X.shape[0] for X, _ in everything[24:])
    assert other.stats.units < whole.units
    assert other.stats.bytes_read < whole.bytes_read


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_chain_of_shapes_gives_every_cell_once(tiled, data: st.DataObject) -> None:
    """World, workers' number and arguments change at will; nothing is lost, nothing comes twice."""
    seen: list[int] = []
    state = None
    for _ in range(data.draw(st.integers(1, 4), "segments")):
        world = data.draw(st.integers(1, 4), "world")
        size = data.draw(st.sampled_from([61, 250, 800]), "batch size")
        ranks = [
            small(
                tiled,
                rank=r,
                world_size=world,
                uneven="exact",
                batch_size=size,
                memory_budget="2MiB",
            )
            for r in range(world)
        ]
        if state is not None:
            for ds in ranks:
                ds.load_state_dict(state)
        iterators = [iter(ds) for ds in ranks]
        for _ in range(data.draw(st.integers(0, 12), "batches")):
            taken = [next(it, None) for it in iterators]
            assert len({batch is None for batch in taken}) == 1
            seen += [joinid for batch in taken if batch is not None for joinid in ids(batch)]
        states = [through_json(ds.state_dict()) for ds in ranks]
        assert all(each == states[0] for each in states)
        state = states[0]
        if state["epoch"] == 1:
            break
    if state["epoch"] == 0:
        last = small(tiled, uneven="exact")
        last.load_state_dict(state)
        seen += [joinid for batch in last for joinid in ids(batch)]
    assert sorted(seen) == list(range(N_CELLS))


@pytest.mark.parametrize("uneven", ["drop", "pad", "exact"])
def test_ranks_go_on(tiled, uneven: str) -> None:
    def ranks():
        return [small(tiled, rank=r, world_size=3, uneven=uneven) for r in range(3)]

    whole = [list(ds) for ds in ranks()]
    begun = ranks()
    for ds in begun:
        batches = iter(ds)
        for _ in range(4):
            next(batches)
    state = begun[1].state_dict()
    for rank, ds in enumerate(ranks()):
        ds.load_state_dict(state)
        rest = list(ds)
        assert len(rest) == len(whole[rank]) - 4
        assert all(same(a, b) for a, b in zip(rest, whole[rank][4:], strict=True))


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_dataloader_with_workers_goes_on(tiled, persistent: bool, context: str) -> None:
    def loader(ds):
        return ps.dataloader(
            ds, num_workers=3, persistent_workers=persistent, multiprocessing_context=context
        )

    def read(batches, count=None):
        got = []
        for _, batch in zip(range(count or 1_000), batches, strict=False):
            got.append(ids(batch))
        return got

    ds = small(tiled, memory_budget="2MiB")
    both = loader(ds)
    epochs = [read(both), read(both)]
    assert len(epochs[0]) == len(ds) == 32
    assert epochs[0] != epochs[1]
    assert sorted(sum(epochs[0], [])) == list(range(N_CELLS))

    other = small(tiled, memory_budget="2MiB")
    interrupted = loader(other)
    read(interrupted)
    batches = iter(interrupted)
    assert read(batches, 11) == epochs[1][:11]
    state = through_json(interrupted.state_dict())
    assert state == other.state_dict()
    assert state["epoch"] == 1
    assert state["segments"][-1]["batches"] == 11
    assert read(batches) == epochs[1][11:]

    resumed = small(tiled, memory_budget="2MiB")
    again = loader(resumed)
    # Workers that are kept have begun another epoch by now. Spawned ones are not left in the middle
    # of it: torch's queue thread may abort a process that ends while it copies a batch.
    read(again, 2 if context == "fork" else None)
    again.load_state_dict(state)
    assert read(again) == epochs[1][11:]
    after = read(again)
    fresh = small(tiled, memory_budget="2MiB")
    fresh.set_epoch(2)
    assert after == read(loader(fresh))

    # Without workers every cell that is left comes once.
    alone = small(tiled, memory_budget="2MiB")
    alone.load_state_dict(state)
    left = [joinid for batch in alone for joinid in ids(batch)]
    assert sorted(left) == sorted(sum(epochs[1][11:], []))


def test_plain_dataloader_with_workers_says_that_it_cannot(tiled) -> None:
    ds = small(tiled)
    assert ds.state_dict()["epoch"] == 0
    list(DataLoader(ds, batch_size=None, num_workers=1))
    with pytest.raises(ps.InvalidArgument, match=r"penstock\.dataloader"):
        ds.state_dict()
    ds.set_epoch(5)
    assert ds.state_dict()["epoch"] == 5


def test_set_epoch(tiled) -> None:
    ds = small(tiled)
    batches = iter(ds)
    next(batches)
    state = ds.state_dict()
    ds.load_state_dict(state)
    ds.set_epoch(0)  # what a trainer says of the epoch that it goes on with
    assert sum(X.shape[0] for X, _ in ds) == N_CELLS - BATCH
    ds.load_state_dict(state)
    ds.set_epoch(4)
    assert sum(X.shape[0] for X, _ in ds) == N_CELLS


def test_the_sampler_of_the_loader_forwards_the_epoch(tiled) -> None:
    loader = ps.dataloader(small(tiled))
    loader.sampler.set_epoch(7)
    order = [ids(batch) for batch in loader]
    expected = small(tiled)
    expected.set_epoch(7)
    assert order == [ids(batch) for batch in expected]


def test_copies(tiled) -> None:
    ds = small(tiled)
    batches = iter(ds)
    next(batches)
    ds.load_state_dict(ds.state_dict())
    for other in (copy.deepcopy(ds), pickle.loads(pickle.dumps(ds))):
        assert sum(X.shape[0] for X, _ in other) == N_CELLS - BATCH


def test_a_loop_that_is_left_and_begun_anew_is_the_next_epoch(tiled) -> None:
    ds = small(tiled)
    for _ in ds:
        break
    assert ds.state_dict()["segments"][0]["batches"] == 1
    for _ in ds:
        break
    state = ds.state_dict()
    assert (state["epoch"], state["segments"][0]["batches"]) == (1, 1)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_iterator_that_has_given_nothing_follows_a_state(tiled, num_workers: int) -> None:
    """torchdata's and Accelerate's loaders make one before a user can load anything."""

    def loader():
        ds = small(tiled, memory_budget="2MiB")
        return ps.dataloader(ds, num_workers=num_workers)

    first = loader()
    batches = iter(first)
    for _ in range(5):
        next(batches)
    state = first.state_dict()
    left = [ids(batch) for batch in batches]
    again = loader()
    begun = iter(again)
    again.load_state_dict(state)
    assert [ids(batch) for batch in begun] == left

    other = loader()
    begun = iter(other)
    seen = [ids(next(begun))]
    other.load_state_dict(state)  # too late for this one, not for the next
    seen += [ids(batch) for batch in begun]
    assert len(seen) == 32
    assert [ids(batch) for batch in other] == left


def test_torch_saves_it(tiled, tmp_path) -> None:
    ds = small(tiled)
    next(iter(ds))
    torch.save(ds.state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == ds.state_dict()


def test_training_goes_on_with_the_same_losses(tiled) -> None:
    def train(stop=None, checkpoint=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(200, 1)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        ds = small(tiled, sparse=False, format="torch", memory_budget="1500KiB")
        losses = []
        if checkpoint is not None:
            model.load_state_dict(checkpoint["model"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            ds.load_state_dict(checkpoint["data"])
        while ds.epoch < 3:
            for X, obs in ds:
                target = torch.as_tensor(obs["soma_joinid"] % 2, dtype=torch.float32)
                loss = ((model(X)[:, 0] - target) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if len(losses) == stop:
                    return losses, {
                        "model": copy.deepcopy(model.state_dict()),
                        "optimizer": copy.deepcopy(optimizer.state_dict()),
                        "data": ds.state_dict(),
                    }
        return losses, None

    whole, _ = train()
    assert len(whole) == 96
    for stop in (1, 31, 32, 50):
        before, checkpoint = train(stop)
        after, _ = train(checkpoint=checkpoint)
        assert before + after == whole


def test_bad_states(tiled, soma_small: Oracle) -> None:
    ds = small(tiled)
    next(iter(ds))
    state = ds.state_dict()
    other = ps.Dataset(soma_small.path)
    with pytest.raises(ps.InvalidArgument, match="other cells and other genes;"):
        other.load_state_dict(state)
    for changed, what in [
        ({"obs_query": ps.AxisQuery(coords=(slice(0, 10),))}, "cells"),
        ({"var_query": ps.AxisQuery(coords=(slice(0, 5),))}, "genes"),
        ({"transforms": [ps.Log1p()]}, "transforms"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=f"another selection.*: other {what};"):
            small(tiled, **changed).load_state_dict(state)
    for bad, message in [
        (None, "what Dataset.state_dict returned"),
        ({}, "what Dataset.state_dict returned"),
        ({**state, "version": 99}, "version 99"),
        ({**state, "epoch": -1}, "damaged"),
        ({**state, "segments": [{}]}, "damaged"),
        ({**state, "segments": 3}, "damaged"),
        ({**state, "selection": 3}, "damaged"),
        ({**state, "selection": {**state["selection"], "cells": "x"}}, "cells of the selection"),
        ({**state, "epoch": 2**63}, "damaged"),
        ({**state, "segments": [{**state["segments"][0], "batch_size": "x"}]}, "batch_size is 'x'"),
        ({**state, "segments": [{**state["segments"][0], "world_size": -1}]}, "damaged"),
        ({**state, "segments": [{**state["segments"][0], "lanes": 0}]}, "lanes is 0"),
        ({**state, "segments": [{**state["segments"][0], "lanes": 2}]}, "lanes is 2"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            ds.load_state_dict(bad)
    wrong_plan = copy.deepcopy(state)
    wrong_plan["segments"][0]["plan"] ^= 1
    ds.load_state_dict(wrong_plan)
    with pytest.raises(ps.InvalidArgument, match="does not fit what is stored"):
        next(iter(ds))
    wrong_lanes = copy.deepcopy(state)
    assert wrong_lanes["segments"][0]["lanes"] == 1
    # Half of the batches would have been another worker's.
    wrong_lanes["segments"][0].update(num_workers=4, lanes=2, memory_budget=2**22)
    ds.load_state_dict(wrong_lanes)
    with pytest.raises(ps.InvalidArgument, match="does not fit what is stored"):
        next(iter(ds))
    too_far = copy.deepcopy(state)
    too_far["segments"][0]["batches"] = 33
    ds.load_state_dict(too_far)
    with pytest.raises(ps.InvalidArgument, match="first_batch"):
        next(iter(ds))


def test_layers_are_told_apart(tmp_path) -> None:
    """Layers of the same shape, where no plan could tell."""
    import anndata
    import tiledbsoma.io

    data = anndata.AnnData(np.ones((300, 5), np.float32))
    data.layers["twice"] = data.X * 2
    tiledbsoma.io.from_anndata(str(tmp_path / "soma"), data, "RNA", X_layer_name="raw")
    raw = ps.Dataset(tmp_path / "soma", batch_size=50)
    next(iter(raw))
    with pytest.raises(ps.InvalidArgument, match=r"another selection.*: other layer;"):
        ps.Dataset(tmp_path / "soma", layer="twice", batch_size=50).load_state_dict(
            raw.state_dict()
        )


@pytest.mark.parametrize(
    "changed",
    [
        {"obs_columns": ["obs_id", "soma_joinid"]},
        {"encoders": [ps.LabelEncoder("obs_id")]},
        {"obs_format": "pandas"},
        {"threads": 1},
    ],
)
def test_what_may_change_bit_for_bit(tiled, changed: dict) -> None:
    """Labels, formats and threads change no cell of the batches that are left."""
    whole = list(small(tiled))
    ds = small(tiled)
    batches = iter(ds)
    for _ in range(3):
        next(batches)
    other = small(tiled, **changed)
    other.load_state_dict(ds.state_dict())
    rest = list(other)
    assert len(rest) == len(whole) - 3
    for batch, before in zip(rest, whole[3:], strict=True):
        assert ids(batch) == ids(before)
        assert (batch[0] != before[0]).nnz == 0


def test_state_of_a_worker_fits_the_same_worker_only(tiled) -> None:
    """What torchdata's StatefulDataLoader does, which saves in each worker."""
    ds = small(tiled)
    next(iter(ds))
    state = ds.state_dict()
    state["worker"] = state["lane"] = 1
    with pytest.raises(ps.InvalidArgument, match="keep num_workers"):
        ds.load_state_dict(state)


def test_state_of_a_worker_needs_its_arguments(tiled) -> None:
    """One worker's count does not tell which cells the others gave."""
    from penstock.epoch_course import begin_course
    from penstock.epoch_position import Position
    from penstock.sharding import Share

    ds = small(tiled)
    next(iter(ds))
    state = ds.state_dict() | {"worker": 0, "lane": 0}
    other = small(tiled, batch_size=100)
    with pytest.raises(ps.InvalidArgument, match="the arguments that it was saved with"):
        begin_course(Position.from_state(state), other._selection, other._settings, Share())


def identity(batch):
    return batch


@pytest.mark.parametrize("num_workers", [0, 2, 3])
def test_stateful_dataloader_of_torchdata(tiled, num_workers: int) -> None:
    """It saves in each worker, and wants as many again: ours is the error if they are not."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader(num_workers=num_workers):
        ds = small(tiled, memory_budget="4MiB")
        return stateful.StatefulDataLoader(
            ds, batch_size=None, num_workers=num_workers, collate_fn=identity
        )

    whole = [ids(batch) for batch in loader()]
    begun = loader()
    batches = iter(begun)
    assert [ids(next(batches)) for _ in range(11)] == whole[:11]
    state = begun.state_dict()
    again = loader()
    again.load_state_dict(state)
    assert [ids(batch) for batch in again] == whole[11:]
    if num_workers:
        other = loader(num_workers + 1)
        other.load_state_dict(state)
        with pytest.raises(ps.InvalidArgument, match="keep num_workers"):
            list(other)


@pytest.mark.parametrize(("num_workers", "left"), [(0, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_stateful_dataloader_near_the_end(tiled, num_workers: int, left: int) -> None:
    """Some workers have given all of theirs; the epoch after it is the next one."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return stateful.StatefulDataLoader(
            small(tiled, memory_budget="4MiB"),
            batch_size=None,
            num_workers=num_workers,
            collate_fn=identity,
        )

    uninterrupted = loader()
    epochs = [[ids(batch) for batch in uninterrupted] for _ in range(3)]
    begun = loader()
    batches = iter(begun)
    for _ in range(len(epochs[0]) - left):
        next(batches)
    if left == 0:
        assert next(batches, None) is None
    state = begun.state_dict()
    again = loader()
    again.load_state_dict(state)
    if left:
        assert [ids(batch) for batch in again] == epochs[0][-left:]
    assert [[ids(batch) for batch in again] for _ in range(2)] == epochs[1:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_chosen_before_the_first_batch(tiled, num_workers: int) -> None:
    """As Lightning chooses it: after the iterator was made."""
    expected = {}
    for epoch in (0, 1, 5, 6):
        ds = small(tiled, memory_budget="4MiB")
        ds.set_epoch(epoch)
        expected[epoch] = [ids(batch) for batch in ps.dataloader(ds, num_workers=num_workers)]

    def epochs(chosen: int, begins: int = 1) -> list[int]:
        ds = small(tiled, memory_budget="4MiB")
        loader = ps.dataloader(ds, num_workers=num_workers)
        iterators = [iter(loader) for _ in range(begins)]
        loader.sampler.set_epoch(chosen)
        first = [ids(batch) for batch in iterators[-1]]
        second = [ids(batch) for batch in loader]
        by_order = {str(batches): epoch for epoch, batches in expected.items()}
        return [by_order[str(each)] for each in (first, second)]

    assert epochs(0) == [0, 1]
    assert epochs(5) == [5, 6]
    ds = small(tiled, memory_budget="4MiB")
    loader = ps.dataloader(ds, num_workers=num_workers)
    batches = iter(loader)
    loader.sampler.set_epoch(0)
    taken = [ids(next(batches)) for _ in range(3)]
    state = ds.state_dict()
    rest = small(tiled, memory_budget="4MiB")
    rest.load_state_dict(state)
    got = taken + [ids(batch) for batch in ps.dataloader(rest, num_workers=num_workers)]
    assert got == expected[0]


def test_an_iterator_that_was_made_and_an_epoch_chosen_for_the_next(tiled) -> None:
    ds = small(tiled, memory_budget="4MiB")
    first = [ids(batch) for batch in small(tiled, memory_budget="4MiB")]
    unused = iter(ds)
    ds.set_epoch(0)
    assert [ids(batch) for batch in ds] == first  # it begins what was chosen
    assert ds.epoch == 1
    next(unused)
    assert ds.epoch == 2


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_state_says_how_many_workers_have_batches(tiled, lanes: int) -> None:
    """Of three, two have some. Another number would say that other cells were taken."""
    ds = small(tiled, memory_budget="4MiB")
    batches = iter(ps.dataloader(ds, num_workers=3))
    for _ in range(5):
        next(batches)
    state = ds.state_dict()
    assert state["segments"][0]["lanes"] == 2
    state["segments"][0]["lanes"] = lanes
    for num_workers in (3, 2, 0):
        again = small(tiled, memory_budget="4MiB")
        again.load_state_dict(state)
        with pytest.raises(ps.InvalidArgument, match=r"does not fit what is stored|first_batch"):
            list(ps.dataloader(again, num_workers=num_workers))
