"""Labels of pandas objects: names, joinids and places of the rows of obs and var."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidArgument

from .table_reader import JOINID, TableReader

Array = npt.NDArray[Any]

#: The index of an AnnData as a column.
OF_ANNDATA = {"obs": "obs_names", "var": "var_names"}
#: Columns that name cells, in order of preference.
OBS_NAME_COLUMNS = ("obs_names", "obs_id", "cell_id", "index")
#: Columns that name genes, in order of preference.
VAR_NAME_COLUMNS = (
    "var_names",
    "var_id",
    "feature_id",
    "gene_id",
    "feature_name",
    "gene_name",
    "index",
)
#: Column of the table of `highly_variable_genes`, ours or scanpy's, that says which genes to take.
MASK_OF_GENES = "highly_variable"
#: What goes where names repeat.
BOOLS_INSTEAD = "give a bool for each row instead, such as (adata.obs[column] == value).to_numpy()"
#: Name of the index of a part of obs or var (`TableReader.index_name`).
_OF_A_PART = re.compile(r"place in \d+ \([0-9a-f]{8}\)")
_OF_VARIABLE_GENES = {
    MASK_OF_GENES,
    "dispersions",
    "dispersions_norm",
    "highly_variable_intersection",
    "highly_variable_nbatches",
    "highly_variable_rank",
    "mean_bin",
    "means",
    JOINID,
    "variances",
    "variances_norm",
}


def name_columns(table: TableReader) -> list[str]:
    """Return the columns that name the rows of obs or var, the usual one first."""
    usual = OBS_NAME_COLUMNS if table.kind == "obs" else VAR_NAME_COLUMNS
    there = table.columns
    return [name for name in usual if name in there]


def row_names(table: TableReader, column: str | None = None) -> Array:
    """Return names of the rows as objects; see `TableReader.row_names`."""
    if table.kind == "var":
        name = column or table.matched_by or next(iter(name_columns(table)), JOINID)
        return table.read([name])[name].to_numpy().astype(str).astype(object)
    for name in (*OBS_NAME_COLUMNS, JOINID):
        if name in table.columns:
            names = table.read([name])[name].to_numpy().astype(str)
            # An AnnData may have a name twice, which is then the name of both cells.
            if name == OF_ANNDATA[table.kind] or len(np.unique(names)) == len(names):
                return names.astype(object)
    return np.arange(len(table)).astype(str).astype(object)


def by_index(
    given: Any,
    values: Array,
    what: str,
    names: Callable[[], Iterable[Array]],
    joinids: Callable[[], Array],
) -> Array:
    """Return the values of a pandas Series in the order of the rows, one for each row.

    As in pandas, the index of a Series says which row a value is of, wherever it stands. Arrays and
    lists go by place. An index of integers is the places of the rows, or their joinids if it is
    called ``soma_joinid``.

    Parameters
    ----------
    given : object
        What the user gave: a Series, an array or a list.
    values : ndarray
        Its values, one for each row.
    what : str
        Name of `given` in errors.
    names, joinids : callable
        Return the names of the rows, in each way in which they are named, and their joinids.

    Raises
    ------
    InvalidArgument
        The index has other labels than the rows.
    """
    index: Any = getattr(given, "index", None)
    if getattr(given, "ndim", None) != 1 or not hasattr(index, "dtype"):
        return values
    labels = np.asarray(index)
    own: list[Array] = []
    if labels.dtype.kind in "iu":
        own.append(joinids() if index.name == JOINID else np.arange(len(values)))
    elif all(isinstance(label, str) for label in labels.tolist()):
        own.extend(names())
        if not own:  # rows without names are named by their joinids, as in `Dataset.obs_names`
            own.append(joinids().astype(str))
    for rows in own:
        if np.array_equal(labels, rows):
            return values
        place = {label: i for i, label in enumerate(labels.tolist())}
        order = [place.get(row, -1) for row in rows.tolist()]
        if len(place) == len(labels) == len(order) and sorted(order) == list(range(len(order))):
            return values[order]
    raise InvalidArgument(
        f"the index of {what} names other rows, such as {labels[0]!r}: its labels must be those of the "
        f"rows, in any order; to_numpy() of the Series goes by place"
    )


def of_table(table: TableReader, given: Any, values: Array, what: str) -> Array:
    """Return `by_index` for the rows of obs or var; refuse a Series of another part of them."""
    check_own_index(given, table.index_name, what)

    def read(column: str) -> Array:
        return table.read([column])[column].to_numpy()

    return by_index(
        given, values, what, lambda: map(read, name_columns(table)), lambda: read(JOINID)
    )


def check_own_index(given: Any, own_index: str | None, what: str) -> None:
    """Refuse a Series whose index counts the rows of another part of obs or var.

    Raises
    ------
    InvalidArgument
        It does; `own_index` is the name of the index of these rows (`TableReader.index_name`).
    """
    name = getattr(getattr(given, "index", None), "name", None)
    if isinstance(name, str) and name != own_index and _OF_A_PART.fullmatch(name):
        raise InvalidArgument(
            f"the index of {what} counts the rows of another selection: the Series must come from obs "
            "or var of this one; its to_numpy() goes by place"
        )


def is_index_of_integers(given: Any) -> bool:
    """Return whether the user gave a pandas Index of integers that are not called joinids."""
    return hasattr(given, "get_indexer") and given.name != JOINID and given.dtype.kind in "iu"


def check_index(index: Any, own_index: str | None, what: str, numbers: str) -> None:
    """Refuse an Index of integers that does not count these rows.

    Parameters
    ----------
    index : pandas.Index
        What the user gave.
    own_index : str or None
        Name of the index of these rows (`TableReader.index_name`).
    what : str
        Name of `index` in errors.
    numbers : str
        What the integers of an array are here, such as ``"places"``.

    Raises
    ------
    InvalidArgument
        The index has another name.
    """
    if is_index_of_integers(index) and index.name != own_index:
        raise InvalidArgument(
            f"{what}: an index of integers counts the rows of the table that it is from, which are not "
            f"those of this selection: give rows of that table with its column {JOINID}, or "
            f"index.to_numpy() if the integers are {numbers} here"
        )


def text_labels(table: Any) -> list[str] | None:
    """Return the index of a table of pandas, if it is texts that differ; else None."""
    labels = np.asarray(table.index).tolist()
    if not labels or not all(isinstance(label, str) for label in labels):
        return None
    return labels if len(set(labels)) == len(labels) else None


def joinids_of(table: Any, what: str) -> Any:
    """Return the joinids of the rows of a table of pandas, from its column or its index.

    Raises
    ------
    InvalidArgument
        The table has none.
    """
    if JOINID in table:
        return table[JOINID]
    if table.index.name == JOINID:
        return table.index
    if twice := repeated_label(table):
        raise InvalidArgument(
            f"{what} is a table in whose index the name {twice!r} comes more than once, so it does not "
            f"say which rows it has: {BOOLS_INSTEAD}"
        )
    raise InvalidArgument(
        f"{what} is a table that does not say which rows it has: its index must be their names, or "
        f"keep its column {JOINID}; an array of bools goes by place"
    )


def repeated_label(table: Any) -> str | None:
    """Return the first name that comes again in the index of a table of pandas, or None."""
    again = table.index[table.index.duplicated()]
    return next((label for label in again if isinstance(label, str)), None)


def numbers_of(argument: str) -> str:
    """Return what integers are in an argument: places in ``ds[…]``, joinids elsewhere."""
    return "places" if "ds[" in argument else "joinids"


def check_series(given: Any, what: str) -> None:
    """Refuse a Series of integers whose rows have names, such as the counts of values."""
    index = getattr(given, "index", None)
    if getattr(given, "ndim", None) != 1 or not hasattr(index, "dtype"):
        return
    if getattr(given, "name", None) != JOINID and np.asarray(index).dtype.kind not in "iu":
        raise InvalidArgument(
            f"{what}: a Series of integers that belong to rows such as {given.index[0]!r} is no list of "
            f"{numbers_of(what)}; its to_numpy() is one"
        )


def variable_genes(table: Any) -> Any:
    """Return the genes that a table of highly variable genes has chosen, of other tables all rows."""
    if MASK_OF_GENES not in table or not set(table.columns) <= _OF_VARIABLE_GENES:
        return table
    return table[np.asarray(table[MASK_OF_GENES], bool)]
