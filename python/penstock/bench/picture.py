"""Speed against memory as a picture, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

if TYPE_CHECKING:
    import pandas as pd

_MARKERS = ("o", "s", "D", "P", "X", "^", "*", "h", "p", "v", "<", ">", "d")


def write_picture(frame: pd.DataFrame, path: Path, title: str) -> None:
    """PNG or SVG by the path's ending; one colour and marker a contestant or method."""
    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, axes = pyplot.subplots(figsize=(9, 5.5))
    names = frame["method"].astype(str)
    if "contestant" in frame and frame["contestant"].notna().any():
        names = frame["contestant"].fillna(names).astype(str)
    colours = pyplot.get_cmap("tab10")
    for number, name in enumerate(dict.fromkeys(names)):
        mine = frame[names == name]
        axes.scatter(
            mine["max_mem"].astype(float) / 2**30,
            mine["cells_per_second"].astype(float),
            s=64,
            color=colours(number % 10),
            marker=_MARKERS[number % len(_MARKERS)],
            edgecolor="white",
            label=name,
        )
    axes.set(xscale="log", yscale="log", xlabel="peak memory, USS (GiB)", ylabel="cells/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25, which="both")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(
        path,
        dpi=130,
        bbox_inches="tight",
        metadata={"Date": None} if path.suffix == ".svg" else None,
    )
    pyplot.close(figure)
