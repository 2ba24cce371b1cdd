"""Columns of obs and var as numpy arrays.

A column whose values repeat (an enumeration, or strings) is kept as distinct values and codes of 1
or 2 bytes. Values are looked up when rows are taken.

Missing values by type: None in object arrays and booleans (which become object), NaN in numbers
(integers become float64), NaT in dates. Integers with a missing value become objects if one is
beyond 2**53, since float64 would change it.
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
    """Values of one column, for the rows that were read.

    Attributes
    ----------
    values : ndarray
        Value of each row, shape (rows,). If `codes` is set: the distinct values, with a missing
        value last if `has_missing`.
    codes : ndarray of uint8, uint16 or int32, optional
        Index of each row into `values`, shape (rows,).
    is_enumerated : bool
        Whether the column is stored as an enumeration; its categories keep their order in pandas.
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
        """Bytes of the rows, without the distinct values of a coded column."""
        return (self.values if self.codes is None else self.codes).nbytes

    def take(self, positions: npt.NDArray[np.int64]) -> Array:
        """Return the values of the rows at `positions`."""
        if self.codes is None:
            return self.values.take(positions)
        return self.values.take(self.codes.take(positions))

    def rows(self, rows: slice) -> Array:
        """Return the values of a slice of rows."""
        return self.values[rows] if self.codes is None else self.values.take(self.codes[rows])

    def take_rows(self, positions: npt.NDArray[np.int64]) -> ColumnValues:
        """Return the column for the rows at `positions` alone."""
        if self.codes is None:
            return replace(self, values=self.values.take(positions))
        return replace(self, codes=self.codes.take(positions))

    def to_numpy(self) -> Array:
        """Return the values of all rows, shape (rows,)."""
        return self.values if self.codes is None else self.values.take(self.codes)

    def distinct(self) -> Array:
        """Return the values that occur, sorted, without missing values."""
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
        """Return the values for pandas: a Categorical for an enumeration, else an ndarray."""
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
    """Return a mask of missing values, or None for a type without missing values."""
    kind = values.dtype.kind
    if kind == "f":
        return np.isnan(values)
    if kind in "mM":
        return np.isnat(values)
    if kind == "O":
        return np.fromiter((value is None for value in values), bool, len(values))
    return None


def from_core(column: _core.Column | ColumnValues) -> ColumnValues:
    """Convert a column that the engine read; return one of a joined table as it is."""
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
    """Return an object array with one entry a value, also if the values are sequences."""
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
    # The engine's 64-bit integers are C's long long, which numpy treats as different from int64.
    return values.view(np.dtype(values.dtype.name))


def _placeholder(values: Array) -> Array:
    return np.zeros(1, dtype=values.dtype)


def with_missing(values: Array, missing: npt.NDArray[np.bool_]) -> Array:
    """Mark missing values, in a type that can represent them."""
    kind = values.dtype.kind
    if kind in "mM":
        return np.where(missing, values.dtype.type("NaT"), values)
    if kind == "f":
        return np.where(missing, values.dtype.type("nan"), values)
    if kind in "iu":
        as_float = values.astype(np.float64)
        known = ~missing
        # Identifiers must keep their exact value.
        if (np.abs(as_float[known]) < _EXACT_IN_FLOAT64).all():
            return np.where(missing, np.nan, as_float)
    values = values.astype(object)
    values[missing] = None
    return values
