"""Hints about filters of obs and var that do not parse."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock import _core
from penstock.base.suggestions import did_you_mean
from penstock.errors import PenstockError

_IS_IN = re.compile(r"(\w+)\.isin\(\s*(\[[^\]]*\])\s*\)")
_METHOD = re.compile(r"(\w+)\.(\w+)")
_COMPARED = re.compile(r"(\w+)\s*([<>]=?|[=!]=)\s*(\w+)")


def hint_of_error(schema: Sequence[_core.ColumnInfo], value_filter: str) -> str:
    """Return the end of a message about a filter that does not parse, or nothing."""
    if found := _IS_IN.search(value_filter):
        return f"; pandas' isin is written {found[1]} in {found[2]}"
    names = [column.name for column in schema]
    for name in names:
        # Not a number or a part of a word, which a column may be called, too.
        is_odd = not name.isidentifier() and not name.isdecimal()
        if is_odd and re.search(rf"(?<![\w'\"]){re.escape(name)}(?![\w'\"])", value_filter):
            return f"; a name of other characters is written attr({name!r})"
    if "`" in value_filter:
        return "; backticks are not for filters: a name of any characters is written attr('…')"
    for found in _COMPARED.finditer(value_filter):
        if found[1] in names and found[3] in names:
            return (
                "; two columns are compared by a mask, which obs_query takes, too: "
                f"exp.obs[{found[1]!r}] {found[2]} exp.obs[{found[3]!r}]"
            )
    if (found := _METHOD.search(value_filter)) and found[1] in names:
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
