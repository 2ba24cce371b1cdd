"""Speed of drawing cells, beside the epoch that brings each once, on the same experiment.

python benchmarks/sampling.py [EXPERIMENT] [--rounds 3]

Cases take turns, and a ratio is of two epochs of the same round. Asked for: 0.8 of the plain epoch or
more for moderate weights. Cells a second of the processor's time, over all threads, tell on a machine
that does other work, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import penstock as ps
from make_data import data_folder


def measure(path: str, **arguments: Any) -> tuple[float, float, float, int]:
    """Cells/s, cells a second of the processor's, bytes read over needed, units read."""
    ds = ps.Dataset(path, layer="raw", seed=1, sparse=True, memory_budget="512MiB", **arguments)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    cells = sum(X.shape[0] for X, _ in ds)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    stats = ds.stats
    return cells / seconds, cells / cpu, stats.bytes_read / stats.bytes_needed, stats.units


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", nargs="?", default=str(data_folder() / "census-65k"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cells = ps.open(options.experiment).n_obs
    random = np.random.default_rng(0)
    few = np.ones(cells)
    few[: cells // 100] = 1000
    cases: dict[str, dict[str, Any]] = {
        "every cell once": {},
        "log-normal weights, sigma 0.5": {"weights": random.lognormal(0, 0.5, cells)},
        "log-normal weights, sigma 1": {"weights": random.lognormal(0, 1, cells)},
        "cell types equally often": {"balance": "cell_type"},
        "a bootstrap": {"replacement": True},
        "a tenth without replacement": {"num_samples": cells // 10},
        "the first hundredth 1,000 times as often": {"weights": few},
    }
    seen: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in cases}
    measure(options.experiment)  # the page cache is warm from now on
    for _ in range(options.rounds):
        for name, arguments in cases.items():
            seen[name].append(measure(options.experiment, **arguments))
    plain = seen["every cell once"]
    for which, clock in enumerate(("a second", "a second of the processor")):
        print(f"cells {clock}: min, median, max; of plain in the same round: min, median, max")
        for name, runs in seen.items():
            speeds = [run[which] for run in runs]
            ratios = [run[which] / other[which] for run, other in zip(runs, plain, strict=True)]
            print(f"{name:42s}  {spread(speeds, '9,.0f')}  {spread(ratios, '5.2f')}")
    for name, runs in seen.items():
        print(f"{name:42s}  read/needed {runs[0][2]:.2f}  units {runs[0][3]}")


def spread(values: list[float], form: str) -> str:
    """Least, median and most."""
    return " ".join(
        f"{each:{form}}" for each in (min(values), statistics.median(values), max(values))
    )


if __name__ == "__main__":
    main()
