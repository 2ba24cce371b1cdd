"""Medians and their spread, as the scripts of this folder print them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.bench.reports.comparison import Spread


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return "median (least to most)", or the median alone if all are equal."""
    found = Spread.of(values)
    return "-" if found is None else found.text(digits)
