"""Faults that users of tiledbsoma_ml and the Census's loader report, absent from Penstock."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import tiledbsoma
import torch
from conftest import SCRIPTS, write_small_tiles
from penstock.bench.methods import METHODS
from penstock.bench.peers import interpreter
from torchrun import finish, torchrun

tiledbsoma_ml = pytest.importorskip("tiledbsoma_ml")

N_CELLS = 500
BATCH = 40

CENSUS_SCRIPT = SCRIPTS / "census_ranks_script.py"
#: Cells and soma_chunk_size, which is 64 by default, and how many batches of 8 each of two ranks of the
#: Census's pipe makes of them.
CENSUS_BATCHES = {(203, 50): [16, 11], (300, 64): [23, 15], (17, 64): [3, 0]}


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 60)


@pytest.fixture
def peer(tiled):
    """Makes the peer's loader over the same cells."""
    with tiledbsoma.open(str(tiled)) as experiment, experiment.axis_query("RNA") as query:

        def make(**arguments):
            dataset = tiledbsoma_ml.ExperimentDataset(
                query,
                layer_name="raw",
                batch_size=BATCH,
                io_batch_size=128,
                shuffle_chunk_size=16,
                seed=1,
                **arguments,
            )
            return dataset, tiledbsoma_ml.experiment_dataloader(dataset)

        yield make


def ours(tiled, **arguments):
    dataset = ps.Dataset(tiled, batch_size=BATCH, seed=1, **arguments)
    return dataset, ps.dataloader(dataset)


def order(loader) -> list[int]:
    return [int(joinid) for _, obs in loader for joinid in np.asarray(obs["soma_joinid"])]


def epochs(dataset, loader) -> list[list[int]]:
    orders = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        orders.append(order(loader))
    return orders


def test_the_order_changes_with_the_epoch(peer, tiled) -> None:
    first, second = epochs(*peer())
    assert first == second, "the peer's fault"
    first, second = epochs(*ours(tiled))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(N_CELLS))


