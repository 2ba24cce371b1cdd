"""Joinids of the batches of a method, and their entropy by a column of obs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.plan.uniform_entropy import uniform_entropy


@dataclass(frozen=True)
class Mixing:
    """Mean entropy of the label in full batches and in a uniform shuffle, in bits."""

    batches: int
    entropy: float
    uniform: float

    @property
    def share(self) -> float:
        """Entropy as a share of a uniform shuffle's; 1 is best."""
        return self.entropy / self.uniform if self.uniform else 1.0


def wrong_joinids(record: Path, joinids: npt.NDArray[np.int64]) -> str | None:
    """Return why the joinids in the worker's record cannot be distinct cells of the selection.

    None if no error is found. An epoch that was cut is checked, too.
    """
    with np.load(record) as stored:
        order = stored["joinids"]
    strange = order[~np.isin(order, joinids)]
    if len(strange):
        return f"got joinid {strange[0]}, but no cell of the selection has it"
    found, times = np.unique(order, return_counts=True)
    if len(found) != len(order):
        return f"got joinid {found[times > 1][0]} more than once in an epoch"
    return None


def mixing(
    record: Path,
    joinids: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    batch_size: int,
) -> Mixing:
    """Return the mixing of recorded batches; `codes` are the labels of ascending `joinids`."""
    with np.load(record) as stored:
        order, sizes = stored["joinids"], stored["sizes"]
    labels = codes[np.searchsorted(joinids, order)]
    n_labels = int(codes.max(initial=0)) + 1
    entropies = []
    for part in np.split(labels, np.cumsum(sizes)[:-1]):
        if len(part) == batch_size:
            counts = np.bincount(part, minlength=n_labels)
            shares = counts[counts > 0] / len(part)
            entropies.append(float(-(shares * np.log2(shares)).sum()))
    expected = uniform_entropy(np.bincount(codes, minlength=n_labels), batch_size)
    return Mixing(len(entropies), float(np.mean(entropies)) if entropies else 0.0, float(expected))
