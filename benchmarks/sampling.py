"""Speed of drawing cells, beside the epoch that brings each once, on the same experiment.

python benchmarks/sampling.py [EXPERIMENT] [--rounds 3]

Cases take turns, and a ratio is of two epochs of the same round. Asked for: 0.8 of the plain epoch or
more for moderate weights. Cells a second of the processor's time, over all threads, tell on a machine
that does other work, too.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from penstock.base.text import markdown_table
from spread import spread

DATA = Path(__file__).resolve().parent / ".data"


def measure(path: str, **arguments: Any) -> tuple[float, float, float, int]:
    """Cells/s, cells a second of the processor's, bytes read over needed, units read."""
    ds = ps.Dataset(path, layer="raw", seed=1, sparse=True, memory_budget="512MiB", **arguments)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    cells = sum(X.shape[0] for X, _ in ds)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    stats = ds.stats
    return cells / seconds, cells / cpu, stats.bytes_read / stats.bytes_needed, stats.units


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", nargs="?", default=str(DATA / "census-65k"))
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
    for which, clock in enumerate(("cells/s", "cells a second of the processor")):
        rows = []
        for name, runs in seen.items():
            speeds = [run[which] for run in runs]
            ratios = [run[which] / other[which] for run, other in zip(runs, plain, strict=True)]
            rows.append((name, spread(speeds), spread(ratios, 2)))
        print(
            markdown_table(("cells", clock, "of every cell once, in the same round"), rows),
            end="\n\n",
        )
    rows = [(name, f"{runs[0][2]:.2f}", str(runs[0][3])) for name, runs in seen.items()]
    print(markdown_table(("cells", "read / needed", "units"), rows))


if __name__ == "__main__":
    main()
