"""A selection in memory, as an AnnData."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.missing_package import require
from penstock.base.text import plural, size
from penstock.base.validation import parse_memory_size
from penstock.epochs.iterator import EpochProgress
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import JOINID
from penstock.plan.shard import Shard

if TYPE_CHECKING:
    from .dataset import Dataset

#: Columns of obs that name cells, best first.
_NAME_COLUMNS = ("obs_id", "cell_id", "index")

_BATCH_SIZE = 1024


def to_anndata(dataset: Dataset, max_size: int | str) -> Any:
    """Read all cells of a dataset; see `Dataset.to_anndata`."""
    most = parse_memory_size("max_size", max_size)
    chain = dataset._selection.transforms
    if chain is not None and chain.makes_rows:
        raise InvalidArgument(
            "the transforms of this dataset make no sparse matrix of X, as AnnData is given here: leave "
            "Scale(mean=) and RankTokens out by with_settings(transforms=…), and scale the result with "
            "scanpy"
        )
    _check_size(dataset, _expected_bytes(dataset), most, "about ")
    require("pandas", "scipy", "anndata", extra="anndata")
    import anndata

    obs = dataset.obs.to_pandas()
    obs.index = _names(obs, _NAME_COLUMNS)
    var = dataset.var.to_pandas()
    names = dataset.var_names.astype(str)
    if len(var) != len(names):  # genes of a list that are not stored have no row
        import pandas as pd

        var = pd.DataFrame(index=names)
    var.index = names
    return anndata.AnnData(_read_x(dataset, most), obs, var)


def _read_x(dataset: Dataset, most: int) -> Any:
    """X of all cells by joinid, as CSR."""
    import scipy.sparse as sp

    whole = dataset._part(dataset._selection)
    whole._settings = replace(
        dataset._settings,
        shuffle=False,
        sparse="csr",
        batch_size=_BATCH_SIZE,
        drop_last=False,
        min_batch=1,
        uneven="exact",
        sampling=None,
        device=None,
        dtype=dataset._settings.engine_dtype,  # numpy has no bfloat16
    )
    whole._batch_format = replace(
        dataset._batch_format, format="numpy", obs_format="arrays", obs_columns=[], pad_column=None
    )
    whole._encoders = []
    loader = whole._selection.loader(whole._settings, Shard(), 0)
    parts, held = [], 0
    for X, _ in whole._iterate(loader, whole._fitted_obs(), EpochProgress()):
        if not sp.issparse(X):
            raise InvalidArgument(
                f"the transforms of this dataset make {type(X).__name__} of X, which AnnData does "
                "not take; read the batches, or a dataset without them"
            )
        # A copy of what the engine lends, so that its memory is free for the next batches.
        parts.append(X.copy())
        held += sum(array.nbytes for array in (X.data, X.indices, X.indptr))
        _check_size(dataset, held, most, "more than ")
    if not parts:
        return sp.csr_matrix((0, dataset.n_vars), dtype=whole._settings.dtype)
    return sp.vstack(parts, format="csr")


def _expected_bytes(dataset: Dataset) -> int:
    """Of X, if its cells and genes are like those that are stored."""
    selection = dataset._selection
    matrix = selection.matrix
    stored_cells, stored_genes = max(1, dataset.experiment.n_obs), max(1, matrix.shape[1])
    share = dataset.n_obs / stored_cells * min(1.0, dataset.n_vars / stored_genes)
    entry = np.dtype(dataset._settings.engine_dtype).itemsize + np.dtype(np.int32).itemsize
    return int(matrix.stored_cells() * share * entry) + dataset.n_obs * 4


def _check_size(dataset: Dataset, expected: int, most: int, how: str) -> None:
    if expected <= most:
        return
    raise InvalidArgument(
        f"{plural(dataset.n_obs, 'cell')} of {plural(dataset.n_vars, 'gene')} take "
        f"{how}{size(expected)} as AnnData, and max_size is {size(most)}: choose "
        "fewer cells by obs_query or random_split, fewer genes by var_query, or give "
        f"max_size={size(expected, up=True).replace(' ', '')!r} or more if there is memory for it"
    )


def _names(obs: Any, columns: tuple[str, ...]) -> npt.NDArray[Any]:
    """Names of the cells: the first column whose values tell them apart, else their numbers."""
    for column in (*columns, JOINID):
        if column in obs and obs[column].is_unique:
            names: npt.NDArray[Any] = obs[column].astype(str).to_numpy()
            return names
    return np.arange(len(obs)).astype(str)
