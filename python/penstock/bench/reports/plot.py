"""Speed against memory as an interactive page, an image and JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import MissingPackage, missing_text
from penstock.base.text import plural
from penstock.errors import InvalidArgument

from ..dataset_slice import DatasetSlice
from ..methods import name_among
from ..schema import COLUMNS
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

if TYPE_CHECKING:
    import pandas as pd

    from .plot_lines import Curves

SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon",
           "pentagon", "triangle-down", "bowtie", "hourglass", "star-diamond")  # fmt: skip
#: Columns too long to show.
_LONG = ("statistics", "error", "command", "batch_quantiles", "memory_over_time")
FORMATS = ("html", "json", "png", "svg")


def filtered(
    frame: pd.DataFrame,
    *,
    datasets: DatasetSlice | None = None,
    host: str | None = None,
    instance_type: str | None = None,
    max_batches: int | None = None,
    epoch: int | None = None,
    since: str | None = None,
    s3: bool | None = None,
    methods: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the measured rows that the filters keep.

    `epoch` counts the epochs of a process from 1. `host` is a regular expression for the host's
    name, `since` a date or time in UTC. `methods` are names or unique prefixes of methods that
    occur in the rows. `s3` keeps experiments that are read from S3, or those that are not.

    Raises
    ------
    InvalidArgument
        A filter is invalid, or keeps no row; the message says what there is.
    """
    import pandas as pd

    left = frame[(frame["status"] == "ok") & frame["cells_per_second"].notna()]
    left = left[left["max_mem"].notna()]
    if left.empty:
        raise InvalidArgument(f"none of {plural(len(frame), 'measurement')} can be drawn")
    if datasets is not None:
        slices = _slices(left)
        wanted = left["start_idx"].fillna(0) == datasets.start
        if datasets.end is not None:
            wanted &= left["end_idx"] == datasets.end
        wanted &= (
            left["sorted_datasets"].astype("boolean").fillna(False) == datasets.sorted_datasets
        )
        left = _kept(left, wanted, f"slice {datasets}", slices)
    if host is not None:
        try:
            pattern = re.compile(host)
        except re.error as error:
            raise InvalidArgument(
                f"--host must be a regular expression: {error}, got {host!r}"
            ) from None
        names = left[["host", "hostname"]].fillna("").astype(str)
        wanted = names.apply(lambda row: any(pattern.search(name) for name in row), axis=1)
        left = _kept(left, wanted.astype(bool), f"host {host!r}", left["hostname"])
    if instance_type is not None:
        types = left["instance_type"]
        left = _kept(left, types == instance_type, f"instance type {instance_type!r}", types)
    if max_batches is not None:
        limits = left["max_batches"]
        left = _kept(left, limits == max_batches, f"{max_batches} batches", limits.astype("Int64"))
    if epoch is not None:
        epochs = left["epoch"]
        left = _kept(left, epochs == epoch - 1, f"epoch {epoch}", (epochs + 1).astype("Int64"))
    if since is not None:
        try:
            moment = pd.to_datetime(since, utc=True)
        except ValueError:
            moment = pd.NaT
        if pd.isna(moment):
            raise InvalidArgument(f"--since must be a date or time, got {since!r}")
        starts = pd.to_datetime(left["start_dt"], utc=True)
        left = _kept(left, starts >= moment, f"the time since {since}", starts.dt.date)
    if s3 is not None:
        # As in alb, rows of a Census without a uri are neither.
        place = left["uri"].map(
            lambda uri: (
                "S3"
                if str(uri).startswith("s3://")
                else "a network"
                if "://" in str(uri)
                else "a local disk"
            ),
            na_action="ignore",
        )
        wanted = place == ("S3" if s3 else "a local disk")
        left = _kept(left, wanted, "S3" if s3 else "a local disk", place.fillna("a Census"))
    if methods and "all" not in methods:
        known = [str(name) for name in frame["method"].dropna().unique()]
        wanted = left["method"].isin([name_among(name, known) for name in methods])
        left = _kept(left, wanted, f"method {', '.join(methods)}", left["method"])
    return left.reset_index(drop=True)


def _kept(left: pd.DataFrame, wanted: pd.Series, what: str, there: pd.Series) -> pd.DataFrame:
    """Return the wanted rows; if there are none, raise an error that lists what there is."""
    kept = left[wanted.fillna(False)]
    if kept.empty:
        counts = there.dropna().astype(str).value_counts().head(10)
        found = ", ".join(f"{value} ({number})" for value, number in counts.items())
        raise InvalidArgument(
            f"none of {plural(len(left), 'measurement')} is of {what}; there are: {found or 'none'}"
        )
    return kept


def _slices(frame: pd.DataFrame) -> pd.Series:
    """Return the slice of datasets of each row, in alb's notation."""

    def of(row: pd.Series) -> str:
        end, start = row["end_idx"], row["start_idx"]
        if end != end or end is None:
            return "all cells"
        first = int(start) if start == start and start is not None else 0
        return str(DatasetSlice(first, int(end), bool(row["sorted_datasets"] == True)))  # noqa: E712

    return frame.apply(of, axis=1)


