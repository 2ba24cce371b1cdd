"""Speed of drawing cells, beside the epoch that brings each once, on the same experiment.

python benchmarks/sampling.py [EXPERIMENT] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import penstock as ps
from make_data import data_folder


def measure(path: str, **arguments: Any) -> tuple[float, float, int]:
    """Cells/s, bytes read over needed, units read."""
    ds = ps.Dataset(path, layer="raw", seed=1, sparse=True, memory_budget="512MiB", **arguments)
    begin = time.perf_counter()
    cells = sum(X.shape[0] for X, _ in ds)
    seconds = time.perf_counter() - begin
    stats = ds.stats
    return cells / seconds, stats.bytes_read / stats.bytes_needed, stats.units


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
    seen: dict[str, list[tuple[float, float, int]]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, arguments in cases.items():
            seen[name].append(measure(options.experiment, **arguments))
    plain = statistics.median(speed for speed, _, _ in seen["every cell once"])
    for name, runs in seen.items():
        speeds = sorted(speed for speed, _, _ in runs)
        print(
            f"{name:42s} {speeds[0]:9,.0f} {statistics.median(speeds):9,.0f} {speeds[-1]:9,.0f} "
            f"cells/s (min, median, max)  {statistics.median(speeds) / plain:5.2f} of plain  "
            f"read/needed {runs[0][1]:.2f}  units {runs[0][2]}"
        )


if __name__ == "__main__":
    main()
