"""The Hugging Face Trainer over real processes: every cell once, with either way of sharding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SCRIPTS, write_small_tiles
from torchrun import finish, torchrun

pytest.importorskip("transformers")

SCRIPT = SCRIPTS / "hf_trainer_script.py"
BATCH = 8


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 203, 50)


@pytest.mark.parametrize(
    ("ranks", "cells", "workers"), [(1, 203, 0), (2, 192, 0), (2, 203, 0), (2, 192, 2), (2, 203, 1)]
)
def test_every_cell_once(tiled: Path, tmp_path: Path, ranks: int, cells: int, workers: int) -> None:
    out = finish(torchrun(ranks, SCRIPT, tiled, tmp_path, cells, workers))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    results = json.loads(line.removeprefix("RESULTS "))
    assert len(results) == ranks
    for way in ("prepared", "own"):
        assert len({each[way]["steps"] for each in results}) == 1, "equally many steps"
        orders = [sum((each[way]["epochs"][epoch] for each in results), []) for epoch in range(2)]
        assert orders[0] != orders[1]
        for order in orders:
            assert set(order) == set(range(cells))
            if way == "own" or cells % (ranks * BATCH) == 0 or ranks == 1:
                assert len(order) == cells
            else:  # Accelerate fills the last round with cells that it has given before
                assert len(order) - cells < ranks * BATCH
