"""Hints about filters of obs and var that do not parse."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock import _core
from penstock.base.suggestions import did_you_mean
from penstock.errors import PenstockError

_IS_IN = re.compile(r"(\w+)\.isin\(\s*(\[[^\]]*\])\s*\)")
_OTHER_METHOD = re.compile(r"(\w+)\.(?:str|isna|notna|isnull|notnull|eq|ne)\b")


def hint_of_error(schema: Sequence[_core.ColumnInfo], value_filter: str) -> str:
    """Return the end of a message about a filter that does not parse, or nothing."""
    if found := _IS_IN.search(value_filter):
        return f"; pandas' isin is written {found[1]} in {found[2]}"
    if found := _OTHER_METHOD.search(value_filter):
        return (
            f"; methods of pandas are not for filters: obs_query takes a mask, too, such as "
            f"exp.obs[{found[1]!r}].{value_filter[found.end(1) + 1 :]}"
        )
    flags = [column.name for column in schema if column.type == "bool"]
    for name in flags:
        if re.search(rf"\b{re.escape(name)}\b(?!\s*(?:==|!=|in\b))", value_filter):
            value = (
                "False"
                if re.search(rf"(?:\bnot|~)\s*{re.escape(name)}\b", value_filter)
                else "True"
            )
            return f"; a bool is written {name} == {value}"
    return ""


def hint_of_columns(columns: Sequence[str], value_filter: str) -> str:
    """Return ``; did you mean …?`` for a column of a filter that does not exist, or nothing."""
    try:
        named = _core.filter_columns(value_filter)
    except PenstockError:
        return ""
    return next((did_you_mean(name, columns) for name in named if name not in columns), "")
