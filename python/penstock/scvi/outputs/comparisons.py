"""Groups of cells to compare, their cells to hold in memory, and statistics of their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_text, described
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument
from penstock.genes.statistics import Groups, gene_moments, group_codes
from penstock.transforms.steps import NormalizeTotal

from ..data.data_module import DataModule

if TYPE_CHECKING:
    import pandas as pd

Codes = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

#: What scvi-tools scales the counts of a cell to for its columns ``raw_normalized_mean``.
_NORMALIZED = 1e4


@dataclass(frozen=True)
class Comparison:
    """Two groups of cells, each of the cells with some codes."""

    name1: Any
    name2: Any
    codes1: npt.NDArray[np.bool_]
    codes2: npt.NDArray[np.bool_]


def of_values(
    ds: Dataset, groupby: str, group1: Any, group2: Any
) -> tuple[Groups, list[Comparison]]:
    """Return the groups of a column, and comparisons with another group or with all other cells.

    Raises
    ------
    InvalidArgument
        No cell has a value, a group is compared with itself, or there are no other cells.
    NotFound
        The column does not exist.
    """
    groups = group_codes(ds, checked_text("groupby", groupby))
    known, names = list(groups.values), np.asarray(groups.values).tolist()

    def code_of(group: Any) -> int:
        found = [code for code, value in enumerate(known) if _is(value, group)]
        if not found:
            listed = ", ".join(map(repr, names[:5]))
            raise InvalidArgument(
                f"no cell has {group!r} in {groupby!r}, which has {listed}{', …' if len(known) > 5 else ''}"
            )
        return found[0]

    second = None if group2 is None else code_of(group2)
    if group1 is None:
        firsts = [code for code in _in_order(ds, groupby, groups) if code != second]
    else:
        firsts = [code_of(group) for group in _listed(group1)]
    if not firsts:
        raise InvalidArgument("group1 must name a group, got none")
    # The code after the last is of cells without a value, which are among the others.
    codes = np.arange(len(known) + 1)
    present = np.bincount(groups.codes, minlength=len(codes)) > 0
    made = []
    for first in firsts:
        own = codes == first
        other = ~own & present if second is None else codes == second
        name = names[first]
        if not other.any():
            raise InvalidArgument(
                f"all cells have {name!r} in {groupby!r}: there is no other group"
            )
        if first == second:
            raise InvalidArgument(f"{name!r} is compared with itself: group2 must be another group")
        made.append(Comparison(name, "Rest" if second is None else names[second], own, other))
    return groups, made


def _is(value: Any, group: Any) -> bool:
    if isinstance(value, np.floating) and isinstance(group, (int, float)):
        group = type(value)(group)  # 0.1 is no float32
    same = value == group
    return isinstance(same, (bool, np.bool_)) and bool(same)


def _listed(group1: Any) -> list[Any]:
    if isinstance(group1, np.ndarray) and group1.ndim == 0:
        return [group1.item()]
    is_one = isinstance(group1, (str, bytes)) or not isinstance(group1, Iterable)
    return [group1] if is_one else list(group1)


def _in_order(ds: Dataset, groupby: str, groups: Groups) -> list[int]:
    """Return codes in the order of the groups: of the enumeration, as in an AnnData, or sorted."""
    column = ds.obs.read([groupby])[groupby]
    if not column.is_enumerated:
        return list(range(len(groups.values)))
    places = {value: place for place, value in enumerate(column.values.tolist())}
    named = np.asarray(groups.values).tolist()
    return sorted(range(len(named)), key=lambda code: places[named[code]])


def of_masks(
    idx1: Any, idx2: Any, group1: Any, group2: Any, n_obs: int
) -> tuple[Groups, list[Comparison]]:
    """Return the two groups that masks or positions choose, and their comparison.

    Raises
    ------
    InvalidArgument
        A mask has another length, a group is empty, or values of a column are given as well.
    """
    if idx1 is None:
        raise InvalidArgument("give groupby=, a column of obs, or idx1=, a mask over the cells")
    if group1 is not None or group2 is not None:
        raise InvalidArgument(
            "group1 and group2 are values of groupby: give idx1 and idx2, or these"
        )
    codes = np.full(n_obs, 2 if idx2 is not None else 1, np.uint32)
    for number, (name, given) in enumerate([("idx1", idx1), ("idx2", idx2)]):
        if given is not None:
            # As in scvi-tools, a cell of both is in the second group.
            codes[_places(name, given, n_obs)] = number
    is_code = np.arange(3)
    comparison = Comparison("one", "two", is_code == 0, is_code == 1)
    for name, code in (("idx1", 0), ("idx2", 1)):
        if not (codes == code).any():
            raise InvalidArgument(f"{name} has no cells, or none that the other lacks")
    return Groups(is_code[:2], codes), [comparison]


def _places(name: str, given: Any, n_obs: int) -> npt.NDArray[Any]:
    array = np.asarray(given)
    if array.ndim == 1 and array.dtype == bool and len(array) == n_obs:
        return array
    is_numbers = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    if is_numbers and array.min() >= 0 and array.max() < n_obs:
        return array
    raise InvalidArgument(
        f"{name} must be a mask over the {n_obs} cells or positions below {n_obs}, got {described(given)}; "
        "for a column of obs, use groupby="
    )


def chosen_cells(
    codes: Codes, comparisons: Sequence[Comparison], size: int, random: np.random.Generator
) -> list[tuple[Places, Places]]:
    """Return up to `size` cells of both groups of each comparison: the first in a random order."""
    order = random.permutation(len(codes))
    ordered = codes[order]
    return [
        (
            order[np.flatnonzero(each.codes1[ordered])[:size]],
            order[np.flatnonzero(each.codes2[ordered])[:size]],
        )
        for each in comparisons
    ]


@dataclass(frozen=True)
class CountStatistics:
    """Sums of each group and gene, (groups, genes), and numbers of cells."""

    sizes: npt.NDArray[np.int64]
    total: npt.NDArray[Any]
    nonzeros: npt.NDArray[Any]
    normalized: npt.NDArray[Any]

    @classmethod
    def of(cls, cells: DataModule, groups: Groups) -> CountStatistics:
        """Compute them in two passes; cells without a value are a group of their own."""
        codes = np.unique(groups.codes)
        every = Groups(codes, np.searchsorted(codes, groups.codes).astype(np.uint32))
        counts = cells.dataset.with_settings(
            shuffle=False, device=None, format="numpy", sparse=True
        )
        raw = gene_moments(counts, every)
        transforms = [*counts.transforms, NormalizeTotal(_NORMALIZED)]
        normalized = gene_moments(counts.with_settings(transforms=transforms), every)
        full = int(codes.max()) + 1
        made = []
        for sums in (raw.sizes, raw.total, raw.nonzeros, normalized.total):
            whole = np.zeros((full, *sums.shape[1:]), sums.dtype)
            whole[codes] = sums
            made.append(whole)
        return cls(*made)

    def added_to(self, found: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
        """Return a result with scvi-tools' columns of statistics, before the last of `mode="change"`.

        Its index has the numbers of the genes.
        """
        import pandas as pd

        columns: dict[str, Any] = {}
        sides = [
            np.flatnonzero(each[: len(self.sizes)])
            for each in (comparison.codes1, comparison.codes2)
        ]
        for name, sums in (
            ("raw_mean", self.total),
            ("non_zeros_proportion", self.nonzeros),
            ("raw_normalized_mean", self.normalized),
        ):
            for number, codes in enumerate(sides, 1):
                columns[f"{name}{number}"] = sums[codes].sum(axis=0) / self.sizes[codes].sum()
        statistics = pd.DataFrame(columns).iloc[found.index.astype(int)].set_index(found.index)
        last = [name for name in found.columns if name.startswith("is_de_fdr_")]
        return pd.concat([found.drop(columns=last), statistics, found[last]], axis=1)
