"""How many cells of each stratum each part gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt


def proportional_counts(
    strata: Sequence[int], sizes: Sequence[int], seed: int
) -> npt.NDArray[np.uint64]:
    """Round the proportional shares of strata in parts so that rows and columns stay exact.

    The exact share of a part in a stratum is ``stratum * size / total``. It is rounded down or up, so
    that every stratum is shared out whole and every part has its size. Such a rounding exists for
    every table, since tables with fixed sums of rows and columns are the flows of a network, whose
    corners are integers. It is found by going around: among shares that are not whole, a closed walk
    that alternates between strata and parts gains and loses the same amount at every step, until one
    of them is whole. Integers throughout: exact at any size.

    Parameters
    ----------
    strata, sizes : sequence of int
        Cells of each stratum and of each part, of the same sum.
    seed : int
        Chooses among the roundings.

    Returns
    -------
    ndarray of uint64
        (strata, parts).
    """
    total = sum(sizes)
    floors = [[stratum * size // max(total, 1) for size in sizes] for stratum in strata]
    # Numerators over `total` of what is above the floor; 0: the share is whole.
    above = [[stratum * size % max(total, 1) for size in sizes] for stratum in strata]
    open_parts = [{p for p, part in enumerate(row) if part} for row in above]
    # Those that have become whole are dropped when they are met.
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
            # Every other step gains what the ones between lose, as far as all stay within a cell.
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
    """Steps (stratum, part) of a closed walk over shares that are not whole.

    Whoever has one such share has two, since the sums are whole; so the walk never ends before it
    comes to a part where it was.
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
    # The way back to that part closes the circle; the steps before it do not belong to it. Where it
    # is the way out of it, too, the circle is closed at the stratum.
    circle = walk[seen[p] :]
    return circle[1:] if circle[0] == (s, p) else [*circle, (s, p)]
