"""Groups of cells to compare, and their cells to hold in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.suggestions import did_you_mean
from penstock.base.validation import checked_text, described
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument
from penstock.genes.statistics import Groups, group_codes

Codes = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


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
            meant = did_you_mean(group, map(str, names)) if isinstance(group, str) else ""
            raise InvalidArgument(
                f"no cell has {group!r} in {groupby!r}{f'{meant} It' if meant else ', which'} has "
                f"{listed}{', …' if len(known) > 5 else ''}"
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


def with_others(chosen: Places, least: int, n_obs: int) -> Places:
    """Return ascending positions with the first others, so that there are `least` of them.

    Raises
    ------
    InvalidArgument
        There are fewer cells.
    """
    lacking = least - len(chosen)
    if lacking <= 0:
        return chosen
    if n_obs < least:
        raise InvalidArgument(
            f"scvi-tools checks the counts of {least} cells for this model, but there are {n_obs}: "
            "choose more cells by obs_query"
        )
    is_other = np.ones(n_obs, bool)
    is_other[chosen] = False
    return np.union1d(chosen, np.flatnonzero(is_other)[:lacking])
