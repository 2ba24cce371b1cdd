"""The face that every loader shows to the measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: X of a batch, and the soma_joinids of its rows where the loader brings them.
Batch = tuple[Any, "npt.NDArray[np.int64] | None"]


@dataclass
class Opened:
    """A loader that is ready."""

    epoch: Callable[[int], Iterator[Batch]]
    """Called with the number of the epoch; each call is another pass."""
    n_batches: int | None = None
    """Of a whole epoch, where the loader knows."""
    statistics: Callable[[], dict[str, Any]] = dict
    """What the loader tells of its last epoch; goes into the row as JSON."""


def nonzeros(x: Any) -> int | None:
    """Non-zeros of a sparse batch; None for a dense one, where counting costs as much as loading."""
    if "sparse" in str(getattr(x, "layout", "")):
        return int(x._nnz())
    return int(x.nnz) if hasattr(x, "nnz") else None
