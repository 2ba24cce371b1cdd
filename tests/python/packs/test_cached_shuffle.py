"""shuffle=True with a cache becomes global when all cells are cached, on all ranks at once."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import SCRIPTS, Oracle, cache_in, collect, joinids_of, write_small_tiles
from penstock.epochs import rank_check
from penstock.epochs.epoch_numbers import EpochNumbers
from penstock.epochs.rank_check import RankCheck
from torchrun import finish, torchrun

ID = "soma_joinid"
N_CELLS = 1200
SCRIPT = SCRIPTS / "cached_shuffle_script.py"

pytestmark = pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.ReadAgainWarning")


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 60)


def dataset(path: Path, cache: Path | None, **arguments: Any) -> ps.Dataset:
    given = {"sparse": True, "batch_size": 50, "seed": 5, "memory_budget": "64MiB", "keep": False}
    if cache is not None:
        given |= cache_in(cache)
    return ps.Dataset(path, **{**given, **arguments})


def order_of(path: Path, shuffle: str, epoch: int, **arguments: Any) -> list[int]:
    """Joinids of an epoch of that shuffle, without a cache."""
    ds = dataset(path, None, shuffle=shuffle, **arguments)
    ds.set_epoch(epoch)
    return joinids_of(ds)


def batches_of(batches: Any, count: int | None = None) -> list[list[int]]:
    got = []
    for _, (_, obs) in zip(range(count or 10**9), batches, strict=False):
        got.append(np.asarray(obs[ID]).tolist())
    return got


def test_from_the_epoch_that_begins_with_every_cell_kept(tiled: Path, tmp_path: Path) -> None:
    ds = dataset(tiled, tmp_path / "cache")
    assert ds.shuffle == "scatter"
    assert joinids_of(ds) == order_of(tiled, "scatter", 0)
    assert ds.shuffle == "scatter"
    assert ds.stats.units > 0
    assert ds.plan().planned_units == 0  # the next one: cell by cell
    expected, X = collect(dataset(tiled, None, shuffle=False))
    joinids, rows = collect(ds)
    assert joinids.tolist() == order_of(tiled, "global", 1)
    np.testing.assert_array_equal(rows, X[joinids])
    assert expected.tolist() == list(range(N_CELLS))
    assert ds.shuffle == "global"
    assert "global shuffle, seed 5" in repr(ds)
    assert ds.stats.units == ds.stats.requests == ds.stats.bytes_read == 0
    assert ds.stats.cached_bytes > 0
    # A repeated epoch keeps its shuffle in this process; a new epoch looks again.
    ds.set_epoch(0)
    assert joinids_of(ds) == order_of(tiled, "scatter", 0)
    for again in (dataset(tiled, tmp_path / "cache"), pickle.loads(pickle.dumps(ds))):
        again.set_epoch(0)
        assert joinids_of(again) == order_of(tiled, "global", 0)


def test_of_some_cells_and_genes(census_like: Oracle, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    some = {"obs_query": "soma_joinid < 2500", "var_query": "soma_joinid < 40"}
    first = dataset(census_like.path, cache, **some)
    joinids_of(first)
    joinids, X = collect(first)
    assert first.shuffle == "global"
    np.testing.assert_array_equal(X, census_like.X[joinids, :40].toarray())
    # Other genes of the same cells are kept as well; other cells are not.
    assert joinids_of(dataset(census_like.path, cache, obs_query="soma_joinid < 2000")) == order_of(
        census_like.path, "global", 0, obs_query="soma_joinid < 2000"
    )
    more = dataset(census_like.path, cache, obs_query="soma_joinid < 2501")
    joinids_of(more)
    assert more.shuffle == "scatter"


@pytest.mark.filterwarnings("ignore:cache_bytes")
def test_a_cache_that_is_too_small_never_does(tiled: Path, tmp_path: Path) -> None:
    ds = dataset(tiled, tmp_path / "cache", cache_bytes="20KB")
    for epoch in range(3):
        assert joinids_of(ds) == order_of(tiled, "scatter", epoch)
        assert ds.shuffle == "scatter"


def test_what_is_said_stays(tiled: Path, tmp_path: Path) -> None:
    for arguments in (
        {"shuffle": "scatter"},
        {"shuffle": False},
        {"shuffle": "chunks", "chunk_size": 20},
        {"shuffle": True, "replacement": True},
    ):
        ds = dataset(tiled, tmp_path / "cache", **arguments)
        joinids_of(ds)
        joinids_of(ds)
        assert ds.shuffle != "global"


def test_joined(tiled: Path, tmp_path: Path) -> None:
    ds = dataset({"one": tiled, "two": tiled}, tmp_path / "cache")
    joinids_of(ds)
    joinids, X = collect(ds)
    assert ds.shuffle == "global"
    assert sorted(joinids) == sorted([*range(N_CELLS), *range(N_CELLS)])
    np.testing.assert_array_equal(X, collect(dataset(tiled, None, shuffle=False))[1][joinids])


def test_a_pack_on_a_disk_is_not_kept_twice(tiled: Path, tmp_path: Path) -> None:
    packed = ps.pack(tiled, tmp_path / "cells.pack")
    ds = dataset(packed, tmp_path / "cache")
    assert joinids_of(ds) == order_of(tiled, "global", 0)
    assert not list((tmp_path / "cache").rglob("*.rows"))


@pytest.mark.parametrize(("context", "keep"), [("fork", False), ("fork", True), ("spawn", True)])
def test_workers(tiled: Path, tmp_path: Path, context: str, keep: bool) -> None:
    """All workers and the process that counts for them have the same epoch, each time."""
    arguments = {"num_workers": 2, "multiprocessing_context": context, "persistent_workers": keep}
    loader = ps.dataloader(dataset(tiled, tmp_path / "cache"), **arguments)
    got = [batches_of(loader) for _ in range(3)]
    for epoch, shuffle in enumerate(["scatter", "global", "global"]):
        alone = ps.dataloader(dataset(tiled, None, shuffle=shuffle), **arguments)
        alone.dataset.set_epoch(epoch)
        assert got[epoch] == batches_of(alone)
    assert loader.dataset.shuffle == "global"


def test_workers_of_a_plain_dataloader(tiled: Path, tmp_path: Path) -> None:
    from torch.utils.data import DataLoader

    ds = dataset(tiled, tmp_path / "cache", format="torch", sparse=False)
    got = [batches_of(DataLoader(ds, batch_size=None, num_workers=3)) for _ in range(2)]
    for epoch, shuffle in enumerate(["scatter", "global"]):
        other = dataset(tiled, None, shuffle=shuffle)
        other.set_epoch(epoch)
        assert got[epoch] == batches_of(ps.dataloader(other, num_workers=3))
    # Of a rank that cannot ask the others each epoch is as without a cache.
    ds = dataset(tiled, tmp_path / "cache", format="torch", sparse=False, rank=0, world_size=2)
    other = dataset(tiled, None, shuffle="scatter", rank=0, world_size=2)
    got = batches_of(DataLoader(ds, batch_size=None, num_workers=2))
    assert got == batches_of(ps.dataloader(other, num_workers=2))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("full", [False, True])
def test_resumes_in_the_shuffle_of_the_epoch(
    tiled: Path, tmp_path: Path, workers: int, full: bool
) -> None:
    """A state of an epoch, loaded where the cache is not as it was when the epoch began."""
    cache = tmp_path / "cache"

    def source(ds: ps.Dataset) -> Any:
        return ps.dataloader(ds, num_workers=workers) if workers else ds

    begun = dataset(tiled, cache)
    if full:
        batches_of(begun)
    source_of_begun = source(begun)
    iterator = iter(source_of_begun)
    first = batches_of(iterator, 5)
    state = json.loads(json.dumps(begun.state_dict()))
    rest = batches_of(iterator)
    assert state["segments"][-1]["global_shuffle"] is full
    assert begun.shuffle == ("global" if full else "scatter")
    if full:
        shutil.rmtree(cache)
    resumed = dataset(tiled, cache)
    resumed.load_state_dict(state)
    assert batches_of(source(resumed)) == rest
    assert sorted(sum(first + rest, [])) == list(range(N_CELLS))
    # The next epoch looks again: what was left may not be every cell.
    resumed.set_epoch(7)
    assert batches_of(source(resumed))
    # Another number of workers takes what was left in the same shuffle.
    other = dataset(tiled, cache)
    other.load_state_dict(state)
    assert sorted(sum(batches_of(ps.dataloader(other, num_workers=1)), [])) == sorted(sum(rest, []))
    assert other.shuffle == begun.shuffle


def test_ranks_by_hand_stay_as_they_are(tiled: Path, tmp_path: Path) -> None:
    batches_of(dataset(tiled, tmp_path / "cache"))
    ranks = [dataset(tiled, tmp_path / "cache", rank=r, world_size=2) for r in range(2)]
    got = sum(sum((batches_of(ds) for ds in ranks), []), [])
    assert sorted(got) == list(range(N_CELLS))
    assert [ds.shuffle for ds in ranks] == ["scatter", "scatter"]
    whole = [dataset(tiled, None, shuffle="scatter", rank=r, world_size=2) for r in range(2)]
    assert got == sum(sum((batches_of(ds) for ds in whole), []), [])


# ---- ranks ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list]]:
    """By case of the script, what each of two ranks got: (shuffle, joinids) by epoch."""
    folder = tmp_path_factory.mktemp("caches")
    path = write_small_tiles(folder / "experiment", 400, 50)
    out = finish(torchrun(2, SCRIPT, path, folder))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    return json.loads(line.removeprefix("RESULTS "))


@pytest.mark.parametrize(
    ("case", "shuffles"),
    [
        ("shared", ["scatter", "global", "global"]),
        ("shared_by_workers", ["scatter", "global", "global"]),
        ("one_is_not_full", ["scatter"]),
        ("one_has_none", ["scatter"]),
        ("not_compared", ["scatter"]),
    ],
)
def test_ranks_have_the_same_shuffle(results, case: str, shuffles: list[str]) -> None:
    for epochs, shuffle in zip(zip(*results[case], strict=True), shuffles, strict=True):
        assert [each[0] for each in epochs] == [shuffle, shuffle]
        assert sorted(sum((each[1] for each in epochs), [])) == list(range(400))


def test_ranks_resume_in_the_shuffle_of_the_epoch(results) -> None:
    whole = []
    for (shuffle, joinids), (_, rest), resumed in results["resumes"]:
        assert shuffle == resumed[0] == "global"
        assert resumed[1] == rest
        assert joinids[-len(rest) :] == rest
        whole += joinids
    assert sorted(whole) == list(range(400))


def votes(agreements: list[RankCheck], says: list[bool], store: Any, monkeypatch) -> list:
    """What each of some ranks, at once, is told about one epoch."""
    monkeypatch.setattr(rank_check, "_store", lambda: store)
    told: list[Any] = [None] * len(says)

    def vote(rank: int) -> None:
        told[rank] = agreements[rank].holds_for_all(0, 3, says[rank])

    threads = [threading.Thread(target=vote, args=(rank,)) for rank in range(len(says))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def agreements_of(count: int) -> list[RankCheck]:
    made = [RankCheck() for _ in range(count)]
    for each in made:
        each.site = "here"
    return made


@pytest.mark.parametrize(
    ("says", "told"),
    [([True] * 3, True), ([True, False, True], False), ([False] * 3, False)],
)
def test_all_of_them_or_none(says: list[bool], told: bool, monkeypatch) -> None:
    dist = pytest.importorskip("torch.distributed")
    for _ in range(20):
        assert votes(agreements_of(3), says, dist.HashStore(), monkeypatch) == [told] * 3


def test_who_comes_too_late_is_told_what_the_others_did(monkeypatch) -> None:
    dist = pytest.importorskip("torch.distributed")
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=10))
    monkeypatch.setattr(rank_check, "WAIT_SECONDS", 0.05)
    ranks = agreements_of(3)
    assert votes(ranks[:2], [True, True], store, monkeypatch) == [False, False]
    assert ranks[2].holds_for_all(0, 3, True) is False


def test_a_store_that_fails_is_safe_before_this_rank_has_spoken(monkeypatch) -> None:
    class Gone:
        def compare_set(self, *arguments: Any) -> bytes:
            raise RuntimeError("connection reset")

    (agreement,) = agreements_of(1)
    monkeypatch.setattr(rank_check, "_store", Gone)
    assert agreement.holds_for_all(0, 2, True) is False

    class GoneLater:
        def compare_set(self, name: str, expected: str, value: str) -> bytes:
            return value.encode()

        def add(self, *arguments: Any) -> int:
            raise RuntimeError("connection reset")

    (agreement,) = agreements_of(1)
    monkeypatch.setattr(rank_check, "_store", GoneLater)
    with pytest.raises(RuntimeError, match="connection reset"):
        agreement.holds_for_all(0, 2, True)


def test_the_first_worker_of_an_iterator_chooses() -> None:
    counter = EpochNumbers()
    counter.begin_for_workers(ticket=1, round_number=1)
    of_workers = counter.begin()[1] - 1
    assert counter.chosen_shuffle(of_workers, 0) == 0  # nobody has yet
    assert counter.chosen_shuffle(of_workers, 2) == 2
    assert counter.chosen_shuffle(of_workers, 1) == 2
    assert counter.chosen_shuffle(of_workers + 1, 1) == 1  # another iterator's
