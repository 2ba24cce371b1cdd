"""Speed of decoding the tiles of X: an upper bound for readers that decode each tile once.

Threads decompress and un-shuffle the columns of genes and values, from memory, with the engine's
own decoders (libzstd and its kernels). The row column is left out, because Penstock reads it in its
compressed form (src/codec/zstd/run_decoder.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock import _core

COLUMNS = ("columns", "values")
MOST_BYTES = 256 << 20  # of stored tiles, sampled evenly from the array and held in memory


@dataclass(frozen=True)
class DecodeBound:
    """Bound of a layer: `cells_per_second` of decoding alone with so many threads."""

    threads: int
    cells_per_second: float
    stored_bytes: int


def measure(
    array: str | Path, n_cells: int, threads: int, rounds: int = 3, parts: Sequence[str] = COLUMNS
) -> DecodeBound:
    """Return the best of some rounds; `parts` is a subset of rows, columns (genes), values.

    Raises
    ------
    Unsupported
        The array is dense, or the engine does not support the filters of its tiles.
    CorruptData
        A tile cannot be decoded.
    """
    seconds, decoded, stored, n_bytes = _core.decode_bound(
        str(array), list(parts), MOST_BYTES, threads, rounds
    )
    return DecodeBound(threads, decoded / seconds * (n_cells / stored), n_bytes)
