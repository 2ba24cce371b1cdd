"""Highly variable genes of the Census (cellxgene_census.experimental.pp).

    from penstock.compat.census.pp import highly_variable_genes

Arguments and columns are the Census's. The cells are streamed, by Penstock's engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.base.validation import checked_int, checked_names
from penstock.compat.key_errors import missing_names
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument
from penstock.genes.highly_variable import batch_groups, variable_genes
from penstock.genes.statistics import Groups

from .slices import dataset_of

if TYPE_CHECKING:
    import pandas as pd


def highly_variable_genes(
    query: Any,
    n_top_genes: int = 1000,
    layer: str = "raw",
    flavor: str = "seurat_v3",
    span: float = 0.3,
    batch_key: str | Sequence[str] | None = None,
    max_loess_jitter: float = 1e-6,
    batch_key_func: Callable[..., Any] | None = None,
) -> pd.DataFrame:
    """Find the genes of a query that vary most between cells, with scanpy's columns.

    Parameters
    ----------
    query : tiledbsoma.ExperimentAxisQuery
        Cells and genes, or another source of `penstock.Dataset`.
    n_top_genes : int, default 1000
        Number of genes to find.
    layer : str, default "raw"
        Layer of X, which has counts.
    flavor : str, default "seurat_v3"
        Must be "seurat_v3".
    span : float, default 0.3
        Share of the genes in each local fit.
    batch_key : str or list of str, optional
        Columns of obs. Cells with the same values in all of them are a batch.
    max_loess_jitter : float, default 1e-6
        Most that the mean of a gene is moved if a fit fails.
    batch_key_func : callable, optional
        Gets the columns of `batch_key` of a cell, as a Series, and returns its batch.

    Returns
    -------
    pandas.DataFrame
        ``means``, ``variances``, ``highly_variable_rank``, ``variances_norm``, ``highly_variable``
        and, with `batch_key`, ``highly_variable_nbatches``, by ``soma_joinid``. A batch of one cell
        counts for no gene.

    Raises
    ------
    InvalidArgument
        An argument is out of range, or a fit fails. Also a ValueError.
    NotFound
        A column or layer does not exist. Also a KeyError.
    MissingPackage
        pandas or scikit-misc is not installed; the extra [genes] has both.
    """
    with missing_names():
        ds = Dataset(query, layer=layer, obs_columns=[], sparse=True)
        return _highly_variable(
            ds, n_top_genes, flavor, span, batch_key, max_loess_jitter, batch_key_func
        )


def get_highly_variable_genes(
    census: Any,
    organism: str,
    measurement_name: str = "RNA",
    X_name: str = "raw",
    obs_value_filter: str | None = None,
    obs_coords: Any = None,
    var_value_filter: str | None = None,
    var_coords: Any = None,
    n_top_genes: int = 1000,
    flavor: str = "seurat_v3",
    span: float = 0.3,
    batch_key: str | Sequence[str] | None = None,
    max_loess_jitter: float = 1e-6,
    batch_key_func: Callable[..., Any] | None = None,
) -> pd.DataFrame:
    """Find the genes of a slice of the Census that vary most; see `highly_variable_genes`.

    For the slice, see `penstock.compat.census.get_anndata`.
    """
    with missing_names():
        ds = dataset_of(
            census, organism, measurement_name, X_name,
            obs=(obs_value_filter, obs_coords), var=(var_value_filter, var_coords),
        )  # fmt: skip
        return _highly_variable(
            ds, n_top_genes, flavor, span, batch_key, max_loess_jitter, batch_key_func
        )


def _highly_variable(
    ds: Dataset,
    n_top_genes: int,
    flavor: str,
    span: float,
    batch_key: str | Sequence[str] | None,
    max_loess_jitter: float,
    batch_key_func: Callable[..., Any] | None,
) -> pd.DataFrame:
    if flavor != "seurat_v3":
        raise InvalidArgument(
            f'flavor must be "seurat_v3", got {flavor!r}; penstock.highly_variable_genes has others'
        )
    n = checked_int("n_top_genes", n_top_genes, least=1)
    groups = None if batch_key is None else _groups(ds, batch_key, batch_key_func)
    found = variable_genes(ds, n, flavor, groups, span, most_jitter=max_loess_jitter)
    return found.set_index("soma_joinid")


def _groups(
    ds: Dataset, batch_key: str | Sequence[str], function: Callable[..., Any] | None
) -> Groups:
    if function is None:
        return batch_groups(ds, batch_key)
    columns = [batch_key] if isinstance(batch_key, str) else checked_names("batch_key", batch_key)
    obs = ds.obs.to_pandas(columns=columns)
    batches = obs.apply(function, axis=1, result_type="reduce").astype("category")
    if (batches.cat.codes < 0).any():
        raise InvalidArgument("batch_key_func gave no batch for some cells")
    return Groups(batches.cat.categories.to_numpy(), batches.cat.codes.to_numpy(np.uint32))


def __getattr__(name: str) -> Any:
    """Say of `mean_variance` what replaces it."""
    hint = ": use penstock.gene_statistics or cell_statistics" * (name == "mean_variance")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
