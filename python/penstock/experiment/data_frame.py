"""Tables of an experiment, obs and var, used as a DataFrame of pandas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.suggestions import did_you_mean, suggests
from penstock.base.validation import checked_bool, checked_int, described
from penstock.errors import InvalidArgument, NotFound, PenstockError

from .labels import of_table, row_names
from .places import as_mask, slice_places
from .reprs import dataframe_html, dataframe_text
from .table_reader import JOINID as JOINID
from .table_reader import TableReader

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_ROWS = 3

#: Attributes of a pandas DataFrame that people look for here.
_OF_PANDAS = frozenset(
    [
        "T",
        "agg",
        "apply",
        "assign",
        "at",
        "cat",
        "copy",
        "corr",
        "count",
        "describe",
        "drop",
        "drop_duplicates",
        "dropna",
        "duplicated",
        "empty",
        "eq",
        "fillna",
        "filter",
        "groupby",
        "hist",
        "iat",
        "idxmax",
        "iloc",
        "index",
        "info",
        "isin",
        "isna",
        "isnull",
        "items",
        "iterrows",
        "itertuples",
        "join",
        "loc",
        "map",
        "max",
        "mean",
        "median",
        "merge",
        "min",
        "nlargest",
        "notna",
        "nsmallest",
        "nunique",
        "pivot",
        "pivot_table",
        "plot",
        "quantile",
        "query",
        "rename",
        "replace",
        "reset_index",
        "round",
        "sample",
        "select_dtypes",
        "set_index",
        "size",
        "sort_index",
        "sort_values",
        "squeeze",
        "stack",
        "std",
        "str",
        "sum",
        "tail",
        "to_csv",
        "to_dict",
        "to_frame",
        "to_list",
        "to_numpy",
        "tolist",
        "transform",
        "unstack",
        "values",
        "where",
    ]
)


class DataFrame(TableReader):
    """Table of an experiment (obs or var), or the rows of it that a `Dataset` selects.

    Columns are read when their values are requested: ``obs["cell_type"]`` and ``obs.cell_type`` are
    a pandas Series, ``obs[["cell_type", "sex"]]`` is a pandas DataFrame, and `to_pandas` reads all.
    ``obs[:10]`` and ``obs[obs["sex"] == "male"]`` are tables of fewer rows. Rows are in ascending
    order of ``soma_joinid``, but those of `Dataset.var` are in the order of X's columns.
    """

    def head(self, n: int = 5) -> pd.DataFrame:
        """Read the first rows as a pandas DataFrame.

        Parameters
        ----------
        n : int, default 5
            Number of rows; all rows if there are fewer.

        Returns
        -------
        pandas.DataFrame
            All columns, as `to_pandas` gives them.

        Raises
        ------
        InvalidArgument
            `n` is negative or not an integer.
        MissingPackage
            pandas is not installed.
        """
        frame = self[: checked_int("n", n, least=0)].to_pandas()
        frame.index.name = self.index_name  # the first places are those of the table
        return frame

    def row_names(self) -> npt.NDArray[Any]:
        """See `TableReader.row_names`."""
        return row_names(self, self._name_column)

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return self.columns

    @property
    def dtypes(self) -> pd.Series[Any]:
        """Types of the columns as `to_pandas` gives them: a pandas Series by column name.

        Columns of numbers and bools that may have missing values are read, since their type in pandas
        depends on it.
        """
        types = self[:0].to_pandas().dtypes
        read = [
            column.name
            for column in self.schema
            if column.nullable and not column.is_string and types[column.name] != "category"
        ]
        if read:
            types[read] = self.to_pandas(read).dtypes
        return types

    def unique(self, column: str) -> npt.NDArray[Any]:
        """Return the values that occur in a column, sorted, without missing ones.

        Parameters
        ----------
        column : str
            Name of the column.

        Returns
        -------
        ndarray
            One-dimensional, in the type of the column.

        Raises
        ------
        NotFound
            The column does not exist.
        """
        (name,) = self.checked_columns([column], "column")
        return self.read([name])[name].distinct()

    @suggests(
        dict.fromkeys(
            ("ascending", "bins", "sort"), "the Series of pandas: obs[column].value_counts(…)"
        ),
        "DataFrame.value_counts",
    )
    def value_counts(
        self, columns: str | Sequence[str] = (), *, normalize: bool = False, dropna: bool = True
    ) -> pd.Series[Any]:
        """Count the rows of each value of a column, or of each combination of several columns.

        Parameters
        ----------
        columns : str or sequence of str
            Name of a column, or several names.
        normalize : bool, default False
            Return shares of the rows instead of counts.
        dropna : bool, default True
            Leave out rows without a value.

        Returns
        -------
        pandas.Series
            As `pandas.Series.value_counts` has it: the most frequent value first. Categories that no
            row has are left out.

        Raises
        ------
        NotFound
            A column does not exist.
        MissingPackage
            pandas is not installed.
        """
        how = {
            "normalize": checked_bool("normalize", normalize),
            "dropna": checked_bool("dropna", dropna),
        }
        names = self.checked_columns(columns)
        if not names:
            raise InvalidArgument(
                f"value_counts needs a column or more, such as {self._kind}.value_counts(column)"
            )
        frame = without_unused_categories(self.to_pandas(names))
        if isinstance(columns, str):
            return frame[names[0]].value_counts(**how)
        counts = frame.value_counts(**how)
        return counts[counts > 0]

    def __getitem__(self, key: Any) -> Any:
        """Return a column as a Series, columns as a DataFrame of pandas, or a part of the rows.

        Parameters
        ----------
        key : str, list of str, slice, or array of bool
            ``obs["cell_type"]`` is a pandas Series and ``obs[["cell_type", "sex"]]`` a pandas
            DataFrame, of a part of the rows without the categories that no row has, as in an AnnData.
            ``obs[:10]`` and ``obs[obs["sex"] == "male"]`` are tables of those rows, of which nothing is
            read yet.

        Raises
        ------
        NotFound
            A column does not exist.
        InvalidArgument
            The key is of another kind, there is not one bool for each row, or a Series has other rows.
        """
        if isinstance(key, str):
            try:
                (name,) = self.checked_columns([key], "column")
            except NotFound:
                if key in self.row_names():
                    raise NotFound(
                        f"{self._kind} has no column {key!r}, but a row of this name: "
                        f"{self._kind}.to_pandas(names=True).loc[{key!r}]"
                    ) from None
                raise
            return self._columns([name])[name]
        if isinstance(key, slice):
            return self._at(slice_places(key, len(self), f"rows of {self._kind}[…]"), key)
        if isinstance(key, list) and all(isinstance(each, str) for each in key):
            return self._columns(key)
        mask = as_mask(key)
        if mask is None:
            raise InvalidArgument(
                f"{self._kind}[…] takes the name of a column, a list of names, a slice of rows or a "
                f"bool for each row, got {described(key)}; {self._kind}.to_pandas() has the rest of "
                "pandas"
            )
        if len(mask) != len(self):
            raise InvalidArgument(
                f"{self._kind}[…] needs a bool for each of the {len(self):,} rows, got {len(mask):,}"
            )
        mask = of_table(self, key, mask, f"the key of {self._kind}[…]")
        return self._at(np.flatnonzero(mask), key)

    def _columns(self, names: list[str]) -> pd.DataFrame:
        frame = self.to_pandas(names)
        if self._selection is None or len(self._selection) == self._core.row_count():
            return frame
        return without_unused_categories(frame)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"{self._kind} is read-only: frame = {self._kind}.to_pandas(), then frame[{key!r}] = …"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(
                f"{self._kind} is read-only: frame = {self._kind}.to_pandas(), then frame[{name!r}] = …"
            )
        super().__setattr__(name, value)

    def _at(self, places: npt.NDArray[np.int64], key: Any) -> Self:
        """Return the table of the rows at some places, ascending."""
        if (np.diff(places) < 0).any():
            raise InvalidArgument(
                f"rows stay in their order: {self._kind}[{key}] must have a step above 0"
            )
        if self._order is None:
            return self.with_rows(self.select().take(places.astype(np.uint64)))
        order = self._order[places]
        return self.with_rows(_core.RowSelection.from_unsorted(np.sort(order)), order)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]:
        # Else numpy and pandas would take the names of the columns for rows.
        raise TypeError(f"{self._kind} is not in memory; {self._kind}.to_pandas() reads it")

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes. Copying asks for names with underscores.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        columns = self.columns
        if name in columns:
            return self[name]
        if name in ("at", "index", "loc"):
            raise AttributeError(
                f"{self._kind} has no {name!r}, since it is not in memory; read it first: "
                f"{self._kind}.to_pandas(names=True).{name} goes by the names of the rows"
            )
        if name in _OF_PANDAS:
            raise AttributeError(
                f"{self._kind} has no {name!r}, since it is not in memory; read it first: "
                f"{self._kind}.to_pandas().{name}, or some of its columns: "
                f"{self._kind}.to_pandas([…]).{name}"
            )
        raise AttributeError(
            f"{self._kind} has no column and no attribute {name!r}"
            + did_you_mean(name, [*columns, *_methods(type(self))])
        )

    def __dir__(self) -> list[str]:
        return [*_methods(type(self)), *(name for name in self.columns if name.isidentifier())]

    def __repr__(self) -> str:
        return dataframe_text(self._kind, len(self), self.schema)

    def _repr_html_(self) -> str:
        return dataframe_html(self._kind, len(self), self.schema, self.uri, self._first_values())

    def _first_values(self) -> dict[str, list[Any]]:
        """Read a few values of each column, unless they are far away or cannot be read."""
        if "://" in self.uri:
            return {}
        try:
            read = self[:_SHOWN_ROWS].read()
        except (PenstockError, OSError, MemoryError):
            return {}
        return {name: values.to_numpy().tolist() for name, values in read.items()}

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self._kind} is neither copied nor pickled: it never changes, and "
            f"{self._kind}.to_pandas() makes a table in memory"
        )


def without_unused_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the categories that occur in it alone."""
    for name in frame:
        if frame[name].dtype == "category":
            frame[name] = frame[name].cat.remove_unused_categories()
    return frame


def _methods(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]
