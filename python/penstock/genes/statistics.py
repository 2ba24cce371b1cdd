"""Statistics of genes and cells, streamed: only the result is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.validation import checked_text
from penstock.dataset.functions import as_dataset
from penstock.errors import InvalidArgument
from penstock.experiment.columns import is_missing
from penstock.experiment.data_frame import JOINID
from penstock.experiment.joined import JoinedExperiment
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.shard import Shard

if TYPE_CHECKING:
    import pandas as pd

    from penstock.dataset.dataset import Dataset
    from penstock.plan.settings import LoaderSettings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SINGLE = ("float32", "int8", "uint8", "int16", "uint16", "bool")


@dataclass(frozen=True)
class Moments:
    """Moments of groups of cells (rows) and genes (columns), including zeros.

    Attributes
    ----------
    sizes : ndarray of int64
        Cells of each group, shape (groups,).
    nonzeros, total, squared_deviation : ndarray
        Number of non-zeros, sum, and sum of squared deviations from the mean, shape (groups,
        genes).
    """

    sizes: Integers
    nonzeros: Integers
    total: Floats
    squared_deviation: Floats

    @property
    def mean(self) -> Floats:
        """Mean of all values; NaN without cells."""
        with np.errstate(invalid="ignore"):
            return self.total / self.sizes[:, None]

    @property
    def variance(self) -> Floats:
        """Variance with n - 1 in the denominator; NaN for fewer than two cells."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return (
                self.squared_deviation / np.where(self.sizes > 1, self.sizes - 1.0, np.nan)[:, None]
            )


def gene_statistics(ds: Dataset | Any, *, group_by: str | None = None) -> pd.DataFrame:
    """Compute mean, variance, non-zeros and total of each gene, in one pass over the cells.

    The values are those of X after the transforms. Counts are summed as 64-bit integers, so results
    are exact and do not depend on the number of threads or the memory budget.

    Parameters
    ----------
    ds : Dataset or source of one
        Cells of all ranks, regardless of the shuffle, and genes. A source, such as a path or an
        AnnData object, is read with the default settings of a Dataset.
    group_by : str, optional
        Column of obs. Statistics are computed for each of its values; cells without a value are
        left out. Takes 24 bytes for each gene and value (80 if X does not hold integers).

    Returns
    -------
    pandas.DataFrame
        One row for each gene in the order of X's columns, indexed by `Dataset.var_names`. Columns
        are ``mean``, ``variance`` (n - 1 in the denominator), ``nonzeros`` (number of cells) and
        ``total``. With `group_by` the index is (group, gene), with sorted groups.

    Raises
    ------
    InvalidArgument
        `ds` is no source of a Dataset, its transforms make tokens, centre or have callables, or no cell has
        a value of `group_by`.
    NotFound
        The column does not exist.
    MissingPackage
        pandas is not installed.
    """
    require("pandas")
    import pandas as pd

    ds = as_dataset(ds)
    groups = None if group_by is None else group_codes(ds, group_by)
    moments = gene_moments(ds, groups)
    frame = pd.DataFrame(
        {
            "mean": moments.mean.ravel(),
            "variance": moments.variance.ravel(),
            "nonzeros": moments.nonzeros.ravel(),
            "total": moments.total.ravel(),
        }
    )
    names = pd.Index(ds.var_names)
    if groups is None:
        frame.index = names
    else:
        frame.index = pd.MultiIndex.from_product(
            [pd.Index(groups.values), names], names=[group_by, None]
        )
    return frame


def cell_statistics(ds: Dataset | Any) -> pd.DataFrame:
    """Compute mean, variance, non-zeros and total of each cell, in one pass.

    Parameters
    ----------
    ds : Dataset or source of one
        As in `gene_statistics`.

    Returns
    -------
    pandas.DataFrame
        One row for each cell, indexed by ascending ``soma_joinid``. Columns are ``mean`` and
        ``variance`` over genes (n - 1 in the denominator), ``nonzeros`` (number of genes) and
        ``total``. For joined experiments the index is (source, joinid).

    Raises
    ------
    InvalidArgument
        `ds` is no source of a Dataset, or its transforms make tokens, centre or have callables.
    MissingPackage
        pandas is not installed.
    """
    require("pandas")
    import pandas as pd

    ds = as_dataset(ds)
    options = _options(ds, by_row=True)
    statistics = _core.StatisticsPass(ds.reader.selection.matrix, options)
    statistics.run()
    genes = statistics.column_count
    nonzeros, total, squared_deviation = statistics.rows()
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / genes
        variance = squared_deviation / (genes - 1.0 if genes > 1 else np.nan)
    return pd.DataFrame(
        {"mean": mean, "variance": variance, "nonzeros": nonzeros, "total": total},
        index=_cell_index(ds),
    )


