"""Statistics of genes and cells, streamed: only the result is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.missing_package import require
from penstock.base.validation import checked_text
from penstock.dataset.functions import as_dataset
from penstock.errors import InvalidArgument
from penstock.experiment.columns import is_missing
from penstock.experiment.data_frame import JOINID
from penstock.experiment.joined import JoinedExperiment

from .chunks import column_sums, row_sums

if TYPE_CHECKING:
    import pandas as pd

    from penstock.dataset.dataset import Dataset
    from penstock.executors.parts import Executor

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


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


def gene_statistics(
    ds: Dataset | Any, *, group_by: str | None = None, executor: Executor | None = None
) -> pd.DataFrame:
    """Compute mean, variance, non-zeros and total of each gene, in one pass over the cells.

    The values are those of X after the transforms. Counts are summed exactly. Results do not depend
    on the number of threads, the memory budget or the executor.

    Parameters
    ----------
    ds : Dataset or source of one
        Cells of all ranks, regardless of the shuffle, and genes. A source, such as a path or an
        AnnData object, is read with the default settings of a Dataset.
    group_by : str, optional
        Column of obs. Statistics are computed for each of its values; cells without a value are
        left out. Takes 32 bytes for each gene and value (80 if X does not hold integers).
    executor : concurrent.futures.Executor, optional
        Reads the cells in parts of 262,144 (docs/how-to/executors.md). The result has the same bits.

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
    PartFailed
        The executor lost a part.
    MissingPackage
        pandas is not installed.
    """
    require("pandas")
    import pandas as pd

    ds = as_dataset(ds)
    groups = None if group_by is None else group_codes(ds, group_by)
    moments = gene_moments(ds, groups, executor=executor)
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


def cell_statistics(ds: Dataset | Any, *, executor: Executor | None = None) -> pd.DataFrame:
    """Compute mean, variance, non-zeros and total of each cell, in one pass.

    Parameters
    ----------
    ds : Dataset or source of one
        As in `gene_statistics`.
    executor : concurrent.futures.Executor, optional
        As in `gene_statistics`.

    Returns
    -------
    pandas.DataFrame
        One row for each cell, with the order and index of ``ds.obs.to_pandas()``. Columns are
        ``soma_joinid``, ``mean`` and ``variance`` over genes (n - 1 in the denominator),
        ``nonzeros`` (number of genes) and ``total``; of joined experiments also the source, first.

    Raises
    ------
    InvalidArgument
        `ds` is no source of a Dataset, or its transforms make tokens, centre or have callables.
    PartFailed
        The executor lost a part.
    MissingPackage
        pandas is not installed.
    """
    require("pandas")
    import pandas as pd

    ds = as_dataset(ds)
    genes, (nonzeros, total, squared_deviation) = row_sums(ds, executor)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / genes
        variance = squared_deviation / (genes - 1.0 if genes > 1 else np.nan)
    sums = {"mean": mean, "variance": variance, "nonzeros": nonzeros, "total": total}
    index = pd.RangeIndex(ds.n_obs, name=ds.obs.index_name)
    return pd.DataFrame({**_cell_columns(ds), **sums}, index=index)


def _cell_columns(ds: Dataset) -> dict[str, Any]:
    """Return the columns that say which cell a row is."""
    columns: dict[str, Any] = {}
    if isinstance(ds.experiment, JoinedExperiment):
        name = ds.experiment.source_column
        columns[name] = ds.obs.read([name])[name].to_pandas()
    columns[JOINID] = ds.obs.own_joinids(ds.reader.selection.rows.to_numpy())
    return columns


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


def gene_moments(
    ds: Dataset,
    groups: Groups | None = None,
    upper: Floats | None = None,
    executor: Executor | None = None,
) -> Moments:
    """Return moments of each group and gene; clip values to `upper`, shape (groups, genes)."""
    count = 1
    codes = None
    all_groups = 1
    if groups is not None:
        codes = groups.codes
        count = len(groups.values)
        all_groups = count + bool((codes == count).any())
        if upper is not None and all_groups > count:
            upper = np.vstack([upper, np.full(upper.shape[1], np.inf)])
    group_sizes, columns = column_sums(ds, codes, all_groups, upper, executor)
    nonzeros, total, squared_deviation = columns
    sizes = np.array(group_sizes[:count], np.int64)
    shape = -1, len(total) // all_groups
    return Moments(
        sizes,
        nonzeros.reshape(shape)[:count],
        total.reshape(shape)[:count],
        squared_deviation.reshape(shape)[:count],
    )
