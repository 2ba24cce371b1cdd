"""Reading of a table of an experiment, obs or var."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.suggestions import did_you_mean, suggests
from penstock.base.validation import checked_bool, checked_names, checked_text
from penstock.errors import InvalidArgument, NotFound, Unsupported

from .columns import ColumnValues, from_core
from .filter_hints import hint_of_columns, hint_of_error

if TYPE_CHECKING:
    import pandas as pd

JOINID = "soma_joinid"

_NAMED_IN_ERRORS = 5

#: What a filter has, and a name of a column has not.
FILTER_SIGNS = re.compile(r"[=<>]|\bin\b")

#: Arguments of tiledbsoma's tables that people try.
_ARGUMENTS = {
    "column_names": "columns=",
    "coords": "the rows in brackets first: obs[10:20]",
    "usecols": "columns=",
}

#: Prefix of the engine's errors about a filter.
_FILTER_PREFIX = "value_filter: "


class ColumnNames(list[str]):
    """Names of columns, a list with the methods of a pandas Index that people call to get one."""

    def tolist(self) -> list[str]:
        """Return a plain list."""
        return list(self)

    to_list = tolist


class TableReader:
    """Columns and rows of a table; `DataFrame` has the methods for people."""

    def __init__(
        self,
        core: _core.DataFrame,
        kind: str,
        selection: _core.RowSelection | None = None,
        order: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._core = core
        self._kind = kind
        self._selection = selection
        self._order = order  # joinids of the selection, in the order of the rows
        self._name_column: str | None = None

    @property
    def kind(self) -> str:
        """Whether the rows are cells, "obs", or genes, "var"."""
        return self._kind

    @property
    def uri(self) -> str:
        """URI or path of the table."""
        return self._core.uri

    @property
    def columns(self) -> ColumnNames:
        """Names of the columns, as stored: a list of str."""
        return ColumnNames(column.name for column in self._core.columns)

    @property
    def schema(self) -> list[_core.ColumnInfo]:
        """Columns with their types, nullability and stored sizes in bytes."""
        return list(self._core.columns)

    @property
    def unread_columns(self) -> dict[str, str]:
        """Columns that are stored in a way that is not read, and why; `columns` has not them."""
        return dict(self._core.unread_columns)

    def __len__(self) -> int:
        return self._core.row_count() if self._selection is None else len(self._selection)

    @property
    def index_name(self) -> str | None:
        """Name of the index of `to_pandas`; None if its numbers are places among all rows.

        The places of a part are called after the part, so that no other part takes them for its own.
        """
        rows, count = self._selection, len(self)
        if rows is None or not count:
            return None
        if self._order is None and self.whole().select().at(count - 1) == rows.at(count - 1):
            return None  # the first rows of all
        digest = hashlib.blake2b(f"{self.uri} {rows.fingerprint()}".encode(), digest_size=4)
        if self._order is not None:
            digest.update(self._order.tobytes())
        return f"place in {count} ({digest.hexdigest()})"

    @property
    def matched_by(self) -> str | None:
        """Column by which a join matched its genes; None for other tables."""
        return getattr(self._core, "name_column", None)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self), len(self._core.columns)

    @suggests(
        {
            **_ARGUMENTS,
            "names": "columns=",
            "column_names": "to_pandas(columns=[…], value_filter=…), which gives a table",
        },
        "DataFrame.read",
    )
    def read(
        self,
        columns: Sequence[str] | str | None = None,
        value_filter: str | None = None,
    ) -> dict[str, ColumnValues]:
        """Read columns as numpy arrays.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Names, in the order of the result. By default all columns; an empty list reads none.
        value_filter : str, optional
            In tiledbsoma's filter language, for example ``"n_genes > 500 and cell_type in
            ['B cell', 'T cell']"``.

        Returns
        -------
        dict
            Name to `ColumnValues`, with one value for each row that passes the filter.

        Raises
        ------
        NotFound
            A column does not exist.
        InvalidArgument
            The filter does not parse (the message points at the place), or a column is named
            twice.
        """
        names = self.checked_columns(columns)
        text = _checked_filter(value_filter, "value_filter")
        if not names:  # the engine takes none for all
            self.select(value_filter)
            return {}
        with self._naming("value_filter", text):
            if self._order is not None and JOINID not in names:
                read = self._core.read([*names, JOINID], text, self._selection)
            else:
                read = self._core.read(names, text, self._selection)
        values = {column.name: from_core(column) for column in read}
        return values if self._order is None else _ordered(values, names, self._order)

    def select(
        self,
        value_filter: str | None = None,
        argument: str = "value_filter",
        constants: Sequence[_core.ConstantColumn] = (),
    ) -> _core.RowSelection:
        """Return the ids of the rows that pass a filter, or of all rows without a filter.

        Parameters
        ----------
        value_filter : str, optional
            In tiledbsoma's filter language.
        argument : str, default "value_filter"
            Name of the filter in errors.
        constants : sequence of ConstantColumn, optional
            Columns of one value that the filter may name, besides the stored columns.

        Returns
        -------
        RowSelection
            Ids (int64), ascending: the ``soma_joinid``, or for joined experiments the ids that
            `own_joinids` takes.

        Raises
        ------
        NotFound
            The filter names a column that does not exist.
        InvalidArgument
            The filter does not parse; the message points at the place.
        """
        text = _checked_filter(value_filter, argument)
        with self._naming(argument, text):
            rows = self._core.select(text, constants) if constants else self._core.select(text)
        return rows if self._selection is None else rows & self._selection

    def contains(self, column: str, value: str, *, separator: str = " || ") -> str:
        """Return the filter of the rows that have a value in a column, alone or among others.

        Since release 2025-11-08 the Census writes several diseases of a cell as
        ``"asthma || COVID-19"``, which ``disease == 'COVID-19'`` does not select.

        Parameters
        ----------
        column : str
            A column of text.
        value : str
            One of the values between the separators, whole.
        separator : str, default " || "
            What stands between the values of a row.

        Returns
        -------
        str
            ``"column in [...]"`` with each text that has the value. tiledbsoma takes it, too.

        Raises
        ------
        NotFound
            There is no such column.
        InvalidArgument
            The column is no text, or no row has the value; the message lists values.
        """
        self.checked_columns([checked_text("column", column)], "column")
        checked_text("value", value)
        if not checked_text("separator", separator):
            raise InvalidArgument("separator must have a character or more")
        texts = self.read([column])[column].distinct().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise InvalidArgument(f"contains needs a column of text, {column!r} has {texts[0]!r}")
        found = [text for text in texts if value in text.split(separator)]
        if not found:
            values = sorted({part for text in texts for part in text.split(separator)})
            named = ", ".join(map(repr, values[:_NAMED_IN_ERRORS]))
            more = f" and {len(values) - _NAMED_IN_ERRORS:,} more" * (
                len(values) > _NAMED_IN_ERRORS
            )
            raise InvalidArgument(f"no row has {value!r} in {column!r}, but {named}{more}")
        plain = column.isidentifier() and not iskeyword(column)
        return f"{column if plain else f'attr({column!r})'} in {found}"

    def whole(self) -> Self:
        """Return the table with all of its rows."""
        return type(self)(self._core, self._kind).named_by(self._name_column)

    def named_by(self, column: str | None) -> Self:
        """Return the table with the column that names its rows; None for the usual one."""
        made = type(self)(self._core, self._kind, self._selection, self._order)
        made._name_column = column  # noqa: SLF001
        return made

    def with_rows(
        self, rows: _core.RowSelection, order: npt.NDArray[np.int64] | None = None
    ) -> Self:
        """Return the table with these rows alone, sorted by joinid or in `order` (joinids)."""
        return type(self)(self._core, self._kind, rows, order).named_by(self._name_column)

    def row_names(self) -> npt.NDArray[Any]:
        """Return the names of the rows as objects, one for each row.

        Cells: the names of an AnnData, which may repeat, or the first usual name column with unique
        values, else their joinids. Genes: the column that was chosen, else the first usual name
        column, else joinids.
        """
        raise NotImplementedError

    def own_joinids(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the ``soma_joinid`` of rows, from the row ids that batches have.

        Parameters
        ----------
        ids : ndarray of int64
            Row ids, shape (rows,).

        Returns
        -------
        ndarray of int64
            Joinid of each row, shape (rows,). Equal to `ids` unless experiments are joined.
        """
        return ids

    def of_rows(self, joinids: npt.NDArray[np.int64], table: Any) -> _core.RowSelection:
        """Return the ids of the rows of a table of pandas, by their joinids.

        Raises
        ------
        InvalidArgument
            Experiments are joined, and the table does not say of which one a row is.
        """
        return _core.RowSelection.from_unsorted(np.unique(joinids))

    def of_each(self, joinids: _core.RowSelection) -> _core.RowSelection:
        """Return the ids of the rows with these joinids, in every joined experiment.

        Parameters
        ----------
        joinids : RowSelection
            Values of ``soma_joinid``.

        Returns
        -------
        RowSelection
            Row ids (int64). Equal to `joinids` unless experiments are joined.
        """
        return joinids

    @suggests(_ARGUMENTS, "DataFrame.to_pandas")
    def to_pandas(
        self,
        columns: Sequence[str] | str | None = None,
        value_filter: str | None = None,
        *,
        names: bool = False,
    ) -> pd.DataFrame:
        """Read columns as a pandas DataFrame; errors are those of `read`.

        Parameters
        ----------
        columns, value_filter
            As for `read`.
        names : bool, default False
            Read the names of the rows, too, for the index. They are those of `Dataset.to_anndata`, so
            columns of the result go into ``adata.obs`` or ``adata.var`` by name.

        Returns
        -------
        pandas.DataFrame
            Enumerations are Categoricals, and strings are objects. Integers with a missing value
            are float64, or objects if float64 would change a value. The index is a RangeIndex, unless
            `names` is True. That of a part of the rows has a name of its own, so that its numbers are
            not taken for other rows.

        Raises
        ------
        MissingPackage
            pandas is not installed.
        """
        require("pandas")
        import pandas as pd

        wanted = self.checked_columns(columns)
        checked_bool("names, whether the index has the names of the rows,", names)
        part = self
        if value_filter is not None:
            rows = self.select(value_filter)
            part = self.with_rows(rows, _kept(self._order, rows))
        read = part.read(wanted)
        index: Any = pd.RangeIndex(len(part), name=part.index_name)
        if names:
            index = pd.Index(part.row_names())
        return pd.DataFrame(
            {name: values.to_pandas() for name, values in read.items()}, index=index
        )

    def checked_columns(
        self, columns: Sequence[str] | str | None, argument: str = "columns"
    ) -> list[str]:
        """Check that columns exist.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Names; all columns by default.
        argument : str, default "columns"
            Name of the argument in errors.

        Returns
        -------
        list of str
            The names.

        Raises
        ------
        NotFound
            A column does not exist; the message lists those that do.
        Unsupported
            A column is stored in a way that is not read; the message says why.
        InvalidArgument
            A name comes twice, or `columns` is not a list of names.
        """
        there = self.columns
        if columns is None:
            return there
        names = checked_names(argument, columns)
        for name in names:
            if name not in there:
                if name in self.unread_columns:
                    raise Unsupported(self.unread_columns[name])
                if isinstance(columns, str) and FILTER_SIGNS.search(name):
                    raise InvalidArgument(f"a filter is value_filter={name!r}, not {argument}")
                meant = did_you_mean(name, there)
                raise NotFound(
                    f"{self._kind} has no column {name!r}{f'{meant} It' if meant else '; it'} has "
                    f"{', '.join(there)}, in {self.uri}"
                )
        if len(set(names)) != len(names):
            raise InvalidArgument(f"{argument} names a column twice, got {names}")
        return names

    @contextmanager
    def _naming(self, argument: str, value_filter: str) -> Iterator[None]:
        """Add the name of the argument, the table and a hint to an error about a filter."""
        try:
            yield
        except (InvalidArgument, NotFound, Unsupported) as error:
            said = str(error)
            if not said.startswith(_FILTER_PREFIX):
                raise
            # The lines after the first show the place in the filter.
            first, *place = said.removeprefix(_FILTER_PREFIX).split("\n")
            if isinstance(error, NotFound):
                meant = hint_of_columns(self.columns, value_filter)
                first = first.replace("; choose", f"{meant} Choose", 1) if meant else first
            else:
                first += hint_of_error(self.schema, value_filter)
            text = "\n".join([f"{argument}: {first}, in {self.uri}", *place])
            raise type(error)(text) from None


def _kept(
    order: npt.NDArray[np.int64] | None, rows: _core.RowSelection
) -> npt.NDArray[np.int64] | None:
    return None if order is None else order[np.isin(order, rows.to_numpy())]


def _ordered(
    values: dict[str, ColumnValues], names: Sequence[str], order: npt.NDArray[np.int64]
) -> dict[str, ColumnValues]:
    """Reorder rows, read by ascending joinid, to the `order` of joinids."""
    joinids = values[JOINID].to_numpy()
    place = np.searchsorted(joinids, order)
    rows = place[np.append(joinids, -1)[place] == order]
    return {name: values[name].take_rows(rows) for name in names}


def _checked_filter(value_filter: str | None, argument: str) -> str:
    return "" if value_filter is None else checked_text(argument, value_filter)
