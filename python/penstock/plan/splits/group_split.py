"""Assign whole groups of cells to parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.errors import InvalidArgument

_STARTS = 8
_MOST_STEPS = 10_000

Integers = npt.NDArray[np.int64]


def parts_of_groups(groups: Integers, sizes: Sequence[int], seed: int) -> npt.NDArray[np.intp]:
    """Assign whole groups to parts so that the sizes of the parts are nearly as wanted.

    Groups are assigned in random order. Each goes to a part with room for it, drawn in proportion
    to the room that is left. Groups that fit nowhere follow, largest first, each to the part with
    the most room. Then single groups are moved, or exchanged between two parts, as long as this
    brings two parts nearer to their sizes. The best of eight attempts is returned. Every part with
    a wanted size above 0 gets a group.

    Parameters
    ----------
    groups : ndarray of int64
        Cells of each group, shape (groups,).
    sizes : sequence of int
        Wanted cells of each part.
    seed : int
        Seed of the assignment.

    Returns
    -------
    ndarray of intp
        Part of each group, shape (groups,).

    Raises
    ------
    InvalidArgument
        There are fewer groups than parts with a wanted size above 0.
    """
    wanted = np.array(sizes, np.int64)
    used = np.flatnonzero(wanted)
    if len(groups) < len(used):
        raise InvalidArgument(
            f"{plural(len(groups), 'group')} cannot fill {plural(len(used), 'part')}, as no group is cut: ask for fewer "
            "parts, or give group another column of obs, or stratify by it instead"
        )
    if not len(groups):
        return np.zeros(0, np.intp)
    best, least = None, None
    for start in range(_STARTS):
        random = np.random.RandomState(np.random.MT19937([seed % 2**32, seed // 2**32, start]))
        parts = used[_improved(groups, wanted[used], _dealt(groups, wanted[used], random))]
        off = int(np.abs(_filled(groups, parts, len(sizes)) - wanted).sum())
        if least is None or off < least:
            best, least = parts, off
        if least == 0:
            break
    assert best is not None
    return best


def _filled(groups: Integers, parts: npt.NDArray[np.intp], count: int) -> Integers:
    filled = np.zeros(count, np.int64)
    np.add.at(filled, parts, groups)
    return filled


def _dealt(
    groups: Integers, wanted: Integers, random: np.random.RandomState
) -> npt.NDArray[np.intp]:
    parts = np.full(len(groups), -1, np.intp)
    room = wanted.copy()
    late = []
    for group in random.permutation(len(groups)):
        fits = np.where(room >= groups[group], room, 0)
        total = int(fits.sum())
        if total == 0:
            late.append(group)
            continue
        part = int(np.searchsorted(np.cumsum(fits), random.randint(total), side="right"))
        parts[group] = part
        room[part] -= groups[group]
    for group in sorted(late, key=lambda each: (-groups[each], each)):
        part = int(room.argmax())
        parts[group] = part
        room[part] -= groups[group]
    for part in range(len(wanted)):
        if not (parts == part).any():
            # The group nearest to the wanted size, among groups that are not alone in their part.
            alone = np.bincount(parts, minlength=len(wanted))[parts] == 1
            off = np.where(alone, np.iinfo(np.int64).max, np.abs(groups - wanted[part]))
            parts[off.argmin()] = part
    return parts


def _improved(
    groups: Integers, wanted: Integers, parts: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Move or exchange groups between two parts while this brings both nearer to their sizes."""
    parts = parts.copy()
    excess = _filled(groups, parts, len(wanted)) - wanted
    steps = 0
    moved = True
    while moved and steps < _MOST_STEPS:
        moved = False
        # From parts with too many cells to parts with too few, the worst first.
        for full in np.argsort(-excess, kind="stable"):
            for empty in np.argsort(excess, kind="stable"):
                while excess[full] > excess[empty] and steps < _MOST_STEPS:
                    given, taken = _best_exchange(groups, parts, full, empty, excess)
                    if given < 0:
                        break
                    change = groups[given] - (groups[taken] if taken >= 0 else 0)
                    parts[given] = empty
                    if taken >= 0:
                        parts[taken] = full
                    excess[full] -= change
                    excess[empty] += change
                    steps += 1
                    moved = True
    return parts


def _best_exchange(
    groups: Integers,
    parts: npt.NDArray[np.intp],
    full: int,
    empty: int,
    excess: Integers,
) -> tuple[int, int]:
    """Return the best group to give and to take back (-1: none); (-1, -1) if none helps."""
    now = abs(int(excess[full])) + abs(int(excess[empty]))
    own, other = np.flatnonzero(parts == full), np.flatnonzero(parts == empty)
    other = other[np.argsort(groups[other], kind="stable")]
    # Taking nothing back is an empty group. The last group of a part must stay.
    back = np.concatenate([np.zeros(1, np.int64), groups[other]])
    best, pair = now, (-1, -1)
    ideal = (int(excess[full]) - int(excess[empty])) // 2
    at = np.searchsorted(back[1:], groups[own] - ideal) + 1
    for shift in (-1, 0):
        near = np.clip(at + shift, 1, max(len(back) - 1, 1))
        candidates = [(near, back[np.minimum(near, len(back) - 1)])] if len(back) > 1 else []
        if len(own) > 1:
            candidates.append((np.zeros(len(own), np.intp), np.zeros(len(own), np.int64)))
        for index, size in candidates:
            change = groups[own] - size
            off = np.abs(excess[full] - change) + np.abs(excess[empty] + change)
            least = int(off.argmin())
            if off[least] < best:
                best = int(off[least])
                taken = int(index[least])
                pair = int(own[least]), int(other[taken - 1]) if taken > 0 else -1
    return pair
