"""obs and var: SOMA DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.validation import checked_names, checked_text
from penstock.errors import InvalidArgument, NotFound, Unsupported

from .columns import ColumnValues, from_core
from .reprs import dataframe_html, dataframe_text

if TYPE_CHECKING:
    import pandas as pd

JOINID = "soma_joinid"

#: How the engine's errors about a filter begin.
_FILTER_PREFIX = "value_filter: "


class DataFrame:
    """obs or var of an experiment, or the rows of it that a `Dataset` selects.

    Nothing is read before values are asked for, and then only the columns that are needed. Rows
    come in ascending order of ``soma_joinid``; those of `Dataset.var` in the order of X's columns.
    """

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
        self._order = order  # joinids of the selection in another order

    @property
    def uri(self) -> str:
        """Where it is stored."""
        return self._core.uri

    @property
    def columns(self) -> list[str]:
        """Names of the columns, as stored."""
        return [column.name for column in self._core.columns]

    @property
    def schema(self) -> list[_core.ColumnInfo]:
        """Columns with their types, nullability and stored sizes."""
        return list(self._core.columns)

    def __len__(self) -> int:
        return self._core.row_count() if self._selection is None else len(self._selection)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self), len(self._core.columns)

    def read(
        self,
        columns: Sequence[str] | None = None,
        value_filter: str | None = None,
    ) -> dict[str, ColumnValues]:
        """Read columns as numpy arrays.

        Parameters
        ----------
        columns : sequence of str, optional
            Names, in the order wanted; all when absent, none for an empty list.
        value_filter : str, optional
            In tiledbsoma's filter language, for example ``"n_genes > 500 and cell_type in
            ['B cell', 'T cell']"``.

        Returns
        -------
        dict
            Name to `ColumnValues`; every column has one value a row.

        Raises
        ------
        NotFound
            A column does not exist.
        InvalidArgument
            The filter does not parse; the message points at the place.
        """
        names = self.checked_columns(columns)
        text = _checked_filter(value_filter, "value_filter")
        if not names:  # the engine takes none for all
            self.select(value_filter)
            return {}
        with _naming("value_filter", self.uri):
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
        """Joinids of the rows that a filter keeps; of all rows without one.

        Errors call the filter by the name of the `argument` that it came in. The filter may name
        `constants` beside the columns that are stored.
        """
        text = _checked_filter(value_filter, argument)
        with _naming(argument, self.uri):
            rows = self._core.select(text, constants) if constants else self._core.select(text)
        return rows if self._selection is None else rows & self._selection

    def with_rows(
        self, rows: _core.RowSelection, order: npt.NDArray[np.int64] | None = None
    ) -> DataFrame:
        """Return the same table of these rows alone, ascending or in the `order` of their joinids."""
        return DataFrame(self._core, self._kind, rows, order)

    def own_joinids(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the ``soma_joinid`` of rows by the ids that batches give.

        They are the same but where experiments are joined.
        """
        joined = getattr(self._core, "own_joinids", None)
        return ids if joined is None else joined(ids)

    def of_each(self, joinids: _core.RowSelection) -> _core.RowSelection:
        """Return the ids of rows with these joinids, those of every experiment that is joined."""
        joined = getattr(self._core, "of_each", None)
        return joinids if joined is None else joined(joinids)

    def to_pandas(
        self, value_filter: str | None = None, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Read as a pandas DataFrame; arguments and errors are those of `read`.

        Enumerated columns are Categoricals, strings objects, a missing integer makes its column
        float64 (objects where float64 would change a value). The index counts the rows, also where
        there are no columns.
        """
        require("pandas")
        import pandas as pd

        read = self.read(columns, value_filter)
        if not read:
            return pd.DataFrame(index=pd.RangeIndex(len(self.select(value_filter))))
        return pd.DataFrame({name: values.to_pandas() for name, values in read.items()})

    def checked_columns(
        self, columns: Sequence[str] | None, argument: str = "columns"
    ) -> list[str]:
        """Return the names as a list, all for None; raise `NotFound` for one that does not exist."""
        there = self.columns
        if columns is None:
            return there
        names = checked_names(argument, columns)
        for name in names:
            if name not in there:
                raise NotFound(
                    f"{self._kind} has no column {name!r}; it has {', '.join(there)}, in {self.uri}"
                )
        if len(set(names)) != len(names):
            raise InvalidArgument(f"{argument} names a column twice, got {names}")
        return names

    def __repr__(self) -> str:
        return dataframe_text(self._kind, self)

    def _repr_html_(self) -> str:
        return dataframe_html(self._kind, self)

    def __reduce__(self) -> Any:
        raise TypeError("pickle the Experiment or the Dataset, not its DataFrame")


def _ordered(
    values: dict[str, ColumnValues], names: Sequence[str], order: npt.NDArray[np.int64]
) -> dict[str, ColumnValues]:
    """Rows that were read, by ascending joinid, in another order of joinids."""
    joinids = values[JOINID].to_numpy()
    place = np.searchsorted(joinids, order)
    rows = place[np.append(joinids, -1)[place] == order]
    return {name: values[name].take_rows(rows) for name in names}


def _checked_filter(value_filter: str | None, argument: str) -> str:
    return "" if value_filter is None else checked_text(argument, value_filter)


@contextmanager
def _naming(argument: str, uri: str) -> Iterator[None]:
    """Let an error about a filter say which argument it came in, and of what table."""
    try:
        yield
    except (InvalidArgument, NotFound, Unsupported) as error:
        said = str(error)
        if not said.startswith(_FILTER_PREFIX):
            raise
        # The lines after the first show the place in the filter.
        first, *place = said.removeprefix(_FILTER_PREFIX).split("\n")
        raise type(error)("\n".join([f"{argument}: {first}, in {uri}", *place])) from None
