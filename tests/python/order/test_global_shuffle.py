"""shuffle="global": one uniform order of all cells, however they are read."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle, collect, joinids_of, write_small_tiles
from hypothesis import given
from hypothesis import strategies as st
from penstock.plan.shuffle_cost import ReadAgainWarning
from scipy import stats

ID = "soma_joinid"
N_CELLS = 3000
LITTLE = "900KB"  # not enough for all cells

pytestmark = pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.ReadAgainWarning")


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 60)


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More cells than the least memory holds."""
    path = tmp_path_factory.mktemp("heavy") / "experiment"
    return write_small_tiles(path, N_CELLS, 300, per_cell=150)


def dataset(path: Path, **arguments: Any) -> ps.Dataset:
    return ps.Dataset(path, **{"sparse": True, "shuffle": "global", "batch_size": 100, **arguments})


def batches_of(batches: Any, count: int | None = None) -> list[list[int]]:
    got = []
    for _, (_, obs) in zip(range(count or 10**9), batches, strict=False):
        got.append(np.asarray(obs[ID]).tolist())
    return got


def least_budget(ds: ps.Dataset) -> int:
    """The least memory that the dataset is read with, as its refusal of less says."""
    with pytest.raises(ps.ResourceExhausted) as refused:
        ds.with_settings(memory_budget=10_000).plan()
    return int(re.search(r"at least (\d+) bytes", str(refused.value))[1])


def flat(batches: list[list[int]]) -> list[int]:
    return [each for batch in batches for each in batch]


def test_every_cell_with_its_values(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k.path, batch_size=128)
    assert ds.shuffle == "global"
    joinids, X = collect(ds)
    assert sorted(joinids) == pbmc3k.obs[ID].tolist()
    np.testing.assert_array_equal(X, pbmc3k.X[joinids].toarray())
    again, _ = collect(ds)  # the second epoch
    assert again.tolist() != joinids.tolist()
    ds.set_epoch(0)
    assert joinids_of(ds) == joinids.tolist()


def test_cells_without_a_stored_value(tmp_path: Path) -> None:
    path = write_small_tiles(tmp_path / "experiment", 200, 64, per_cell=0)
    joinids, X = collect(dataset(path))
    assert sorted(joinids) == list(range(200))
    assert not X.any()
    some = write_small_tiles(tmp_path / "some", 200, 200, per_cell=0.02)
    assert sorted(joinids_of(dataset(some, var_query="soma_joinid == 3"))) == list(range(200))


@given(data=st.data())
def test_the_order_is_not_of_memory_threads_or_layout(tiled: Path, data: st.DataObject) -> None:
    same = {
        "seed": data.draw(st.integers(0, 2**40), "seed"),
        "batch_size": data.draw(st.integers(1, 500), "batch size"),
        "uneven": data.draw(st.sampled_from(["drop", "pad", "exact"]), "uneven"),
        "world_size": (world := data.draw(st.integers(1, 4), "world")),
        "rank": data.draw(st.integers(0, world - 1), "rank"),
        "obs_query": f"soma_joinid >= {data.draw(st.integers(0, 2900), 'first')}",
    }
    one = dataset(tiled, **same)
    sparse = data.draw(st.booleans(), "sparse")
    least = least_budget(dataset(tiled, **same, sparse=sparse))
    other = dataset(
        tiled,
        **same,
        sparse=sparse,
        memory_budget=data.draw(st.sampled_from([least, 2 * least]), "budget"),
        threads=data.draw(st.integers(1, 3), "threads"),
    )
    epoch = data.draw(st.integers(0, 5), "epoch")
    one.set_epoch(epoch)
    other.set_epoch(epoch)
    assert batches_of(one) == batches_of(other)


