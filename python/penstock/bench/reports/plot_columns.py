"""Axes, names, sizes of markers and subtitles of both plots of speed against memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.text import plural

if TYPE_CHECKING:
    import pandas as pd

_LARGEST, _SMALLEST, _WITHOUT_BLOCK = 22.0, 5.0, 12.0  # points
#: A legend has at most so many sizes of blocks.
_SIZES_SHOWN = 6
#: Blocks that the Census's loaders read by default, and alb's 2,048 chunks.
_DEFAULT_CHUNK, _DEFAULT_CHUNKS = 64, (2000, 2048)
_DEFAULT_METHODS = "np.array", "cellxgene_census"
_MOST_MARKED = 8


@dataclass(frozen=True)
class Style:
    """Style of a plot of speed against memory.

    Attributes
    ----------
    linear : bool
        Linear axes from 0; else logarithmic ones.
    marks_default : bool
        Mark the measurements that have the Census loaders' default blocks.
    anchor : tuple of (int, float), optional
        Cells of a block, and the size of its marker in points. By default the largest block has 22.
    """

    linear: bool = False
    marks_default: bool = True
    anchor: tuple[int, float] | None = None

    def marker_size(self, block: float, largest: float) -> float:
        """Return the size of a marker in points: its area is proportional to the block."""
        if block != block:
            return _WITHOUT_BLOCK
        cells, points = self.anchor or (largest, _LARGEST)
        return max(points * math.sqrt(block / cells), _SMALLEST)

    def marker_sizes(self, rows: pd.DataFrame, every: pd.DataFrame) -> list[float]:
        """Return the sizes of the markers of some of `every` row."""
        largest = float(every["block_size"].astype(float).max())
        return [self.marker_size(block, largest) for block in rows["block_size"].astype(float)]

    def blocks_shown(self, frame: pd.DataFrame) -> list[tuple[str, float]]:
        """Return the entries (text, points) of a legend of block sizes; none if all are equal."""
        blocks = sorted({int(block) for block in frame["block_size"].dropna()})
        if len(blocks) < 2:
            return []
        step = max(1.0, (len(blocks) - 1) / (_SIZES_SHOWN - 1))
        some = [blocks[round(i * step)] for i in range(min(len(blocks), _SIZES_SHOWN))]
        return [(f"{block:,}", self.marker_size(block, blocks[-1])) for block in some]

    def default_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the few rows to mark as default: those of the Census's loader, or alb's np.array."""
        blocks = (frame["chunk_size"] == _DEFAULT_CHUNK) & frame["chunks_per_block"].isin(
            _DEFAULT_CHUNKS
        )
        rows = frame[blocks.fillna(False)] if self.marks_default else frame[:0]
        rows = rows[rows["method"].isin(_DEFAULT_METHODS)]
        first = rows[rows["method"] == rows["method"].iloc[0]] if len(rows) else rows
        return first if len(first) <= _MOST_MARKED else first[:0]


DEFAULT_STYLE = Style()
DEFAULT_TEXT = "Default", "≈2,000 chunks", f"{_DEFAULT_CHUNK} cells a chunk"


def chunk_ticks(frame: pd.DataFrame) -> list[int]:
    """Return the numbers of chunks to name at a bar of colours: 14 at most."""
    chunks = sorted({int(each) for each in frame["chunks_per_block"].dropna()})
    return chunks[:: -(-len(chunks) // 14)] if chunks else []


def speed_column(frame: pd.DataFrame) -> tuple[str, str]:
    """Return (column, axis title): whole epochs if all are whole, else from the first batch on.

    In short epochs the latter says little: a loader that reads a whole block for the first batch
    yields the rest of the block at no cost.
    """
    if frame["whole_epoch"].eq(True).all() and frame["epoch_cells_per_second"].notna().all():
        return "epoch_cells_per_second", "cells/s, whole epoch"
    return "cells_per_second", "cells/s after the first batch"


def names_drawn(frame: pd.DataFrame) -> pd.Series:
    """Return the names for symbols: methods, or contestants if no row has chunks."""
    names = frame["method"].astype(str)
    if frame["chunks_per_block"].notna().any() or "contestant" not in frame:
        return names
    return frame["contestant"].fillna(names).astype(str)


#: Title of the memory axis.
MEMORY = "peak memory, USS: without pages shared with other processes (GiB)"


def axis_title(words: str, linear: bool) -> str:
    """Return the title of an axis, with its scale."""
    if linear:
        return words
    unit = words.endswith(")")
    return f"{words[:-1]}, log scale)" if unit else f"{words} (log scale)"


def runs(frame: pd.DataFrame) -> str:
    """Return the number of runs of each contestant of a comparison; nothing for other rows."""
    if "contestant" not in frame or frame["contestant"].isna().any():
        return ""
    each = frame.groupby("contestant")
    number = each["round"].nunique() if "round" in frame else each.size()
    least, most = int(number.min()), int(number.max())
    return f"{plural(least, 'run') if least == most else f'{least} to {most} runs'} of each"


def subtitles(frame: pd.DataFrame) -> list[str]:
    """Return two lines: machines and batches, then cells, where they were read from, and runs."""
    on_ec2 = frame["instance_type"].notna()
    kinds, cpus = _values_of(frame["instance_type"]), _values_of(frame["cpu"][~on_ec2])
    cores = _values_of(frame["cores"][~on_ec2], "{:,.0f}")
    own = f"{cpus}, {cores} cores" if cpus and cores else cpus
    machine = " and ".join(filter(None, [f"EC2 ({kinds})" if kinds else "", own]))
    batch = _values_of(frame["batch_size"], "{:,.0f}")
    first = [machine, f"batches of {batch} cells" if batch else ""]
    # Those after the first batch, if alb measured; all that came, if we did.
    counted = frame["total_n_rows"].astype(float).fillna(frame["n_rows"].astype(float))
    cells, every = (_values_of(column, "{:,.0f}") for column in (counted, frame["total_rows"]))
    read = f"{cells} cells" + (f" of {every}" if every and every != cells else "")
    limits = frame["max_batches"].astype(float).fillna(0).unique()
    if len(limits) == 1 and limits[0] > 0:
        read = f"{limits[0]:,.0f} batches ({read})"
    second = ", ".join(filter(None, [read, _places(frame)]))
    return [", ".join(filter(None, first)), "; ".join(filter(None, [second, runs(frame)]))]


def _places(frame: pd.DataFrame) -> str:
    """Return where cells were read from; alb's rows of the whole Census have no uri."""
    uris = frame["uri"].fillna("").astype(str)
    of_census = frame["census_uri"].notna() | (uris.eq("") & frame["census_version"].notna())
    places = {
        "streamed and sliced on the fly from S3": of_census & ~uris.str.startswith("/"),
        "read from S3": ~of_census & uris.str.startswith("s3://"),
        "read over a network": ~of_census & uris.str.match("(?!s3:)[a-z]+://"),
        "read from a local disk": uris.ne("") & ~uris.str.contains("://"),
    }
    return " or ".join(words for words, rows in places.items() if rows.any())


def _values_of(column: Iterable[object], form: str = "{}") -> str:
    """Return the different values as text: all of up to three, or "several"."""
    found = list(
        dict.fromkeys(form.format(each) for each in column if each == each and each is not None)
    )
    return ", ".join(found) if len(found) < 4 else "several"
