"""Rows of obs or var given as a table or an array: bools, joinids or names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.suggestions import did_you_mean
from penstock.base.validation import described
from penstock.errors import InvalidArgument, NotFound

from .data_frame import JOINID, DataFrame
from .gene_names import NAME_COLUMNS as VAR_NAME_COLUMNS
from .places import as_mask

#: Columns of obs that name cells, in order of preference.
OBS_NAME_COLUMNS = ("obs_names", "obs_id", "cell_id", "index")

FORMS = (
    "a filter, names, joinids, a bool for each row, or a selection: a Dataset, its obs or var, a "
    "table of pandas or an AxisQuery"
)

_NAMED_IN_ERRORS = 5
_MASK_OF_GENES = "highly_variable"


def rows_of_selection(axis: DataFrame, query: Any, argument: str) -> _core.RowSelection | None:
    """Return the ids of the rows of another selection, or None if `query` is no selection.

    A selection is a table of ours, a table of pandas, or an object that has such a table as ``obs``
    or ``var``: a Dataset or an AnnData.

    Raises
    ------
    InvalidArgument
        The selection is of another experiment.
    NotFound
        The table of pandas has a row that the axis does not have.
    """
    table = query
    if not hasattr(query, "columns"):
        table = getattr(query, "obs" if argument == "obs_query" else "var", None)
    if isinstance(table, DataFrame):
        if table.uri != axis.uri:
            raise InvalidArgument(f"{argument} is a selection of {table.uri}, not of {axis.uri}")
        return table.select() & axis.select()
    if not hasattr(table, "columns") or not hasattr(table, "index"):
        return None
    if argument == "var_query" and _MASK_OF_GENES in table:
        table = table[table[_MASK_OF_GENES].to_numpy(bool)]
    return rows_of(axis, table.get(JOINID, table.index), argument)


def rows_of(axis: DataFrame, query: Any, argument: str) -> _core.RowSelection:
    """Return the ids of the rows that an array selects.

    Raises
    ------
    InvalidArgument
        The array holds neither bools, joinids nor names, there is not one bool for each row, or a
        row comes twice.
    NotFound
        A joinid or a name is not there; the message lists some.
    """
    mask = as_mask(query)
    if mask is not None:
        _check_index(axis, query, argument)
        return _by_mask(axis, mask, argument)
    try:
        values = np.asarray(query)
    except (TypeError, ValueError):  # lists of unequal lengths
        values = np.empty((0, 0))
    if values.ndim == 1 and not len(values):
        return _core.RowSelection()
    if values.ndim == 1 and values.dtype.kind in "iu":
        return _by_joinids(axis, values, argument)
    if values.ndim == 1 and all(isinstance(value, str) for value in values.tolist()):
        return _by_names(axis, values, argument)
    raise InvalidArgument(f"{argument} must be {FORMS}, got {described(query)}")


def _check_index(axis: DataFrame, query: Any, argument: str) -> None:
    """Raise `InvalidArgument` if a pandas Series is of other rows, or in another order."""
    index: Any = getattr(query, "index", None)
    column = next(iter(_name_columns(axis, argument)), None)
    if column is None or getattr(index, "dtype", None) is None or index.dtype.kind in "iu":
        return
    if list(index) != axis.read([column])[column].to_numpy().tolist():
        raise InvalidArgument(
            f"the index of {argument} must be {column}, in its order; give {argument}.to_numpy() to go "
            "by place"
        )


def _name_columns(axis: DataFrame, argument: str) -> list[str]:
    """Return the columns that name rows, the usual one first."""
    usual = OBS_NAME_COLUMNS if argument == "obs_query" else VAR_NAME_COLUMNS
    there = axis.columns
    return [name for name in usual if name in there]


def _by_mask(axis: DataFrame, mask: npt.NDArray[np.bool_], argument: str) -> _core.RowSelection:
    rows = axis.select()
    if len(mask) != len(rows):
        raise InvalidArgument(
            f"{argument} must have a bool for each of the {len(rows):,} rows, got {len(mask):,}"
        )
    return rows.take(np.flatnonzero(mask).astype(np.uint64))


def _by_joinids(axis: DataFrame, joinids: npt.NDArray[Any], argument: str) -> _core.RowSelection:
    wanted, counts = np.unique(joinids, return_counts=True)
    if len(wanted) < len(joinids):
        raise InvalidArgument(f"{argument} has the joinid {wanted[counts > 1][0]} twice")
    if len(wanted) and (wanted[0] < 0 or wanted[-1] > 2**63 - 2):
        raise InvalidArgument(
            f"joinids are 0 or more, got {wanted[0 if wanted[0] < 0 else -1]}, in {argument}"
        )
    given = _core.RowSelection.from_unsorted(wanted.astype(np.int64))
    found = axis.select() & axis.of_each(given)
    missing = np.setdiff1d(wanted, axis.own_joinids(found.to_numpy()))
    if len(missing):
        named = ", ".join(map(str, missing[:_NAMED_IN_ERRORS].tolist()))
        raise NotFound(f"no row has the {JOINID} {named}{_more(missing)}, in {axis.uri}")
    return found


def _by_names(axis: DataFrame, names: npt.NDArray[Any], argument: str) -> _core.RowSelection:
    wanted = [str(name) for name in names]
    if len(set(wanted)) < len(wanted):
        twice = next(name for name in wanted if wanted.count(name) > 1)
        raise InvalidArgument(f"{argument} has the name {twice!r} twice")
    # Rows without names are named by their joinids, as in `Dataset.obs_names`.
    columns = _name_columns(axis, argument) or [JOINID]
    column, stored, found = _best_column(axis, columns, wanted)
    missing = sorted(set(wanted) - set(stored[found].tolist()))
    if missing:
        named = ", ".join(map(repr, missing[:_NAMED_IN_ERRORS]))
        meant = _meant(axis, columns, missing[0])
        raise NotFound(f"{column} has no {named}{_more(missing)}, in {axis.uri}{meant}")
    if found.sum() > len(wanted):
        names_found = stored[found].tolist()
        twice = next(name for name in names_found if names_found.count(name) > 1)
        raise InvalidArgument(
            f"{column} has {twice!r} more than once, so {argument} must be a filter or a bool for each "
            f"row, in {axis.uri}"
        )
    return axis.select().take(np.flatnonzero(found).astype(np.uint64))


def _meant(axis: DataFrame, columns: list[str], name: str) -> str:
    """Return ``; did you mean …?`` with a name of any of the columns, or nothing."""
    for column in columns:
        values = axis.read([column])[column].to_numpy().tolist()
        if meant := did_you_mean(name, [value for value in values if isinstance(value, str)]):
            return meant
    return ""


def _best_column(
    axis: DataFrame, columns: list[str], wanted: list[str]
) -> tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the first column that has all names, else the one that has most: (name, values, found)."""
    names = np.array(wanted, object)
    best: tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_]] | None = None
    most = -1
    for column in columns:
        stored = axis.read([column])[column].to_numpy()
        stored = stored.astype(str if column == JOINID else object).astype(object)
        found = np.isin(stored, names)
        held = len(set(stored[found].tolist()))
        if held > most:
            best, most = (column, stored, found), held
        if held == len(wanted):
            break
    assert best is not None
    return best


def _more(missing: Any) -> str:
    more = len(missing) - _NAMED_IN_ERRORS
    return f" and {more:,} more" if more > 0 else ""
