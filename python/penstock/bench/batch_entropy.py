"""Joinids of the batches that a method gave, and how mixed they are by a column of obs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.plan.uniform_entropy import uniform_entropy


@dataclass(frozen=True)
class Mixing:
    """Mean entropy of the label in full batches, in bits, and that of a uniform shuffle."""

    batches: int
    entropy: float
    uniform: float

    @property
    def share(self) -> float:
        """1 is as good as a uniform shuffle."""
        return self.entropy / self.uniform if self.uniform else 1.0


def wrong_joinids(record: Path, joinids: npt.NDArray[np.int64]) -> str | None:
    """Why the joinids in the worker's record cannot be those of different cells of the selection.

    None where nothing says so; also of an epoch that was cut.
    """
    with np.load(record) as stored:
        order = stored["joinids"]
    strange = order[~np.isin(order, joinids)]
    if len(strange):
        return f"joinid {strange[0]} came, but no cell of the selection has it"
    found, times = np.unique(order, return_counts=True)
    if len(found) != len(order):
        return f"joinid {found[times > 1][0]} came more than once in an epoch"
    return None


def mixing(
    record: Path,
    joinids: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    batch_size: int,
) -> Mixing:
    """Of the batches in the worker's record; `joinids` ascend, `codes` are the labels of those."""
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
