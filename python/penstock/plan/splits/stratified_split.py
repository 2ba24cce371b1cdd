"""Divide the cells of each stratum among the parts in proportion."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt


def proportional_counts(
    strata: Sequence[int], sizes: Sequence[int], seed: int
) -> npt.NDArray[np.uint64]:
    """Round the proportional shares of strata in parts, keeping the sums of rows and columns.

    The exact share of a part in a stratum is ``stratum * size / total``. It is rounded down or up,
    such that shares sum to each stratum and to each part. Such a rounding exists for every table:
    tables with fixed sums are the flows of a network, whose corners are integers.

    The rounding is found by closed walks over shares that are not integers, alternating between
    strata and parts. Shares of a walk alternately gain and lose the same amount, until one is an
    integer. All arithmetic is on integers, so the result is exact at any size.

    Parameters
    ----------
    strata, sizes : sequence of int
        Cells of each stratum and of each part; both have the same sum.
    seed : int
        Seed that chooses among the possible roundings.

    Returns
    -------
    ndarray of uint64
        Cells of each stratum in each part, shape (strata, parts).
    """
    total = sum(sizes)
    floors = [[stratum * size // max(total, 1) for size in sizes] for stratum in strata]
    # Numerators, over `total`, of the fractional parts; 0: the share is an integer.
    above = [[stratum * size % max(total, 1) for size in sizes] for stratum in strata]
    open_parts = [{p for p, part in enumerate(row) if part} for row in above]
    # Strata whose share has become an integer are removed when they are reached.
    open_strata: list[list[int]] = [
        [s for s, row in enumerate(above) if row[p]] for p in range(len(sizes))
    ]
    random = np.random.RandomState(np.random.MT19937(seed))
    order = random.permutation(len(strata)).tolist()

    def settle(s: int, p: int) -> None:
        floors[s][p] += above[s][p] // total
        above[s][p] %= total
        if not above[s][p]:
            open_parts[s].discard(p)

    def another_stratum(s: int, p: int) -> int:
        strata_of_part = open_strata[p]
        held = None
        while (last := strata_of_part[-1]) == s or not above[last][p]:
            strata_of_part.pop()
            if last == s:
                held = s
        if held is not None:
            strata_of_part.insert(-1, held)
        return last

    for start in order:
        while open_parts[start]:
            cycle = _closed_walk(start, open_parts, another_stratum)
            # Steps alternately gain and lose the same amount, as long as all stay within one cell.
            gains, losses = cycle[::2], cycle[1::2]
            if random.randint(2):
                gains, losses = losses, gains
            step = min(
                min(total - above[s][p] for s, p in gains), min(above[s][p] for s, p in losses)
            )
            for s, p in gains:
                above[s][p] += step
            for s, p in losses:
                above[s][p] -= step
            for s, p in cycle:
                settle(s, p)
    return np.array(floors, np.uint64).reshape(len(strata), len(sizes))


def _closed_walk(
    start: int, open_parts: list[set[int]], another_stratum: Callable[[int, int], int]
) -> list[tuple[int, int]]:
    """Return the steps (stratum, part) of a closed walk over shares that are not integers.

    A row or column with one such share has at least two, since its sum is an integer. So the walk
    continues until it reaches a part again.
    """
    walk: list[tuple[int, int]] = []
    seen: dict[int, int] = {}
    s, p = start, next(iter(open_parts[start]))
    while p not in seen:
        seen[p] = len(walk) + 1
        walk.append((s, p))
        s = another_stratum(s, p)
        walk.append((s, p))
        p = next(other for other in open_parts[s] if other != p)
    # The step back to that part closes the cycle; steps before the part are not in the cycle. If
    # the step back is also the first step from the part, the cycle is closed at the stratum.
    circle = walk[seen[p] :]
    return circle[1:] if circle[0] == (s, p) else [*circle, (s, p)]
