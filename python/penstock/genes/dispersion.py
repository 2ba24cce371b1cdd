"""Highly variable genes by dispersion: flavors "seurat" and "cell_ranger"."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import InvalidArgument
from penstock.transforms.steps import Expm1, Log1p

from .statistics import Floats, Groups, gene_moments

if TYPE_CHECKING:
    import pandas as pd

    from penstock.dataset.dataset import Dataset
    from penstock.executors.parts import Executor

#: Median absolute deviation of a normal distribution with standard deviation 1.
_NORMAL_MAD = 0.6744897501960817
_LITTLE = 1e-12  # replaces a mean of 0


def by_dispersion(
    ds: Dataset,
    n: int,
    flavor: str,
    groups: Groups | None,
    n_bins: int,
    executor: Executor | None,
) -> dict[str, Any]:
    """Return the columns of scanpy's table for one of the two flavors."""
    if flavor == "seurat":
        logs = [step for step in ds.transforms if isinstance(step, Log1p)]
        base = logs[-1].base if logs else None
        ds = ds.with_settings(transforms=[*ds.transforms, Expm1(base)])
    moments = gene_moments(ds, groups, executor=executor)
    if not np.isfinite(moments.total).all():
        raise InvalidArgument(
            f"flavor {flavor!r} expects logarithmised values, these are too large: give the Dataset "
            "transforms=[ps.NormalizeTotal(), ps.Log1p()], or choose flavor='seurat_v3' for counts"
        )
    tables = []
    for mean, variance, nonzeros in zip(
        moments.mean, moments.variance, moments.nonzeros, strict=True
    ):
        there = nonzeros > 0 if groups is not None else np.ones(len(mean), bool)
        tables.append(_one_batch(mean, variance, there, n, flavor, n_bins))
    if groups is None:
        return tables[0]
    return _all_batches(tables, n, ds.var_names)


def _one_batch(
    mean: Floats, variance: Floats, there: Any, n: int, flavor: str, n_bins: int
) -> dict[str, Any]:
    """Return the columns for one batch; zeros for genes that are not expressed."""
    import pandas as pd

    means = np.where(mean[there] == 0, _LITTLE, mean[there])
    dispersions = variance[there] / means
    if flavor == "seurat":
        dispersions[dispersions == 0] = np.nan
        dispersions, means = np.log(dispersions), np.log1p(means)
        edges: Any = n_bins
    else:
        inner = np.percentile(means, np.arange(10, 105, 5))
        edges = np.concatenate([[-np.inf], inner, [np.inf]])
    try:
        bins = pd.cut(pd.Series(means), bins=edges)
    except ValueError as error:
        raise InvalidArgument(
            f"the means of {len(means)} genes cannot be binned for flavor {flavor!r}: {error}; leave "
            "out genes that few cells have, or choose another flavor"
        ) from None
    centre, spread = _of_bins(pd.Series(dispersions), bins, flavor)
    normalised = (dispersions - centre) / spread
    columns = {
        "means": means,
        "dispersions": dispersions,
        "dispersions_norm": normalised,
        "highly_variable": _largest(normalised, n),
    }
    result = {}
    for name, values in columns.items():
        result[name] = np.zeros(len(mean), values.dtype)
        result[name][there] = values
    return result


def _of_bins(dispersions: pd.Series, bins: pd.Series, flavor: str) -> tuple[Floats, Floats]:
    """Return centre and spread of the dispersions in the bin of each gene."""
    grouped = dispersions.groupby(bins, observed=True)
    if flavor == "seurat":
        centre = grouped.transform("mean").to_numpy(copy=True)
        spread = grouped.transform("std").to_numpy(copy=True)
        # A gene alone in its bin gets the normalised dispersion 1.
        alone = np.isnan(spread)
        spread[alone] = centre[alone]
        centre[alone] = 0
        return centre, spread
    centre = grouped.transform("median").to_numpy()
    spread = np.abs(dispersions - centre).groupby(bins, observed=True).transform("median")
    return centre, spread.to_numpy() / _NORMAL_MAD


def _largest(values: Floats, n: int) -> Any:
    """Return a mask of the values that are at least the n-th largest."""
    known = np.sort(values[~np.isnan(values)])[::-1]
    if len(known) == 0:
        return np.zeros(len(values), bool)
    least = known[min(n, len(known)) - 1]
    return np.nan_to_num(values, nan=-np.inf) >= least


def _all_batches(tables: list[dict[str, Any]], n: int, names: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # genes that are NaN in every batch
        columns = {
            name: np.nanmean([table[name] for table in tables], axis=0)
            for name in ("means", "dispersions", "dispersions_norm")
        }
    batches = np.sum([table["highly_variable"] for table in tables], axis=0)
    by_name = np.argsort(np.argsort(np.asarray(names).astype(str), kind="stable"), kind="stable")
    order = np.lexsort((by_name, -columns["dispersions_norm"], -batches))
    chosen = np.zeros(len(batches), bool)
    chosen[order[:n]] = True
    return {
        **columns,
        "highly_variable": chosen,
        "highly_variable_nbatches": batches,
        "highly_variable_intersection": batches == len(tables),
    }
