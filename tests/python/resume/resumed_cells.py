"""Cells whose epochs are saved and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import penstock as ps
from conftest import write_small_tiles

N_CELLS = 8_000
BATCH = 250  # 32 batches


def write_tiled(folder: Path) -> Path:
    """8,000 cells in 17 fetch units."""
    return write_small_tiles(folder / "experiment", N_CELLS, 200)


def small(path, **arguments) -> ps.Dataset:
    """32 batches whose shuffle spans three of the 17 units."""
    given = {"sparse": True, "batch_size": BATCH, "memory_budget": "700KiB", "seed": 3}
    return ps.Dataset(path, **{**given, **arguments})


def ids(batch) -> list[int]:
    return np.asarray(batch[1]["soma_joinid"]).tolist()


def same(left, right) -> bool:
    return (
        ids(left) == ids(right)
        and (left[0] != right[0]).nnz == 0
        and left[0].shape == right[0].shape
    )


def through_json(state):
    return json.loads(json.dumps(state))
