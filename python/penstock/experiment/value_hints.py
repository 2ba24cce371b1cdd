"""Hints about filters of obs and var that no row passes."""

from __future__ import annotations

import re

from penstock import _core
from penstock.base.suggestions import nearest
from penstock.errors import PenstockError

from .data_frame import DataFrame

#: A column and texts that it is compared with: ``tissue == 'lung'``, ``tissue in ['lung', 'brain']``.
_COMPARED = re.compile(
    r"""(?:(\w+)|attr\(\s*['"]([^'"]+)['"]\s*\))\s*(?:==|in)\s*(\[[^\]]*\]|'[^']*'|"[^"]*")"""
)
_TEXT = re.compile(r"""'([^']*)'|"([^"]*)\"""")
#: Two texts with no comma between them.
_JOINED = re.compile(r"""['"]\s+('[^']*'|"[^"]*")""")
_MOST_ROWS = 1_000_000
_SHOWN = 5


def hint_of_values(table: DataFrame, value_filter: object) -> str:
    """Return what a filter that no row passes may have meant: ``tissue has no 'Lung', but 'lung'``.

    Of an enumeration only the categories are read. Other columns are read if the table is small.
    """
    if not isinstance(value_filter, str):
        return ""
    there = {column.name: column for column in table.schema}
    for compared in _COMPARED.finditer(value_filter):
        column = compared[1] or compared[2]
        if column not in there or not there[column].is_string:
            continue
        values = _values_of(table, column, there[column].enumerated)
        texts = [first or second for first, second in _TEXT.findall(compared[3])]
        for text in texts:
            if not values or text in values:
                continue
            meant = nearest(text, values)
            if meant is not None:
                return f"{column} has no {text!r}; did you mean {meant!r}?"
            return f"{column} has no {text!r}, but {_some(values)}."
        if "," not in compared[3] and (joined := _JOINED.search(compared[3])):
            return f"a comma is missing in {compared[3]}, before {joined[1]}"
        if there[column].enumerated and values:
            used = _values_of(table, column, enumerated=False)
            if used and not set(texts) & set(used):
                return f"{column} of these rows has only {_some(used)}."
    return ""


def column_that_has(table: DataFrame, text: str) -> str | None:
    """Return the first column of texts that has the text, or None. For small tables."""
    for column in table.schema:
        if column.is_string and text in _values_of(table, column.name, enumerated=False):
            return column.name
    return None


def _some(values: list[str]) -> str:
    more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    return ", ".join(map(repr, values[:_SHOWN])) + more


def _values_of(table: DataFrame, column: str, enumerated: bool) -> list[str]:
    if not enumerated and len(table) > _MOST_ROWS:
        return []
    rows = table.with_rows(_core.RowSelection()) if enumerated else table
    try:
        read = rows.read([column])[column]
    except PenstockError:  # whoever reads the column gets the error
        return []
    found = read.values if enumerated else read.distinct()
    return sorted(value for value in found.tolist() if isinstance(value, str))
