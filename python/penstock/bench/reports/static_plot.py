"""Plots of measurements as images made by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure  # pyplot would change a notebook's backend
from matplotlib.text import OffsetFrom

from .labels import label_points
from .plot_columns import (
    DEFAULT_STYLE,
    DEFAULT_TEXT,
    MEMORY,
    Style,
    axis_title,
    chunk_ticks,
    names_drawn,
    speed_column,
    subtitles,
)
from .plot_lines import Curves

if TYPE_CHECKING:
    import pandas as pd

_MARKERS = ("o", "s", "D", "P", "X", "^", "*", "h", "p", "v", "<", ">", "d")


def write_picture(
    frame: pd.DataFrame, path: Path, title: str, style: Style = DEFAULT_STYLE
) -> None:
    """Write PNG or SVG, by the suffix; symbol by contestant or method, size by cells in a block.

    Colour is by chunks in a block if known, as in the interactive page, else by name.
    """
    import numpy as np
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(9, 5.5))
    FigureCanvasAgg(figure)  # labels ask it for sizes
    axes = figure.subplots()
    chunks = np.log2(frame["chunks_per_block"].astype(float).to_numpy())
    known = chunks[np.isfinite(chunks)]
    names = names_drawn(frame)
    speed, words = speed_column(frame)
    by_name = colormaps["tab10"]
    by_chunks = colormaps["viridis"]
    scale = Normalize(known.min(), max(known.max(), known.min() + 1)) if len(known) else None
    labels: dict[str, Any] = {}  # colour and places of each name
    for number, name in enumerate(dict.fromkeys(names)):
        mine = (names == name).to_numpy()
        marker = _MARKERS[number % len(_MARKERS)]
        colours: list[Any] = [
            by_chunks(scale(value)) if scale is not None and np.isfinite(value)
            else "silver" if scale is not None else by_name(number % 10)
            for value in chunks[mine]
        ]  # fmt: skip
        x = frame["max_mem"].astype(float)[mine] / 2**30
        y = frame[speed].astype(float)[mine]
        axes.scatter(
            x,
            y,
            s=[0.45 * size**2 for size in _sizes(style.marker_sizes(frame[mine], frame), marker)],
            c=colours,
            marker=marker,
            edgecolor="white",
            linewidth=0.6,
            alpha=0.8,
            zorder=3 - 0.01 * number,
        )
        colour = "dimgrey" if scale is not None else by_name(number % 10)
        axes.scatter([], [], s=64, color=colour, marker=marker, label=name)
        labels[name] = colour, list(zip(x, y, strict=True))
    axes.set(xlabel=axis_title(MEMORY, style.linear), ylabel=axis_title(words, style.linear))
    if style.linear:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    else:
        axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        if not style.linear:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    lines = [*subtitles(frame), "↖ better"]
    figure.suptitle(title, fontsize=11, y=0.935 + 0.025 * len(lines))
    axes.set_title("\n".join(lines), fontsize=8)
    axes.grid(alpha=0.25, which="both")
    _mark(axes, style.default_rows(frame), speed)
    if scale is not None:
        bar = figure.colorbar(ScalarMappable(scale, by_chunks), ax=axes, pad=0.02)
        bar.set_label("chunks a block")
        ticks = chunk_ticks(frame)
        bar.set_ticks([np.log2(each) for each in ticks], labels=[f"{each:,}" for each in ticks])
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 4}
    else:
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    blocks = [
        Line2D([], [], ls="", marker="o", color="grey", mec="white", ms=0.67 * size, label=text)
        for text, size in style.blocks_shown(frame)
    ]
    if blocks:
        figure.legend(
            handles=blocks, title="cells a block", fontsize=8, title_fontsize=8, frameon=False,
            loc="upper center", bbox_to_anchor=(0.5, -0.18), bbox_transform=axes.transAxes,
            ncols=len(blocks),
        )  # fmt: skip
    if scale is not None or blocks or not label_points(axes, labels):
        axes.legend(fontsize=8, frameon=False, **place)
    _save(figure, path)


def _mark(axes: Any, rows: pd.DataFrame, speed: str) -> None:
    """Add a note with a line to each of the rows."""
    if rows.empty:
        return
    memory, cells = rows["max_mem"].astype(float) / 2**30, rows[speed].astype(float)
    note = axes.annotate(
        "\n".join(DEFAULT_TEXT),
        (memory.mean(), cells.mean()),
        xytext=(70, 40),
        textcoords="offset points",
        fontsize=8,
        ha="center",
        zorder=4,
    )
    for point in zip(memory, cells, strict=True):
        line = {"arrowstyle": "-", "linewidth": 0.7}
        left = OffsetFrom(note, (0.0, 0.5))
        axes.annotate("", point, xytext=(-2, 0), textcoords=left, arrowprops=line, zorder=4)


def write_curves(curves: Curves, frame: pd.DataFrame, path: Path, title: str) -> None:
    """Write PNG or SVG, by the suffix: a line for each measurement, in a colour by method."""
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(9, 5.5))
    axes = figure.subplots()
    by_name = colormaps["tab10"]
    colours: dict[str, Any] = {}
    for name, x, y in curves.lines(frame):
        label = None if name in colours else name
        colour = colours.setdefault(name, by_name(len(colours) % 10))
        axes.plot(x, y, color=colour, label=label, linewidth=1.2)
    axes.set(xlabel=axis_title(curves.x_title, not curves.log_x), ylabel=curves.y_title)
    axes.set_ylim(bottom=0)
    if curves.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    else:
        axes.set_xlim(left=0)
    figure.suptitle(title, fontsize=11, y=0.985)
    axes.set_title("\n".join(subtitles(frame)), fontsize=8)
    axes.grid(alpha=0.25, which="both")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(
        path,
        dpi=130,
        bbox_inches="tight",
        metadata={"Date": None} if path.suffix == ".svg" else None,
    )


def _sizes(sizes: list[float], marker: str) -> list[float]:
    """Return marker sizes; stars are enlarged, because they look small."""
    return [size * (1.4 if marker == "*" else 1.0) for size in sizes]
