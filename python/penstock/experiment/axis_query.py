"""Queries that select rows of obs or var."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock import _core
from penstock.base.validation import described
from penstock.errors import InvalidArgument, Unsupported

from .data_frame import JOINID, DataFrame
from .row_lists import forms, rows_of, rows_of_selection

_LAST = 2**63 - 2


@dataclass(frozen=True)
class AxisQuery:
    """A query of one axis; fields and meaning are those of `tiledbsoma.AxisQuery`.

    Parameters
    ----------
    value_filter : str, optional
        Filter that selected rows must pass, for example ``"tissue_general == 'tongue'"``.
    coords : tuple, optional
        One entry for each index column; for ``soma_joinid`` an int, a list or array of ints, or a
        slice **that includes its end**, as in tiledbsoma. Rows must match both `coords` and the
        filter.
    """

    value_filter: str | None = None
    coords: tuple[Any, ...] = (slice(None),)


def resolve(axis: DataFrame, query: Any, name: str) -> _core.RowSelection:
    """Return the ids of the rows that a query selects.

    Parameters
    ----------
    axis : DataFrame
        obs or var.
    query : object
        A filter, an AxisQuery of ours or of tiledbsoma, a bool for each row, joinids or names of
        rows, or another selection (`rows_of_selection`).
    name : str
        Name of the argument in errors: ``"obs_query"`` or ``"var_query"``.

    Raises
    ------
    InvalidArgument
        The filter does not parse, `coords` are not valid, there is not one bool for each row, a row
        comes twice, or a selection is of another experiment.
    NotFound
        The filter names a column that does not exist, or a joinid or a name is not there.
    Unsupported
        `coords` are of another index column than ``soma_joinid``.
    """
    if isinstance(query, _core.RowSelection):  # of a measurement before
        return query
    if query is None or isinstance(query, str):
        return axis.select(query, name)
    if (selected := rows_of_selection(axis, query, name)) is not None:
        return selected
    if isinstance(query, (list, tuple, np.ndarray, range)) or hasattr(query, "__array__"):
        return rows_of(axis, query, name)
    if not (hasattr(query, "value_filter") and hasattr(query, "coords")):
        raise InvalidArgument(f"{name} must be {forms(name)}, got {described(query)}")
    rows = axis.select(query.value_filter, name)
    wanted = _joinids(axis, query.coords, name)
    return rows if wanted is None else rows & axis.of_each(wanted)


def _joinids(axis: DataFrame, coords: Any, name: str) -> _core.RowSelection | None:
    if coords is None:
        return None
    if not isinstance(coords, Sequence) or isinstance(coords, str):
        raise InvalidArgument(
            f"coords must be a tuple with one entry for each index column, got {described(coords)}, "
            f"in {name}"
        )
    indexes = [column.name for column in axis.schema if column.is_index]
    if len(coords) > len(indexes):
        raise InvalidArgument(
            f"coords has {len(coords)} entries, more than there are index columns "
            f"({', '.join(indexes)}), in {name}"
        )
    chosen = None
    for index, coord in zip(indexes, coords, strict=False):
        if coord is None or (isinstance(coord, slice) and coord == slice(None)):
            continue
        if index != JOINID:
            raise Unsupported(
                f"coords of the index column {index!r} are not read; use a value_filter, in {name}"
            )
        chosen = _selection(coord, name)
    return chosen


def _selection(coord: Any, name: str) -> _core.RowSelection:
    if isinstance(coord, slice):
        if coord.step not in (None, 1):
            raise InvalidArgument(f"a slice of coords takes no step, got {coord}, in {name}")
        begin = 0 if coord.start is None else _joinid(coord.start, coord, name)
        last = _LAST if coord.stop is None else _joinid(coord.stop, coord, name)
        if begin < 0 or last < begin:
            raise InvalidArgument(
                f"a slice of coords must go up from 0 or more (its end is included), "
                f"got {coord}, in {name}"
            )
        return _core.RowSelection.range(begin, min(last, _LAST) + 1)
    try:
        joinids = np.atleast_1d(np.asarray(coord))
    except ValueError:  # lists of unequal lengths
        joinids = np.empty((), object)
    if joinids.ndim == 1 and joinids.size == 0:
        return _core.RowSelection()
    if joinids.ndim != 1 or joinids.dtype.kind not in "iu":
        raise InvalidArgument(
            f"coords of {JOINID} must be an integer, a list of integers or a slice, "
            f"got {described(coord)}, in {name}"
        )
    if int(joinids.min()) < 0 or int(joinids.max()) > _LAST:
        raise InvalidArgument(
            f"coords must be 0 or more, got {int(joinids.min())} to {int(joinids.max())}, in {name}"
        )
    return _core.RowSelection.from_unsorted(np.unique(joinids).astype(np.int64))


def _joinid(value: Any, whole: slice, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgument(
            f"a slice of coords must have integers as ends, got {whole}, in {name}"
        ) from None
