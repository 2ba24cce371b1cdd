"""Saving and resuming an epoch: Dataset.state_dict and load_state_dict."""

from __future__ import annotations

import copy
import pickle
import time
import types
import warnings

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle, write_small_tiles
from hypothesis import given
from hypothesis import strategies as st
from resumed_cells import BATCH, N_CELLS, ids, same, small, through_json, write_tiled


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    return write_tiled(tmp_path_factory.mktemp("tiles"))


@pytest.mark.parametrize("taken", [0, 1, 13, 31, 32])
@pytest.mark.parametrize("shuffle", [True, False])
def test_resumes_bit_for_bit(tiled, taken: int, shuffle: bool) -> None:
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


@pytest.fixture(scope="module")
def many_units(tmp_path_factory: pytest.TempPathFactory):
    """8,000 cells in 125 fetch units of 64 rows."""
    folder = tmp_path_factory.mktemp("units")
    return write_small_tiles(folder / "experiment", N_CELLS, 512, per_cell=64)


def units_at_rest(ds: ps.Dataset) -> int:
    """Units read so far, once the engine is as far ahead of the training loop as it may be."""
    units, since = ds.stats.units, time.monotonic()
    while time.monotonic() < since + 1:
        time.sleep(0.02)
        if ds.stats.units != units:
            units, since = ds.stats.units, time.monotonic()
    return units


@pytest.mark.parametrize("batch_size", [BATCH, 100])
def test_nothing_is_read_to_get_there(many_units, batch_size: int) -> None:
    """What a resume reads at 24 of 32 batches, in the same batches and in others.

    A unit is read that still has a row to give. Its rows lie in K (`units_in_shuffle`) buckets that
    follow on each other, and each bucket has rows of K units, about a unit's number in all. So of the
    units that were begun before the 24th batch's end at most K have rows left, and those not begun
    hold only rows that are left: at most a quarter of the rows, so of the units, and one that the
    end of the batch divides. In all: a quarter of the units + K + 1.

    Before the first batch a new epoch reads what that batch needs and what the engine reads ahead,
    and this one also those rows of the K units in flight that it had before.
    """

    def dataset(size: int) -> ps.Dataset:
        return small(many_units, batch_size=size, memory_budget="1500KiB")

    ds = dataset(BATCH)
    assert sum(1 for _ in ds) == 32
    whole = ds.stats
    span = whole.units_in_shuffle
    assert whole.units == 125
    assert 1 < span < whole.units / 6

    begun = dataset(BATCH)
    batches = iter(begun)
    for _ in range(24):
        next(batches)
    state = begun.state_dict()
    fresh = dataset(batch_size)
    first_of_all = iter(fresh)
    next(first_of_all)
    ahead = units_at_rest(fresh)

    other = dataset(batch_size)
    other.load_state_dict(state)
    left = iter(other)
    cells = next(left)[0].shape[0]
    assert units_at_rest(other) <= span + ahead + 1
    cells += sum(X.shape[0] for X, _ in left)
    assert cells == N_CELLS / 4
    assert other.stats.units <= whole.units / 4 + span + 1
    unit_bytes = whole.bytes_read / whole.units
    assert other.stats.bytes_read <= 1.1 * unit_bytes * (whole.units / 4 + span + 1)


@given(data=st.data())
def test_any_chain_of_shapes_gives_every_cell_once(tiled, data: st.DataObject) -> None:
    """World and arguments change at will; nothing is lost, nothing comes twice.

    With workers: test_resume_workers.py.
    """
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
def test_ranks_resume(tiled, uneven: str) -> None:
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


