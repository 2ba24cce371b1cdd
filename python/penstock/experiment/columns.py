"""Columns of obs and var as numpy arrays.

A column whose values repeat (an enumeration, or strings) is kept as codes of 1 or 2 bytes and its
distinct values; the values themselves are made when rows are taken. Missing values are None in
object arrays, NaN in numbers (integers become float64), NaT in dates, None in booleans (object).
Integers with a missing one among them and one beyond 2**53, which float64 cannot tell from its
neighbours, become objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.missing_package import require
from penstock.errors import CorruptData

if TYPE_CHECKING:
    from penstock import _core

Array = npt.NDArray[Any]

_EXACT_IN_FLOAT64 = 2**53


@dataclass(frozen=True)
class ColumnValues:
    """One column, for the rows that were read.

    Attributes
    ----------
    values : ndarray
        The rows' values; where `codes` is set, the distinct values, one missing value last when
        `has_missing`.
    codes : ndarray of uint8, uint16 or int32, optional
        Index into `values`, row by row.
    is_enumerated : bool
        Stored as an enumeration; its categories keep their order in pandas.
    """

    name: str
    values: Array
    codes: Array | None = None
    is_enumerated: bool = False
    is_ordered: bool = False
    has_missing: bool = False

    def __len__(self) -> int:
        return len(self.values if self.codes is None else self.codes)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take, distinct strings apart."""
        return (self.values if self.codes is None else self.codes).nbytes

    def take(self, positions: npt.NDArray[np.int64]) -> Array:
        """Values of the rows at `positions`."""
        if self.codes is None:
            return self.values.take(positions)
        return self.values.take(self.codes.take(positions))

    def rows(self, rows: slice) -> Array:
        """Values of a stretch of rows."""
        return self.values[rows] if self.codes is None else self.values.take(self.codes[rows])

    def take_rows(self, positions: npt.NDArray[np.int64]) -> ColumnValues:
        """The column of the rows at `positions`."""
        if self.codes is None:
            return replace(self, values=self.values.take(positions))
        return replace(self, codes=self.codes.take(positions))

    def to_numpy(self) -> Array:
        """Values of all rows."""
        return self.values if self.codes is None else self.values.take(self.codes)

    def distinct(self) -> Array:
        """Values that occur, sorted, without missing ones."""
        if self.codes is None:
            if self.values.dtype == object:
                return np.unique([value for value in self.values if value is not None])
            found: Array = np.unique(self.values)
            if found.dtype.kind == "f":
                return found[~np.isnan(found)]
            if found.dtype.kind in "mM":
                found = found[~np.isnat(found)]
            return found
        used = np.zeros(len(self.values), dtype=bool)
        used[self.codes] = True
        if self.has_missing:
            used[-1] = False
        found = self.values[used]
        found.sort()
        return found

    def to_pandas(self, positions: npt.NDArray[np.int64] | None = None) -> Any:
        """Make what a pandas column of this is made of: a Categorical for an enumeration."""
        if not self.is_enumerated or self.codes is None:
            return self.to_numpy() if positions is None else self.take(positions)
        require("pandas")
        import pandas as pd

        codes = self.codes if positions is None else self.codes.take(positions)
        categories = self.values[:-1] if self.has_missing else self.values
        if self.has_missing:
            codes = np.where(codes == len(categories), np.int32(-1), codes)
        return pd.Categorical.from_codes(codes, categories=categories, ordered=self.is_ordered)


def is_missing(values: Array) -> npt.NDArray[np.bool_] | None:
    """Where values are missing; None for types that have no such value."""
    kind = values.dtype.kind
    if kind == "f":
        return np.isnan(values)
    if kind in "mM":
        return np.isnat(values)
    if kind == "O":
        return np.fromiter((value is None for value in values), bool, len(values))
    return None


def from_core(column: _core.Column | ColumnValues) -> ColumnValues:
    """Convert what the engine read; columns of joined tables are converted already."""
    if isinstance(column, ColumnValues):
        return column
    validity = column.validity()
    missing = None if validity is None or validity.all() else validity == 0
    if column.is_string:
        codes, distinct = column.string_codes()
        return _coded(column, codes, objects(distinct), missing)
    if column.is_coded:
        categories: Any = column.categories()
        if isinstance(categories, list):
            categories = objects(categories)
        else:
            categories = _typed(categories, column.type)
        return _coded(column, column.values(), categories, missing)
    values = _typed(column.values(), column.type)
    if missing is not None:
        values = with_missing(values, missing)
    return ColumnValues(column.name, values, has_missing=missing is not None)


def _coded(
    column: _core.Column, codes: Array, categories: Array, missing: npt.NDArray[np.bool_] | None
) -> ColumnValues:
    count = len(categories)
    if missing is None and codes.dtype.kind == "i" and len(codes) and codes.min() < 0:
        missing = codes < 0
    if missing is not None:
        codes = np.where(missing, count, codes.astype(np.int64))
    if len(codes) and int(codes.max()) > (count if missing is not None else count - 1):
        raise CorruptData(
            f"a code points past the categories, code {int(codes.max())} of {count}, "
            f"column {column.name!r}"
        )
    if missing is not None:
        last = np.concatenate([np.zeros(count, bool), np.ones(1, bool)])
        categories = with_missing(np.append(categories, _placeholder(categories)), last)
    width = np.uint8 if count < 2**8 else np.uint16 if count < 2**16 else np.int32
    return ColumnValues(
        column.name,
        categories,
        codes.astype(width, copy=False),
        is_enumerated=column.is_enumerated,
        is_ordered=column.ordered,
        has_missing=missing is not None,
    )


def objects(values: list[Any]) -> Array:
    """Object array of the values as they are, also where each is a sequence."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _typed(values: Array, type_name: str) -> Array:
    if type_name == "bool":
        return values.view(bool)
    if type_name.startswith("datetime64"):
        return values.view(type_name)
    if type_name.startswith("time["):
        return values.view("timedelta64" + type_name[len("time") :])
    # The engine's 64-bit integers are C's long long: numpy takes it for another type than int64.
    return values.view(np.dtype(values.dtype.name))


def _placeholder(values: Array) -> Array:
    return np.zeros(1, dtype=values.dtype)


def with_missing(values: Array, missing: npt.NDArray[np.bool_]) -> Array:
    """Values with those that are missing marked as such, in a type that has a mark."""
    kind = values.dtype.kind
    if kind in "mM":
        return np.where(missing, values.dtype.type("NaT"), values)
    if kind == "f":
        return np.where(missing, values.dtype.type("nan"), values)
    if kind in "iu":
        as_float = values.astype(np.float64)
        known = ~missing
        # An identifier must stay what it is.
        if (np.abs(as_float[known]) < _EXACT_IN_FLOAT64).all():
            return np.where(missing, np.nan, as_float)
    values = values.astype(object)
    values[missing] = None
    return values
