"""Tables of a join, obs and var, with the interface of the engine's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.errors import CorruptData, InvalidArgument, NotFound, Unsupported
from penstock.experiment.columns import ColumnValues
from penstock.experiment.data_frame import JOINID, DataFrame

from .columns import concatenate, source_column
from .genes import GeneMatch


@dataclass(frozen=True)
class JoinedColumn:
    """Description of a column, with the fields of the engine's ColumnInfo."""

    name: str
    type: str
    is_index: bool
    nullable: bool
    enumerated: bool
    ordered: bool
    is_string: bool
    stored_bytes: int


def joined_unread(tables: Mapping[str, DataFrame]) -> dict[str, str]:
    """Return the columns that are not read in any of the tables, with reasons that name the table."""
    unread: dict[str, str] = {}
    for source, table in tables.items():
        for name, reason in table.unread_columns.items():
            unread.setdefault(name, f"column {name!r} of {source!r}: {reason}")
    return unread


def _check_filter(
    value_filter: str, unread: Mapping[str, str], columns: Sequence[JoinedColumn]
) -> None:
    """Refuse a filter that names a column that is not read, or an order that parts do not share."""
    if not value_filter:
        return
    for name in _core.filter_columns(value_filter) if unread else ():
        if name in unread:
            raise Unsupported(unread[name])
    _core.expect_one_order(
        value_filter, [each.name for each in columns if each.enumerated and not each.ordered]
    )


def _same_categories(tables: Mapping[str, DataFrame], name: str) -> bool:
    """Return whether a column that is ordered in all tables is so together."""
    no_rows = _core.RowSelection()
    try:
        lists = [
            table.with_rows(no_rows).read([name])[name].values.tolist()
            for table in tables.values()
            if name in table.columns
        ]
    except CorruptData:
        return False  # the error comes to whom the column is read for
    return all(values == lists[0] for values in lists)


def joined_schema(tables: Mapping[str, DataFrame]) -> list[JoinedColumn]:
    """Return the columns that any of the tables has, without those that are not read in one."""
    found: dict[str, list[_core.ColumnInfo]] = {}
    for table in tables.values():
        for column in table.schema:
            found.setdefault(column.name, []).append(column)
    for name in joined_unread(tables):
        found.pop(name, None)
    return [
        JoinedColumn(
            name,
            " or ".join(dict.fromkeys(column.type for column in columns)),
            any(column.is_index for column in columns),
            len(columns) < len(tables) or any(column.nullable for column in columns),
            all(column.enumerated for column in columns),
            all(column.ordered for column in columns) and _same_categories(tables, name),
            any(column.is_string for column in columns),
            sum(column.stored_bytes for column in columns),
        )
        for name, columns in found.items()
    ]


def constant_columns(tables: Mapping[str, DataFrame]) -> dict[str, list[_core.ConstantColumn]]:
    """Return for each table the columns that only others have, all missing, for filters."""
    found: dict[str, _core.ColumnInfo] = {}
    for table in tables.values():
        for column in table.schema:
            found.setdefault(column.name, column)
    return {
        source: [
            _core.ConstantColumn.missing(column)
            for name, column in found.items()
            if name not in table.columns
        ]
        for source, table in tables.items()
    }


