"""Cutting a selection into random parts."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from .arguments import described
from .errors import InvalidArgument


def part_sizes(parts: Sequence[Any], total: int) -> list[int]:
    """Cells in each part, from fractions that sum to 1 or from sizes that sum to `total`.

    The parts may come as one list or array.

    Raises
    ------
    InvalidArgument
        Fewer than two parts, one that is not a number of 0 or more, a wrong sum.
    """
    if len(parts) == 1 and isinstance(parts[0], (Sequence, np.ndarray)):
        parts = list(parts[0]) if not isinstance(parts[0], str) else parts
    if len(parts) < 2:
        raise InvalidArgument(f"random_split needs two parts or more, got {len(parts)}")
    sizes = [_size(part) for part in parts]
    if all(size is not None for size in sizes):
        counts = [size for size in sizes if size is not None]
        if any(count < 0 for count in counts) or sum(counts) != total:
            raise InvalidArgument(
                f"sizes must be 0 or more and sum to the {total} cells selected, got {counts}"
            )
        return counts
    fractions = [_fraction(part) for part in parts]
    if abs(math.fsum(fractions) - 1) > 1e-6:
        raise InvalidArgument(f"fractions must sum to 1, got {fractions}")
    ends = [round(total * math.fsum(fractions[: i + 1])) for i in range(len(fractions))]
    ends[-1] = total
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def split(rows: _core.RowSelection, sizes: Sequence[int], seed: int) -> list[_core.RowSelection]:
    """Disjoint random parts of exactly those sizes, the same for the same seed everywhere.

    Takes two bytes a row while it works.
    """
    part_of = np.repeat(np.arange(len(sizes), dtype=np.uint16), sizes)
    # The legacy generator: its stream is frozen, that of numpy's Generator may change.
    np.random.RandomState(np.random.MT19937(seed)).shuffle(part_of)
    return [
        rows.take(np.flatnonzero(part_of == part).astype(np.uint64)) for part in range(len(sizes))
    ]


def _size(part: Any) -> int | None:
    if isinstance(part, bool):
        return None
    try:
        return operator.index(part)
    except TypeError:
        return None


def _fraction(part: Any) -> float:
    try:
        fraction = float(part)
    except (TypeError, ValueError):
        fraction = math.nan
    if isinstance(part, bool) or not 0 <= fraction <= 1:
        raise InvalidArgument(
            f"a part must be a fraction in [0, 1] or a size, got {described(part)}"
        )
    return fraction
