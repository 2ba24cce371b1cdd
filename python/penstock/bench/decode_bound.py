"""How fast the tiles of X alone can be decoded: no reader that decodes them once can be faster.

The columns of genes and values are decompressed and un-shuffled, from memory, by some threads, with
the engine's own decoders (libzstd and its kernels) and nothing else done. The row column is left out:
Penstock takes it from its compressed form (src/codec/zstd/run_decoder.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock import _core

COLUMNS = ("columns", "values")
MOST_BYTES = 256 << 20  # of stored tiles, spread over the array, that are held in memory


@dataclass(frozen=True)
class DecodeBound:
    """Of a layer: `cells_per_second` is what decoding alone allows with so many threads."""

    threads: int
    cells_per_second: float
    stored_bytes: int


def measure(
    array: str | Path, n_cells: int, threads: int, rounds: int = 3, parts: Sequence[str] = COLUMNS
) -> DecodeBound:
    """Best of some rounds; `parts` are of rows, columns (genes) and values.

    Raises
    ------
    Unsupported
        The array is dense, or its tiles have filters that the engine does not read.
    CorruptData
        A tile does not decode.
    """
    seconds, decoded, stored, n_bytes = _core.decode_bound(
        str(array), list(parts), MOST_BYTES, threads, rounds
    )
    return DecodeBound(threads, decoded / seconds * (n_cells / stored), n_bytes)
