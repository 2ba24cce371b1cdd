"""Hints about filters of obs and var that do not parse, or that no row passes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock import _core
from penstock.base.suggestions import did_you_mean, nearest
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from .table_access import TableAccess

_IS_IN = re.compile(r"(\w+)\.isin\(\s*(\[[^\]]*\])\s*\)")
_OTHER_METHOD = re.compile(r"(\w+)\.(?:str|isna|notna|isnull|notnull|eq|ne)\b")
#: A column and texts that it is compared with: ``tissue == 'lung'``, ``tissue in ['lung', 'brain']``.
_COMPARED = re.compile(
    r"""(?:(\w+)|attr\(\s*['"]([^'"]+)['"]\s*\))\s*(?:==|in)\s*(\[[^\]]*\]|'[^']*'|"[^"]*")"""
)
_TEXT = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_MOST_ROWS = 1_000_000
_SHOWN = 5


def hint_of_error(table: TableAccess, value_filter: str) -> str:
    """Return the end of a message about a filter that does not parse, or nothing."""
    if found := _IS_IN.search(value_filter):
        return f"; pandas' isin is written {found[1]} in {found[2]}"
    if found := _OTHER_METHOD.search(value_filter):
        return (
            f"; methods of pandas are not for filters: obs_query takes a mask, too, such as "
            f"exp.obs[{found[1]!r}].{value_filter[found.end(1) + 1 :]}"
        )
    flags = [column.name for column in table.schema if column.type == "bool"]
    for name in flags:
        if re.search(rf"\b{re.escape(name)}\b(?!\s*(?:==|!=|in\b))", value_filter):
            value = (
                "False"
                if re.search(rf"(?:\bnot|~)\s*{re.escape(name)}\b", value_filter)
                else "True"
            )
            return f"; a bool is written {name} == {value}"
    return ""


def hint_of_columns(table: TableAccess, value_filter: str) -> str:
    """Return ``; did you mean …?`` for a column of a filter that does not exist, or nothing."""
    try:
        named = _core.filter_columns(value_filter)
    except PenstockError:
        return ""
    there = table.columns
    return next((did_you_mean(name, there) for name in named if name not in there), "")


def hint_of_values(table: TableAccess, value_filter: object) -> str:
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
        values = _values(table, column, there[column].enumerated)
        for text in (first or second for first, second in _TEXT.findall(compared[3])):
            if not values or text in values:
                continue
            meant = nearest(text, values)
            if meant is not None:
                return f"{column} has no {text!r}; did you mean {meant!r}?"
            more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
            return f"{column} has no {text!r}, but {', '.join(map(repr, values[:_SHOWN]))}{more}."
    return ""


def _values(table: TableAccess, column: str, enumerated: bool) -> list[str]:
    if enumerated:
        table = table.with_rows(_core.RowSelection())
        found = table.read([column])[column].values
    elif len(table) <= _MOST_ROWS:
        found = table.read([column])[column].distinct()
    else:
        return []
    return sorted(value for value in found.tolist() if isinstance(value, str))
