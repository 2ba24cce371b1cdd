"""The script of each rank of tests/python/packs/test_cached_shuffle.py, under torchrun.

torchrun … cached_shuffle_script.py PATH FOLDER     runs every function of CASES and prints each rank's results
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import torch.distributed as dist
from group_end import end_group
from penstock.epochs import rank_check
from penstock.plan.planner import Planner

PATH, FOLDER = sys.argv[1], Path(sys.argv[2])
RANK = int(os.environ["RANK"])


def dataset(cache: str, **arguments) -> ps.Dataset:
    given = {"batch_size": 20, "sparse": True, "memory_budget": "8MiB", "cache_bytes": "1GiB"}
    return ps.Dataset(PATH, cache_dir=FOLDER / cache, **{**given, **arguments})


def epoch(ds: ps.Dataset, workers: int = 0) -> tuple[str | None, list[int]]:
    """The shuffle and the order of the next epoch, which all ranks have ended then."""
    batches = ps.dataloader(ds, num_workers=workers) if workers else ds
    got = [each for _, obs in batches for each in np.asarray(obs["soma_joinid"]).tolist()]
    dist.barrier()
    return ds.shuffle, got


def fill(cache: str) -> None:
    list(dataset(cache, shard=False))


def shared() -> list:
    ds = dataset("shared")
    return [epoch(ds), epoch(ds), epoch(dataset("shared"))]


def shared_by_workers() -> list:
    ds = dataset("workers")
    return [epoch(ds, 2), epoch(ds, 2), epoch(ds)]


def one_is_not_full() -> list:
    if RANK == 0:
        fill("of0")
    dist.barrier()
    return [epoch(dataset(f"of{RANK}"))]


def one_has_none() -> list:
    if RANK == 0:
        fill("alone")
    dist.barrier()
    rank_check.WAIT_SECONDS = 0.2
    ds = dataset("alone")
    if RANK == 1:
        ds = ds.with_settings()
        without = Planner(ps.Dataset(PATH).reader.selection, ds.reader.settings)
        ds.reader.cells = ds.reader.cells.with_planner(without)
    return [epoch(ds)]


def not_compared() -> list:
    fill("not compared")
    return [epoch(dataset("not compared", compare_ranks=False))]


def resumes() -> list:
    """Saved in the second epoch, loaded by a run whose cache is empty."""
    ds = dataset("saved")
    epoch(ds)
    batches = iter(ds)
    first = [np.asarray(next(batches)[1]["soma_joinid"]).tolist() for _ in range(4)]
    state = ds.state_dict()
    rest = [each for _, obs in batches for each in obs["soma_joinid"].tolist()]
    dist.barrier()
    resumed = dataset(f"empty{RANK}")
    resumed.load_state_dict(state)
    return [(ds.shuffle, sum(first, []) + rest), (ds.shuffle, rest), epoch(resumed)]


CASES = [shared, shared_by_workers, one_is_not_full, one_has_none, not_compared, resumes]


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    results = {}
    for case in CASES:
        rank_check.WAIT_SECONDS = 60.0
        dist.barrier()
        everybody: list = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, case())
        results[case.__name__] = everybody
    if RANK == 0:
        print("RESULTS " + json.dumps(results), flush=True)
    end_group()


if __name__ == "__main__":
    main()
