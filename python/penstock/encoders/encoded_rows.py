"""Encoded values of all selected cells, computed once before the first batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.errors import InvalidArgument
from penstock.experiment.columns import Array, ColumnValues
from penstock.experiment.factorize import BLOCK_ROWS, unique_inverse

from . import Encoder

_INTEGERS = tuple(
    np.dtype(name) for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")
)


class EncodedRows:
    """Output of one encoder for every selected cell.

    Integers are stored in the least bytes that hold them. An elementwise encoder of a coded column
    shares the column's codes, and the output of each value is looked up. Other encoders get blocks
    of rows, with equal rows encoded once if they repeat often.

    Parameters
    ----------
    encoder : Encoder
        A fitted encoder.
    columns : dict of str to ColumnValues
        Columns that the encoder reads, for the same rows.

    Raises
    ------
    InvalidArgument
        The encoder does not return one entry for each row, or returns rows of different shapes.
    """

    def __init__(self, encoder: Encoder, columns: Mapping[str, ColumnValues]) -> None:
        self._encoder = encoder
        self._lookup: Array | None = None
        (first, *others) = columns.values()
        if encoder.is_elementwise and not others and first.codes is not None:
            self._rows: Array = first.codes
            self._lookup = _encoded_values(encoder, first)
            self._dtype = self._lookup.dtype
        else:
            kept = _KeptRows(len(first))
            for begin in range(0, max(1, len(first)), BLOCK_ROWS):
                rows = slice(begin, begin + BLOCK_ROWS)
                kept.put(begin, _encoded_block(encoder, columns, rows), encoder)
            self._rows, self._dtype = kept.rows, kept.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the rows; codes that are shared with a column count here, too."""
        return self._rows.nbytes

    def take(self, positions: npt.NDArray[np.int64]) -> Array:
        """Return the output for the rows at `positions`."""
        kept = self._rows.take(positions, axis=0)
        if self._lookup is not None:
            kept = self._lookup.take(kept, axis=0)
        output = self._encoder.expand(kept.astype(self._dtype, copy=False))
        if np.shape(output)[:1] != positions.shape:
            raise _wrong_shape(self._encoder, np.shape(output), len(positions))
        return output


class _KeptRows:
    """Array that is filled in blocks, in the narrowest type that holds its integers."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._least = self._most = 0
        self.rows: Array = np.empty(0)
        self.dtype: np.dtype[Any] = np.dtype(np.uint8)

    def put(self, begin: int, block: Array, encoder: Encoder) -> None:
        if begin == 0:
            self.dtype = block.dtype
            self.rows = np.empty((self._count, *block.shape[1:]), self._narrow(block))
        elif block.shape[1:] != self.rows.shape[1:]:
            raise InvalidArgument(
                f"an encoder must give rows of one shape, {encoder.name!r} gave "
                f"{self.rows.shape[1:]} and {block.shape[1:]}"
            )
        else:
            self.dtype = np.result_type(self.dtype, block.dtype)
            self.rows = self.rows.astype(self._narrow(block), copy=False)
        self.rows[begin : begin + len(block)] = block

    def _narrow(self, block: Array) -> np.dtype[Any]:
        """Return the narrowest type for this block and earlier ones."""
        if self.dtype.kind not in "iu":
            return self.dtype
        if block.size:
            self._least = min(self._least, int(block.min()))
            self._most = max(self._most, int(block.max()))
        for each in _INTEGERS:
            info = np.iinfo(each)
            if info.min <= self._least and self._most <= info.max:
                return each
        return self.dtype


def _encoded_values(encoder: Encoder, column: ColumnValues) -> Array:
    """Return the output for each value of a coded column; zeros for a value that no row has."""
    used = np.zeros(len(column.values), bool)
    used[column.codes] = True
    encoded = _encoded(encoder, {column.name: column.values[used]}, int(used.sum()))
    lookup = np.zeros((len(used), *encoded.shape[1:]), encoded.dtype)
    lookup[used] = encoded
    return lookup


def _encoded_block(encoder: Encoder, columns: Mapping[str, ColumnValues], rows: slice) -> Array:
    ranks = [_ranks(column, rows) for column in columns.values()]
    known = [each for each in ranks if each is not None]
    if known and len(known) == len(ranks):
        first, group = unique_inverse(np.stack(known, axis=1))
        if 2 * len(first) < len(group):
            positions = (rows.start + first).astype(np.int64)
            obs = {name: column.take(positions) for name, column in columns.items()}
            return _encoded(encoder, obs, len(first)).take(group, axis=0)
    obs = {name: column.rows(rows) for name, column in columns.items()}
    return _encoded(encoder, obs, len(range(*rows.indices(len(next(iter(columns.values())))))))


def _ranks(column: ColumnValues, rows: slice) -> npt.NDArray[np.int64] | None:
    """Return numbers that are equal if the values are, or None if values seldom repeat."""
    if column.codes is not None:
        return column.codes[rows].astype(np.int64)
    values = column.values[rows]
    if values.dtype.kind not in "biumM":
        return None
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks.astype(np.int64) if 2 * len(distinct) < len(values) else None


def _encoded(encoder: Encoder, obs: Mapping[str, Array], rows: int) -> Array:
    encoded = np.asarray(encoder.encode(obs))
    if encoded.shape[:1] != (rows,):
        raise _wrong_shape(encoder, encoded.shape, rows)
    return encoded


def _wrong_shape(encoder: Encoder, shape: tuple[int, ...], rows: int) -> InvalidArgument:
    return InvalidArgument(
        f"an encoder must give one entry a row, {encoder.name!r} gave shape {shape} for {plural(rows, 'row')}"
    )
