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
        if self.least == self.most:
            return middle
        return f"{middle} ({format(self.least, form)} to {format(self.most, form)})"


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


def best_peer(rows: Sequence[Row], peer: str) -> str | None:
    """The contestant of this method with the highest median speed."""
    speeds: dict[str, float] = {}
    for name, mine in contestants(rows).items():
        measured = good(mine)
        if measured and measured[0]["method"] == peer:
            speeds[name] = median(float(row["cells_per_second"]) for row in measured)
    return max(speeds, key=lambda name: speeds[name]) if speeds else None


_HEADER = (
    "method", "cells/s", "whole epoch, cells/s", "first batch s", "peak USS MiB", "peak RSS MiB", "CPU s", "read MB", "",
)  # fmt: skip


def markdown(rows: Sequence[Row], reference: str) -> str:
    """A table of the contestants, and below it the ratios of the reference to each other one."""
    lines = [f"| {' | '.join(_HEADER)} |", f"| {' | '.join('---' for _ in _HEADER)} |"]
    for name, mine in contestants(rows).items():
        lines.append(f"| {' | '.join(_cells(name, mine))} |")
    compared = []
    for name in contestants(rows):
        if name != reference and (line := ratio_line(rows, reference, name)):
            compared.append(f"- {line}")
    return "\n".join([*lines, "", *compared]).rstrip() + "\n"


def ratio_line(rows: Sequence[Row], first: str, other: str) -> str | None:
    """How often the speed, how much of the memory; None where they share no good round."""
    speed = ratios(rows, first, other, "epoch_cells_per_second")
    after = ratios(rows, first, other, "cells_per_second")
    memory = ratios(rows, first, other, "peak_rss")
    if speed is None or after is None or memory is None:
        return None
    return (
        f"{first} against {other}: {speed.text(2)} times the cells/s of a whole epoch, {after.text(2)} "
        f"times after the first batch, {memory.text(2)} of the peak memory"
    )


def _cells(name: str, rows: Sequence[Row]) -> list[str]:
    measured = good(rows)
    failed = [row for row in rows if row["status"] != "ok"]
    note = f"{len(measured)} runs" if measured else ""
    if measured and not all(row["whole_epoch"] for row in measured):
        most = max(int(row["total_n_rows"]) for row in measured)
        note += f", cut after {most:,} cells"
    if failed:
        note = f"{note}; {failed[-1]['status']}: {failed[-1]['error']}".lstrip("; ")

    def figures(column: str, scale: float, digits: int) -> str:
        values = [float(row[column]) / scale for row in measured if row[column] is not None]
        spread = Spread.of(values)
        return "-" if spread is None else spread.text(digits)

    return [
        name,
        figures("cells_per_second", 1, 0),
        figures("epoch_cells_per_second", 1, 0),
        figures("first_batch_seconds", 1, 2),
        figures("max_mem", 2**20, 0),
        figures("peak_rss", 2**20, 0),
        figures("cpu_seconds", 1, 1),
        figures("bytes_read", 1e6, 0),
        note.replace("|", "/").replace("\n", " "),
    ]
