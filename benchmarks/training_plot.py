"""Draws what training.py measured: docs/images/training.png, and .html beside the results.

python benchmarks/training_plot.py [--results FOLDER] [--out FILE.png]

Time and memory of scVI with dense and sparse batches (figure 4), and time over processes x cells. A
part that has not been measured is left out.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RESULTS = HERE / "results"
COLOURS = ("#0b6e99", "#d1603d", "#3d8b37", "#7a5195")


class Panel(NamedTuple):
    """Lines over numbers of cells."""

    title: str
    unit: str
    lines: dict[str, list[tuple[int, float]]]
    note: str = ""


def runs_of(folder: Path, part: str) -> list[dict[str, Any]]:
    """Return the measurements that did not fail."""
    path = folder / f"training_{part}.json"
    if not path.exists():
        return []
    results = json.loads(path.read_text())
    return [each for name, each in results.items() if name != "machine" and "median" in each]


def layout_panels(runs: list[dict[str, Any]]) -> list[Panel]:
    """Time and memory of dense and sparse batches."""
    time: dict[str, list[tuple[int, float]]] = defaultdict(list)
    memory: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for run in sorted(runs, key=lambda each: (each["sparse"], each["cells"])):
        name = "sparse" if run["sparse"] else "dense"
        time[name].append((run["cells"], run["median"]))
        memory[name].append((run["cells"], run["peak_mib"] / 1024))
    if not runs:
        return []
    epochs = f"scVI, {runs[0]['epochs']} epochs"
    return [
        Panel(f"{epochs}: batches of the loader", "seconds", time),
        Panel(f"{epochs}: memory", "peak GiB of the process", memory),
    ]


def pays(runs: list[dict[str, Any]]) -> dict[int, int]:
    """Cells to the number of processes that took least."""
    best: dict[int, tuple[float, int]] = {}
    for run in runs:
        took = run["median"], run["processes"]
        best[run["cells"]] = min(best.get(run["cells"], took), took)
    return {cells: processes for cells, (_, processes) in sorted(best.items())}


def process_panels(runs: list[dict[str, Any]]) -> list[Panel]:
    """Time over processes x cells, and where more do not pay."""
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for run in sorted(runs, key=lambda each: (each["processes"], each["cells"])):
        count = run["processes"]
        name = f"{count} process{'es' if count > 1 else ''}"
        lines[name].append((run["cells"], run["median"]))
    if not runs:
        return []
    note = "fastest: " + ", ".join(
        f"{count} for {cells:,} cells" for cells, count in pays(runs).items()
    )
    title = f"scVI, {runs[0]['epochs']} epochs: processes"
    return [Panel(title, "seconds, their start included", lines, note)]


def write_png(panels: list[Panel], path: Path) -> None:
    """Side by side."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(panels), figsize=(4.6 * len(panels), 4), squeeze=False)
    for axes, panel in zip(places[0], panels, strict=True):
        for colour, (name, points) in zip(COLOURS, panel.lines.items(), strict=False):
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
        axes.set(title=panel.title, ylabel=panel.unit)
        axes.set_xlabel("cells" + (f"\n{panel.note}" if panel.note else ""), fontsize=9)
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.1 * max(value for line in panel.lines.values() for _, value in line))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def write_html(panels: list[Panel], path: Path) -> None:
    """The same to look into."""
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(panels), subplot_titles=[each.title for each in panels])
    for place, panel in enumerate(panels, 1):
        for colour, (name, points) in zip(COLOURS, panel.lines.items(), strict=False):
            cells, values = zip(*points, strict=True)
            figure.add_scatter(
                x=cells, y=values, name=name, mode="lines+markers", line_color=colour,
                row=1, col=place,
            )  # fmt: skip
        title = "cells" + (f"<br>{panel.note}" if panel.note else "")
        figure.update_xaxes(title=title, rangemode="tozero", row=1, col=place)
        figure.update_yaxes(title=panel.unit, rangemode="tozero", row=1, col=place)
    figure.update_layout(template="plotly_white")
    figure.write_html(path, include_plotlyjs="cdn")


def main() -> None:
    """Draw what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--out", type=Path, default=HERE.parent / "docs" / "images" / "training.png"
    )
    parsed = parser.parse_args()
    panels = layout_panels(runs_of(parsed.results, "layouts"))
    panels += process_panels(runs_of(parsed.results, "processes"))
    if not panels:
        parser.error(f"no training_layouts.json or training_processes.json in {parsed.results}")
    write_png(panels, parsed.out)
    print(parsed.out)
    try:
        write_html(panels, parsed.results / "training.html")
    except ImportError as missing:
        print(f"no HTML plot: {missing}")


if __name__ == "__main__":
    main()
