"""Speed against memory as an interactive page, an image and JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import MissingPackage, missing_text
from penstock.base.text import plural
from penstock.errors import InvalidArgument

from .dataset_slice import DatasetSlice
from .methods import name_among
from .plot_columns import marker_sizes, names_drawn, speed_column
from .schema import COLUMNS

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
    methods: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the measured rows that the filters keep.

    `epoch` counts the epochs of a process from 1. `host` is a regular expression for the host's name, `since` a date or time in UTC. `methods` are
    names or unique prefixes of methods that occur in the rows.

    Raises
    ------
    InvalidArgument
        A filter is invalid, or no row is left.
    """
    import pandas as pd

    left = frame[(frame["status"] == "ok") & frame["cells_per_second"].notna()]
    left = left[left["max_mem"].notna()]
    if datasets is not None:
        left = left[left["start_idx"].fillna(0) == datasets.start]
        if datasets.end is not None:
            left = left[left["end_idx"] == datasets.end]
        left = left[
            left["sorted_datasets"].astype("boolean").fillna(False) == datasets.sorted_datasets
        ]
    if host is not None:
        try:
            pattern = re.compile(host)
        except re.error as error:
            raise InvalidArgument(
                f"--host must be a regular expression: {error}, got {host!r}"
            ) from None
        names = left[["host", "hostname"]].fillna("").astype(str)
        matches = names.apply(lambda row: any(pattern.search(name) for name in row), axis=1)
        left = left[matches.astype(bool)] if len(left) else left
    if instance_type is not None:
        left = left[left["instance_type"] == instance_type]
    if max_batches is not None:
        left = left[left["max_batches"] == max_batches]
    if epoch is not None:
        left = left[left["epoch"] == epoch - 1]
    if since is not None:
        try:
            moment = pd.to_datetime(since, utc=True)
        except ValueError:
            moment = pd.NaT
        if pd.isna(moment):
            raise InvalidArgument(f"--since must be a date or time, got {since!r}")
        left = left[pd.to_datetime(left["start_dt"], utc=True) >= moment]
    if methods and "all" not in methods:
        known = [str(name) for name in frame["method"].dropna().unique()]
        left = left[left["method"].isin([name_among(name, known) for name in methods])]
    if left.empty:
        raise InvalidArgument(f"none of {plural(len(frame), 'measurement')} is left to draw")
    return left.reset_index(drop=True)


def figure(frame: pd.DataFrame, title: str = "Speed against memory") -> Any:
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
            "size": marker_sizes(mine),
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
                text=[_hover(row) for _, row in mine.iterrows()],
                hovertemplate="%{y:,.0f} cells/s, %{x:.2f} GiB<br>%{text}<extra>%{fullData.name}</extra>",
            )
        )
    layout: dict[str, Any] = {
        "title": title,
        "template": "plotly_white",
        "xaxis": {"title": {"text": "peak memory, USS (GiB)"}, "type": "log"},
        "yaxis": {"title": {"text": words}, "type": "log"},
        "legend": {"title": {"text": "method"}, "orientation": "h", "y": -0.15},
    }
    if has_chunks:
        powers = sorted({int(c).bit_length() - 1 for c in chunks.dropna()})
        layout["coloraxis"] = {
            "colorscale": "Viridis",
            "colorbar": {
                "title": {"text": "chunks a block"},
                "tickvals": powers,
                "ticktext": [f"{2**power:,}" for power in powers],
            },
        }
    drawn.update_layout(**layout)
    return drawn


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
            _write_picture(drawn, frame, path, curves)
        written.append(path)
    return written


def _write_picture(
    drawn: Any, frame: pd.DataFrame, path: Path, curves: Curves | None = None
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
        title = str(drawn.layout.title.text)
        if curves is None:
            write_picture(frame, path, title)
        else:
            write_curves(curves, frame, path, title)
