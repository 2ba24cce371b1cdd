"""`keep` where memory holds only a part of the cells: the others are read in each epoch."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp
import tiledbsoma
from conftest import Oracle
from soma_tables import write_experiment

N_CELLS, N_GENES = 40_000, 1_000


@pytest.fixture(scope="module")
def small_tiles(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Cells of 200 genes each, in tiles so small that a few cells are read at a time."""
    path = tmp_path_factory.mktemp("small-tiles") / "experiment"
    table = pa.table({"soma_joinid": np.arange(N_CELLS)})
    uri = write_experiment(path, table, genes=[str(gene) for gene in range(N_GENES)])
    random = np.random.default_rng(0)
    places = np.nonzero(random.random((N_CELLS, N_GENES), np.float32) < 0.2)
    values = random.integers(1, 9, len(places[0])).astype(np.float32)
    X = sp.csr_matrix((values, places), shape=(N_CELLS, N_GENES))
    with tiledbsoma.Experiment.open(uri, "w") as experiment:
        layers = experiment.ms["RNA"].add_new_collection("X")
        layer = layers.add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=X.shape,
            platform_config={"tiledb": {"create": {"capacity": 4096}}},
        )  # fmt: skip
        layer.write(pa.SparseCOOTensor.from_scipy(X.tocoo()))
    return Oracle(path, X, table.to_pandas(), None)


def dataset(oracle: Oracle, **settings) -> ps.Dataset:
    return ps.Dataset(oracle.path, **{"sparse": True, "batch_size": 20, **settings})


@pytest.fixture(scope="module")
def budget(small_tiles: Oracle) -> int:
    """Three times the least that works."""
    with pytest.raises(ps.ResourceExhausted) as error:
        next(iter(dataset(small_tiles, memory_budget=10_000)))
    return 3 * int(re.search(r"at least (\d+)", str(error.value))[1])


def epoch(ds: ps.Dataset, X: sp.csr_matrix) -> list[int]:
    joinids: list[int] = []
    for cells, obs in ds:
        found = obs["soma_joinid"].tolist()
        assert (cells != X[found]).nnz == 0
        joinids += found
    return joinids


def test_what_fits_is_read_once(small_tiles: Oracle, budget: int) -> None:
    ds = dataset(small_tiles, memory_budget=budget)
    orders = [epoch(ds, small_tiles.X)]
    first = ds.stats
    assert first.bytes_read == first.planned_bytes_read
    for number in range(3):
        orders.append(epoch(ds, small_tiles.X))
        assert ds.shuffle == "scatter"
        # The first of these keeps what the plan was too careful about, and the others have it.
        assert 0 < ds.stats.bytes_read < (0.75 if number == 0 else 0.7) * first.bytes_read
        assert ds.stats.kept_units < ds.stats.units
        assert ds.stats.peak_buffered_bytes <= budget
        assert not ds.stats.all_kept
    assert all(sorted(order) == list(range(N_CELLS)) for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)
    assert "bit-packed" in repr(ds)


def test_statistics_leave_what_is_kept(small_tiles: Oracle, budget: int) -> None:
    ds = dataset(small_tiles, memory_budget=budget)
    epoch(ds, small_tiles.X)
    found = ps.gene_statistics(ds)
    assert found.equals(ps.gene_statistics(dataset(small_tiles, keep=False)))
    epoch(ds, small_tiles.X)
    assert 0 < ds.stats.kept_units < ds.stats.units
    assert ds.stats.peak_buffered_bytes <= budget