def figure(
    frame: pd.DataFrame, title: str = "Speed against memory", style: Style = DEFAULT_STYLE
) -> Any:
    """Return a plotly figure: a trace per method, colour by chunks and size by cells of a block.

    If no row has chunks, each contestant of a comparison (a method at one setting) has its own
    trace, symbol and colour. Hovering shows every column that has a value.
    """
    import numpy as np
    import plotly.graph_objects as go

    drawn = go.Figure()
    speed, words = speed_column(frame)
    chunks = frame["chunks_per_block"].astype(float)
    has_chunks = bool(chunks.notna().any())
    for number, (method, mine) in enumerate(frame.groupby(names_drawn(frame), sort=False)):
        marker: dict[str, Any] = {
            "symbol": SYMBOLS[number % len(SYMBOLS)],
            "size": style.marker_sizes(mine, frame),
            "line": {"width": 1, "color": "white"},
        }
        colours = mine["chunks_per_block"].astype(float)
        if colours.notna().any():
            marker |= {"color": np.log2(colours.fillna(1.0)).tolist(), "coloraxis": "coloraxis"}
        drawn.add_trace(
            go.Scatter(
                x=(mine["max_mem"].astype(float) / 2**30).tolist(),
                y=mine[speed].astype(float).tolist(),
                mode="markers",
                name=str(method),
                marker=marker,
                zorder=-number,  # as alb draws them: the first method on top
                text=[_hover(row) for _, row in mine.iterrows()],
                hovertemplate="%{y:,.0f} cells/s, %{x:.2f} GiB<br>%{text}<extra>%{fullData.name}</extra>",
            )
        )
    for text, size in style.blocks_shown(frame):
        drawn.add_trace(
            go.Scatter(
                x=[None], y=[None], mode="markers", name=text, legend="legend2",
                marker={"color": "grey", "size": size},
            )
        )  # fmt: skip
    kind = {"type": "linear", "rangemode": "tozero"} if style.linear else {"type": "log"}
    below = "".join(f"<br><sup>{line}</sup>" for line in subtitles(frame))
    layout: dict[str, Any] = {
        "title": title + below,
        "template": "plotly_white",
        "margin": {"t": 120},
        "xaxis": {"title": {"text": axis_title(MEMORY, style.linear)}, **kind},
        "yaxis": {"title": {"text": axis_title(words, style.linear)}, **kind},
        "legend": {"title": {"text": "method"}, "orientation": "h", "y": -0.12},
        "legend2": {"title": {"text": "cells a block"}, "orientation": "h", "y": -0.2},
    }
    if has_chunks:
        ticks = chunk_ticks(frame)
        layout["coloraxis"] = {
            "colorscale": "Viridis",
            "colorbar": {
                "title": {"text": "chunks a block"},
                "tickvals": [np.log2(each) for each in ticks],
                "ticktext": [f"{each:,}" for each in ticks],
            },
        }
    drawn.update_layout(**layout)
    _mark(drawn, style.default_rows(frame), speed, style)
    return drawn


def _mark(drawn: Any, rows: pd.DataFrame, speed: str, style: Style) -> None:
    """Add a note with an arrow to each of the rows."""
    import numpy as np

    if rows.empty:
        return
    points = np.stack([rows["max_mem"].astype(float) / 2**30, rows[speed].astype(float)], axis=1)
    points = points if style.linear else np.log10(points)
    for number, (x, y) in enumerate(points.tolist()):
        drawn.add_annotation(
            x=x, y=y, text="<br>".join(DEFAULT_TEXT) if number == 0 else "", ax=80, ay=-60,
            showarrow=True, arrowwidth=1,
        )  # fmt: skip


def _hover(row: pd.Series) -> str:
    parts = []
    for name in [*COLUMNS, *(c for c in row.index if c not in COLUMNS)]:
        value = row.get(name)
        if value is None or value != value or name in _LONG:
            continue
        parts.append(f"{name}: {_value(name, value)[:120]}")
    return "<br>".join(parts)


def _value(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    # A column of integers with missing values is read as floats.
    return f"{value:,.0f}" if COLUMNS.get(name) == "int64" else f"{value:,.4g}"


def write(
    drawn: Any,
    frame: pd.DataFrame,
    base: Path,
    formats: Sequence[str],
    curves: Curves | None = None,
    style: Style = DEFAULT_STYLE,
) -> list[Path]:
    """Write ``base.html``, ``.json``, ``.png``, ``.svg``; the page works offline.

    Images are made by kaleido if it works, else by matplotlib: of `curves` if they are drawn.

    Raises
    ------
    Unsupported
        Neither of them can make an image.
    """
    base.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for form in formats:
        path = base.with_name(f"{base.name}.{form}")
        if form == "html":
            drawn.write_html(path, include_plotlyjs=True)
        elif form == "json":
            path.write_text(drawn.to_json() + "\n")
        else:
            _write_picture(drawn, frame, path, curves, style)
        written.append(path)
    return written


def _write_picture(
    drawn: Any,
    frame: pd.DataFrame,
    path: Path,
    curves: Curves | None = None,
    style: Style = DEFAULT_STYLE,
) -> None:
    try:
        import kaleido  # noqa: F401

        drawn.write_image(path, width=1200, height=800)
    except Exception:
        # kaleido or its browser is not installed, which it reports in many ways.
        try:
            from .static_plot import write_curves, write_picture
        except ImportError:
            raise MissingPackage(
                missing_text("a picture", "matplotlib", "bench") + "; HTML and JSON do not need it"
            ) from None
        title = str(drawn.layout.title.text).partition("<br>")[0]
        if curves is None:
            write_picture(frame, path, title, style)
        else:
            write_curves(curves, frame, path, title)
