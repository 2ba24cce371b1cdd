"""Concatenate columns of several tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.errors import InvalidArgument
from penstock.experiment.columns import Array, ColumnValues, objects, with_missing

_KINDS = {
    "b": "booleans",
    "i": "numbers", "u": "numbers", "f": "numbers",
    "M": "dates", "m": "times",
}  # fmt: skip


def concatenate(
    name: str, parts: Mapping[str, ColumnValues | None], lengths: Mapping[str, int]
) -> ColumnValues:
    """Concatenate a column of all tables.

    Categories are merged, in the order of first appearance. They stay ordered if all tables have
    the same categories. Numbers get a type that holds all of them. Rows of a table without the
    column get a missing value.

    Parameters
    ----------
    name : str
        Name of the column.
    parts : dict of str to ColumnValues or None
        Column of each source; None if the source does not have it.
    lengths : dict of str to int
        Rows of each source.

    Returns
    -------
    ColumnValues
        The rows of all sources, in their order.

    Raises
    ------
    InvalidArgument
        The tables hold different kinds of values in the column.
    """
    _check_kinds(name, parts)
    there = [part for part in parts.values() if part is not None]
    if all(part.codes is not None for part in there):
        return _coded(name, parts, lengths)
    arrays, missing = [], []
    kinds = {part.to_numpy().dtype for part in there}
    common = np.dtype(object) if np.dtype(object) in kinds else np.result_type(*kinds)
    for source, part in parts.items():
        missing.append(np.full(lengths[source], part is None))
        if part is None:
            arrays.append(np.zeros(lengths[source], common))
        else:
            arrays.append(part.to_numpy().astype(common))
    values = np.concatenate(arrays)
    absent = np.concatenate(missing)
    if common.kind == "O":
        values[absent] = None
    elif absent.any():
        values = with_missing(values, absent)
    has_missing = bool(absent.any()) or any(part.has_missing for part in there)
    return ColumnValues(name, values, has_missing=has_missing)


def _coded(
    name: str, parts: Mapping[str, ColumnValues | None], lengths: Mapping[str, int]
) -> ColumnValues:
    there = [part for part in parts.values() if part is not None]
    known = [_categories(part) for part in there]
    merged: dict[object, int] = {}
    firsts = []  # position of each category's first appearance
    for i, value in enumerate(value for values in known for value in values.tolist()):
        if value not in merged:
            merged[value] = len(merged)
            firsts.append(i)
    count = len(merged)
    has_missing = any(part is None or part.has_missing for part in parts.values())
    width = count + has_missing
    dtype = np.uint8 if width <= 2**8 else np.uint16 if width <= 2**16 else np.int32
    codes = []
    for source, part in parts.items():
        if part is None or part.codes is None:
            codes.append(np.full(lengths[source], count, dtype))
            continue
        own = [merged[value] for value in _categories(part).tolist()] + [count] * part.has_missing
        codes.append(np.array(own, dtype).take(part.codes) if own else part.codes.astype(dtype))
    values = np.concatenate(known).take(firsts)
    if has_missing:
        missing = np.zeros(count + 1, bool)
        missing[-1] = True
        values = with_missing(np.append(values, np.zeros(1, values.dtype)), missing)
    same = all(len(k) == count and k.tolist() == list(merged) for k in known)
    return ColumnValues(
        name,
        values,
        np.concatenate(codes),
        is_enumerated=all(part.is_enumerated for part in there),
        is_ordered=same and all(part.is_ordered for part in there),
        has_missing=has_missing,
    )


def _categories(part: ColumnValues) -> Array:
    return part.values[:-1] if part.has_missing else part.values


def _check_kinds(name: str, parts: Mapping[str, ColumnValues | None]) -> None:
    kinds: dict[str, str] = {}
    for source, part in parts.items():
        kind = None if part is None else _kind(part.values)
        if kind is not None:
            kinds.setdefault(kind, source)
    if len(kinds) > 1:
        (first, here), (second, there), *_ = kinds.items()
        raise InvalidArgument(
            f"column {name!r} holds {first} in {here!r} and {second} in {there!r}, which make no "
            "column together; leave it out"
        )


def _kind(values: Array) -> str | None:
    """Return the kind of the values in words; None without a value."""
    if values.dtype.kind != "O":
        return _KINDS.get(values.dtype.kind, "other values") if len(values) else None
    value = next((value for value in values if value is not None), None)
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return "booleans"
    if isinstance(value, (int, float, np.number)):
        return "numbers"
    return "texts" if isinstance(value, str) else "other values"


def source_column(name: str, lengths: Mapping[str, int]) -> ColumnValues:
    """Return the column with the source of each row, as a category."""
    sources = list(lengths)
    dtype = np.uint8 if len(sources) <= 2**8 else np.uint16
    codes = np.repeat(np.arange(len(sources), dtype=dtype), list(lengths.values()))
    return ColumnValues(name, objects(sources), codes, is_enumerated=True)