def test_kept_cells_need_little_of_the_mixing_memory(small_tiles: Oracle, budget: int) -> None:
    ds = dataset(small_tiles, memory_budget=budget)
    for _ in range(2):
        epoch(ds, small_tiles.X)
    assert ds.stats.kept_units > 0
    assert ds.stats.spilled_bytes == 0
    # Half of the memory is for what is kept.
    other_half = dataset(small_tiles, memory_budget=budget // 2, keep=False)
    other_half.set_epoch(1)
    assert 1.2 * other_half.plan().units_in_shuffle < ds.stats.units_in_shuffle < ds.stats.units


def test_the_order_does_not_depend_on_what_is_kept(small_tiles: Oracle, budget: int) -> None:
    ds = dataset(small_tiles, memory_budget=budget)
    orders = [epoch(ds, small_tiles.X) for _ in range(3)]
    for number in (2, 1):
        again = dataset(small_tiles, memory_budget=budget)
        again.set_epoch(number)
        assert epoch(again, small_tiles.X) == orders[number]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kept_before", [True, False])
def test_resumes(small_tiles: Oracle, budget: int, kept_before: bool, keep: bool) -> None:
    ds = dataset(small_tiles, memory_budget=budget, keep=kept_before)
    epoch(ds, small_tiles.X)
    batches = iter(ds)
    seen = [id_ for _ in range(500) for id_ in next(batches)[1]["soma_joinid"].tolist()]
    state = pickle.loads(pickle.dumps(ds.state_dict()))
    rest = [id_ for _, obs in batches for id_ in obs["soma_joinid"].tolist()]
    other = dataset(small_tiles, memory_budget=budget, keep=keep)
    other.load_state_dict(state)
    resumed = []
    batches = iter(other)
    for _ in range(60):
        resumed += next(batches)[1]["soma_joinid"].tolist()
    third = dataset(small_tiles, memory_budget=budget)
    third.load_state_dict(other.state_dict())
    resumed += epoch(third, small_tiles.X)
    assert sorted(seen + rest) == list(range(N_CELLS))
    assert resumed == rest


@pytest.mark.parametrize("changed", [{"batch_size": 40}, {"sparse": False}, {"seed": 1}])
@pytest.mark.parametrize("keep", [True, False])
def test_other_arguments_resume(
    small_tiles: Oracle, budget: int, changed: dict[str, Any], keep: bool
) -> None:
    ds = dataset(small_tiles, memory_budget=budget)
    batches = iter(ds)
    seen = [id_ for _ in range(500) for id_ in next(batches)[1]["soma_joinid"].tolist()]
    other = dataset(small_tiles, memory_budget=budget, keep=keep, **changed)
    other.load_state_dict(ds.state_dict())
    rest = [id_ for _, obs in other for id_ in obs["soma_joinid"].tolist()]
    assert sorted(seen + rest) == list(range(N_CELLS))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("fits", [True, False])
def test_a_worker_resumes_what_the_process_has_begun(
    small_tiles: Oracle, budget: int, number: int, fits: bool
) -> None:
    """The worker keeps nothing, and its process counts batches of the same order."""
    settings = {"memory_budget": "2GiB" if fits else budget, "batch_size": 100, "threads": 1}
    ds = dataset(small_tiles, **settings)
    for _ in range(number):
        epoch(ds, small_tiles.X)
    batches = iter(ds)
    seen = [id_ for _ in range(50) for id_ in next(batches)[1]["soma_joinid"].tolist()]
    state = ds.state_dict()
    for _ in range(2):
        loader = ps.dataloader(dataset(small_tiles, **settings), num_workers=1)
        loader.load_state_dict(state)
        batches = iter(loader)
        seen += [id_ for _ in range(50) for id_ in next(batches)[1]["soma_joinid"].tolist()]
        state = loader.state_dict()
    last = dataset(small_tiles, **settings)
    last.load_state_dict(state)
    assert sorted(seen + epoch(last, small_tiles.X)) == list(range(N_CELLS))


def test_broken_off_epochs_and_parts_of_the_cells_spill_nothing(
    small_tiles: Oracle, budget: int
) -> None:
    """Rows that others have kept must not take the room of those that the plan counts on."""
    ds = dataset(small_tiles, memory_budget=budget)
    next(iter(ds))
    some = ds[np.random.default_rng(0).random(N_CELLS) < 0.8]
    for _ in range(2):
        for part in (ds, some, ds, ds, some):
            epoch(part, small_tiles.X)
            assert part.stats.spilled_bytes == 0
            assert part.stats.peak_buffered_bytes <= budget
        assert some.stats.kept_units > 0


def test_the_report_is_of_the_order(small_tiles: Oracle, budget: int) -> None:
    ds = dataset(small_tiles, memory_budget=budget, obs_columns=["soma_joinid"])
    planned = ds.plan()
    epoch(ds, small_tiles.X)
    assert planned.units_in_shuffle == ds.stats.units_in_shuffle
    assert planned.planned_bytes <= budget
