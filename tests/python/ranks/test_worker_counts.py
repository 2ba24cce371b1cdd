"""Counts of DataLoader workers in the main process, and how much they read."""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import write_small_tiles
from hypothesis import given
from hypothesis import strategies as st
from penstock.plan.shard import Shard
from torch.utils.data import DataLoader

N_CELLS = 20_000
BATCH = 125


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 cells in some 300 fetch units, enough for three workers to have their own."""
    path = tmp_path_factory.mktemp("tiles") / "experiment"
    return write_small_tiles(path, N_CELLS, 2_000, per_cell=40)


def dataset(path, **arguments) -> ps.Dataset:
    given = {"batch_size": BATCH, "sparse": True, "memory_budget": "24MiB"}
    return ps.Dataset(path, **{**given, **arguments})


@pytest.mark.parametrize(
    ("loader", "context"),
    [(ps.dataloader, "fork"), (DataLoader, "fork"), (ps.dataloader, "spawn")],
)
def test_counts_of_workers_add_up(tiled, loader, context: str) -> None:
    alone = dataset(tiled)
    nonzeros = sum(X.nnz for X, _ in alone)
    ds = dataset(tiled)
    assert ds.stats.cells == 0
    plain = {} if loader is ps.dataloader else {"batch_size": None}
    batches = loader(ds, num_workers=2, multiprocessing_context=context, **plain)
    for _ in range(2 if context == "fork" else 1):  # spawned ones take seconds to start
        for number, _ in enumerate(batches):
            if number == 100:
                assert 0 < ds.stats.cells < N_CELLS
        stats = ds.stats
        assert (stats.cells, stats.batches) == (N_CELLS, N_CELLS // BATCH)
        assert stats.nonzeros == nonzeros
        assert stats.bytes_needed == alone.stats.bytes_needed
        assert stats.units_in_shuffle > 0
        assert stats.peak_buffered_bytes <= 24 * 2**20
    next(iter(ds))  # an epoch of this process's own is newer
    assert ds.stats.batches == 1


@pytest.mark.parametrize(
    ("world", "num_workers", "shuffle"),
    [
        *((1, workers, shuffle) for workers in (0, 1, 3) for shuffle in (True, False)),
        (1, 8, True),
        *((2, workers, True) for workers in (0, 1, 3)),
    ],
)
def test_little_more_is_read_than_needed(
    tiled, world: int, num_workers: int, shuffle: bool
) -> None:
    for rank in range(world):
        ds = dataset(tiled, shuffle=shuffle, rank=rank, world_size=world)
        cells = sum(X.shape[0] for X, _ in ps.dataloader(ds, num_workers=num_workers))
        stats = ds.stats
        assert stats.cells == cells == N_CELLS // world
        assert 1 <= stats.read_amplification <= 1.1, stats


def few_units(path, units: int) -> ps.Dataset:
    """The first cells of the store, as many as lie in so many fetch units."""

    def first(cells: int) -> ps.Dataset:
        query = ps.AxisQuery(coords=(slice(0, cells - 1),))
        return dataset(path, obs_query=query, batch_size=4, keep=False)

    sizes = range(1, N_CELLS)
    cells = sizes[bisect_right(sizes, units, key=lambda n: first(n).plan().planned_units) - 1]
    return first(cells)


@pytest.mark.parametrize(("units", "num_workers"), [(20, 2), (32, 2), (32, 8), (40, 4), (80, 8)])
def test_workers_of_few_units_have_their_own(tiled, units: int, num_workers: int) -> None:
    ds = few_units(tiled, units)
    assert ds.plan().planned_units == units
    batches = list(ps.dataloader(ds, num_workers=num_workers))
    joinids = np.concatenate([np.asarray(obs["soma_joinid"]) for _, obs in batches])
    assert sorted(joinids) == list(range(ds.n_obs))
    assert 1 <= ds.stats.read_amplification <= 1.1, ds.stats
    assert ds.stats.units_in_shuffle >= min(8, units / num_workers)  # that of workers with cells
    X = np.concatenate([X.to_dense().numpy() for X, _ in batches])
    stored = sp.vstack([X for X, _ in ds.with_settings(shuffle=False)], format="csr")
    np.testing.assert_array_equal(X, stored[joinids].toarray())


@pytest.mark.parametrize("units", [1, 6])
@pytest.mark.parametrize("arguments", [{}, {"shuffle": False}, {"rank": 1, "world_size": 2}])
def test_hardly_any_units_are_left_to_one_worker(tiled, units: int, arguments: dict) -> None:
    """It has all of the rank's cells, in the order that they have without workers."""
    ds = few_units(tiled, units).with_settings(**arguments)
    alone = ds.with_settings()
    loader = ps.dataloader(ds, num_workers=3)
    for _ in range(2):  # epochs
        order = [obs["soma_joinid"].tolist() for _, obs in alone]
        assert [obs["soma_joinid"].tolist() for _, obs in loader] == order
        assert len(order) == len(loader)
        assert ds.stats.read_amplification == alone.stats.read_amplification


