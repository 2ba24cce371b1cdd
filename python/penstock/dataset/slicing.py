"""Parts of a Dataset by ``ds[cells]`` and ``ds[cells, genes]``, as of an AnnData."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.validation import checked_int, described, shown
from penstock.errors import InvalidArgument, PenstockError
from penstock.experiment.axis_query import resolve
from penstock.experiment.data_frame import JOINID, DataFrame
from penstock.experiment.labels import check_index, check_own_index, check_series
from penstock.experiment.places import as_mask, slice_places
from penstock.experiment.row_lists import selected_table
from penstock.experiment.table_reader import FILTER_SIGNS
from penstock.transforms import Transform
from penstock.transforms.steps import ChosenGenes

_CELLS = "the cells of ds[cells]"
_GENES = "the genes of ds[cells, genes]"


def split_key(key: Any) -> tuple[Any, Any]:
    """Return the cells and the genes of a key; None for all.

    Raises
    ------
    InvalidArgument
        The key has more than two parts, or a part is None or an empty text.
    """
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if part is None or (isinstance(part, str) and not part.strip()):
            raise InvalidArgument(
                f"{part!r} chooses nothing: ds[:] has all cells, ds[:, :] all genes"
            )
    if len(parts) > 2:
        raise InvalidArgument(
            f"a Dataset takes ds[cells] or ds[cells, genes], got {described(key)}"
        )
    cells, genes = (*parts, None, None)[:2]
    return _unless_all(cells), _unless_all(genes)


def _unless_all(part: Any) -> Any:
    return None if part is Ellipsis or (isinstance(part, slice) and part == slice(None)) else part


def rows_at(obs: DataFrame, cells: Any) -> _core.RowSelection:
    """Return the row ids of cells: places, a bool for each cell, names, a filter or a selection.

    Raises
    ------
    InvalidArgument
        `cells` is one number, nothing or of another kind, a place comes twice or is past the end.
    NotFound
        A name or a column of the filter does not exist.
    """
    if is_number(cells):
        place = shown(operator.index(cells))
        raise InvalidArgument(
            f"a Dataset gives batches, not single cells, got ds[{place}]: ds.head() reads the first "
            f"cells, ds[[{place}]].head() reads one, and `for X, obs in ds` reads all. ds[[1, 5, 7]] "
            "replaces torch's Subset, and ds.random_split its random_split"
        )
    if selected_table(cells, "obs") is None and getattr(cells, "name", None) != JOINID:
        places = as_places(cells, len(obs), _CELLS, obs.index_name)
        if isinstance(cells, slice) and places is not None and (np.diff(places) < 0).any():
            raise InvalidArgument(
                f"cells stay in stored order, so the step of a slice must be above 0, got {cells}: "
                "ds.to_anndata()[::-1] has them the other way round"
            )
        if places is not None:
            return obs.select().take(np.sort(places).astype(np.uint64))
    try:
        return resolve(obs, cells, "ds[cells]")
    except PenstockError:
        if isinstance(cells, str) and cells in obs.row_names():
            raise InvalidArgument(
                f"a text in ds[…] is a filter, but {cells!r} is the name of a cell: ds[[{cells!r}]]"
            ) from None
        raise


def is_number(value: Any) -> bool:
    """Return whether a value is one integer."""
    if isinstance(value, (bool, np.bool_)):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def as_places(
    part: Any, count: int, what: str, own_index: str | None
) -> npt.NDArray[np.int64] | None:
    """Return the places that a slice or an array of integers has among `count`; else None.

    Raises
    ------
    InvalidArgument
        A place is past the end, or comes twice; or an Index of pandas counts other rows than those
        of the table whose index is called `own_index`.
    """
    if isinstance(part, slice):
        return slice_places(part, count, what)
    if as_mask(part) is not None:
        return None
    try:
        values = np.asarray(part)
    except (TypeError, ValueError):
        return None
    if values.ndim != 1 or values.dtype.kind not in "iu":
        return None
    check_series(part, what)
    check_index(part, own_index, what, "places")
    if len(values) and not -count <= int(values.min()) <= int(values.max()) < count:
        raise InvalidArgument(
            f"{what} are places from 0 to {count - 1:,}, got {values.min()} to {values.max()}; joinids "
            "go into obs_query or var_query"
        )
    places = values.astype(np.int64) % max(count, 1)
    if len(np.unique(places)) < len(places):
        raise InvalidArgument(f"{what} have a place twice")
    return places


def gene_step(
    transforms: Iterable[Any],
    var: DataFrame,
    columns: npt.NDArray[np.int64],
    names: Callable[[], npt.NDArray[Any]],
    genes: Any,
) -> ChosenGenes:
    """Return the step that chooses the genes of a key, after the `transforms` of a dataset.

    Parameters
    ----------
    transforms : iterable
        Steps before this one.
    var : DataFrame
        Genes, in the order of the columns of X.
    columns : ndarray of int64
        Joinids of the columns of X, -1 for a gene that is not stored.
    names : callable
        Returns the names of the columns of X.
    genes : object
        Places, names, a bool for each column, a filter, a table, or another selection.

    Raises
    ------
    InvalidArgument
        A place is past the end, or comes twice; a selection is of another experiment; or the
        transforms end in a Python callable.
    NotFound
        The filter names a column that does not exist.
    """
    if any(not isinstance(each, Transform) for each in transforms):
        raise InvalidArgument(
            "ds[:, genes] would come after a Python callable of transforms=: choose the genes "
            "first, then ds.with_settings(transforms=[…])"
        )
    chosen = _genes_at(var, columns, genes)
    if isinstance(chosen, list) and -1 in chosen:  # genes that are not stored have no joinid
        places = as_places(genes, len(columns), _GENES, "")
        return ChosenGenes(names()[places].tolist(), missing="zero")
    return ChosenGenes(chosen)


def _genes_at(var: DataFrame, columns: npt.NDArray[np.int64], genes: Any) -> Any:
    """Return what `SelectGenes` takes for the genes of a key."""
    if isinstance(genes, str):
        return _filtered(var, columns, genes) if FILTER_SIGNS.search(genes) else [genes]
    if is_number(genes):
        count = len(columns)
        genes = [checked_int(_GENES, genes, least=-count, most=count - 1)]
    if (table := selected_table(genes, "var")) is not None:
        if not isinstance(table, DataFrame):
            return table
        kept = resolve(var, table, "ds[:, genes]")
        joinids = table.read([JOINID])[JOINID].to_numpy()
        return joinids[np.isin(joinids, kept.to_numpy())].tolist()
    if getattr(genes, "name", None) == JOINID:
        return genes
    own_index = var.index_name if len(var) == len(columns) else ""  # "": some are not stored
    check_own_index(genes, own_index, "ds[:, genes]")
    places = as_places(genes, len(columns), _GENES, own_index)
    return genes if places is None else columns[places].tolist()


def _filtered(var: DataFrame, columns: npt.NDArray[np.int64], value_filter: str) -> list[int]:
    kept = var.select(value_filter, "ds[:, genes]").to_numpy()
    chosen: list[int] = columns[np.isin(columns, kept)].tolist()
    return chosen
