"""Statistics of the counts of all cells of a comparison, as columns of scvi-tools' tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.dataset.dataset import Dataset
from penstock.genes.statistics import Groups, gene_moments
from penstock.transforms.steps import NormalizeTotal

from .comparisons import Comparison

if TYPE_CHECKING:
    import pandas as pd

#: What scvi-tools scales the counts of a cell to for its columns ``raw_normalized_mean``.
_NORMALIZED = 1e4


class Statistics(Protocol):
    """Statistics of groups of cells."""

    def added_to(self, found: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
        """Return a result with the columns of these; its index has the numbers of the features."""
        ...


@dataclass(frozen=True)
class CountStatistics:
    """Sums of each group and gene, (groups, genes), and numbers of cells."""

    sizes: npt.NDArray[np.int64]
    total: npt.NDArray[Any]
    nonzeros: npt.NDArray[Any]
    normalized: npt.NDArray[Any]

    @classmethod
    def of(cls, cells: Dataset, groups: Groups) -> CountStatistics:
        """Compute them in two passes; cells without a value are a group of their own."""
        every = _with_all_codes(groups)
        counts = _plain(cells)
        raw = gene_moments(counts, every)
        transforms = [*counts.transforms, NormalizeTotal(_NORMALIZED)]
        normalized = gene_moments(counts.with_settings(transforms=transforms), every)
        return cls(
            *_by_code(every, raw.sizes, raw.total, raw.nonzeros, normalized.total),
        )

    @classmethod
    def with_proteins(cls, genes: Dataset, proteins: Dataset, groups: Groups) -> CountStatistics:
        """Compute them for genes, and for proteins after these, which scvi-tools does not normalise."""
        made = cls.of(genes, groups)
        every = _with_all_codes(groups)
        found = gene_moments(_plain(proteins), every)
        total, nonzeros = _by_code(every, found.total, found.nonzeros)
        return cls(
            made.sizes,
            np.hstack([made.total, total]),
            np.hstack([made.nonzeros, nonzeros]),
            np.hstack([made.normalized, np.full(total.shape, np.nan)]),
        )

    def added_to(self, found: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
        """Return a result with scvi-tools' columns of statistics, before the last of `mode="change"`."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name, sums in (
            ("raw_mean", self.total),
            ("non_zeros_proportion", self.nonzeros),
            ("raw_normalized_mean", self.normalized),
        ):
            for number, mean in enumerate(_means(comparison, sums, self.sizes), 1):
                columns[f"{name}{number}"] = mean
        statistics = pd.DataFrame(columns).iloc[found.index].set_index(found.index)
        last = [name for name in found.columns if name.startswith("is_de_fdr_")]
        return pd.concat([found.drop(columns=last), statistics, found[last]], axis=1)


@dataclass(frozen=True)
class Detection:
    """Numbers of cells of each group in which a region is detected, (groups, regions)."""

    sizes: npt.NDArray[np.int64]
    nonzeros: npt.NDArray[Any]
    sign: int  #: of the effect: 1 if it is that of the second group less the first

    @classmethod
    def of(cls, cells: Dataset, groups: Groups, sign: int) -> Detection:
        """Compute them in one pass; cells without a value are a group of their own."""
        every = _with_all_codes(groups)
        found = gene_moments(_plain(cells), every)
        sizes, nonzeros = _by_code(every, found.sizes, found.nonzeros)
        return cls(sizes, nonzeros, sign)

    def added_to(self, found: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
        """Return a result with the empirical columns, which scvi-tools made of the chosen cells."""
        first, second = (
            mean[found.index] for mean in _means(comparison, self.nonzeros, self.sizes)
        )
        return found.assign(
            emp_prob1=first, emp_prob2=second, emp_effect=self.sign * (second - first)
        )


def _plain(cells: Dataset) -> Dataset:
    return cells.with_settings(shuffle=False, device=None, format="numpy", sparse=True)


def _with_all_codes(groups: Groups) -> Groups:
    """Return the groups with the code of cells without a value as a group."""
    codes = np.unique(groups.codes)
    return Groups(codes, np.searchsorted(codes, groups.codes).astype(np.uint32))


def _by_code(every: Groups, *sums: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
    """Return sums of groups with a row for each code; codes without cells have zeros."""
    made = []
    for each in sums:
        whole = np.zeros((int(every.values.max()) + 1, *each.shape[1:]), each.dtype)
        whole[every.values] = each
        made.append(whole)
    return made


def _means(
    comparison: Comparison, sums: npt.NDArray[Any], sizes: npt.NDArray[np.int64]
) -> list[npt.NDArray[Any]]:
    """Return the means over the cells of both sides."""
    sides = (np.flatnonzero(each[: len(sizes)]) for each in (comparison.codes1, comparison.codes2))
    return [sums[codes].sum(axis=0) / sizes[codes].sum() for codes in sides]
