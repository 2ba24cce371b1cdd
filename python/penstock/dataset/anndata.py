"""Read a selection into memory as an AnnData."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.base.missing_package import require
from penstock.base.text import plural, size
from penstock.base.validation import parse_memory_size
from penstock.epochs.iterator import EpochProgress
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import JOINID, DataFrame, without_unused_categories
from penstock.experiment.row_lists import is_anndata_table
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.planner import Planner
from penstock.plan.selection import Selection
from penstock.plan.shard import Shard

from .cells import Cells

_BATCH_SIZE = 1024
#: pandas' nullable types, by type.
_NULLABLE = {"bool": "boolean"} | {
    f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def to_anndata(cells: Cells, max_size: int | str, obs_columns: Sequence[str] | None) -> Any:
    """Read all cells into memory; see `Dataset.to_anndata`."""
    most = parse_memory_size("max_size", max_size)
    selection = cells.planner.selection
    if isinstance(selection, SeveralMeasurements):
        selection.refuse("AnnData objects")
    chain = selection.transforms
    if chain is not None and chain.makes_rows:
        raise InvalidArgument(
            "to_anndata needs a sparse X, but the transforms of this dataset make a dense one: remove "
            "Scale(mean=) and RankTokens with with_settings(transforms=…), and scale the result with "
            "scanpy"
        )
    if obs_columns is not None:
        columns = selection.obs.checked_columns(obs_columns, "obs_columns")
    else:
        columns = selection.obs.columns
    _check_size(selection, _expected_bytes(cells.planner), most, "about ")
    require("pandas", "scipy", "anndata", extra="anndata")
    import anndata

    obs = _nullable(selection.obs, selection.obs.to_pandas(columns))
    obs = without_unused_categories(obs)  # as of adata[cells].copy()
    obs.index = selection.obs.row_names()
    var = _nullable(selection.var, selection.var.to_pandas())
    names = selection.var_names.astype(str)
    if len(var) != len(names):  # requested genes that are not stored have no row
        import pandas as pd

        var = pd.DataFrame(index=names)
    var.index = names
    if is_anndata_table(selection.obs):
        obs, var = (obs if obs_columns is not None else _as_stored(obs)), _as_stored(var)
    return anndata.AnnData(_read_x(cells, most), obs, var)


def _nullable(stored: DataFrame, table: Any) -> Any:
    """Return the table with pandas' nullable types for integers and bools of which some are missing.

    AnnData has these types in memory and in its files; it writes no object column of bools.
    """
    types = {}
    for info in stored.schema:
        if info.enumerated or info.name not in table or info.type not in _NULLABLE:
            continue
        if table[info.name].dtype.kind in "Of":
            types[info.name] = _NULLABLE[info.type]
    return table.astype(types) if types else table


def _as_stored(table: Any) -> Any:
    """Return obs or var of an AnnData without what it does not store: row numbers, and its index as a column."""
    made = [
        name
        for name in (JOINID, "obs_names", "var_names")
        if name in table and (name == JOINID or list(table[name]) == list(table.index))
    ]
    return table.drop(columns=made)


def _read_x(cells: Cells, most: int) -> Any:
    """Return X of all cells by joinid, as CSR."""
    import scipy.sparse as sp

    settings = cells.planner.settings
    planner = cells.planner.replace_settings(
        shuffle=False,
        sparse="csr",
        batch_size=_BATCH_SIZE,
        drop_last=False,
        min_batch=1,
        uneven="exact",
        sampling=None,
        device=None,
        dtype=settings.engine_dtype,  # numpy has no bfloat16
    )
    form = replace(
        cells.format, format="numpy", obs_format="arrays", obs_columns=[], pad_column=None
    )
    whole = cells.with_encoders([], form).with_planner(planner)
    parts, held = [], 0
    for X, _ in whole.batches(planner.divided(Shard()).loader(Shard(), 0), EpochProgress()):
        if not sp.issparse(X):
            raise InvalidArgument(
                f"the transforms of this dataset make {type(X).__name__} of X, which AnnData does "
                "not take; read the batches, or a dataset without them"
            )
        # Copied, so that the engine can reuse its memory for the next batches.
        parts.append(X.copy())
        held += sum(array.nbytes for array in (X.data, X.indices, X.indptr))
        _check_size(planner.selection, held, most, "more than ")
    if not parts:
        return sp.csr_matrix((0, planner.selection.n_columns), dtype=planner.settings.dtype)
    return sp.vstack(parts, format="csr")


def _expected_bytes(planner: Planner) -> int:
    """Return the bytes of X, if its density is that of the stored layer."""
    selection = planner.selection
    matrix, cells = selection.matrix, len(selection.rows)
    stored_cells, stored_genes = max(1, selection.experiment.n_obs), max(1, matrix.shape[1])
    part = cells / stored_cells * min(1.0, selection.n_columns / stored_genes)
    entry = np.dtype(planner.settings.engine_dtype).itemsize + np.dtype(np.int32).itemsize
    return int(matrix.stored_cells() * part * entry) + cells * 4


def _check_size(selection: Selection, expected: int, most: int, how: str) -> None:
    if expected <= most:
        return
    raise InvalidArgument(
        f"{plural(len(selection.rows), 'cell')} of {plural(selection.n_columns, 'gene')} take "
        f"{how}{size(expected)} as AnnData, but max_size is {size(most)}: choose "
        "fewer cells by obs_query or random_split, fewer genes by var_query, or give "
        f"max_size={size(expected, up=True).replace(' ', '')!r} or more if there is memory for it"
    )
