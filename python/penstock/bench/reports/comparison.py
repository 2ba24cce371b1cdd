"""Results of a comparison: medians, spreads, and ratios within each round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from penstock.base.text import markdown_table

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of some figures."""

    middle: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """Return the spread of the figures, or None without figures."""
        return Spread(median(values), min(values), max(values)) if values else None

    def text(self, digits: int = 0) -> str:
        """Return ``12 (11 to 14)``, or only the median if all figures are equal."""
        form = f",.{digits}f"
        middle = format(self.middle, form)
        least, most = format(self.least, form), format(self.most, form)
        return middle if least == most else f"{middle} ({least} to {most})"


def contestants(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by contestant, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["contestant"]), []).append(row)
    return found


def good(rows: Iterable[Row]) -> list[Row]:
    """Return rows of epochs that were measured and correct."""
    return [row for row in rows if row["status"] == "ok" and row["cells_per_second"]]


def ratios(rows: Sequence[Row], first: str, other: str, column: str) -> Spread | None:
    """Return ratios of `first` to `other`, paired within a round and an epoch."""
    by = contestants(rows)
    pairs: dict[tuple[Any, Any], dict[str, float]] = {}
    for name in (first, other):
        for row in good(by.get(name, ())):
            if row[column]:
                pairs.setdefault((row["round"], row["epoch"]), {})[name] = float(row[column])
    return Spread.of([p[first] / p[other] for p in pairs.values() if len(p) == 2 and p[other]])


def best_of(rows: Sequence[Row], method: str) -> str | None:
    """Return the method's fastest contestant by median, of whole epochs if all are whole."""
    mine = [row for row in good(rows) if row["method"] == method]
    whole = all(row["whole_epoch"] for row in mine)
    column = "epoch_cells_per_second" if whole else "cells_per_second"
    speeds = {
        name: median(float(row[column]) for row in of_name)
        for name, of_name in contestants(mine).items()
    }
    return max(speeds, key=lambda name: speeds[name]) if speeds else None


_HEADER = (
    "method", "whole epoch, cells/s", "after the first batch, cells/s", "first batch s", "peak USS MiB", "peak RSS MiB", "CPU s", "read MB", "",
)  # fmt: skip


_AT_ONCE = (
    "\\* The first batch came after more than half of the time, when most cells were in memory: no ratio "
    "uses the speed after it."
)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table, one line per contestant, and a note on the star if one occurs."""
    made = markdown_table(_HEADER, (_cells(*each) for each in contestants(rows).items()))
    if any(came_at_once(row) for row in good(rows)):
        made += f"\n{_AT_ONCE}\n"
    return made


def markdown(rows: Sequence[Row], reference: str) -> str:
    """Return a table of the contestants, and ratios of the reference to each of the others.

    If processes have several epochs, each epoch has its own.
    """
    epochs = sorted({row["epoch"] for row in rows})
    if len(epochs) < 2:
        return _of_epoch(rows, reference)
    return "\n".join(
        f"### Epoch {number + 1}\n\n{_of_epoch([r for r in rows if r['epoch'] == number], reference)}"
        for number in epochs
    )


def _of_epoch(rows: Sequence[Row], reference: str) -> str:
    compared = []
    for name in contestants(rows):
        if name != reference and (line := ratio_line(rows, reference, name)):
            compared.append(f"- {line}")
    best = _best_against_best(rows, reference)
    return "\n".join([table(rows), *compared, *best]).rstrip() + "\n"


def _best_against_best(rows: Sequence[Row], reference: str) -> list[str]:
    """Compare methods at their best settings; empty if each method has one setting."""
    by_method: dict[str, set[str]] = {}
    if reference not in contestants(rows):  # it failed before this epoch
        return []
    for name, mine in contestants(rows).items():
        by_method.setdefault(str(mine[0]["method"]), set()).add(name)
    own = str(contestants(rows)[reference][0]["method"])
    if len(by_method) < 2 or all(len(names) == 1 for names in by_method.values()):
        return []
    best = best_of(rows, own)
    lines = []
    for method in by_method:
        other = best_of(rows, method)
        if method != own and best and other and (line := ratio_line(rows, best, other)):
            lines.append(f"- {line}")
    alone = [method for method, names in by_method.items() if len(names) == 1]
    only = f" ({', '.join(alone)}: the one that ran)" if alone else ""
    return (
        ["", f"Each method at its fastest setting of this run{only}:", "", *lines] if lines else []
    )


def came_at_once(row: Row) -> bool:
    """Return whether more than half of the time passed before the first batch.

    Most of the yielded cells were then in memory, so the speed after the first batch only measures
    how fast they were yielded.
    """
    first, whole = row["first_batch_seconds"], row["epoch_seconds"]
    return bool(first and whole and first > whole / 2)


def ratio_line(rows: Sequence[Row], first: str, other: str) -> str | None:
    """Return ratios of speed and memory in words; None if no round is good for both."""
    speed = ratios(rows, first, other, "epoch_cells_per_second")
    after = ratios(rows, first, other, "cells_per_second")
    memory = ratios(rows, first, other, "peak_rss")
    if after is None or memory is None:
        return None
    # Opening and the first batch weigh more in a cut epoch, so no ratio uses it.
    mine = [row for row in rows if row["contestant"] in (first, other)]
    whole = speed is not None and all(row["whole_epoch"] for row in good(mine))
    parts = []
    if speed and whole:
        parts.append(f"{speed.text(2)} times the cells/s of a whole epoch")
    if not any(came_at_once(row) for row in good(mine)):
        parts.append(f"{after.text(2)} times the cells/s after the first batch")
    parts.append(f"{memory.text(2)} of the peak memory")
    return f"{first} against {other}: {', '.join(parts)}"


def _cells(name: str, rows: Sequence[Row]) -> list[str]:
    measured = good(rows)
    failed = [row for row in rows if row["status"] != "ok"]
    note = f"{len(measured)} run{'' if len(measured) == 1 else 's'}" if measured else ""
    if short := [row for row in rows if row["status"] == "ok" and not row["cells_per_second"]]:
        cells = max(int(row["total_n_rows"]) for row in short)
        note += f"{'; ' if note else ''}{len(short)} ended with the first batch, {cells:,} cells: no speed"
    if measured and not all(row["whole_epoch"] for row in measured):
        most = max(int(row["total_n_rows"]) for row in measured)
        note += f", cut after {most:,} cells"
    if failed:
        note = f"{note}; {failed[-1]['status']}: {failed[-1]['error']}".lstrip("; ")

    whole = all(row["whole_epoch"] for row in measured)

    def figures(column: str, scale: float, digits: int) -> str:
        values = [float(row[column]) / scale for row in measured if row[column] is not None]
        spread = Spread.of(values)
        return "-" if spread is None else spread.text(digits)

    return [
        name,
        figures("epoch_cells_per_second", 1, 0) if whole else "-",
        figures("cells_per_second", 1, 0) + (" *" if any(map(came_at_once, measured)) else ""),
        figures("first_batch_seconds", 1, 2),
        figures("max_mem", 2**20, 0),
        figures("peak_rss", 2**20, 0),
        figures("cpu_seconds", 1, 1),
        figures("bytes_read", 1e6, 0),
        note,
    ]
