"""Draws what training.py measured: docs/images/training.png.

python benchmarks/training_plot.py [FILE]
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DENSE, SPARSE = "#0b6e99", "#d1603d"


def _runs(part: str) -> list[dict[str, Any]]:
    results = json.loads((RESULTS / f"training_{part}.json").read_text())
    return [each for name, each in results.items() if name != "machine"]


def _draw_layouts(time: Any, memory: Any) -> None:
    for sparse, colour, label in ((False, DENSE, "dense"), (True, SPARSE, "sparse")):
        runs = sorted((r["cells"], r) for r in _runs("layouts") if r["sparse"] is sparse)
        cells = [count for count, _ in runs]
        time.plot(cells, [r["seconds"] for _, r in runs], "o-", color=colour, label=label)
        memory.plot(cells, [r["peak_mib"] / 1024 for _, r in runs], "o-", color=colour, label=label)
    time.set_title("scVI, output of the loader")
    time.set_ylabel("seconds")
    memory.set_title("the same")
    memory.set_ylabel("peak GiB of the process")


def _draw_processes(axes: Any) -> None:
    by_processes = defaultdict(list)
    for run in _runs("processes"):
        by_processes[run["processes"]].append((run["cells"], run["seconds"]))
    for count, points in sorted(by_processes.items()):
        cells, seconds = zip(*sorted(points), strict=True)
        axes.plot(cells, seconds, "o-", label=f"{count} process{'es' if count > 1 else ''}")
    axes.set_title("scVI, processes")
    axes.set_ylabel("seconds, their start included")


def main() -> None:
    """Draw the three panels."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    default = HERE.parent / "docs" / "images" / "training.png"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    figure, (time, memory, processes) = pyplot.subplots(1, 3, figsize=(13, 4))
    _draw_layouts(time, memory)
    _draw_processes(processes)
    for axes in (time, memory, processes):
        axes.set_xlabel("cells")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main()