def test_places_are_uniform(tiled: Path) -> None:
    """Any cell comes at any place equally often; cells that lie together come apart."""
    ds = dataset(tiled, obs_query="soma_joinid < 400", batch_size=400)
    first, neighbours = np.zeros(8), np.zeros(8)
    for _ in range(200):
        joinids = np.array(joinids_of(ds))
        places = np.argsort(joinids)
        first += np.bincount(places[:50] // 50, minlength=8)
        apart = (places[1:] - places[:-1]) % 400
        neighbours += np.bincount((apart - 1) * 8 // 399, minlength=8)
    assert stats.chisquare(first).pvalue > 1e-4
    shares = np.bincount(np.arange(399) * 8 // 399) / 399
    assert stats.chisquare(neighbours, shares * neighbours.sum()).pvalue > 1e-4


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("budget", ["2GiB", "2MB"])
def test_ranks_and_workers(tiled: Path, workers: int, budget: str) -> None:
    got: list[int] = []
    for rank in range(3):
        ds = dataset(tiled, rank=rank, world_size=3, memory_budget=budget)
        loader = ps.dataloader(ds, num_workers=workers)
        batches = batches_of(loader)
        assert len(batches) == len(loader) == len(ds) == 10
        got += flat(batches)
    assert sorted(got) == list(range(N_CELLS))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_resume(tiled: Path, context: str) -> None:
    def loader(ds: ps.Dataset) -> Any:
        return ps.dataloader(ds, num_workers=2, multiprocessing_context=context)

    whole = batches_of(loader(dataset(tiled)))
    begun = dataset(tiled)
    interrupted = loader(begun)
    iterator = iter(interrupted)
    assert batches_of(iterator, 7) == whole[:7]
    state = json.loads(json.dumps(interrupted.state_dict()))
    assert batches_of(iterator) == whole[7:]
    resumed = dataset(tiled, memory_budget="4MB")  # which the order does not depend on
    resumed.load_state_dict(state)
    assert batches_of(loader(resumed)) == whole[7:]
    alone = dataset(tiled)
    alone.load_state_dict(state)
    assert sorted(flat(batches_of(alone))) == sorted(flat(whole[7:]))


@pytest.mark.parametrize("taken", [1, 13, 29, 30])
def test_resumes_bit_for_bit(tiled: Path, taken: int) -> None:
    whole = batches_of(dataset(tiled))
    assert len(whole) == 30
    begun = dataset(tiled)
    assert batches_of(iter(begun), taken) == whole[:taken]
    state = json.loads(json.dumps(begun.state_dict()))
    if taken < 30:
        assert state["segments"][-1]["global_shuffle"] is True
    for budget in ("2GiB", LITTLE):
        resumed = dataset(tiled, memory_budget=budget)
        resumed.load_state_dict(state)
        # At the end of an epoch the next one begins.
        assert batches_of(resumed) == (whole[taken:] if taken < 30 else _second_epoch(tiled))


def _second_epoch(path: Path) -> list[list[int]]:
    ds = dataset(path)
    ds.set_epoch(1)
    return batches_of(ds)


SHUFFLES: list[dict[str, Any]] = [
    {"shuffle": "scatter"},
    {"shuffle": False},
    {"shuffle": "chunks", "chunk_size": 20},
    {"shuffle": "global"},
    {"shuffle": "global", "batch_size": 77},
    {"shuffle": "global", "seed": 3},
]


@given(data=st.data())
def test_any_chain_of_shapes_gives_every_cell_once(tiled: Path, data: st.DataObject) -> None:
    seen: list[int] = []
    state = None
    for _ in range(data.draw(st.integers(1, 4), "segments")):
        world = data.draw(st.integers(1, 3), "world")
        arguments = data.draw(st.sampled_from(SHUFFLES), "shuffle")
        ranks = [
            dataset(tiled, rank=r, world_size=world, uneven="exact", **arguments)
            for r in range(world)
        ]
        for ds in ranks:
            if state is not None:
                ds.load_state_dict(state)
        iterators = [iter(ds) for ds in ranks]
        for _ in range(data.draw(st.integers(0, 9), "batches")):
            for iterator in iterators:
                seen += flat(batches_of(iterator, 1))
        states = [json.loads(json.dumps(ds.state_dict())) for ds in ranks]
        assert all(each == states[0] for each in states)
        state = states[0]
        if state["epoch"] == 1:
            break
    if state["epoch"] == 0:
        last = dataset(tiled, uneven="exact")
        last.load_state_dict(state)
        seen += joinids_of(last)
    assert sorted(seen) == list(range(N_CELLS))


def test_states_of_before_have_no_global_shuffle(tiled: Path) -> None:
    ds = dataset(tiled, shuffle=True)
    iterator = iter(ds)
    whole = batches_of(iterator, 4)
    state = ds.state_dict()
    del state["segments"][0]["global_shuffle"]
    again = dataset(tiled, shuffle="scatter")
    again.load_state_dict(state)
    assert sorted(flat(whole) + joinids_of(again)) == list(range(N_CELLS))


def test_parts_copies_encoders_transforms_and_formats(census_like: Oracle) -> None:
    ds = dataset(
        census_like.path,
        encoders=[ps.LabelEncoder("cell_type")],
        transforms=[ps.NormalizeTotal(1e4), ps.Log1p()],
        format="torch",
        sparse=False,
        obs_columns=[ID],
    )
    scattered = ds.with_settings(shuffle="scatter")
    assert scattered.shuffle == "scatter"
    expected = {}
    for X, obs in scattered:
        expected.update(zip(obs[ID].tolist(), zip(X, obs["cell_type"], strict=True), strict=True))
    for part in [*ds.random_split(0.5, 0.5), pickle.loads(pickle.dumps(ds))]:
        assert part.shuffle == "global"
        seen = 0
        for X, obs in part:
            for joinid, row, label in zip(obs[ID].tolist(), X, obs["cell_type"], strict=True):
                assert row.equal(expected[joinid][0])
                assert label == expected[joinid][1]
            seen += len(X)
        assert seen == part.n_obs


def test_joined_experiments(tiled: Path) -> None:
    ds = dataset({"one": tiled, "two": tiled}, batch_size=128)
    joinids, X = collect(ds)
    assert ds.n_obs == len(joinids) == 2 * N_CELLS
    assert sorted(joinids) == sorted([*range(N_CELLS), *range(N_CELLS)])
    in_order = dataset(tiled, shuffle=False)
    np.testing.assert_array_equal(X, collect(in_order)[1][joinids])


def test_too_little_memory_is_told_what_it_costs(heavy: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joinids_of(dataset(heavy))  # everything fits
    ds = dataset(heavy, memory_budget=least_budget(dataset(heavy)))
    with pytest.warns(
        ReadAgainWarning, match="decodes up to [0-9.]+ times what the cells need"
    ) as caught:
        joinids_of(ds)
    times = float(str(caught[0].message).split("up to ")[1].split()[0])
    # Tiles without a cell that is wanted are not read.
    assert 1.5 < ds.stats.read_amplification <= 1.05 * times
    report = ds.shuffle_report(ID)
    assert report.read_amplification == pytest.approx(times, rel=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joinids_of(ds)  # once is enough


def test_the_report_says_uniform(census_like: Oracle) -> None:
    ds = dataset(census_like.path, memory_budget="64MiB")
    report = ds.shuffle_report("dataset_id")
    assert report.share == pytest.approx(1, abs=0.02)
    assert ds.plan().planned_bytes <= 64 * 2**20


def test_reprs(tiled: Path) -> None:
    assert "global shuffle, seed 0" in repr(dataset(tiled))
    assert "scatter shuffle, seed 0" in repr(dataset(tiled, shuffle=True))
    assert "in joinid order" in repr(dataset(tiled, shuffle=False))
    assert dataset(tiled, shuffle=False).shuffle is None
    assert dataset(tiled, shuffle="chunks").shuffle == "chunks"


@pytest.mark.parametrize(
    "argument", [{"num_samples": 10}, {"replacement": True}, {"balance": "obs_id"}]
)
def test_cells_that_are_drawn_come_unit_by_unit(tiled: Path, argument: dict[str, Any]) -> None:
    with pytest.raises(ps.InvalidArgument, match="shuffle must be True or 'scatter', got 'global'"):
        dataset(tiled, **argument)
    with pytest.raises(ps.InvalidArgument, match="shuffle must be True or 'scatter', got 'global'"):
        dataset(tiled).with_settings(**argument)


def test_small_budgets_are_refused(tiled: Path) -> None:
    with pytest.raises(ps.ResourceExhausted, match="memory_budget is too small"):
        joinids_of(dataset(tiled, memory_budget="20KB"))
