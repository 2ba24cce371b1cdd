"""Values that both plots of speed against memory draw: axis, names and sizes of the markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


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


def marker_sizes(rows: pd.DataFrame) -> list[float]:
    """Return 12 points; for blocks, 9 for a thousand cells plus 2 per doubling."""
    sizes = []
    for block in rows["block_size"].astype(float):
        power = 0.0 if block != block else max(int(block).bit_length() - 10, 0)
        sizes.append(12.0 if block != block else min(9.0 + 2.0 * power, 31.0))
    return sizes
