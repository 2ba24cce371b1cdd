"""Curves of measurements: seconds of batches, and memory over time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidArgument

from .plot_columns import axis_title, names_drawn, subtitles

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Curves:
    """A plot of curves: the column with JSON, and the axes."""

    column: str
    title: str
    x_title: str
    y_title: str
    log_x: bool = False

    def lines(self, frame: pd.DataFrame) -> Iterator[tuple[str, list[float], list[float]]]:
        """Yield the name, x and y of each measurement that has the column.

        Raises
        ------
        InvalidArgument
            No measurement has it, because another program or an older version measured.
        """
        there = frame[frame[self.column].notna()] if self.column in frame else frame[:0]
        if there.empty:
            raise InvalidArgument(
                f"no measurement has {self.column}, which this version of penstock bench writes"
            )
        for name, text in zip(names_drawn(there), there[self.column], strict=True):
            values = json.loads(text)
            if self.column == "batch_quantiles":
                yield str(name), [1e3 * value for value in values], list(map(float, range(101)))
            else:
                yield str(name), [point[0] for point in values], [p[1] / 2**20 for p in values]


CURVES = {
    "batches": Curves(
        "batch_quantiles", "Waits for batches", "wait for a batch (ms)",
        "share of the batches (%)", log_x=True,
    ),
    "memory": Curves(
        "memory_over_time", "Memory over time", "seconds from opening", "memory, USS (MiB)"
    ),
}  # fmt: skip


def figure(curves: Curves, frame: pd.DataFrame, title: str | None) -> Any:
    """Return a plotly figure with a line for each measurement, in a colour by method."""
    import plotly.graph_objects as go
    from plotly.colors import qualitative

    drawn = go.Figure()
    colours: dict[str, str] = {}
    for name, x, y in curves.lines(frame):
        is_new = name not in colours
        colour = colours.setdefault(name, qualitative.D3[len(colours) % len(qualitative.D3)])
        drawn.add_trace(
            go.Scatter(
                x=x, y=y, mode="lines", name=name, legendgroup=name, showlegend=is_new,
                line={"color": colour},
            )
        )  # fmt: skip
    below = "".join(f"<br><sup>{line}</sup>" for line in subtitles(frame))
    drawn.update_layout(
        title=(title or curves.title) + below,
        template="plotly_white",
        xaxis={
            "title": {"text": axis_title(curves.x_title, not curves.log_x)},
            "type": "log" if curves.log_x else "linear",
        },
        yaxis={"title": {"text": curves.y_title}, "rangemode": "tozero"},
    )
    return drawn
