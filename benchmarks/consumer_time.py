"""Time that the training loop's own thread spends in Python for each batch.

python benchmarks/consumer_time.py [--path EXPERIMENT] [--batches 300] [--profile]

Batches of 128 with three columns of obs (joinids, strings, numbers), as arrays and as CSR with int32
indices. The loop sleeps before it asks for a batch, so that one is ready, and only the asking is
timed: what is seen is Python's part, whatever the machine decodes meanwhile. Without --path an
experiment is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.synthetic import make_experiment

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


def measure(path: Path, batches: int, profile: bool) -> None:
    for name, arguments in CASES.items():
        ds = dataset(path, **arguments)
        times = list(ready_batches(ds, batches))
        wall, cpu = ([value * 1e6 for value in each] for each in zip(*times, strict=True))
        median = statistics.median(wall)
        print(
            f"{name:22} {median:6.1f} us a batch (middle half {quartile(wall, 1):.1f} to "
            f"{quartile(wall, 3):.1f}), CPU {statistics.median(cpu):.1f} us; "
            f"{'within' if median <= TARGET_US else 'ABOVE'} {TARGET_US} us"
        )
        if profile:
            profiler = cProfile.Profile()
            profiler.enable()
            list(ready_batches(ds, batches))
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(12)


def quartile(values: list[float], which: int) -> float:
    return statistics.quantiles(values, n=4)[which - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, help="an experiment whose obs has cell_type and nnz")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    options = parser.parse_args()
    if options.path is not None:
        measure(options.path, options.batches, options.profile)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiment"
        make_experiment(path, n_cells=10_000, n_genes=5_000, n_fragments=1, n_datasets=8)
        measure(path, options.batches, options.profile)


if __name__ == "__main__":
    main()
