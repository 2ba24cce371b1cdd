"""Batches of each rank, and detection of ranks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle, collect, joinids_of


@pytest.mark.parametrize("uneven", ["drop", "pad", "exact"])
@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_ranks_share_the_cells(soma_small: Oracle, uneven: str, world_size: int) -> None:
    n = 299
    parts = [
        ps.Dataset(
            soma_small.path,
            obs_query=ps.AxisQuery(coords=(slice(0, n - 1),)),
            batch_size=16,
            uneven=uneven,
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]
    batches = [list(part) for part in parts]
    assert {len(b) for b in batches} == {len(part) for part in parts} == {len(batches[0])}
    ids = [joinid for b in batches for _, obs in b for joinid in obs["soma_joinid"].tolist()]
    if uneven == "drop":
        assert len(ids) == len(set(ids)) == n // world_size * world_size
    elif uneven == "exact":
        assert sorted(ids) == list(range(n))
    else:
        assert set(ids) == set(range(n))
        assert len(ids) == -(-n // world_size) * world_size


@pytest.mark.parametrize(("cells", "world_size"), [(5, 2), (299, 8), (7, 7), (8, 7), (20, 3)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_exact_batches_of_one_cell_are_not_empty(
    soma_small: Oracle, cells: int, world_size: int, shuffle: bool
) -> None:
    ranks = [
        ps.Dataset(
            soma_small.path,
            obs_query=ps.AxisQuery(coords=(slice(0, cells - 1),)),
            batch_size=1,
            shuffle=shuffle,
            uneven="exact",
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]
    read: list[int] = []
    for ds in ranks:
        sizes = []
        for X, obs in ds:
            want = soma_small.X[obs["soma_joinid"]].toarray()
            np.testing.assert_array_equal(X, want)
            sizes.append(len(X))
            read += obs["soma_joinid"].tolist()
        assert len(sizes) == len(ds) == cells // world_size
        assert sorted(sizes) in ([1] * len(sizes), [1] * (len(sizes) - 1) + [2])
    assert sorted(read) == list(range(cells))


def test_fewer_cells_than_ranks_is_the_same_error_everywhere(soma_small: Oracle) -> None:
    few = ps.AxisQuery(coords=(slice(0, 2),))
    ds = ps.Dataset(soma_small.path, obs_query=few, uneven="exact", rank=3, world_size=4)
    for use in (iter, len, lambda each: each.plan()):
        with pytest.raises(
            ps.InvalidArgument, match=r"3 cells are too few for 4 ranks.*uneven=.pad"
        ):
            use(ds)
    assert "none: 3 cells are too few for 4 ranks" in repr(ds)
    assert "none: 3 cells are too few for 4 ranks" in ds._repr_html_()
    assert len(ds.with_settings(uneven="pad")) == 1


def test_min_batch_with_exact_says_what_to_do(soma_small: Oracle) -> None:
    query = ps.AxisQuery(coords=(slice(0, 6),))
    ds = ps.Dataset(soma_small.path, obs_query=query, uneven="exact", min_batch=2, batch_size=2)
    with pytest.raises(ps.InvalidArgument, match=r"7 rows .* at most 2: use min_batch=1, another"):
        next(iter(ds))
    assert [len(X) for X, _ in ds.with_settings(min_batch=1)] == [1, 2, 2, 2]
    assert [len(X) for X, _ in ds.with_settings(uneven="drop")] == [2, 2, 3]


def test_a_rank_without_a_world(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "0")
    ds = ps.Dataset(soma_small.path)
    for use in (iter, len):
        with pytest.raises(ps.InvalidArgument, match=r"RANK='0' without WORLD_SIZE.*shard=False"):
            use(ds)
    assert len(ps.Dataset(soma_small.path, shard=False)) == 3
    assert len(ps.Dataset(soma_small.path, rank=0, world_size=1)) == 3


def test_rank_from_the_environment(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        ds = ps.Dataset(soma_small.path)
        seen += joinids_of(ds)
        assert joinids_of(ps.Dataset(soma_small.path, shard=False)) != seen
        assert ps.Dataset(soma_small.path, shard=False).n_obs == 300
        assert len(joinids_of(ps.Dataset(soma_small.path, shard=False))) == 300
    assert sorted(seen) == list(range(300))
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(ps.InvalidArgument, match="RANK='2'"):
        next(iter(ds))


def test_slurm_needs_a_step_of_several_tasks(
    soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")  # a batch script without srun: one process
    assert len(joinids_of(ps.Dataset(soma_small.path))) == 300
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert len(joinids_of(ps.Dataset(soma_small.path))) == 75


def test_a_pickle_takes_no_rank_along(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    ds = ps.Dataset(soma_small.path, batch_size=10)
    copies = [pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds)]
    monkeypatch.setenv("RANK", "1")
    mine = set(collect(ps.Dataset(soma_small.path, batch_size=10))[0].tolist())
    assert len(mine) == 75
    for other in copies:
        assert set(collect(other)[0].tolist()) == mine
    monkeypatch.delenv("RANK")
    assert len(copies[0]) == 30
