"""Highly variable genes of cells that do not fit in memory, with scanpy's results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.base.missing_package import require
from penstock.base.suggestions import suggests
from penstock.base.text import plural
from penstock.base.validation import checked_choice, checked_int, checked_names, described
from penstock.dataset.functions import as_dataset
from penstock.dataset.hints import OF_A_DATASET
from penstock.errors import InvalidArgument

from .dispersion import by_dispersion
from .statistics import Floats, Groups, Moments, gene_moments, group_codes

if TYPE_CHECKING:
    import pandas as pd

    from penstock.dataset.dataset import Dataset
    from penstock.executors.parts import Executor

_LEAST_JITTER = 1e-18
_SPANS = (0.4, 0.5, 0.6, 0.8, 1.0)
FLAVORS = ("seurat_v3", "seurat_v3_paper", "seurat", "cell_ranger")


@suggests({**OF_A_DATASET, "n": "n_top_genes=", "subset": "ps.SelectGenes(hvg)"})
def highly_variable_genes(
    ds: Dataset | Any,
    n_top_genes: int = 2000,
    *,
    flavor: str = "seurat_v3",
    batch_key: str | Sequence[str] | None = None,
    span: float = 0.3,
    n_bins: int = 20,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Find the genes that vary most between cells, as `scanpy.pp.highly_variable_genes` does.

    The cells are streamed once ("seurat", "cell_ranger") or twice ("seurat_v3"). Only sums are
    stored: 32 bytes for each gene and batch for counts, 80 bytes for other values.

    Parameters
    ----------
    ds : Dataset or source of one
        Cells of all ranks, and genes. A source, such as a path or an AnnData object, is read with
        the default settings of a Dataset. "seurat_v3" takes counts. "seurat" and "cell_ranger" take
        logarithmised values, such as those of ``ds.with_settings(transforms=[ps.NormalizeTotal(),
        ps.Log1p()])``.
    n_top_genes : int, default 2000
        Number of genes to find.
    flavor : {"seurat_v3", "seurat_v3_paper", "seurat", "cell_ranger"}, default "seurat_v3"
        "seurat_v3" ranks the variance of counts, standardised by a loess fit of variance on mean,
        with large values clipped (Stuart et al., Cell 177, 2019). It needs scikit-misc. "seurat"
        (Satija et al., Nature Biotechnology 33, 2015) and "cell_ranger" (Zheng et al., Nature
        Communications 8, 2017) compare each gene's dispersion with genes of similar mean.
    batch_key : str or list of str, optional
        Column of obs with the batch of each cell, or several columns: cells with the same values in
        all of them are a batch. Genes are ranked in each batch, then ranks are
        combined. "seurat_v3" sorts by median rank, then by the number of batches that have the gene
        among their `n_top_genes`. The other flavors sort by the number of batches first.
    span : float, default 0.3
        Share of the genes in each local fit of the "seurat_v3" flavors.
    n_bins : int, default 20
        Bins of the mean for "seurat".
    executor : concurrent.futures.Executor, optional
        Reads the cells in parts of 262,144 (docs/how-to/executors.md). The result has the same bits.

    Returns
    -------
    pandas.DataFrame
        scanpy's columns and ``soma_joinid``, with one row for each gene in the order of X's
        columns, indexed by `Dataset.var_names`. ``ps.SelectGenes(hvg)``, ``var_query=hvg`` and
        ``ds[:, hvg]`` select the genes.

    Raises
    ------
    InvalidArgument
        An argument is out of range, a batch has too few cells, or the flavor cannot use the values.
    NotFound
        The column does not exist.
    PartFailed
        The executor lost a part.
    MissingPackage
        pandas, or scikit-misc for "seurat_v3", is not installed; the extra [genes] has both.
    """
    ds = as_dataset(ds)
    groups = None if batch_key is None else batch_groups(ds, batch_key)
    if groups is not None:
        sizes = np.bincount(groups.codes)
        if sizes.min() < 2:
            raise InvalidArgument(
                f"each batch needs 2 cells or more, {groups.values[int(sizes.argmin())]!r} of "
                f"{batch_key!r} has {sizes.min()}"
            )
    return variable_genes(ds, n_top_genes, flavor, groups, span, n_bins, executor=executor)


