"""Random chains of filters."""

from __future__ import annotations

import random

import tiledb

COMPRESSIONS = [
    tiledb.ZstdFilter, tiledb.LZ4Filter, tiledb.GzipFilter, tiledb.Bzip2Filter, tiledb.RleFilter,
]  # fmt: skip
REORDERINGS = [tiledb.ByteShuffleFilter, tiledb.BitShuffleFilter, tiledb.XORFilter]
FOR_INTEGERS = [tiledb.DeltaFilter, tiledb.DoubleDeltaFilter, tiledb.BitWidthReductionFilter]
CHECKSUMS = [tiledb.ChecksumMD5Filter, tiledb.ChecksumSHA256Filter]


def drawn_filters(draw: random.Random, integers: bool, follows: bool = False) -> list[type]:
    """Classes of a chain that TileDB itself can write and read, of which one `follows` another filter."""
    filters: list[type] = []
    if draw.random() < 0.5:
        filters.append(draw.choice(REORDERINGS + (FOR_INTEGERS if integers else [])))
        if draw.random() < 0.3 and tiledb.DoubleDeltaFilter not in filters:
            filters.append(draw.choice(REORDERINGS[:2]))
    if draw.random() < 0.8 and tiledb.DoubleDeltaFilter not in filters:
        filters.append(draw.choice(COMPRESSIONS[: 4 if filters or follows else 5]))
    if draw.random() < 0.3:
        filters.append(draw.choice(CHECKSUMS))
    return filters
