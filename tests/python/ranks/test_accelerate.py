"""Hugging Face Accelerate over two real processes: sharding of cells, and epoch numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SCRIPTS, write_small_tiles
from torchrun import finish, torchrun

pytest.importorskip("accelerate")

SCRIPT = SCRIPTS / "accelerate_script.py"
TWICE = SCRIPTS / "accelerate_twice_script.py"
BATCH = 8


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 203, 50)


@pytest.mark.parametrize(("cells", "workers"), [(192, 0), (203, 0), (203, 2)])
def test_every_cell_once(tiled: Path, cells: int, workers: int) -> None:
    out = finish(torchrun(2, SCRIPT, tiled, cells, workers))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    ranks = json.loads(line.removeprefix("RESULTS "))
    everything = list(range(cells))

    prepared = [each["prepared"] for each in ranks]
    for epoch in range(2):
        assert len({each["steps"][epoch] for each in prepared}) == 1, "equally many steps"
        # What Accelerate gives to fill the last batch it takes away again, when it gathers.
        for each in prepared:
            assert sorted(each["metrics"][epoch]) == everything
        got = [joinid for each in prepared for joinid in each["epochs"][epoch]]
        assert set(got) == set(everything)
        assert len(got) - cells < 2 * BATCH
        if cells % (2 * BATCH) == 0:
            assert sorted(got) == everything
    for each in prepared:
        assert each["epochs"][0] != each["epochs"][1], "Accelerate's set_epoch, or its lack"
        assert each["again"] == each["epochs"][0], "set_epoch of the prepared loader"

    for each in ranks:
        assert each["loaded"] == {"False": True, "True": True}

    own = [each["own"] for each in ranks]
    for epoch in range(2):
        assert sorted(own[0]["epochs"][epoch] + own[1]["epochs"][epoch]) == everything
    assert own[0]["epochs"][0] != own[0]["epochs"][1]


@pytest.mark.parametrize(
    ("kind", "workers", "context"),
    [
        ("native", 0, "fork"),
        ("native", 1, "fork"),
        ("native", 1, "spawn"),  # as in processes that torch.multiprocessing.spawn started
        ("census", 0, "fork"),
        ("census", 1, "spawn"),
        ("tiledbsoma_ml", 1, "fork"),
    ],
)
def test_cells_divided_twice_are_an_error(
    tiled: Path, kind: str, workers: int, context: str
) -> None:
    process = torchrun(2, TWICE, tiled, kind, workers, context)
    out, error = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "BATCHES" not in out
    assert "divided among 2 ranks already, but Accelerate's prepare divides" in out + (error or "")