def variable_genes(
    ds: Dataset,
    n: int,
    flavor: str,
    groups: Groups | None,
    span: float,
    n_bins: int = 20,
    most_jitter: float = 0.0,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Return the genes of `highly_variable_genes`.

    For the "seurat_v3" flavors, a batch of one cell says nothing of any gene. A loess fit that fails
    is tried again with the means moved by up to `most_jitter`.
    """
    require("pandas")
    import pandas as pd

    n = checked_int("n_top_genes", n, least=1)
    checked_choice("flavor", flavor, FLAVORS)
    if flavor in ("seurat", "cell_ranger"):
        n_bins = checked_int("n_bins", n_bins, least=1)
        columns = by_dispersion(ds, n, flavor, groups, n_bins, executor)
    else:
        columns = _by_standardised_variance(ds, n, flavor, groups, span, most_jitter, executor)
    frame = pd.DataFrame(columns, index=pd.Index(ds.var_names))
    frame.insert(0, "soma_joinid", ds.reader.selection.column_joinids)
    return frame


def batch_groups(ds: Dataset, batch_key: str | Sequence[str]) -> Groups:
    """Return the batch of each cell by one column of obs or several.

    Raises
    ------
    InvalidArgument
        A cell has no value in a column.
    """
    columns = [batch_key] if isinstance(batch_key, str) else checked_names("batch_key", batch_key)
    if not columns:
        raise InvalidArgument("batch_key must name one column or more, got none")
    each = [group_codes(ds, column) for column in columns]
    for column, groups in zip(columns, each, strict=True):
        missing = int((groups.codes == len(groups.values)).sum())
        if missing:
            raise InvalidArgument(
                f"the batch_key column {column!r} has no value for {plural(missing, 'cell')}; leave "
                "such cells out with an obs_query"
            )
    if len(each) == 1:
        return each[0]
    pairs, codes = np.unique(
        np.stack([groups.codes for groups in each]), axis=1, return_inverse=True
    )
    names = [
        ", ".join(str(groups.values[code]) for groups, code in zip(each, pair, strict=True))
        for pair in pairs.T
    ]
    return Groups(np.array(names, object), codes.ravel().astype(np.uint32))


def _by_standardised_variance(
    ds: Dataset,
    n: int,
    flavor: str,
    groups: Groups | None,
    span: float,
    most_jitter: float,
    executor: Executor | None,
) -> dict[str, Any]:
    loess = _import_loess()
    if isinstance(span, bool) or not isinstance(span, (int, float)) or not 0 < span <= 1:
        raise InvalidArgument(f"span must be more than 0 and at most 1, got {described(span)}")
    if ds.n_obs < 2:
        raise InvalidArgument(f"variances need 2 cells or more, {ds.n_obs} selected")
    moments = gene_moments(ds, groups, executor=executor)
    if not (moments.total == np.rint(moments.total)).all():
        warnings.warn(
            f"flavor {flavor!r} expects counts, but some values are not integers",
            stacklevel=3,
        )
    deviations = np.stack(
        [
            _expected_deviation(loess, mean, variance, span, most_jitter)
            for mean, variance in zip(moments.mean, moments.variance, strict=True)
        ]
    )
    sizes = moments.sizes[:, None].astype(np.float64)
    upper = deviations * np.sqrt(sizes) + moments.mean
    clipped = gene_moments(ds, groups, upper, executor)
    # Squared deviations from the mean before clipping.
    squares = clipped.squared_deviation + sizes * (clipped.mean - moments.mean) ** 2
    alone = moments.sizes == 1
    normalised = squares / (np.maximum(sizes - 1, 1) * deviations**2)
    normalised[alone] = 0

    ranks = np.argsort(np.argsort(-normalised, axis=1), axis=1).astype(np.float32)
    ranks[alone] = np.inf
    batches = (ranks < n).sum(axis=0)
    ranks[ranks >= n] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # genes that are in no batch's first n
        rank = np.nanmedian(ranks, axis=0)
    keys = (-batches, rank) if flavor == "seurat_v3" else (rank, -batches)  # the last is primary
    chosen = np.zeros(ds.n_vars, bool)
    chosen[np.lexsort(keys)[:n]] = True
    mean, variance = _of_all_cells(moments)
    columns = {
        "means": mean,
        "variances": variance,
        "highly_variable_rank": rank.astype(np.float64),
        "variances_norm": normalised.mean(axis=0),
        "highly_variable": chosen,
    }
    if groups is not None:
        columns["highly_variable_nbatches"] = batches
    return columns


def _expected_deviation(
    loess: Any, mean: Floats, variance: Floats, span: float, most_jitter: float
) -> Floats:
    """Return the standard deviation expected from the mean of each gene; 1 if it does not vary."""
    varies = variance > 0
    fitted = np.zeros(len(mean))
    if not varies.any():
        return np.ones(len(mean))
    x, y, jitter = np.log10(mean[varies]), np.log10(variance[varies]), 0.0
    random = np.random.default_rng(0)
    while True:
        try:
            model = loess(x + random.uniform(-jitter, jitter, len(x)), y, span=span, degree=2)
            model.fit()
            fitted[varies] = model.outputs.fitted_values
            return np.sqrt(10**fitted)
        except ValueError as error:
            jitter = 10 * jitter or _LEAST_JITTER
            if jitter < most_jitter:
                continue
            wider = next(
                (each for each in _SPANS if each > span and _fits(loess, x, y, each)), None
            )
            text = (
                b"".join(each for each in error.args if isinstance(each, bytes)).decode() or error
            )
            way_out = "choose batches with more cells" if wider is None else f"span={wider} works"
            raise InvalidArgument(
                f"the loess fit of variance on mean failed on the genes that vary, {int(varies.sum())} "
                f"of them, with span={span}: {text}; {way_out}"
            ) from None


def _fits(loess: Any, x: Floats, y: Floats, span: float) -> bool:
    try:
        loess(x, y, span=span, degree=2).fit()
    except ValueError:
        return False
    return True


def _of_all_cells(moments: Moments) -> tuple[Floats, Floats]:
    sizes = moments.sizes[:, None].astype(np.float64)
    cells = sizes.sum()
    mean = moments.total.sum(axis=0) / cells
    between = (sizes * (moments.mean - mean) ** 2).sum(axis=0)
    return mean, (moments.squared_deviation.sum(axis=0) + between) / (cells - 1)


def _import_loess() -> Any:
    require(
        "skmisc.loess",
        what="the loess fit of flavor 'seurat_v3'",
        otherwise="; or use flavor='seurat'",
    )
    from skmisc.loess import loess

    return loess