def _cell_index(ds: Dataset) -> pd.Index:
    import pandas as pd

    joinids = ds.obs.own_joinids(ds.reader.selection.rows.to_numpy())
    experiment = ds.experiment
    if not isinstance(experiment, JoinedExperiment):
        return pd.Index(joinids, name=JOINID)
    source = ds.obs.read([experiment.source_column])[experiment.source_column]
    return pd.MultiIndex.from_arrays(
        [source.to_pandas(), joinids], names=[experiment.source_column, JOINID]
    )


@dataclass(frozen=True)
class Groups:
    """Groups of cells.

    Attributes
    ----------
    values : ndarray
        Values of the groups, sorted.
    codes : ndarray of uint32
        Index of each cell into `values`, shape (cells,); ``len(values)`` for a cell without a
        value.
    """

    values: npt.NDArray[Any]
    codes: npt.NDArray[np.uint32]


def group_codes(ds: Dataset, column: str) -> Groups:
    """Return the groups of cells by an obs column; raise an error if no cell has a value."""
    ds.obs.checked_columns([checked_text("the column of groups", column)], "the column of groups")
    read = ds.obs.read([column])[column]
    values = read.distinct()
    if len(values) == 0:
        raise InvalidArgument(f"no cell has a value in the obs column {column!r}")
    missing = is_missing(read.values)
    known = slice(None) if missing is None else ~missing
    codes = np.full(len(read.values), len(values), np.uint32)
    codes[known] = np.searchsorted(values, read.values[known])
    return Groups(values, codes if read.codes is None else codes[read.codes])


def gene_moments(ds: Dataset, groups: Groups | None = None, upper: Floats | None = None) -> Moments:
    """Return moments of each group and gene; clip values to `upper`, shape (groups, genes)."""
    options = _options(ds, by_row=False)
    count = 1
    if groups is not None:
        count = len(groups.values)
        has_missing = bool((groups.codes == count).any())
        options.group(groups.codes, count + has_missing)
        if upper is not None and has_missing:
            upper = np.vstack([upper, np.full(upper.shape[1], np.inf)])
    if upper is not None:
        options.clip(np.ascontiguousarray(upper, np.float64).ravel())
    statistics = _core.StatisticsPass(ds.reader.selection.matrix, options)
    statistics.run()
    sizes = np.array(statistics.group_sizes()[:count], np.int64)
    shape = -1, statistics.column_count
    nonzeros, total, squared_deviation = statistics.columns()
    return Moments(
        sizes,
        nonzeros.reshape(shape)[:count],
        total.reshape(shape)[:count],
        squared_deviation.reshape(shape)[:count],
    )


def _is_one_of_several_ranks(settings: LoaderSettings) -> bool:
    try:
        return settings.find_shard().world_size != 1
    except InvalidArgument:  # of the environment; only epochs need to know the rank
        return True


def _options(ds: Dataset, *, by_row: bool) -> _core.StatisticsOptions:
    selection, settings = ds.reader.selection, ds.reader.settings
    if isinstance(selection, SeveralMeasurements):
        selection.refuse("statistics")
    chain = selection.transforms
    if chain is not None and (chain.max_tokens is not None or chain.is_centred or chain.callables):
        raise InvalidArgument(
            "statistics are streamed by the engine from sparse values: transforms must hold no "
            "RankTokens, no Scale with mean= and no callables; use ds.with_settings(transforms=…)"
        )
    options = _core.StatisticsOptions()
    loader = ds.reader.planner.options(Shard(), 0)
    # Each of several ranks reads all cells. Epochs of a pack read rows one by one and keep none.
    if selection.matrix.addresses_rows or _is_one_of_several_ranks(settings):
        loader.kept = None
    single = settings.engine_dtype == "float32" if chain else selection.matrix.value_type in _SINGLE
    loader.dtype = "float32" if single else "float64"
    options.from_loader(loader)
    options.by_row, options.by_column = by_row, not by_row
    return options
