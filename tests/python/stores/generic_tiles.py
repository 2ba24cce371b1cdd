"""Reading and rewriting TileDB's metadata files, which hold chunks compressed by zlib.

Source: TileDB, format_spec/generic_tile.md and tile.md.
"""

from __future__ import annotations

import functools
import struct
import zlib
from pathlib import Path

HEADER = "<IQQBQBI"
CHUNK_BYTES = 65536


def read_tile(path: Path) -> tuple[bytes, bytes]:
    """(header, contents) of a file that is one generic tile, behind one gzip filter."""
    stored = path.read_bytes()
    *_, filters_bytes = struct.unpack_from(HEADER, stored)
    at = struct.calcsize(HEADER) + filters_bytes
    header = stored[:at]
    (chunks,) = struct.unpack_from("<Q", stored, at)
    at += 8
    contents = b""
    for _ in range(chunks):
        original, data_bytes, parts_bytes = struct.unpack_from("<III", stored, at)
        at += 12 + parts_bytes
        part = zlib.decompress(stored[at : at + data_bytes])
        assert len(part) == original
        contents += part
        at += data_bytes
    return header, contents


def chunk(data: bytes, original: int) -> bytes:
    parts = struct.pack("<IIII", 0, 1, original, len(data))
    return struct.pack("<III", original, len(data), len(parts)) + parts + data


def tile_of(header: bytes, original: int, chunks: list[bytes]) -> bytes:
    body = struct.pack("<Q", len(chunks)) + b"".join(chunks)
    version, _, _, *rest = struct.unpack_from(HEADER, header)
    fixed = struct.pack(HEADER, version, len(body), original, *rest)
    return fixed + header[len(fixed) :] + body


def write_tile(path: Path, header: bytes, contents: bytes) -> None:
    pieces = [contents[i : i + CHUNK_BYTES] for i in range(0, len(contents), CHUNK_BYTES)]
    chunks = [chunk(zlib.compress(piece), len(piece)) for piece in pieces]
    path.write_bytes(tile_of(header, len(contents), chunks))


@functools.cache
def deflated_zeros(count: int) -> bytes:
    deflate = zlib.compressobj(9)
    return b"".join(deflate.compress(bytes(1 << 20)) for _ in range(count >> 20)) + deflate.flush()


def write_bomb(path: Path, header: bytes, original: int, count: int = 1) -> None:
    """``count`` chunks of ``original`` zeros each, as many as they say."""
    chunks = [chunk(deflated_zeros(original), original)] * count
    path.write_bytes(tile_of(header, original * count, chunks))