def test_a_rank_sees_other_cells_each_epoch(peer, tiled, monkeypatch) -> None:
    dataset, loader = peer()
    object.__setattr__(dataset, "rank", 0)
    object.__setattr__(dataset, "world_size", 2)
    first, second = epochs(dataset, loader)
    assert set(first) == set(second) == set(range(N_CELLS // 2)), "the peer's fault"
    first, second = epochs(*ours(tiled, rank=0, world_size=2))
    assert set(first) != set(second)
    for each in (first, second):  # and not one half of the file
        assert 0.3 < np.mean(np.asarray(each) < N_CELLS // 2) < 0.7


@pytest.mark.parametrize("num_workers", [3])
def test_len_of_a_loader_with_workers(peer, tiled, num_workers: int) -> None:
    dataset, _ = peer()
    loader = tiledbsoma_ml.experiment_dataloader(dataset, num_workers=num_workers)
    with pytest.warns(UserWarning, match="Length of IterableDataset"):
        assert len(loader) != len(list(loader)), "the peer's fault"
    dataset, _ = ours(tiled)
    loader = ps.dataloader(dataset, num_workers=num_workers)
    assert len(loader) == len(dataset) == len(list(loader)) == -(-N_CELLS // BATCH)


def test_csr_with_workers(peer, tiled) -> None:
    dataset, _ = peer(return_sparse_X=True)
    with pytest.raises(NotImplementedError, match="sparse"):
        list(tiledbsoma_ml.experiment_dataloader(dataset, num_workers=1))
    dataset, _ = ours(tiled, sparse=True)
    batches = list(ps.dataloader(dataset, num_workers=2))
    assert all(X.layout == torch.sparse_csr for X, _ in batches)
    assert sum(X.shape[0] for X, _ in batches) == N_CELLS


def test_an_epoch_that_is_not_exhausted_counts(peer, tiled) -> None:
    """Lightning stops at `len` and never asks for the end of the iterator."""

    def take(dataset, loader):
        batches = iter(loader)
        return [order([next(batches)]) for _ in range(len(loader))]

    dataset, loader = peer()
    take(dataset, loader)
    assert dataset.epoch == 0, "the peer's fault"
    dataset, loader = ours(tiled)
    first = take(dataset, loader)
    assert dataset.epoch == 1
    assert take(dataset, loader) != first


def test_the_next_block_is_read_while_the_last_is_used(peer, tiled, monkeypatch) -> None:
    reads = []
    read = tiledbsoma.SparseNDArray.read
    monkeypatch.setattr(
        tiledbsoma.SparseNDArray,
        "read",
        lambda self, *args, **kwargs: reads.append(self) or read(self, *args, **kwargs),
    )
    _, loader = peer()  # blocks of 128 cells
    batches = iter(loader)
    next(batches)
    next(batches)  # 80 cells are used, 48 are left
    time.sleep(0.5)  # were it to read ahead
    assert len(reads) == 1, "the peer's fault"
    batches = iter(ours(tiled)[0])
    next(batches)
    deadline = time.monotonic() + 120
    while not batches._progress.is_ready:  # the next batch is made, and nobody has asked for it
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert batches.stats.batches == 1


def cells_by_the_census(n_cells: int, chunk_cells: int, ranks: int) -> list[int]:
    """How many cells each rank gets by the rule of the Census's ExperimentDataPipe.

    A model of it, as its code was removed (change 1392 of cellxgene-census): cells are cut in as few
    nearly equal chunks as `chunk_cells` allows, and whole chunks, in a random order, are dealt out.
    """
    chunks = -(-n_cells // chunk_cells)
    sizes = [n_cells // chunks + (i < n_cells % chunks) for i in range(chunks)]
    np.random.default_rng(1).shuffle(sizes)
    of_rank = [chunks // ranks + (i < chunks % ranks) for i in range(ranks)]
    ends = np.cumsum(of_rank)
    return [sum(sizes[end - count : end]) for count, end in zip(of_rank, ends, strict=True)]


def taken_by_two_ranks(module: str, tiled: Path, python: str) -> list[list[list[int]]]:
    """By case, the cells and batches that each rank takes of the ExperimentDataPipe of a module."""
    cases = json.dumps(list(CENSUS_BATCHES))
    out = finish(torchrun(2, CENSUS_SCRIPT, module, tiled, cases, python=python))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    return json.loads(line.removeprefix("RESULTS "))


def test_ranks_of_the_census_pipe_make_unequally_many_batches(tiled) -> None:
    """Of the pipe itself, which also shows that the model of it is right."""
    try:
        python = interpreter(METHODS["cellxgene_census"])
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    taken = taken_by_two_ranks("cellxgene_census.experimental.ml", tiled, python)
    for case, ranks, batches in zip(CENSUS_BATCHES, taken, CENSUS_BATCHES.values(), strict=True):
        assert [made for _, made in ranks] == batches, "the peer's fault"
        assert [cells for cells, _ in ranks] == cells_by_the_census(*case, 2)


def test_ranks_of_the_pipe_in_its_place_make_equally_many_batches(tiled) -> None:
    taken = taken_by_two_ranks("penstock.compat.census", tiled, sys.executable)
    for (cells, _), ranks in zip(CENSUS_BATCHES, taken, strict=True):
        assert ranks == [[cells // 2, -(-(cells // 2) // 8)]] * 2


def test_ranks_make_equally_many_batches(tiled) -> None:
    """DDP waits for ever for a rank that has no batch left (document 003: change 1119)."""
    for (cells, chunk_cells), batches in CENSUS_BATCHES.items():
        census = [-(-each // 8) for each in cells_by_the_census(cells, chunk_cells, 2)]
        assert census == batches, "the peer's fault"
    for cells in (203, 500, 499, 17, 2):
        for ranks in (2, 3, 7):
            query = ps.AxisQuery(coords=(slice(0, cells - 1),))
            parts = [
                ps.Dataset(tiled, obs_query=query, batch_size=8, rank=rank, world_size=ranks)
                for rank in range(ranks)
            ]
            if cells < ranks:  # every rank says so, none waits
                for part in parts:
                    with pytest.raises(ps.InvalidArgument, match="the epoch has no batch: 2 cells"):
                        list(part)
                continue
            batches = [list(part) for part in parts]
            assert len({len(each) for each in batches}) == 1
            assert [len(part) for part in parts] == [len(each) for each in batches]
            sizes = [[X.shape[0] for X, _ in each] for each in batches]
            assert all(each == sizes[0] for each in sizes)
            assert sum(map(sum, sizes)) == cells // ranks * ranks
