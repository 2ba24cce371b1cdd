"""Time that the training loop's own thread spends in Python for each batch.

python benchmarks/consumer_time.py [--path EXPERIMENT] [--batches 300] [--runs 5] [--profile] [--save]

Batches of 128 with three columns of obs (joinids, strings, numbers), as arrays and as CSR with int32
indices. The loop sleeps before it asks for a batch, so that one is ready, and only the asking is
timed: what is seen is Python's part, whatever the machine decodes meanwhile. Without --path an
experiment is made in a temporary folder. Each run makes new datasets; a figure is the median of
its batches. --save keeps the table in results/consumer_time.md.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import statistics
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.base.text import markdown_table
from penstock.synthetic import make_experiment
from spread import spread

TARGET_US = 50
CASES: dict[str, dict[str, Any]] = {
    "dense arrays": {},
    "CSR, int32 indices": {"sparse": True},
    "dense arrays, labels": {"encoders": True},
    "dense tensors": {"format": "torch"},
    "CSR tensors": {"format": "torch", "sparse": True},
}


def dataset(path: Path, **arguments: Any) -> ps.Dataset:
    columns, encoders = ["soma_joinid", "cell_type", "nnz"], []
    if arguments.pop("encoders", False):
        columns, encoders = ["soma_joinid", "nnz"], [ps.LabelEncoder("cell_type")]
    return ps.Dataset(
        path,
        obs_columns=columns,
        encoders=encoders,
        batch_size=128,
        threads=1,
        memory_budget="512MiB",
        **arguments,
    )


def ready_batches(ds: ps.Dataset, count: int) -> Iterator[tuple[float, float]]:
    """(wall, CPU) seconds of each call that found its batch ready."""
    while True:
        batches = iter(ds)
        batch = next(batches)  # threads start
        for _ in range(len(ds) - 1):
            while not batches._progress.is_ready:
                time.sleep(0.001)
            wall, cpu = time.perf_counter(), time.thread_time()
            batch = next(batches)  # and the one before is given back
            yield time.perf_counter() - wall, time.thread_time() - cpu
            count -= 1
            if count == 0:
                return
        del batch


def measure(path: Path, batches: int, profile: bool) -> dict[str, tuple[float, float]]:
    """Median (wall, CPU) microseconds of each case."""
    medians = {}
    for name, arguments in CASES.items():
        ds = dataset(path, **arguments)
        times = list(ready_batches(ds, batches))
        wall, cpu = ([value * 1e6 for value in each] for each in zip(*times, strict=True))
        medians[name] = statistics.median(wall), statistics.median(cpu)
        print(
            f"{name:22} {medians[name][0]:6.1f} us a batch (middle half {quartile(wall, 1):.1f} to "
            f"{quartile(wall, 3):.1f}), CPU {medians[name][1]:.1f} us; "
            f"{'within' if medians[name][0] <= TARGET_US else 'ABOVE'} {TARGET_US} us",
            flush=True,
        )
        if profile:
            profiler = cProfile.Profile()
            profiler.enable()
            list(ready_batches(ds, batches))
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(12)
    return medians


def section(runs: list[dict[str, tuple[float, float]]], batches: int) -> str:
    """The heading, how it was measured, the table."""
    rows = [
        (name, *(spread([run[name][which] for run in runs], 1) for which in range(2)))
        for name in CASES
    ]
    lines = [
        "# Python's part of a batch",
        "",
        textwrap.fill(
            f"`python benchmarks/consumer_time.py --runs {len(runs)} --save`, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} "
            f"UTC, load average {os.getloadavg()[0]:.1f}. Microseconds of the training loop's own thread for a "
            f"batch of 128 cells with three columns of obs that is ready when it is asked for; {batches} "
            f"batches a run, the median of each run: median of {len(runs)} runs (min to max). Asked for: "
            f"{TARGET_US} or less.",
            120,
        ),
        "",
        markdown_table(("batches", "wall us", "CPU us"), rows),
    ]
    return "\n".join(lines) + "\n"


def quartile(values: list[float], which: int) -> float:
    return statistics.quantiles(values, n=4)[which - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, help="an experiment whose obs has cell_type and nnz")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    parser.add_argument("--save", action="store_true", help="in results/consumer_time.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.path
        if path is None:
            path = Path(folder) / "experiment"
            make_experiment(path, n_cells=10_000, n_genes=5_000, n_fragments=1, n_datasets=8)
        runs = [measure(path, options.batches, options.profile) for _ in range(options.runs)]
    text = section(runs, options.batches)
    print(text)
    if options.save:
        (Path(__file__).parent / "results" / "consumer_time.md").write_text(text)


if __name__ == "__main__":
    main()
