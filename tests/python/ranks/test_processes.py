"""Real processes: ranks under torchrun that run DDP steps, and ranks that are killed."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import penstock as ps
import pytest
import torch
from conftest import SCRIPTS, write_small_tiles
from torchrun import finish, kill_all, torchrun

SCRIPT = SCRIPTS / "distributed_script.py"
N_CELLS = 600
N_GENES = 500


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 cells in 37 fetch units of some 16 rows."""
    path = tmp_path_factory.mktemp("tiles") / "experiment"
    return write_small_tiles(path, N_CELLS, N_GENES, per_cell=250)


def make_cases(ranks: int) -> list[dict]:
    def case(cells, uneven, num_workers=0, batch_size=8, begin=0, min_batch=1, batch_norm=False):
        return {
            "cells": cells,
            "uneven": uneven,
            "num_workers": num_workers,
            "batch_size": batch_size,
            "begin": begin,
            "min_batch": min_batch,
            "batch_norm": batch_norm,
        }

    ways = ["drop", "pad", "exact"]
    sizes = [0, 1, ranks - 1, ranks, ranks + 1, 97, N_CELLS]
    every = [case(n, u) for n, u in itertools.product(sizes, ways)]
    # The single fetch unit that a filter hits, and fewer cells than workers.
    workers = [
        case(n, u, w, begin=32 if n == 16 else 0)
        for n, u, w in itertools.product([0, 1, ranks - 1, 16, 97], ways, [1, 3])
    ]
    workers += [case(N_CELLS, "exact", 3), case(16, "drop", begin=32), case(16, "pad", begin=32)]
    workers += [case(2 * ranks + 1, "exact", w, batch_size=1) for w in (0, 2)]
    # One cell too many for each rank, or for some.
    norm = [
        case(8 * ranks * 3 + more, u, w, min_batch=2, batch_norm=True)
        for more, u, w in [(ranks, "drop", 0), (ranks, "pad", 2), (1, "pad", 0), (97, "exact", 0)]
    ]
    return [*every, *workers, *norm]


def check(case: dict, results: list[dict], ranks: int) -> None:
    cells = list(range(case["begin"], case["begin"] + case["cells"]))
    if case["uneven"] == "exact" and 0 < len(cells) < ranks:
        assert all("too few for" in each["error"] for each in results)
        return
    of_rank = len(cells) // ranks if case["uneven"] == "drop" else -(-len(cells) // ranks)
    if case["uneven"] != "exact" and cells and of_rank < max(case["min_batch"], 1):
        assert all("the epoch has no batch" in each["error"] for each in results), results
        return
    assert not any("error" in each for each in results), results
    for epoch in range(2):
        sizes = [each["sizes"][epoch] for each in results]
        assert len({len(each) for each in sizes}) == 1, "equally many batches"
        assert all(size >= case["min_batch"] for each in sizes for size in each)
        read = sorted(joinid for each in results for joinid in each["epochs"][epoch])
        if case["uneven"] == "exact":
            assert read == cells
            flat = [size for each in sizes for size in each]
            assert not flat or max(flat) - min(flat) <= 1
        elif case["uneven"] == "drop":
            assert len(set(read)) == len(read) == len(cells) // ranks * ranks
            assert set(read) <= set(cells)
        else:
            assert set(read) == set(cells)
            assert len(read) == -(-len(cells) // ranks) * ranks
    if len(cells) > 50:
        for each in results:
            assert each["epochs"][0] != each["epochs"][1], "another order"
            assert set(each["epochs"][0]) != set(each["epochs"][1]), "and another cut"


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_take_equally_many_steps(tiled: Path, tmp_path: Path, ranks: int) -> None:
    """DDP steps in every case: a rank with a batch more or less than another would wait for ever."""
    cases = make_cases(ranks)
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    out = finish(torchrun(ranks, SCRIPT, tiled, "cases", CASES=str(tmp_path / "cases.json")))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    results = json.loads(line.removeprefix("RESULTS "))
    assert len(results) == len(cases)
    for case, each in zip(cases, results, strict=True):
        check(case, each, ranks)


def test_batch_norm_cannot_be_trained_on_one_cell(tiled: Path) -> None:
    """So that the cases with BatchNorm show something: without min_batch the last batch is one."""
    query = ps.AxisQuery(coords=(slice(0, 24),))
    model = torch.nn.BatchNorm1d(N_GENES)
    for min_batch, sizes in [(1, [8, 8, 8, 1]), (2, [8, 8, 9])]:
        ds = ps.Dataset(tiled, obs_query=query, batch_size=8, min_batch=min_batch, format="torch")
        batches = [X for X, _ in ds]
        assert [len(X) for X in batches] == sizes
        if min_batch == 1:
            with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
                model(batches[-1])
        else:
            model(batches[-1])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_killed_and_resumed_with_the_same_losses(
    tiled: Path, tmp_path: Path, num_workers: int
) -> None:
    """SIGKILL for all processes in the middle of an epoch, twice."""

    def losses(folder: Path) -> dict[int, str]:
        file = folder / "losses.txt"
        text = file.read_text() if file.exists() else ""
        # A step that was written twice was done again: it must have come out the same.
        found: dict[int, set[str]] = {}
        for line in text.splitlines():
            number, loss = line.split()
            found.setdefault(int(number), set()).add(loss)
        assert all(len(each) == 1 for each in found.values())
        return {number: each.pop() for number, each in found.items()}

    environment = {"NUM_WORKERS": str(num_workers)}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    finish(torchrun(2, SCRIPT, tiled, "train", whole, **environment))
    assert len(losses(whole)) == 3 * 6
    for stop_at in (4, 11):
        process = torchrun(2, SCRIPT, tiled, "train", broken, SLOWLY="1", **environment)
        deadline = time.monotonic() + 200
        try:
            while len(losses(broken)) < stop_at and process.poll() is None:
                assert time.monotonic() < deadline, "the run makes no steps"
                time.sleep(0.01)
        finally:
            kill_all(process)
        assert stop_at <= len(losses(broken)) < 18
    finish(torchrun(2, SCRIPT, tiled, "train", broken, **environment))
    assert losses(broken) == losses(whole)


def test_resumes_in_other_worlds(tiled: Path, tmp_path: Path) -> None:
    """Two ranks stop in the middle of an epoch, four resume and stop, one has the rest.

    Each world has another number of workers and starts from the state that rank 0 of the one before
    wrote.
    """
    seen: list[int] = []
    for world, workers, stop_after in [(2, 1, 6), (4, 0, 2), (1, 2, 1_000)]:
        environment = {"NUM_WORKERS": str(workers), "STOP_AFTER": str(stop_after)}
        out = finish(torchrun(world, SCRIPT, tiled, "part", tmp_path, **environment))
        (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
        ranks = json.loads(line.removeprefix("RESULTS "))
        assert len(ranks) == world
        if world > 1:
            assert all(len(each) == stop_after for each in ranks)
        seen += [joinid for each in ranks for batch in each for joinid in batch]
        state = json.loads((tmp_path / "state.json").read_text())
        assert state["epoch"] == (1 if world == 1 else 0)
    assert sorted(seen) == list(range(N_CELLS))
