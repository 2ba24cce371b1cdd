"""Sizes of shuffle blocks, in the notation of ``alb data-loader -b``.

A block is a number of chunks of adjacent cells that are shuffled together:

    131072 / 64          a block of 131,072 cells in 64 chunks
    131072 / [1,4096]    blocks of 1, 2, 4, … 4,096 chunks; [4096,1] in descending order
    64x2048              64 chunks of 2,048 cells
    2048                 one chunk of 2,048 cells
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import InvalidArgument

_CHUNKS = re.compile(r"(?:(?P<chunks>\d+)\s*[x×]\s*)?(?P<size>\d+)")
_BLOCK = re.compile(
    r"(?P<block>\d+)\s*/\s*(?:(?P<chunks>\d+)|\[\s*(?P<first>\d+)\s*,\s*(?P<last>\d+)\s*\])"
)
_FORMS = "'BLOCK / CHUNKS', 'BLOCK / [FIRST,LAST]', 'CHUNKSxSIZE' or 'SIZE', such as '131072 / [1,4096]' or '64x2048'"
_MOST = 2**40


@dataclass(frozen=True)
class BlockSpec:
    """Chunks per block, and cells per chunk."""

    chunks_per_block: int
    chunk_size: int

    @property
    def block_size(self) -> int:
        """Number of cells in a block."""
        return self.chunks_per_block * self.chunk_size

    def __str__(self) -> str:
        return f"{self.chunks_per_block}x{self.chunk_size}"


def parse_block_specs(text: str) -> list[BlockSpec]:
    """Return all blocks of the text.

    Raises
    ------
    InvalidArgument
        The text has none of these forms, or a block does not divide into so many chunks.
    """
    stripped = text.strip()
    if match := _CHUNKS.fullmatch(stripped):
        return [_checked(int(match["chunks"] or 1), int(match["size"]), text)]
    match = _BLOCK.fullmatch(stripped)
    if match is None:
        raise InvalidArgument(f"a block must be given as {_FORMS}, got {text!r}")
    block = int(match["block"])
    if match["chunks"] is not None:
        return [_divided(block, int(match["chunks"]), text)]
    first, last = int(match["first"]), int(match["last"])
    counts = _doubling(min(first, last), max(first, last), text)
    return [_divided(block, n, text) for n in (counts if first <= last else counts[::-1])]


def _doubling(first: int, last: int, text: str) -> list[int]:
    if first < 1:
        raise InvalidArgument(f"a block has 1 chunk or more, got {text!r}")
    counts = [first]
    while counts[-1] * 2 <= last:
        counts.append(counts[-1] * 2)
    return counts


def _divided(block: int, chunks: int, text: str) -> BlockSpec:
    if chunks < 1 or block % chunks:
        raise InvalidArgument(f"{block} cells do not divide into {chunks} chunks: {text!r}")
    return _checked(chunks, block // chunks, text)


def _checked(chunks: int, size: int, text: str) -> BlockSpec:
    if chunks < 1 or size < 1 or chunks * size > _MOST:
        raise InvalidArgument(f"a block has from 1 to {_MOST:,} cells, got {text!r}")
    return BlockSpec(chunks, size)
