"""Markdown tables that the scripts of this folder print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.bench.comparison import Spread


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that has one line for each row."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return "median (least to most)", or the median alone if all are equal."""
    found = Spread.of(values)
    return "-" if found is None else found.text(digits)
