"""Rows of obs or var given as an array: a bool for each row, or names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.validation import described
from penstock.errors import InvalidArgument, NotFound

from .data_frame import DataFrame
from .gene_names import NAME_COLUMNS as VAR_NAME_COLUMNS

#: Columns of obs that name cells, in order of preference.
OBS_NAME_COLUMNS = ("obs_names", "obs_id", "cell_id", "index")

_NAMED_IN_ERRORS = 5


def rows_of(axis: DataFrame, query: Any, argument: str) -> _core.RowSelection:
    """Return the ids of the rows that an array selects.

    Raises
    ------
    InvalidArgument
        The array holds neither bools nor names, there is not one bool for each row, or a name comes
        twice.
    NotFound
        A name is not there; the message lists some.
    """
    try:
        values = np.asarray(query)
    except ValueError:  # lists of unequal lengths
        values = np.empty((0, 0))
    if (
        values.dtype == object
        and values.size
        and all(isinstance(each, bool) for each in values.flat)
    ):
        values = values.astype(bool)  # of a nullable array in which nothing is missing
    if values.ndim == 1 and values.dtype == bool:
        _check_index(axis, query, argument)
        return _by_mask(axis, values, argument)
    if values.ndim == 1 and all(isinstance(value, str) for value in values.tolist()):
        return _by_names(axis, values, argument)
    raise InvalidArgument(
        f"{argument} must be a filter string, an AxisQuery, a bool for each row, or names, "
        f"got {described(query)}"
    )


def _check_index(axis: DataFrame, query: Any, argument: str) -> None:
    """Raise `InvalidArgument` if a pandas Series is of other rows, or in another order."""
    index: Any = getattr(query, "index", None)
    column = _name_column(axis, argument)
    if column is None or getattr(index, "dtype", None) is None or index.dtype.kind in "iu":
        return
    if list(index) != axis.read([column])[column].to_numpy().tolist():
        raise InvalidArgument(
            f"the index of {argument} must be {column}, in its order; give {argument}.to_numpy() to go "
            "by place"
        )


def _name_column(axis: DataFrame, argument: str) -> str | None:
    usual = OBS_NAME_COLUMNS if argument == "obs_query" else VAR_NAME_COLUMNS
    return next((name for name in usual if name in axis.columns), None)


def _by_mask(axis: DataFrame, mask: npt.NDArray[np.bool_], argument: str) -> _core.RowSelection:
    rows = axis.select()
    if len(mask) != len(rows):
        raise InvalidArgument(
            f"{argument} must have a bool for each of the {len(rows):,} rows, got {len(mask):,}"
        )
    return rows.take(np.flatnonzero(mask).astype(np.uint64))


def _by_names(axis: DataFrame, names: npt.NDArray[Any], argument: str) -> _core.RowSelection:
    wanted = [str(name) for name in names]
    if len(set(wanted)) < len(wanted):
        twice = next(name for name in wanted if wanted.count(name) > 1)
        raise InvalidArgument(f"{argument} has the name {twice!r} twice")
    column = _name_column(axis, argument)
    if column is None:
        raise InvalidArgument(
            f"{argument} has names, but no column of the table has names of rows: give a filter, "
            f"such as \"some_column in ['a', 'b']\", in {axis.uri}"
        )
    stored = axis.read([column])[column].to_numpy()
    found = np.isin(stored.astype(object), np.array(wanted, object))
    missing = sorted(set(wanted) - set(stored[found].tolist()))
    if missing:
        named = ", ".join(map(repr, missing[:_NAMED_IN_ERRORS]))
        more = f" and {len(missing) - _NAMED_IN_ERRORS:,} more" * (len(missing) > _NAMED_IN_ERRORS)
        raise NotFound(f"{column} has no {named}{more}, in {axis.uri}")
    if found.sum() > len(wanted):
        names_found = stored[found].tolist()
        twice = next(name for name in names_found if names_found.count(name) > 1)
        raise InvalidArgument(
            f"{column} has {twice!r} more than once, so {argument} must be a filter or a bool for each "
            f"row, in {axis.uri}"
        )
    return axis.select().take(np.flatnonzero(found).astype(np.uint64))
