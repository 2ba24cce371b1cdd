"""Rows of obs or var given as a table or an array: bools, joinids or names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.call_site import caller_level
from penstock.base.suggestions import did_you_mean
from penstock.base.validation import described
from penstock.errors import InvalidArgument, NotFound

from .data_frame import JOINID, DataFrame
from .labels import (
    BOOLS_INSTEAD,
    OF_ANNDATA,
    check_index,
    check_series,
    is_index_of_integers,
    joinids_of,
    name_columns,
    numbers_of,
    of_table,
    repeated_label,
    text_labels,
    variable_genes,
)
from .places import as_mask
from .value_hints import column_that_has


def forms(argument: str) -> str:
    """Return what selects rows: places in ``ds[…]``, joinids elsewhere."""
    return (
        f"a filter, names, {numbers_of(argument)}, a bool for each row, or a selection: a Dataset, its "
        "obs or var, a table of pandas or an AxisQuery"
    )


_NAMED_IN_ERRORS = 5
#: Start of the URI of an AnnData object in memory.
IN_MEMORY = "AnnData of "


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
    table = selected_table(query, axis.kind)
    if table is None:
        return None
    if isinstance(table, DataFrame):
        if not _same_store(table, axis):
            raise InvalidArgument(f"{argument} is a selection of {table.uri}, not of {axis.uri}")
        return table.select() & axis.select()
    return _of_pandas(axis, variable_genes(table), argument)


def selected_table(query: Any, kind: str) -> Any:
    """Return the table of a selection: of ours, of pandas, or ``obs`` or ``var`` of an object; else None."""
    table = query if hasattr(query, "columns") else getattr(query, kind, None)
    if isinstance(table, DataFrame):
        return table
    return table if hasattr(table, "columns") and hasattr(table, "index") else None


def _same_store(table: DataFrame, axis: DataFrame) -> bool:
    """Whether two tables are of one experiment; AnnData objects of one size have the same URI."""
    if table.uri != axis.uri:
        return False
    columns = name_columns(axis)
    if IN_MEMORY not in axis.uri or not columns:
        return True
    first, second = (each.whole().read(columns[:1])[columns[0]] for each in (table, axis))
    return np.array_equal(first.to_numpy(), second.to_numpy())


def _of_pandas(axis: DataFrame, table: Any, argument: str) -> _core.RowSelection:
    """Return the ids of the rows of a table of pandas: by names if it has some, else by joinids."""
    if not len(table):
        return _core.RowSelection()
    names, columns = text_labels(table), name_columns(axis)
    has_joinids = JOINID in table or table.index.name == JOINID
    if names is not None and (columns or not has_joinids):
        try:
            return _by_names(axis, names, argument)
        except NotFound:
            if not has_joinids or is_anndata_table(axis) or _any_is_there(axis, names):
                raise
    joinids = np.asarray(joinids_of(table, argument))
    if joinids.dtype.kind not in "iu":
        raise InvalidArgument(f"{JOINID} must be integers, got {described(joinids)}, in {argument}")
    if is_anndata_table(axis):
        _check_own(axis, table, joinids, columns[0], argument)
    return _by_joinids(axis, joinids, argument, table)


def is_anndata_table(axis: DataFrame) -> bool:
    """Whether the rows are of an AnnData, whose joinids are places."""
    return bool({"obs_names", "var_names"} & set(axis.columns))


def _any_is_there(axis: DataFrame, names: list[str]) -> bool:
    wanted = set(names)
    return any(wanted & set(stored.tolist()) for _, stored in _names(axis))


def _check_own(
    axis: DataFrame, table: Any, joinids: npt.NDArray[Any], column: str, argument: str
) -> None:
    """Refuse joinids of a table that is not of this AnnData: they may be of the Census."""
    rows = axis.of_rows(joinids.astype(np.int64), table) & axis.whole().select()
    stored = axis.with_rows(rows).read([column])[column].to_numpy().tolist()
    if column not in table or sorted(stored) != sorted(table[column].tolist()):
        twice = repeated_label(table)
        raise InvalidArgument(
            f"{argument} is a table whose {JOINID} may be of another store: its index must be the "
            f"names of the rows, each once, or keep its column {column}"
            + (f"; the name {twice!r} comes more than once: {BOOLS_INSTEAD}" if twice else "")
        )


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
        count = len(axis.select())
        if len(mask) != count:
            raise InvalidArgument(
                f"{argument} must have a bool for each of the {count:,} rows, got {len(mask):,}"
            )
        return _by_mask(axis, of_table(axis, query, mask, argument))
    try:
        values = np.asarray(query)
    except (TypeError, ValueError):  # lists of unequal lengths
        values = np.empty((0, 0))
    if values.ndim == 1 and not len(values):
        return _core.RowSelection()
    if values.ndim == 1 and values.dtype.kind in "iu":
        check_series(query, argument)
        if is_index_of_integers(query):
            return _by_own_index(axis, query, argument)
        return _by_joinids(axis, values, argument)
    if values.ndim == 1 and all(isinstance(value, str) for value in values.tolist()):
        return _by_names(axis, values.tolist(), argument)
    raise InvalidArgument(f"{argument} must be {forms(argument)}, got {described(query)}")


def _by_mask(axis: DataFrame, mask: npt.NDArray[np.bool_]) -> _core.RowSelection:
    return axis.select().take(np.flatnonzero(mask).astype(np.uint64))


def _by_own_index(axis: DataFrame, index: Any, argument: str) -> _core.RowSelection:
    """Return the rows of an Index of integers; refuse one whose places are not the joinids."""
    check_index(index, axis.index_name, argument, "joinids")
    values = np.asarray(index)
    found = _by_joinids(axis, values, argument)
    every = axis.select()
    if int(values.max()) < len(every) and found == every.take(np.sort(values).astype(np.uint64)):
        return found
    raise InvalidArgument(
        f"{argument}: an index of integers may have places or joinids, which differ in {axis.uri}: give "
        f"index.to_numpy() if they are joinids, or rows of a table with its column {JOINID}"
    )


def _by_joinids(
    axis: DataFrame, joinids: npt.NDArray[Any], argument: str, table: Any = None
) -> _core.RowSelection:
    """Return the ids of rows; of joined experiments a `table` of pandas says which is meant."""
    wanted, counts = np.unique(joinids, return_counts=True)
    if len(wanted) and (wanted[0] < 0 or wanted[-1] > 2**63 - 2):
        raise InvalidArgument(
            f"joinids are 0 or more, got {wanted[0 if wanted[0] < 0 else -1]}, in {argument}"
        )
    if table is not None:
        given = axis.of_rows(joinids.astype(np.int64), table)
        twice = len(given) < len(joinids)
    else:
        given = axis.of_each(_core.RowSelection.from_unsorted(wanted.astype(np.int64)))
        twice = len(wanted) < len(joinids)
    if twice:
        raise InvalidArgument(f"{argument} has the joinid {wanted[counts > 1][0]} twice")
    found = axis.select() & given
    if table is not None:  # of joined experiments a row of this very one
        absent = np.setdiff1d(given.to_numpy(), found.to_numpy()).astype(np.int64)
        missing = axis.own_joinids(absent)
    else:
        missing = np.setdiff1d(wanted, axis.own_joinids(found.to_numpy()))
    if len(missing):
        named = ", ".join(map(str, missing[:_NAMED_IN_ERRORS].tolist()))
        raise NotFound(f"no row has the {JOINID} {named}{_more(missing)}, in {axis.uri}")
    return found


def _by_names(axis: DataFrame, wanted: list[str], argument: str) -> _core.RowSelection:
    names = {str(name): i for i, name in enumerate(wanted)}
    if len(names) < len(wanted):
        twice = next(name for i, name in enumerate(wanted) if names[name] != i)
        raise InvalidArgument(f"{argument} has the name {twice!r} twice")
    best, repeated = None, None
    like_joinids = axis.kind == "obs" and any(name.isdecimal() for name in names)
    for column, stored in _names(axis):
        # If names of SOMA repeat, `Dataset.obs_names` are joinids: "3" may be meant as either.
        may_be_joinids = like_joinids and column != OF_ANNDATA["obs"]
        if may_be_joinids and (again := _repeated(column, stored)) is not None:
            repeated = again
            continue
        found = np.fromiter((name in names for name in stored), bool, len(stored))
        held = len(set(stored[found].tolist()))
        if best is None or held > best[0]:
            best = held, column, stored, found
        if held == len(names):
            break
    if repeated is not None and (best is None or best[0] < len(names)):
        raise InvalidArgument(
            f"{repeated}, so {argument} cannot be names: give a filter or a bool for each row, in "
            f"{axis.uri}"
        )
    assert best is not None
    _, column, stored, found = best
    missing = sorted(names.keys() - set(stored[found].tolist()))
    if missing:
        named = ", ".join(map(repr, missing[:_NAMED_IN_ERRORS]))
        meant = _meant(axis, missing[0])
        raise NotFound(f"{column} has no {named}{_more(missing)}, in {axis.uri}{meant}")
    if found.sum() > len(names):
        raise InvalidArgument(
            f"{_repeated(column, stored[found])}, so {argument} must be a filter or a bool for each "
            f"row, in {axis.uri}"
        )
    if axis.kind == "var" and stored[found].tolist() != wanted:
        warnings.warn(
            f"X has the genes in the order of the file, not in that of {argument}: ds.var_names lists "
            "them. ds[:, names] keeps the order of names",
            stacklevel=caller_level(),
        )
    return _by_mask(axis, found)


def _names(axis: DataFrame) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the columns that name rows; without one, rows are named by joinids (`Dataset.obs_names`)."""
    for column in name_columns(axis) or [JOINID]:
        values = axis.read([column])[column].to_numpy()
        yield column, values.astype(str if column == JOINID else object).astype(object)


def _repeated(column: str, names: npt.NDArray[Any]) -> str | None:
    """Say which name comes more than once, if one does."""
    seen: set[Any] = set()
    for name in names.tolist():
        if name in seen:
            return f"{column} has {name!r} more than once"
        seen.add(name)
    return None


def _meant(axis: DataFrame, name: str) -> str:
    """Return ``; did you mean …?`` with a name of any of the columns, or nothing."""
    for _, names in _names(axis):
        if name in names:  # of another column than the other names
            return "; the names must be of one column"
        texts = [each for each in names.tolist() if isinstance(each, str)]
        if meant := did_you_mean(name, texts):
            return meant
    if axis.kind == "var" and (column := column_that_has(axis, name)) is not None:
        named = column if column.isidentifier() else f'attr("{column}")'
        return f"; the column {column!r} has it: choose by a filter, {named} in [{name!r}, …]"
    return ""


def _more(missing: Any) -> str:
    more = len(missing) - _NAMED_IN_ERRORS
    return f" and {more:,} more" if more > 0 else ""
