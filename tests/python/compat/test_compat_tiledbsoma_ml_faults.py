"""Faults of tiledbsoma_ml 0.1.0 that penstock.compat.tiledbsoma_ml lacks, and additions."""

from __future__ import annotations

from types import ModuleType

import pytest
import tiledbsoma_ml_cases as shared
from compat_experiments import as_process
from tiledbsoma_ml_cases import OURS, check_values, flat, make, ours

ml, cells = shared.ml, shared.cells
_start_method, _little_garbage = shared._start_method, shared._little_garbage


# --- what tiledbsoma_ml 0.1.0 gets wrong


def is_ours(ml: ModuleType) -> bool:
    return ml.__name__ == OURS


def test_fault_the_order_is_the_same_every_epoch(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=5, seed=1)
    orders = []
    for epoch in range(2):
        ds.set_epoch(epoch)
        orders.append(flat(ds))
    assert (orders[0] != orders[1]) == is_ours(ml)


def test_fault_a_rank_sees_the_same_slice_every_epoch(ml: ModuleType, cells) -> None:
    with as_process(rank=1, world_size=2):
        ds = make(ml, cells, batch_size=5, seed=1)
        slices = []
        for epoch in range(2):
            ds.set_epoch(epoch)
            slices.append(sorted(flat(ds)))
    assert (slices[0] != slices[1]) == is_ours(ml)
    assert (slices[0] != list(range(21, 42))) == is_ours(ml)


def test_fault_len_with_workers(ml: ModuleType, cells) -> None:
    loader = ml.experiment_dataloader(make(ml, cells, batch_size=10), num_workers=2)
    length = len(loader)
    if is_ours(ml):
        batches = list(loader)
        assert length == len(batches) == 5
    else:
        with pytest.warns(UserWarning, match="Length of IterableDataset"):
            batches = list(loader)
        assert (length, len(batches)) == (5, 6)
    assert sorted(flat(batches)) == list(range(42))
    check_values(batches)


def test_fault_csr_with_workers_is_refused(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=11, return_sparse_X=True)
    # One for the peer: a second would still be starting when the first has failed.
    loader = ml.experiment_dataloader(ds, num_workers=2 if is_ours(ml) else 1)
    if is_ours(ml):
        batches = list(loader)
        assert sorted(flat(batches)) == list(range(42))
        check_values(batches)
    else:
        with pytest.raises(NotImplementedError):
            next(iter(loader))


# --- ours alone


def test_ranks_without_a_seed_have_one_order(cells) -> None:
    seen = []
    for rank in range(2):
        with as_process(rank, 2):
            seen += flat(make(ours, cells, batch_size=5))
    assert sorted(seen) == list(range(42))


def test_ranks_without_a_seed_split_alike(cells) -> None:
    splits = []
    for rank in range(2):
        with as_process(rank, 2):
            splits.append(
                make(ours, cells).random_split(0.5, 0.5)[0].query_ids.obs_joinids.tolist()
            )
    assert splits[0] == splits[1]


def test_the_budget_follows_the_block(cells) -> None:
    def budget(**arguments) -> int:
        ds = make(ours, cells, **arguments)
        iter(ds)
        return ds.penstock_dataset.reader.settings.memory_budget

    assert budget() == 2**30 + 8 * 12
    assert budget(io_batch_size=2**18) == 2**32 + 8 * 12
    assert budget(io_batch_size=64) == 2**29 + 8 * 12
    assert budget(shuffle=False) == 2**29 + 8 * 12
    with as_process(worker=0, num_workers=4):
        assert budget() == 4 * (2**29 + 8 * 12)


def test_workers_that_are_spawned_and_kept_see_the_epoch(cells) -> None:
    """The calls of the tutorial of several workers."""
    ds = make(ours, cells, batch_size=4, seed=3)
    loader = ours.experiment_dataloader(
        ds, num_workers=2, persistent_workers=True, multiprocessing_context="spawn"
    )
    orders = []
    for epoch in (0, 1, 0):
        ds.set_epoch(epoch)
        orders.append(flat(loader))
        assert sorted(orders[-1]) == list(range(42))
    assert orders[0] == orders[2] != orders[1]