class JoinedObs:
    """Cells of all experiments, one after the other, with a column of their source.

    The id of a row is its joinid plus the offset of its experiment. ``soma_joinid`` is the joinid.
    """

    def __init__(
        self, parts: Mapping[str, DataFrame], offsets: Sequence[int], source_name: str
    ) -> None:
        self._parts = dict(parts)
        self._offsets = np.array(offsets, np.int64)
        self._ends = np.append(self._offsets[1:], 2**63 - 1)
        self._source_name = source_name
        source = JoinedColumn(source_name, "string", False, False, True, False, True, 0)
        self.columns = [*joined_schema(parts), source]
        self.unread_columns = joined_unread(parts)
        self._constants = {
            part: [*missing, _core.ConstantColumn.text(source_name, part)]
            for part, missing in constant_columns(parts).items()
        }
        self.uri = " + ".join(part.uri for part in self._parts.values())

    def row_count(self) -> int:
        """Return the number of cells."""
        return sum(len(part) for part in self._parts.values())

    def select(self, value_filter: str) -> _core.RowSelection:
        """Return the ids of the rows that pass a filter in their experiment.

        The filter may name the source, and columns that only some experiments have.
        """
        _check_filter(value_filter, self.unread_columns, self.columns)
        rows = _core.RowSelection()
        for (source, part), offset in zip(self._parts.items(), self._offsets.tolist(), strict=True):
            kept = part.select(value_filter or None, constants=self._constants[source])
            rows = rows | kept.shifted(offset)
        return rows

    def of_each(self, joinids: _core.RowSelection) -> _core.RowSelection:
        """Return the ids of the rows with these joinids in every experiment."""
        rows = _core.RowSelection()
        for offset, end in zip(self._offsets.tolist(), self._ends.tolist(), strict=True):
            fitting = joinids & _core.RowSelection.range(0, end - offset)
            rows = rows | fitting.shifted(offset)
        return rows

    def of_rows(self, joinids: npt.NDArray[np.int64], table: Any) -> _core.RowSelection:
        """Return the ids of the rows of a table of pandas, by joinid and source."""
        if self._source_name not in table:
            raise InvalidArgument(
                f"joinids are of several experiments: the table must keep its column "
                f"{self._source_name!r}, or an index of names"
            )
        offset = dict(zip(self._parts, self._offsets.tolist(), strict=True))
        sources = table[self._source_name].tolist()
        others = [each for each in sources if each not in offset]
        if others:
            raise InvalidArgument(
                f"there is no source {others[0]!r} in the join of {', '.join(self._parts)}"
            )
        ids = joinids + np.array([offset[each] for each in sources], np.int64)
        return _core.RowSelection.from_unsorted(np.unique(ids))

    def own_joinids(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the joinid of each row in its experiment."""
        part = np.searchsorted(self._offsets, ids, side="right") - 1
        return ids - self._offsets.take(part)

    def read(
        self, names: Sequence[str], value_filter: str, rows: _core.RowSelection | None
    ) -> list[ColumnValues]:
        """Read columns of the rows, one experiment after the other."""
        if value_filter:
            kept = self.select(value_filter)
            rows = kept if rows is None else rows & kept
        read: dict[str, dict[str, ColumnValues]] = {}
        lengths: dict[str, int] = {}
        for (source, part), offset, end in zip(
            self._parts.items(), self._offsets.tolist(), self._ends.tolist(), strict=True
        ):
            if rows is not None:
                own = (rows & _core.RowSelection.range(offset, end)).shifted(-offset)
                part = part.with_rows(own)
            lengths[source] = len(part)
            there = set(part.columns)
            read[source] = part.read([name for name in names if name in there])
        return [
            source_column(name, lengths)
            if name == self._source_name
            else concatenate(name, {s: columns.get(name) for s, columns in read.items()}, lengths)
            for name in names
        ]


class JoinedObsFrame(DataFrame):
    """obs of a join, whose row ids are not joinids."""

    _core: Any  # a JoinedObs

    def own_joinids(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """See `DataFrame.own_joinids`."""
        joinids: npt.NDArray[np.int64] = self._core.own_joinids(ids)
        return joinids

    def of_rows(self, joinids: npt.NDArray[np.int64], table: Any) -> _core.RowSelection:
        """See `DataFrame.of_rows`."""
        rows: _core.RowSelection = self._core.of_rows(joinids, table)
        return rows

    def of_each(self, joinids: _core.RowSelection) -> _core.RowSelection:
        """See `DataFrame.of_each`."""
        rows: _core.RowSelection = self._core.of_each(joinids)
        return rows


class JoinedVar:
    """Genes of a join; the values of a gene are from the first experiment that has it."""

    def __init__(self, parts: Mapping[str, DataFrame], match: GeneMatch, name_column: str) -> None:
        self._parts = dict(parts)
        self._match = match
        self.name_column = name_column
        self.columns = joined_schema(parts)
        self.unread_columns = joined_unread(parts)
        self._constants = constant_columns(parts)
        self.uri = " + ".join(part.uri for part in self._parts.values())

    def row_count(self) -> int:
        """Return the number of genes."""
        return len(self._match.names)

    def select(self, value_filter: str) -> _core.RowSelection:
        """Return the columns of X whose genes pass a filter in any experiment."""
        if not value_filter:
            return _core.RowSelection.range(0, self.row_count())
        _check_filter(value_filter, self.unread_columns, self.columns)
        kept = np.zeros(self.row_count(), bool)
        for (source, part), joinids, places in zip(
            self._parts.items(), self._match.joinids, self._match.places, strict=True
        ):
            rows = part.select(value_filter, constants=self._constants[source])
            found = np.isin(joinids, rows.to_numpy())
            kept[places[found]] = True
        return _core.RowSelection.from_unsorted(np.flatnonzero(kept))

    def read(
        self, names: Sequence[str], value_filter: str, rows: _core.RowSelection | None
    ) -> list[ColumnValues]:
        """Read columns of the genes; ``soma_joinid`` is the column of X."""
        kept = self.select(value_filter)
        genes = (kept if rows is None else rows & kept).to_numpy()
        stored = [name for name in names if name not in (JOINID, self.name_column)]
        merged = self._stored(stored) if stored else {}
        found: list[ColumnValues] = []
        for name in names:
            if name == JOINID:
                found.append(ColumnValues(name, genes))
            elif name == self.name_column:
                found.append(ColumnValues(name, self._match.names[genes]))
            else:
                column, row_of = merged[name]
                found.append(_taken(column, row_of[genes]))
        return found

    def _stored(
        self, names: Sequence[str]
    ) -> dict[str, tuple[ColumnValues, npt.NDArray[np.int64]]]:
        """Return for each column its values in all experiments, and the row of each gene.

        Genes without a value in any experiment get an extra last row, which is missing.
        """
        read: dict[str, dict[str, ColumnValues]] = {}
        lengths: dict[str, int] = {}
        for (source, part), joinids in zip(self._parts.items(), self._match.joinids, strict=True):
            own = part.with_rows(_core.RowSelection.from_unsorted(joinids))
            there = set(own.columns)
            read[source] = own.read([name for name in names if name in there])
            lengths[source] = len(joinids)
        nothing = "no experiment"
        while nothing in lengths:
            nothing += " "
        found = {}
        for name in names:
            columns: dict[str, Any] = {s: own.get(name) for s, own in read.items()}
            row_of = np.full(self.row_count(), sum(lengths.values()), np.int64)
            before = sum(lengths.values())
            for source, places in zip(reversed(lengths), reversed(self._match.places), strict=True):
                before -= lengths[source]
                if columns[source] is not None:
                    row_of[places] = before + np.arange(len(places))
            if all(column is None for column in columns.values()):
                raise NotFound(f"var has no column {name!r}, in {self.uri}")
            if (row_of == sum(lengths.values())).any():
                columns[nothing] = None
            found[name] = concatenate(name, columns, {**lengths, nothing: 1}), row_of
        return found


def _taken(column: ColumnValues, rows: npt.NDArray[np.int64]) -> ColumnValues:
    if column.codes is None:
        return ColumnValues(column.name, column.values.take(rows), has_missing=column.has_missing)
    return ColumnValues(
        column.name,
        column.values,
        column.codes.take(rows),
        column.is_enumerated,
        column.is_ordered,
        column.has_missing,
    )
