"""How fast libzstd alone decompresses the tiles of X: no reader of the same tiles can be faster.

Every frame of the columns of genes and values (and, for readers that decompress them, of rows) is
decompressed once, by some threads, nothing else done. For arrays in the Census's filters (zstd, or
byte shuffle and zstd), whose tiles hold one frame a chunk part (TileDB's format_spec/tile.md).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CorruptData, Unsupported

COLUMNS = ("d1.tdb", "a0.tdb")  # Penstock takes rows (d0) from their compressed form
_MAGIC = b"\x28\xb5\x2f\xfd"
_OUT = 1 << 22


@dataclass(frozen=True)
class DecodeBound:
    """Of a layer: `cells_per_second` is what decompression alone allows with so many threads."""

    threads: int
    cells_per_second: float
    stored_bytes: int
    frames: int


def measure(array: str | Path, n_cells: int, threads: int, rounds: int = 3) -> DecodeBound:
    """Best of some rounds over all frames, which are in memory.

    Raises
    ------
    Unsupported
        libzstd is not there, or the tiles are not of that form.
    """
    frames = [
        frame
        for fragment in sorted((Path(array) / "__fragments").iterdir())
        for column in COLUMNS
        for frame in frames_of((fragment / column).read_bytes())
    ]
    library = _library()
    best = min(_seconds(library, frames, threads) for _ in range(rounds))
    stored = sum(map(len, frames))
    return DecodeBound(threads, n_cells / best, stored, len(frames))


def frames_of(column: bytes) -> Iterator[bytes]:
    """The zstd frames of a column's file: tiles of chunks of parts."""
    at, end = 0, len(column)
    try:
        while at < end:
            (chunks,) = struct.unpack_from("<Q", column, at)
            at += 8
            for _ in range(chunks):
                _, stored, metadata = struct.unpack_from("<III", column, at)
                at += 12
                parts_at = at
                part = at + metadata
                n_metadata, n_data = struct.unpack_from("<II", column, parts_at)
                parts_at += 8
                for _ in range(n_metadata + n_data):
                    _, size = struct.unpack_from("<II", column, parts_at)
                    parts_at += 8
                    frame = column[part : part + size]
                    if frame[:4] != _MAGIC:
                        raise Unsupported("the tiles are not compressed by zstd alone")
                    yield frame
                    part += size
                at += metadata + stored
    except struct.error:
        raise CorruptData("a column ends within a tile") from None


def _seconds(library: ctypes.CDLL, frames: Sequence[bytes], threads: int) -> float:
    gate = threading.Barrier(threads + 1)
    failures: list[str] = []

    def work(mine: Sequence[bytes]) -> None:
        out = ctypes.create_string_buffer(_OUT)
        gate.wait()
        for frame in mine:  # ctypes gives the GIL up for each
            if library.ZSTD_isError(library.ZSTD_decompress(out, _OUT, frame, len(frame))):
                failures.append("a frame that libzstd does not take")

    group = [threading.Thread(target=work, args=(frames[i::threads],)) for i in range(threads)]
    for thread in group:
        thread.start()
    gate.wait()
    begin = time.perf_counter()
    for thread in group:
        thread.join()
    if failures:
        raise CorruptData(failures[0])
    return time.perf_counter() - begin


def _library() -> ctypes.CDLL:
    name = ctypes.util.find_library("zstd")
    if name is None:
        raise Unsupported("the decode bound needs libzstd as a shared library")
    library = ctypes.CDLL(name)
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.ZSTD_decompress.argtypes = [pointer, size, ctypes.c_char_p, size]
    library.ZSTD_decompress.restype = size
    library.ZSTD_isError.argtypes = [size]
    return library
