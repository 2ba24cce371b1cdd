"""Combinations of values in the rows of several columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import Array, ColumnValues, is_missing

#: Rows in a block: bounds the memory besides the columns to about 50 MB.
BLOCK_ROWS = 2**20

_LARGEST_KEY = 2**62
_LARGEST_TABLE = 2**22


class _Vocabulary:
    """Sorted distinct values of a column, and the rank of each row's value; -1 if missing."""

    def __init__(self, column: ColumnValues) -> None:
        self._column = column
        missing = is_missing(column.values)
        known = column.values if missing is None else column.values[~missing]
        self.values: Array = np.unique(known)
        self._rank_of_code: npt.NDArray[np.int64] | None = None
        if column.codes is not None:
            self._rank_of_code = np.full(len(column.values), -1, np.int64)
            rows = slice(None) if missing is None else ~missing
            self._rank_of_code[rows] = np.searchsorted(self.values, known)

    def ranks(self, rows: slice) -> npt.NDArray[np.int64]:
        column = self._column
        if self._rank_of_code is not None and column.codes is not None:
            return self._rank_of_code.take(column.codes[rows])
        values = column.values[rows]
        missing = is_missing(values)
        if missing is None:
            return np.searchsorted(self.values, values).astype(np.int64)
        ranks = np.full(len(values), -1, np.int64)
        ranks[~missing] = np.searchsorted(self.values, values[~missing])
        return ranks


def unique_rows(columns: Mapping[str, ColumnValues]) -> dict[str, Array]:
    """Return the combinations of values that occur, sorted, without those that miss a value.

    Rows are processed in blocks. A column that is not coded is sorted, which takes 8 bytes a row.
    """
    if not columns:
        return {}
    vocabularies = [_Vocabulary(column) for column in columns.values()]
    count = len(next(iter(columns.values())))
    found = np.empty((0, len(vocabularies)), np.int64)
    for begin in range(0, count, BLOCK_ROWS):
        rows = slice(begin, begin + BLOCK_ROWS)
        ranks = np.stack([each.ranks(rows) for each in vocabularies], axis=1)
        ranks = ranks[(ranks >= 0).all(axis=1)]
        ranks = np.concatenate([found, ranks[unique_inverse(ranks)[0]]])
        found = ranks[unique_inverse(ranks)[0]]
    return {
        name: each.values.take(found[:, i])
        for i, (name, each) in enumerate(zip(columns, vocabularies, strict=True))
    }


def factorize(columns: Mapping[str, ColumnValues]) -> tuple[Array, npt.NDArray[np.int64]]:
    """Number the combinations of values that occur, in sorted order, missing values first.

    Returns
    -------
    codes : ndarray of uint8, uint16 or uint32
        Number of the combination of each row, shape (rows,).
    counts : ndarray of int64
        Rows of each combination, shape (combinations,).
    """
    vocabularies = [_Vocabulary(column) for column in columns.values()]
    count = len(next(iter(columns.values())))
    blocks = [slice(begin, begin + BLOCK_ROWS) for begin in range(0, count, BLOCK_ROWS)]
    widths = [len(each.values) + 1 for each in vocabularies]
    if math.prod(widths) > _LARGEST_TABLE:
        return _sorted_codes(vocabularies, blocks, count)
    rows_of_key = np.zeros(math.prod(widths), np.int64)
    for rows in blocks:
        rows_of_key += np.bincount(_keys(vocabularies, rows), minlength=len(rows_of_key))
    used = np.flatnonzero(rows_of_key)
    code_of_key = np.zeros(len(rows_of_key), _code_type(len(used)))
    code_of_key[used] = np.arange(len(used))
    codes = np.empty(count, code_of_key.dtype)
    for rows in blocks:
        codes[rows] = code_of_key.take(_keys(vocabularies, rows))
    return codes, rows_of_key[used]


def _keys(vocabularies: Sequence[_Vocabulary], rows: slice) -> npt.NDArray[np.int64]:
    """Return one number from 0 for the combination of each row, in sorted order."""
    (first, *others) = vocabularies
    keys = first.ranks(rows) + 1
    for each in others:
        keys *= len(each.values) + 1
        keys += each.ranks(rows) + 1
    return keys


def _sorted_codes(
    vocabularies: Sequence[_Vocabulary], blocks: Sequence[slice], count: int
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return what `factorize` does, without a table of all possible combinations."""
    found = np.empty((0, len(vocabularies)), np.int64)
    parts: list[tuple[Array, npt.NDArray[np.int64]]] = []  # codes in a block, their keys
    for rows in blocks:
        ranks = np.stack([each.ranks(rows) + 1 for each in vocabularies], axis=1)
        first, group = unique_inverse(ranks)
        parts.append((group.astype(_code_type(len(first))), ranks[first]))
        both = np.concatenate([found, ranks[first]])
        found = both[unique_inverse(both)[0]]
    codes = np.empty(count, _code_type(len(found)))
    counts = np.zeros(len(found), np.int64)
    for rows, (group, own) in zip(blocks, parts, strict=True):
        # `found` has all keys, so groups have the numbers of `found`.
        place = unique_inverse(np.concatenate([found, own]))[1][len(found) :]
        codes[rows] = place.take(group)
        counts[place] += np.bincount(group, minlength=len(own))
    return codes, counts


def _code_type(count: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32


def unique_inverse(
    ranks: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Group the equal rows of a table of non-negative integers.

    Returns
    -------
    first, group : ndarray
        One row of each group, in sorted order, and the group of each row.
    """
    widths = ranks.max(axis=0, initial=0) + 1
    if float(np.prod(widths.astype(np.float64))) >= _LARGEST_KEY:
        _, first, group = np.unique(ranks, axis=0, return_index=True, return_inverse=True)
        return first, group.reshape(-1)
    keys = np.zeros(len(ranks), np.int64)
    for i, width in enumerate(widths):
        keys = keys * width + ranks[:, i]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group.reshape(-1)