@pytest.mark.parametrize("arguments", [{}, {"drop_last": True}, {"shuffle": False}, {"seed": 7}])
def test_ranks_that_share_units_read_parts_of_them(tmp_path: Path, arguments: dict) -> None:
    """Each needs the tiles of its own cells, and reads little else."""
    path = write_small_tiles(tmp_path / "experiment", 1_600, 600, per_cell=96)
    alone = dataset(path, **arguments)
    assert 16 <= alone.plan().planned_units < 64  # fewer than a rank has of its own
    list(alone)
    for world in (2, 4):
        read = 0
        for rank in range(world):
            ds = dataset(path, rank=rank, world_size=world, **arguments)
            mine = [obs["soma_joinid"] for _, obs in ds]
            stats = ds.stats
            assert 1 <= stats.read_amplification <= 1.1, stats
            assert stats.bytes_read == pytest.approx(stats.planned_bytes_read, rel=0.2)
            # What those cells need is what an epoch of them alone says it needs.
            cells = np.sort(np.concatenate(mine))
            assert (
                stats.bytes_needed
                == dataset(path, obs_query=ps.AxisQuery(coords=(cells,))).plan().bytes_needed
            )
            read += stats.bytes_read
        assert read < 0.85 * world * alone.stats.bytes_read


@pytest.fixture(scope="module")
def shared_by_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,600 cells in some 30 fetch units: 2 and 4 ranks share all of them."""
    path = tmp_path_factory.mktemp("shared") / "experiment"
    return write_small_tiles(path, 1_600, 600, per_cell=96)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("num_workers", [2, 3])
def test_ranks_that_share_units_and_have_workers(
    shared_by_ranks, world: int, num_workers: int
) -> None:
    """All of them together read little more than what the cells of each rank need."""
    read = needed = cells = 0
    for rank in range(world):
        ds = dataset(shared_by_ranks, rank=rank, world_size=world, batch_size=33)
        cells += sum(X.shape[0] for X, _ in ps.dataloader(ds, num_workers=num_workers))
        read += ds.stats.bytes_read
        needed += ds.stats.bytes_needed
    assert cells == 1_600
    assert 1 <= read / needed <= 1.1


@given(data=st.data())
def test_plans_of_ranks_that_share_units_and_have_workers(
    shared_by_ranks, data: st.DataObject
) -> None:
    """Tiles that several workers of a rank read, for random shapes."""
    world = data.draw(st.sampled_from([2, 4]), "world")
    num_workers = data.draw(st.sampled_from([2, 3, 8]), "workers")
    step = data.draw(st.sampled_from([1, 2, 5]), "every so many cells")
    ds = dataset(
        shared_by_ranks,
        obs_query=ps.AxisQuery(coords=(np.arange(0, 1_600, step),)),
        batch_size=data.draw(st.integers(4, 40), "batch size"),
        uneven=data.draw(st.sampled_from(["drop", "pad", "exact"]), "uneven"),
        drop_last=data.draw(st.booleans(), "drop_last"),
        seed=data.draw(st.integers(0, 99), "seed"),
    )
    assert 16 <= ds.plan().planned_units < 64

    def planned(*shard: int):
        return ds.reader.planner.loader(Shard(*shard), 0)

    read = needed = 0
    for rank in range(world):
        needed += planned(rank, world).stats().bytes_needed
        workers = [planned(rank, world, each, num_workers) for each in range(num_workers)]
        assert workers[0].active_workers() >= 2, "several have cells"
        read += sum(each.stats().planned_bytes_read for each in workers)
    assert 1 <= read / needed <= 1.1


def bytes_read_by_the_system() -> int:
    """rchar: what this process has read, and its children that have ended."""
    text = Path(f"/proc/{os.getpid()}/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no /proc/self/io")
def test_what_is_counted_is_what_the_system_read(tiled) -> None:
    ds = dataset(tiled)
    before = bytes_read_by_the_system()
    list(ds)
    read = bytes_read_by_the_system() - before
    stats = ds.stats
    # The system's count has the metadata too, and whatever else this process read.
    assert stats.bytes_read <= read <= 1.1 * stats.bytes_read + 2**20


def test_a_part_of_an_epoch(tiled) -> None:
    ds = dataset(tiled)
    loader = ps.dataloader(ds, num_workers=2)
    batches = iter(loader)
    for _ in range(120):
        next(batches)
    state = loader.state_dict()
    del batches
    again = dataset(tiled)
    loader = ps.dataloader(again, num_workers=2)
    loader.load_state_dict(state)
    joinids = [obs["soma_joinid"].numpy() for _, obs in loader]
    assert len(joinids) == 40
    stats = again.stats
    assert stats.batches == 40
    assert stats.cells == len(np.unique(np.concatenate(joinids))) == 40 * BATCH
    assert 0 < stats.bytes_needed <= ds.stats.bytes_needed or ds.stats.bytes_needed == 0
