"""Cells stay in memory between epochs: `keep`."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import torch
from conftest import SCRIPTS, Oracle, cache_in


def epoch(ds: Iterable, X: sp.csr_matrix) -> np.ndarray:
    """joinids in the order of an epoch, each cell compared with what it should be."""
    joinids = []
    for cells, obs in ds:
        # Copies: what is kept of a batch would count as memory of the loader.
        joinids.append(torch.as_tensor(obs["soma_joinid"]).clone().numpy())
        found = cells.to_dense().numpy() if torch.is_tensor(cells) else cells
        assert (sp.csr_matrix(found) != X[joinids[-1]]).nnz == 0
    return np.concatenate(joinids)


def dataset(oracle: Oracle, **settings) -> ps.Dataset:
    return ps.Dataset(oracle.path, **{"sparse": True, "batch_size": 100, **settings})


@pytest.mark.parametrize("sparse", [True, False])
def test_later_epochs_read_nothing(census_like: Oracle, sparse: bool) -> None:
    ds = dataset(census_like, sparse=sparse, obs_query="soma_joinid < 1500")
    orders = [epoch(ds, census_like.X)]
    assert ds.stats.bytes_read > 0
    assert not ds.stats.all_kept
    for _ in range(3):
        orders.append(epoch(ds, census_like.X))
        assert ds.shuffle == "global"
        assert ds.stats.all_kept
        assert ds.stats.bytes_read == 0
        assert 0 < ds.stats.kept_bytes < ds.stats.peak_buffered_bytes
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(1500)) for order in orders)
    assert "kept     1,500 cells in" in repr(ds)


def test_the_order_is_that_of_the_global_shuffle(census_like: Oracle) -> None:
    kept = dataset(census_like, seed=3)
    epoch(kept, census_like.X)
    read = dataset(census_like, seed=3, keep=False, shuffle="global")
    read.set_epoch(1)
    assert (epoch(kept, census_like.X) == epoch(read, census_like.X)).all()
    assert kept.stats.all_kept
    assert not read.stats.all_kept


def test_a_process_that_begins_later_has_the_same_order(census_like: Oracle) -> None:
    ds = dataset(census_like, memory_budget="22MiB")
    orders = [epoch(ds, census_like.X) for _ in range(3)]
    for number, order in enumerate(orders):
        later = dataset(census_like, memory_budget="22MiB")
        later.set_epoch(number)
        assert (epoch(later, census_like.X) == order).all()
        assert later.shuffle == ("global" if number else "scatter")
        assert 0 < later.stats.bytes_read <= later.stats.planned_bytes_read
        assert later.plan().planned_units == 0  # the next one: from memory


def test_statistics_keep_what_they_read(census_like: Oracle) -> None:
    ds, read = dataset(census_like), dataset(census_like, keep=False)
    assert ps.gene_statistics(ds).equals(ps.gene_statistics(read))
    epoch(ds, census_like.X)
    assert ds.stats.kept_units == ds.stats.units > 0
    assert ds.stats.bytes_read == 0
    assert ps.cell_statistics(ds).equals(ps.cell_statistics(read))
    epoch(read, census_like.X)
    assert read.stats.kept_units == 0


@pytest.mark.parametrize("shuffle", [False, "scatter"])
def test_other_orders_do_not_change(census_like: Oracle, shuffle: bool | str) -> None:
    ds, read = (dataset(census_like, shuffle=shuffle, keep=keep) for keep in (True, False))
    for number in range(3):
        assert (epoch(ds, census_like.X) == epoch(read, census_like.X)).all()
        assert (ds.stats.bytes_read == 0) == (number > 0)
        assert ds.stats.kept_units == (ds.stats.units if number else 0)
        assert read.stats.bytes_read > 0
        assert read.stats.kept_bytes == 0


def test_without_keep_each_epoch_reads(census_like: Oracle) -> None:
    ds = dataset(census_like, keep=False)
    for _ in range(2):
        epoch(ds, census_like.X)
        assert ds.shuffle == "scatter"
        assert ds.stats.bytes_read > 0
        assert ds.stats.kept_bytes == 0
    assert "kept" not in repr(ds)


def test_less_memory_keeps_cells_bit_packed(census_like: Oracle) -> None:
    # Just above the least, and all. The order of the fragments, which are written at once, moves both.
    forms = {}
    for kibibytes in (*range(20 << 10, 23 << 10, 256), 2 << 20):
        ds = dataset(census_like, memory_budget=f"{kibibytes}KiB")
        try:
            ds.plan()
        except ps.ResourceExhausted:
            continue
        for _ in range(2):
            epoch(ds, census_like.X)
            assert ds.stats.peak_buffered_bytes <= kibibytes << 10
        forms[kibibytes] = ("bit-packed" in repr(ds), ds.stats.all_kept)
        if ds.stats.all_kept:
            assert ds.stats.kept_cells == 6000
        assert (ds.stats.kept_packed_cells > 0) == ("bit-packed" in repr(ds))
    assert (True, True) in forms.values()
    assert forms[2 << 20] == (False, True)


@pytest.mark.parametrize("shuffle", [True, "scatter"])
def test_less_memory_for_a_copy_is_kept_to(census_like: Oracle, shuffle: bool | str) -> None:
    ds = dataset(census_like, shuffle=shuffle)
    epoch(ds, census_like.X)
    less = ds.with_settings(memory_budget="21MiB")
    for _ in range(2):
        assert sorted(epoch(less, census_like.X)) == list(range(6000))
        assert less.stats.peak_buffered_bytes <= 21 << 20


def test_the_report_for_another_budget_is_of_its_order(census_like: Oracle) -> None:
    ds = dataset(census_like, memory_budget="21MiB")
    epoch(ds, census_like.X)
    for budget in ("21MiB", "64MiB", "2GiB"):
        other = dataset(census_like, memory_budget=budget)
        other.set_epoch(1)
        expected = other.shuffle_report("dataset_id")
        found = ds.shuffle_report("dataset_id", memory_budget=budget)
        assert (found.batch_entropy == expected.batch_entropy).all()


def test_copies_share_what_is_kept(census_like: Oracle) -> None:
    ds = dataset(census_like)
    epoch(ds, census_like.X)
    for other in (
        ds.with_settings(batch_size=7),
        ds.with_settings(sparse=False, dtype="float64"),
        ds.with_settings(transforms=[ps.Log1p()]),
        *ds.random_split(0.7, 0.3),
    ):
        for X, _ in other:
            assert X.shape[1] == census_like.X.shape[1]
        assert other.stats.all_kept
        assert other.stats.bytes_read == 0
        assert other.stats.kept_bytes == ds.stats.kept_bytes


@pytest.mark.parametrize("shuffle", [True, False, "scatter", "chunks", "global"])
def test_fewer_genes_are_chosen_from_what_is_kept(census_like: Oracle, shuffle: object) -> None:
    ds = dataset(census_like)
    epoch(ds, census_like.X)
    names = ds.var_names[[1, 5, 90, 2000]]
    few = ds.with_settings(transforms=[ps.SelectGenes(list(names))], shuffle=shuffle)
    for _ in range(2):
        for X, obs in few:
            assert (census_like.X[obs["soma_joinid"]][:, [1, 5, 90, 2000]] != X).nnz == 0
        assert few.stats.all_kept
        assert few.stats.bytes_read == 0
    moments = ps.gene_statistics(few)
    expected = census_like.X[:, [1, 5, 90, 2000]].astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(moments["mean"], np.asarray(expected).ravel(), rtol=1e-6)
    epoch(ds, census_like.X)
    assert ds.stats.all_kept
    assert ds.stats.bytes_read == 0


@pytest.mark.parametrize("cached", [False, True])
def test_splits_are_kept_side_by_side(census_like: Oracle, tmp_path: Path, cached: bool) -> None:
    ds = dataset(census_like, **(cache_in(tmp_path / "cache") if cached else {}))
    train, test = ds.random_split(0.8, 0.2)
    for _ in range(3):
        epoch(train, census_like.X)
        epoch(test, census_like.X)
    assert train.stats.all_kept
    assert test.stats.all_kept
    assert "kept     6,000 cells" in repr(train)
    assert (train.stats.bytes_read, test.stats.bytes_read) == (0, 0)


@pytest.mark.parametrize(("before", "after"), itertools.product([True, False], repeat=2))
@pytest.mark.parametrize("number", [0, 1])
def test_resuming_does_not_need_what_was_kept(
    census_like: Oracle, before: bool, after: bool, number: int
) -> None:
    ds = dataset(census_like, keep=before)
    for _ in range(number):
        epoch(ds, census_like.X)
    batches = iter(ds)
    for _ in range(20):
        next(batches)
    state = pickle.loads(pickle.dumps(ds.state_dict()))
    expected = [obs["soma_joinid"] for _, obs in batches]
    elsewhere = dataset(census_like, keep=after)
    elsewhere.load_state_dict(state)
    resumed = [obs["soma_joinid"] for _, obs in elsewhere]
    assert elsewhere.shuffle == ("global" if before and number else "scatter")
    assert elsewhere.stats.bytes_read > 0
    assert (np.concatenate(resumed) == np.concatenate(expected)).all()


def test_copies_for_other_processes_have_nothing(census_like: Oracle) -> None:
    ds = dataset(census_like)
    epoch(ds, census_like.X)
    for other in (pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds)):
        assert "kept" not in repr(other)
        epoch(other, census_like.X)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_keep_nothing(census_like: Oracle, num_workers: int) -> None:
    ds = dataset(census_like, batch_size=500)
    epoch(ds, census_like.X)
    kept = ds.stats.kept_bytes
    loader = ps.dataloader(ds, num_workers=num_workers)
    assert sorted(epoch(loader, census_like.X)) == list(range(6000))
    assert ds.stats.bytes_read > 0
    assert ds.stats.kept_units == ds.stats.kept_cells == 0
    assert "cache_dir" in ds.stats.hint
    epoch(ds, census_like.X)
    assert ds.stats.all_kept
    assert ds.stats.kept_bytes == kept


def test_ranks_keep_nothing(census_like: Oracle) -> None:
    ds = dataset(census_like, rank=0, world_size=2)
    for _ in range(2):
        assert len(epoch(ds, census_like.X)) == 3000
        assert ds.shuffle == "scatter"
        assert ds.stats.bytes_read > 0
        assert ds.stats.kept_bytes == 0
    assert "cache_dir" in ds.stats.hint


def test_ranks_with_a_cache_or_a_pack_need_no_hint(census_like: Oracle, tmp_path: Path) -> None:
    packed = ps.pack(census_like.path, tmp_path / "pack")
    ranks = {"rank": 0, "world_size": 2}
    cached = dataset(census_like, **cache_in(tmp_path / "cache"), **ranks)
    from_pack = ps.Dataset(packed, sparse=True, **ranks)
    for ds in (cached, from_pack, dataset(census_like, keep=False, **ranks), dataset(census_like)):
        assert ds.stats.hint == ""


def test_close_gives_the_memory_back(census_like: Oracle) -> None:
    ds = dataset(census_like)
    epoch(ds, census_like.X)
    assert "kept" in repr(ds)
    assert ds.stats.kept_cells == 6000
    assert ds.stats.kept_packed_cells == 0
    ds.close()
    assert "kept" not in repr(ds)
    assert ds.stats.kept_cells == ds.stats.kept_bytes == 0
    assert ds.stats.cells == 6000
    epoch(ds, census_like.X)
    assert ds.stats.bytes_read > 0


def test_a_dropped_dataset_gives_its_memory_back(census_like: Oracle) -> None:
    program = SCRIPTS / "drop_kept_cells.py"
    done = subprocess.run(
        [sys.executable, program, str(census_like.path)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    before, kept, flat, after, kept_bytes = map(int, done.stdout.split())
    assert kept - before > 0.8 * kept_bytes
    assert abs(flat - kept) < 0.1 * kept_bytes + (8 << 20)
    assert kept - after > 0.8 * kept_bytes


def test_keep_is_checked() -> None:
    with pytest.raises(ps.InvalidArgument, match="keep must be True or False"):
        ps.Dataset("nowhere", keep="yes")
