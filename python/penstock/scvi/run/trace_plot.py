"""A plot of traces: loss by step, and memory over time. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def draw_traces(
    traces: Mapping[str, pd.DataFrame], path: Path, title: str = "", detail: str = ""
) -> None:
    """Draw the loss of each step and the memory over time, a line for each trace.

    `detail` is a smaller line below the title, for the machine and the number of runs.

    Memory of a CUDA device has a panel of its own, if a trace has any.
    """
    from matplotlib.figure import Figure  # pyplot would change a notebook's backend

    on_device = any(trace["device_bytes"].any() for trace in traces.values())
    panels = [
        ("step", "loss", "step", "loss of a step", 1.0),
        ("seconds", "rss", "seconds", "memory of the process (GiB)", 2.0**30),
    ]
    if on_device:
        panels.append(("seconds", "device_bytes", "seconds", "memory on the device (GiB)", 2.0**30))
    figure = Figure(figsize=(5.2 * len(panels), 4), dpi=120)
    places = figure.subplots(1, len(panels))
    for plot, (x, y, across, up, unit) in zip(places, panels, strict=True):
        for name, trace in traces.items():
            plot.plot(trace[x], trace[y] / unit, label=name, linewidth=0.8, alpha=0.85)
        plot.set(xlabel=across, ylabel=up)
        plot.set_xlim(left=0)
        if x == "step":
            plot.xaxis.get_major_locator().set_params(integer=True)
        for axis in (plot.xaxis, plot.yaxis):
            axis.set_major_formatter("{x:,.10g}")
        plot.grid(alpha=0.3)
        plot.spines[["top", "right"]].set_visible(False)
        if y != "loss":
            plot.set_ylim(0, 1.1 * max(1e-3, *(trace[y].max() / unit for trace in traces.values())))
    if len(traces) > 1:
        places[0].legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    if detail:
        figure.text(0.5, 0.9, detail, ha="center", va="center", fontsize=8, color="dimgrey")
    figure.tight_layout(rect=(0, 0, 1, 0.93 if detail else 1))
    figure.savefig(path)
