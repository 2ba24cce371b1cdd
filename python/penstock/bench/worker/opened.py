"""The common interface of all loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: X of a batch, and the soma_joinids of its rows if the loader yields them.
Batch = tuple[Any, "npt.NDArray[np.int64] | None"]


@dataclass
class Opened:
    """An opened loader."""

    epoch: Callable[[int], Iterator[Batch]]
    """Called with the number of the epoch; each call is another pass."""
    n_batches: int | None = None
    """Number of batches in an epoch, if the loader knows it."""
    statistics: Callable[[], dict[str, Any]] = dict
    """Returns statistics of the last epoch for the row, as JSON."""


def nonzeros(x: Any) -> int | None:
    """Return the non-zeros of a sparse batch; None for a dense one, where counting is slow."""
    if "sparse" in str(getattr(x, "layout", "")):
        return int(x._nnz())
    return int(x.nnz) if hasattr(x, "nnz") else None
