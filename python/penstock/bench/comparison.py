"""What comes out of a comparison: medians, spreads, and ratios taken within each round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """Median, least and most of some figures."""

    middle: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """None of no figures."""
        return Spread(median(values), min(values), max(values)) if values else None

    def text(self, digits: int = 0) -> str:
        """``12 (11 to 14)``; the middle alone where there is no spread."""
        form = f",.{digits}f"
        middle = format(self.middle, form)
        least, most = format(self.least, form), format(self.most, form)
        return middle if least == most else f"{middle} ({least} to {most})"


def contestants(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by contestant, in the order in which they come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["contestant"]), []).append(row)
    return found


def good(rows: Iterable[Row]) -> list[Row]:
    """Rows of epochs that were measured and right."""
    return [row for row in rows if row["status"] == "ok" and row["cells_per_second"]]


def ratios(rows: Sequence[Row], first: str, other: str, column: str) -> Spread | None:
    """Of `first` over `other`, pair by pair within a round and an epoch."""
    by = contestants(rows)
    pairs: dict[tuple[Any, Any], dict[str, float]] = {}
    for name in (first, other):
        for row in good(by.get(name, ())):
            if row[column]:
                pairs.setdefault((row["round"], row["epoch"]), {})[name] = float(row[column])
    return Spread.of([p[first] / p[other] for p in pairs.values() if len(p) == 2 and p[other]])


def best_of(rows: Sequence[Row], method: str) -> str | None:
    """The contestant of this method with the highest median speed, of whole epochs where all are."""
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
    "is taken of the rest."
)


def table(rows: Sequence[Row]) -> str:
    """In Markdown, one line a contestant, and below it what a star means where there is one."""
    lines = [f"| {' | '.join(_HEADER)} |", f"| {' | '.join('---' for _ in _HEADER)} |"]
    for name, mine in contestants(rows).items():
        lines.append(f"| {' | '.join(_cells(name, mine))} |")
    if any(came_at_once(row) for row in good(rows)):
        lines += ["", _AT_ONCE]
    return "\n".join(lines) + "\n"


def markdown(rows: Sequence[Row], reference: str) -> str:
    """A table of the contestants, and below it the ratios of the reference to each other one."""
    compared = []
    for name in contestants(rows):
        if name != reference and (line := ratio_line(rows, reference, name)):
            compared.append(f"- {line}")
    best = _best_against_best(rows, reference)
    return "\n".join([table(rows), *compared, *best]).rstrip() + "\n"


def _best_against_best(rows: Sequence[Row], reference: str) -> list[str]:
    """The reference's method at its best setting against every other at its; none where each has one."""
    by_method: dict[str, set[str]] = {}
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
    """More than half of the time passed before the first batch.

    Of a whole epoch most cells were in memory by then, of a cut one most that came: the speed after it
    says how fast they were handed out.
    """
    first, whole = row["first_batch_seconds"], row["epoch_seconds"]
    return bool(first and whole and first > whole / 2)


def ratio_line(rows: Sequence[Row], first: str, other: str) -> str | None:
    """How often the speed, how much of the memory; None where they share no good round."""
    speed = ratios(rows, first, other, "epoch_cells_per_second")
    after = ratios(rows, first, other, "cells_per_second")
    memory = ratios(rows, first, other, "peak_rss")
    if after is None or memory is None:
        return None
    # Opening and the first batch weigh more in an epoch that was cut: no ratio is taken of it.
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
        note.replace("|", "/").replace("\n", " "),
    ]
