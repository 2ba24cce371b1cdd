"""Split a selection into random parts; docs/guides/splits.md."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_items, checked_number, described
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import JOINID, DataFrame
from penstock.experiment.factorize import factorize
from penstock.plan.epoch_size import part_names, warn_of_empty_parts

from .group_split import parts_of_groups
from .stratified_split import proportional_counts


def random_split(
    obs: DataFrame,
    rows: _core.RowSelection,
    parts: Sequence[Any],
    seed: int,
    stratify: Any = None,
    group: Any = None,
    names: Sequence[str] | None = None,
) -> list[_core.RowSelection]:
    """Split the cells `rows`, those of `obs`; see `Dataset.random_split`.

    `names` are the names of the parts in warnings.
    """
    sizes = part_sizes(parts, len(rows))
    seed = checked_int("seed", seed, least=0, most=2**64 - 1)
    cut = split(obs, rows, sizes, seed, stratify, group)
    warn_of_empty_parts(part_names(len(sizes)) if names is None else names, sizes)
    return cut


def part_sizes(parts: Sequence[Any], total: int) -> list[int]:
    """Return the cells of each part, from fractions that sum to 1 or sizes that sum to `total`.

    `parts` may hold one list or array of the parts.

    Raises
    ------
    InvalidArgument
        There are fewer than two parts, a part is negative or not a number, or the sum is wrong.
    """
    is_list = len(parts) == 1 and isinstance(parts[0], (Sequence, np.ndarray))
    if is_list and not isinstance(parts[0], str):
        parts = checked_items("the parts", parts[0], "fractions or sizes")
    if any(isinstance(part, str) for part in parts):
        raise InvalidArgument(
            f"parts must be fractions, such as 0.8, 0.2, got {parts!r}; a column is group= or stratify="
        )
    if len(parts) < 2:
        raise InvalidArgument(
            f"a split needs two parts or more, such as 0.8, 0.2, got {len(parts)}"
        )
    sizes = [_size(part) for part in parts]
    if all(size is not None for size in sizes):
        counts = [size for size in sizes if size is not None]
        if any(count < 0 for count in counts) or sum(counts) != total:
            raise InvalidArgument(
                f"sizes must be 0 or more and sum to the {plural(total, 'cell')} selected, got {counts}; "
                "or give fractions, such as 0.8 and 0.2"
            )
        return counts
    fractions = [_fraction(part) for part in parts]
    if abs(math.fsum(fractions) - 1) > 1e-6:
        given = math.fsum(fractions)
        more = "; the rest must be a part, too" if given < 1 else ""
        raise InvalidArgument(
            f"fractions must sum to 1, got {fractions}, which sum to {given:.6g}{more}"
        )
    ends = [round(total * math.fsum(fractions[: i + 1])) for i in range(len(fractions))]
    ends[-1] = total
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def split(
    obs: DataFrame,
    rows: _core.RowSelection,
    sizes: Sequence[int],
    seed: int,
    stratify: Any = None,
    group: Any = None,
) -> list[_core.RowSelection]:
    """Split into disjoint random parts, which are equal on every machine for a seed.

    Parameters
    ----------
    obs : DataFrame
        The selected cells.
    rows : RowSelection
        Joinids of the cells.
    sizes : sequence of int
        Cells in each part; with `group`, the wanted cells.
    stratify, group : str or sequence of str, optional
        Columns of obs. The cells of each value, or combination of values, are divided among the
        parts in proportion (`stratify`) or kept in one part (`group`).

    Returns
    -------
    list of RowSelection
        Joinids of each part.

    Raises
    ------
    InvalidArgument
        Both are given, or there are fewer groups than parts.
    NotFound
        A column does not exist.
    """
    if stratify is not None and group is not None:
        raise InvalidArgument(
            "stratify and group cannot both be kept: a group has all its cells in one part; choose "
            f"one of stratify={stratify!r} and group={group!r}"
        )
    one = np.zeros(0, np.uint8)
    if stratify is None and group is None:
        return _core.split_rows(rows, one, np.array([sizes], np.uint64), seed)
    name, columns = ("stratify", stratify) if group is None else ("group", group)
    codes, counts = _codes(obs, name, columns)
    if group is None:
        table = proportional_counts(counts.tolist(), sizes, seed)
    else:
        table = np.zeros((len(counts), len(sizes)), np.uint64)
        parts = parts_of_groups(counts, sizes, seed)
        table[np.arange(len(counts)), parts] = counts
    return _core.split_rows(rows, codes, table, seed)


def _codes(obs: DataFrame, argument: str, columns: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return the code of each row's combination of values, and the rows of each code."""
    names = obs.checked_columns([columns] if isinstance(columns, str) else columns, argument)
    if not names:
        raise InvalidArgument(f"{argument} must name a column of obs, got {columns!r}")
    if JOINID in names:
        raise InvalidArgument(f"{argument} cannot be {JOINID}, which no two cells share")
    return factorize(obs.read(names))


def _size(part: Any) -> int | None:
    if isinstance(part, bool):
        return None
    try:
        return operator.index(part)
    except TypeError:
        return None


def _fraction(part: Any) -> float:
    try:
        fraction = checked_number("a part", part)
    except InvalidArgument:
        fraction = math.nan
    if not 0 <= fraction <= 1:
        raise InvalidArgument(
            f"a part must be a fraction in [0, 1] or a size, got {described(part)}"
        )
    return fraction