@pytest.mark.parametrize(
    ("changed", "num_workers", "named"),
    [
        ({"memory_budget": "2MiB"}, 0, "memory_budget: 4194304 in the state, 2097152 now"),
        ({}, 2, "num_workers: 1 in the state, 2 now"),
        ({"memory_budget": "2MiB", "compare_ranks": False}, 2, None),
        ({"memory_budget": "2MiB", "seed": 4}, 0, None),  # ranks with another seed never fit
        ({"rank": 0, "world_size": 1}, 2, None),
        ({}, 0, None),
    ],
)
def test_ranks_by_hand_that_resume_in_another_order(
    tiled, changed: dict, num_workers: int, named: str | None
) -> None:
    """Nothing can tell whether all have changed alike. Where they have every cell comes once."""
    seen, parts = [], []
    for rank in range(2):
        ds = small(tiled, rank=rank, world_size=2, memory_budget="4MiB")
        batches = iter(ds)
        seen += [joinid for _ in range(4) for joinid in ids(next(batches))]
    for rank in range(changed.get("world_size", 2)):
        given = {"rank": rank, "world_size": 2, "memory_budget": "4MiB"}
        parts.append(small(tiled, **{**given, **changed}))
        parts[-1].load_state_dict(ds.state_dict())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = ps.dataloader(parts[-1], num_workers=num_workers)
            seen += [joinid for batch in loader for joinid in ids(batch)]
        texts = [str(each.message) for each in caught if "rank" in str(each.message)]
        if named is None:
            assert texts == []
            continue
        (text,) = texts
        assert f"rank {rank} resumes from a state in another order than it had ({named})" in text
        assert "All ranks must have changed alike" in text
    assert sorted(seen) == list(range(N_CELLS))


def test_a_rank_that_resumes_where_it_was_does_not_warn(tiled) -> None:
    """Also where its state is of a run that itself had resumed in another order."""

    def resumed_run(state: dict, budget: str, take: int) -> tuple[dict, list[str]]:
        ds = small(tiled, rank=0, world_size=2, memory_budget=budget)
        ds.load_state_dict(state)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = iter(ds)
            for _ in range(take):
                next(batches)
        return ds.state_dict(), [
            str(each.message) for each in caught if "rank" in str(each.message)
        ]

    first = small(tiled, rank=0, world_size=2, memory_budget="4MiB")
    batches = iter(first)
    for _ in range(2):
        next(batches)
    second, warned = resumed_run(first.state_dict(), "2MiB", 2)
    assert len(warned) == 1
    third, warned = resumed_run(second, "2MiB", 2)
    assert warned == []
    _, warned = resumed_run(third, "4MiB", 1)
    assert len(warned) == 1


def test_set_epoch(tiled) -> None:
    ds = small(tiled)
    batches = iter(ds)
    next(batches)
    state = ds.state_dict()
    ds.load_state_dict(state)
    ds.set_epoch(0)  # what a trainer says of the epoch that it resumes
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


def test_a_loop_that_is_left_and_started_again_is_the_next_epoch(tiled) -> None:
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


def test_training_resumes_with_the_same_losses(tiled) -> None:
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
        ({**state, "selection": {**state["selection"], "cells": "x"}}, "cells must be an integer"),
        ({**state, "epoch": 2**63}, "damaged"),
        ({**state, "epoch": np.int64(0)}, "damaged: it holds .*0.*, but only numbers"),
        (
            {**state, "segments": [{**state["segments"][0], "batch_size": "x"}]},
            "batch_size must be an int",
        ),
        ({**state, "segments": [{**state["segments"][0], "world_size": -1}]}, "damaged"),
        ({**state, "segments": [{**state["segments"][0], "lanes": 0}]}, "lanes must be .*got 0"),
        ({**state, "segments": [{**state["segments"][0], "lanes": 2}]}, "lanes must be .*got 2"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            ds.load_state_dict(bad)
    read_only = {
        name: types.MappingProxyType(value) if isinstance(value, dict) else value
        for name, value in state.items()
    }
    ds.load_state_dict(types.MappingProxyType(read_only))
    assert ds.state_dict() == state
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


def test_an_iterator_that_was_made_and_an_epoch_chosen_for_the_next(tiled) -> None:
    ds = small(tiled, memory_budget="4MiB")
    first = [ids(batch) for batch in small(tiled, memory_budget="4MiB")]
    unused = iter(ds)
    ds.set_epoch(0)
    assert [ids(batch) for batch in ds] == first  # it begins what was chosen
    assert ds.epoch == 1
    next(unused)
    assert ds.epoch == 2
