"""Counts of the values of obs columns, for ``penstock info --counts``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.base.text import aligned, count, plural
from penstock.experiment.columns import ColumnValues, is_missing
from penstock.experiment.experiment import Experiment
from penstock.experiment.factorize import factorize

_MISSING = "(missing)"


def lines(experiment: Experiment, columns: Sequence[str], top: int) -> Iterator[str]:
    """Yield the lines of the text: for each column its commonest values, `top` of them or all (0)."""
    obs = experiment.obs
    read = obs.read(list(dict.fromkeys(columns)))
    yield f"{experiment.uri}: {plural(len(obs), 'cell')}"
    for name, values in read.items():
        counted = value_counts(values)
        yield ""
        distinct = sum(value is not None for value, _ in counted)
        yield f"{name}: {plural(distinct, 'distinct value')}"
        shown = counted[:top] if top else counted
        rows = [
            (_MISSING if value is None else value, count(n), f"{100 * n / len(obs):.1f} %")
            for value, n in shown
        ]
        yield from (f"  {line}" for line in aligned(rows, right=[1, 2]))
        left = counted[len(shown) :]
        if left:
            cells = sum(n for _, n in left)
            yield f"  and {count(len(left))} more, {plural(cells, 'cell')}: --top 0 shows all"


def value_counts(column: ColumnValues) -> list[tuple[str | None, int]]:
    """Return the values that occur, as text, and their rows: the commonest first, then by value.

    Missing values are counted together, as None.
    """
    codes, counts = factorize({"": column})
    # Codes are numbers of the sorted values, and of missing values before them.
    first = np.full(len(counts), len(codes), np.int64)
    np.minimum.at(first, codes, np.arange(len(codes)))
    values = column.take(first)
    missing = is_missing(values)
    is_known = np.ones(len(values), bool) if missing is None else ~missing
    texts = [_text(value) for value in values]
    order = np.argsort(-counts, kind="stable")
    return [(texts[i] if is_known[i] else None, int(counts[i])) for i in order]


def _text(value: object) -> str:
    """Return a value as text; integers beside missing values are held as floats."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)
