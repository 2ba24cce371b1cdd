"""The demo's plots: loss by batch and accuracy by epoch, with and without shuffling."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.cpu import cpu_name
from penstock.base.text import plural

from .classifier import History
from .training import Result

SHUFFLED, IN_ORDER = "shuffled", "in stored order"
_COLORS = {SHUFFLED: "#1b7f8c", IN_ORDER: "#d1672e"}
_FADED = {SHUFFLED: "rgba(27,127,140,.25)", IN_ORDER: "rgba(209,103,46,.25)"}


def smoothed(losses: Sequence[float], most_points: int = 60) -> tuple[Any, Any]:
    """Return batch numbers and mean losses of windows, which show the trend without noise."""
    values = np.asarray(losses, dtype=float)
    window = max(1, len(values) // most_points)
    whole = len(values) // window * window
    means = values[:whole].reshape(-1, window).mean(axis=1)
    return np.arange(len(means)) * window + window / 2, means


def save_png(results: Sequence[Result], path: Path) -> None:
    """Write a PNG with a row for each result: loss on the left, accuracy on the right."""
    from matplotlib.figure import Figure  # pyplot would change a notebook's backend

    figure = Figure(figsize=(11, 3.9 * len(results)), layout="constrained")
    grid = figure.subplots(len(results), 2, squeeze=False, gridspec_kw={"width_ratios": [2, 1]})
    for (left, right), result in zip(grid, results, strict=True):
        epochs = 1
        for name, history in result.histories.items():
            color = _COLORS[name]
            left.plot(history.batch_losses, color=color, alpha=0.18, linewidth=0.7)
            left.plot(*smoothed(history.batch_losses), color=color, linewidth=1.8, label=name)
            epochs = len(history.epochs)
            # The markers of equal values are both seen, and one at 100 % is not cut.
            right.plot(
                range(1, epochs + 1), _accuracies(history), color=color, label=name,
                marker="o" if name == SHUFFLED else "s", markersize=6 if name == SHUFFLED else 9,
                fillstyle="full" if name == SHUFFLED else "none", clip_on=False,
            )  # fmt: skip
        note = f"\n{result.note}" if result.note else ""
        left.set_title(result.title + note, loc="left", fontsize=11)
        left.set(xlabel="batch", ylabel="training loss", ylim=(0, None))
        left.set_xlim(left=0)
        right.set(xlabel="epoch", ylabel="validation accuracy (%), axis cut")
        right.set(xticks=_epoch_ticks(epochs), xlim=(0.7, epochs + 0.3))
        right.yaxis.set_major_formatter("{x:.1f}")
        right.margins(y=0.15)
        right.set_ylim(top=min(right.get_ylim()[1], 100))
        left.legend(frameon=False)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.2)
    figure.supxlabel(_measured(), fontsize=8, color="dimgrey")
    with _replaced(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format="png")


def _accuracies(history: History) -> list[float]:
    """Return the validation accuracy of each epoch, in percent."""
    return [100 * epoch.validation_accuracy for epoch in history.epochs]


def _epoch_ticks(epochs: int) -> range:
    """Return about ten epochs to name at an axis, or all."""
    step = -(-epochs // 10)
    return range(step, epochs + 1, step)


def _measured() -> str:
    """Return the machine and the number of runs."""
    return (
        f"One run on {cpu_name()}, {plural(len(os.sched_getaffinity(0)), 'core')}; axes are linear"
    )


def save_html(results: Sequence[Result], path: Path) -> None:
    """Write the same as an interactive page that needs no network."""
    from plotly.subplots import make_subplots

    titles = []
    for result in results:
        note = f"<br><sup>{result.note}</sup>" if result.note else ""
        titles += [result.title + note, ""]
    figure = make_subplots(
        rows=len(results),
        cols=2,
        column_widths=[0.66, 0.34],
        subplot_titles=titles,
        vertical_spacing=0.2,
    )
    for row, result in enumerate(results, 1):
        epochs = 1
        for name, history in result.histories.items():
            style: dict[str, Any] = {"legendgroup": name, "name": name}
            epochs = len(history.epochs)
            batches = list(range(len(history.batch_losses)))
            figure.add_scatter(
                x=batches, y=history.batch_losses, mode="lines", row=row, col=1, **style,
                line={"color": _FADED[name], "width": 1}, showlegend=False, hoverinfo="skip",
            )  # fmt: skip
            x, y = smoothed(history.batch_losses)
            figure.add_scatter(
                x=x, y=y, mode="lines", row=row, col=1, showlegend=row == 1, **style,
                line={"color": _COLORS[name], "width": 2.5},
                hovertemplate="batch %{x:.0f}: loss %{y:.3f}",
            )  # fmt: skip
            figure.add_scatter(
                x=list(range(1, epochs + 1)), y=_accuracies(history),
                mode="lines+markers", row=row, col=2, showlegend=False, **style,
                line={"color": _COLORS[name]}, cliponaxis=False,
                marker={"symbol": "circle" if name == SHUFFLED else "square-open", "size": 8},
                hovertemplate="epoch %{x}: %{y:.1f} %",
            )  # fmt: skip
        figure.update_xaxes(title_text="batch", row=row, col=1)
        figure.update_yaxes(title_text="training loss", rangemode="tozero", row=row, col=1)
        figure.update_xaxes(
            title_text="epoch", tickvals=list(_epoch_ticks(epochs)), row=row, col=2,
            range=[0.7, epochs + 0.3],
        )  # fmt: skip
        figure.update_yaxes(title_text="validation accuracy (%), axis cut", row=row, col=2)
    figure.update_annotations(font_size=13)
    figure.update_layout(
        template="plotly_white",
        height=380 * len(results) + 60,
        title="Penstock: a cell-type classifier learns from streamed cells"
        f"<br><sup>{_measured()}</sup>",
        legend={"orientation": "h", "y": 1.04, "yanchor": "bottom", "x": 1, "xanchor": "right"},
        margin={"t": 130},
    )
    with _replaced(path) as unfinished:
        figure.write_html(unfinished, include_plotlyjs=True)


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` after the block; an error removes it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
    finally:
        unfinished.unlink(missing_ok=True)
