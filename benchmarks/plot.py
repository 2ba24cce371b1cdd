"""Draws speed against memory: a PNG by matplotlib, a page by plotly, where installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from report import cells_per_second, good_runs

_COLOURS = {"penstock": "#0b6e99", "tiledbsoma_ml": "#d1603d"}
_SHAPES = ("circle", "square", "diamond", "cross", "triangle-up", "star", "x", "hexagon")
_MARKERS = ("o", "s", "D", "P", "^", "*", "X", "h")


@dataclass(frozen=True)
class Point:
    case: str
    method: str
    loader: str
    cells_per_second: float
    peak_gib: float


def _points(results: dict[str, Any]) -> list[Point]:
    points = []
    for name, case in results["cases"].items():
        if case["case"]["first_batch_only"] or case["case"]["epochs"] > 1:
            continue
        for method in case["runs"]:
            runs = good_runs(case, method)
            if runs:
                speed = median(cells_per_second(run) for run in runs)
                peak = median(run["peak_bytes"] for run in runs) / 2**30
                points.append(Point(name, method, case["loaders"][method], speed, peak))
    return points


def write_plots(results: dict[str, Any], folder: Path) -> None:
    """Write ``speed_vs_memory.png`` and ``.html``; a library that is missing leaves its one out."""
    points = _points(results)
    if not points:
        return
    try:
        _write_png(points, folder / "speed_vs_memory.png")
    except ImportError as missing:
        print(f"no PNG: {missing}")
    try:
        _write_html(points, folder / "speed_vs_memory.html")
    except ImportError as missing:
        print(f"no HTML plot: {missing}")


def _write_png(points: list[Point], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure, axes = pyplot.subplots(figsize=(9, 5.5))
    cases = list(dict.fromkeys(point.case for point in points))
    for i, case in enumerate(cases):
        for loader, colour in _COLOURS.items():
            mine = [p for p in points if p.case == case and p.loader == loader]
            if mine:
                axes.scatter(
                    [p.peak_gib for p in mine],
                    [p.cells_per_second for p in mine],
                    s=70,
                    color=colour,
                    marker=_MARKERS[i % len(_MARKERS)],
                    edgecolor="white",
                    label=f"{loader}, {case}",
                )
    axes.set(xscale="log", yscale="log", xlabel="peak memory of the process (GiB)")
    for axis, ticks in (
        (axes.xaxis, (0.25, 0.5, 1, 2, 4, 8)),
        (axes.yaxis, (2e3, 5e3, 1e4, 2e4, 5e4, 1e5)),
    ):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set(ylabel="cells/s, whole epoch", title="Shuffled batches of 128, warm cache")
    axes.grid(alpha=0.25, which="both")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    pyplot.close(figure)


def _write_html(points: list[Point], path: Path) -> None:
    import plotly.graph_objects as go

    figure = go.Figure()
    cases = list(dict.fromkeys(point.case for point in points))
    for point in points:
        figure.add_trace(
            go.Scatter(
                x=[point.peak_gib],
                y=[point.cells_per_second],
                mode="markers",
                name=f"{point.method}: {point.case}",
                marker={
                    "size": 13,
                    "color": _COLOURS[point.loader],
                    "symbol": _SHAPES[cases.index(point.case) % len(_SHAPES)],
                },
                hovertemplate="%{y:,.0f} cells/s, %{x:.2f} GiB",
            )
        )
    figure.update_layout(
        title="Shuffled batches of 128, warm cache: speed against memory",
        xaxis={"title": "peak memory of the process (GiB)", "type": "log"},
        yaxis={"title": "cells/s, whole epoch", "type": "log"},
        template="plotly_white",
    )
    figure.write_html(path, include_plotlyjs="cdn")
