"""Opening, filtering, planning and resuming at 1.6 x 10^8 cells: seconds and memory.

    python benchmarks/make_large_metadata.py FOLDER
    python benchmarks/planning.py FOLDER

Each line is a process of its own, that reads the stored metadata with a warm page cache and no
counts. Seconds are wall time and CPU time; memory is VmHWM, with what imports take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

from penstock.base.text import markdown_table
from penstock.bench.worker.process_facts import peak_rss

FILTER = "is_primary_data == True and dataset_id not in ['dataset-0003', 'dataset-0700']"
#: name: (filter, rank, world size, resumed)
CASES: dict[str, tuple[str | None, int, int, bool]] = {
    "all cells, 1 rank": (None, 0, 1, False),
    "filtered, 1 rank": (FILTER, 0, 1, False),
    "filtered, rank 17 of 64": (FILTER, 17, 64, False),
    "filtered, rank 17 of 64, resumed in the middle": (FILTER, 17, 64, True),
}


def measure(path: str, name: str) -> dict[str, Any]:
    """One case, in this process."""
    import penstock as ps

    steps: dict[str, tuple[float, float]] = {}

    def timed(step: str, call: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        steps[step] = (time.perf_counter() - wall, time.process_time() - cpu)
        return result

    value_filter, rank, world, resumed = CASES[name]
    imports = peak_rss()
    experiment = timed("open", lambda: ps.open(path))
    dataset = timed("select cells", lambda: ps.Dataset(
        experiment, obs_query=value_filter, sparse=True, rank=rank, world_size=world,
    ))  # fmt: skip
    n_obs = timed("count", lambda: dataset.n_obs)
    if resumed:
        state = json.loads(sys.stdin.read())
        state["segments"][0]["batches"] = len(dataset) // 2
        timed("load state", lambda: dataset.load_state_dict(state))
    plan = timed("first plan, with X's metadata", dataset.plan)
    if not resumed:
        dataset.set_epoch(1)
        timed("plan of another epoch", dataset.plan)
    return {
        "name": name,
        "cells": n_obs,
        "units": plan.planned_units,
        "units_in_shuffle": plan.units_in_shuffle,
        "steps": steps,
        "imports_mib": imports / 2**20,
        "peak_mib": peak_rss() / 2**20,
    }


def state(path: str, name: str) -> dict[str, Any]:
    """State of an epoch of which nothing was taken: what is asked for cannot be read."""
    import penstock as ps

    value_filter, rank, world, _ = CASES[name]
    dataset = ps.Dataset(path, obs_query=value_filter, sparse=True, rank=rank, world_size=world)
    _ = iter(dataset)
    return dataset.state_dict()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--state", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.state:
        print(json.dumps(state(options.folder, options.state)), flush=True)
        os._exit(0)
    if options.case:
        print(json.dumps(measure(options.folder, options.case)))
        return
    rows: list[tuple[str, ...]] = []
    for name in CASES:
        command = [sys.executable, __file__, options.folder]
        given = ""
        if CASES[name][3]:
            given = subprocess.run(
                [*command, "--state", name], capture_output=True, text=True, check=True
            ).stdout
        done = subprocess.run(
            [*command, "--case", name], input=given, capture_output=True, text=True
        )
        if done.returncode != 0:
            rows.append((name, f"failed: {done.stderr.strip().splitlines()[-1]}", *[""] * 5))
            continue
        answer = json.loads(done.stdout.splitlines()[-1])
        cells, units, peak = (f"{answer[each]:,.0f}" for each in ("cells", "units", "peak_mib"))
        for step, (wall, cpu) in answer["steps"].items():
            rows.append((name, cells, units, step, f"{wall:.2f}", f"{cpu:.2f}", peak))
    head = ("case", "cells", "units", "step", "seconds", "CPU seconds", "peak MiB")
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main()
