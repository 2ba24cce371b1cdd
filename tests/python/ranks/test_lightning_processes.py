"""Lightning's DDP on two real ranks: all loops, and checkpoints within an epoch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SCRIPTS, write_small_tiles
from torchrun import finish, torchrun

pytest.importorskip("lightning.pytorch")

SCRIPT = SCRIPTS / "lightning_script.py"
N_CELLS = 301


def test_two_ranks(tmp_path: Path) -> None:
    tiled = write_small_tiles(tmp_path / "experiment", N_CELLS, 60)
    out = finish(torchrun(2, SCRIPT, tiled, tmp_path / "checkpoints"))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    ranks = json.loads(line.removeprefix("RESULTS "))
    everything = list(range(N_CELLS))

    cells = []
    for epoch in ("0", "1"):
        got = [each["epochs"][epoch] for each in ranks]
        assert len(got[0]) == len(got[1]) == N_CELLS // 2
        assert not set(got[0]) & set(got[1])
        cells.append([set(each) for each in got])
    assert cells[0] != cells[1], "another cut, without a call of set_epoch"

    # Every cell once: in two epochs' validation, and in stored order over the ranks in a test
    # and in prediction.
    assert sorted(ranks[0]["checked"] + ranks[1]["checked"]) == sorted(everything * 2)
    assert ranks[0]["tested"] + ranks[1]["tested"] == everything
    assert abs(len(ranks[0]["tested"]) - len(ranks[1]["tested"])) <= 8, "no batch has more by two"
    assert ranks[0]["predicted"] + ranks[1]["predicted"] == everything

    # Rank 0 writes the checkpoint; both resume from it with their own batches.
    for each in ranks:
        assert len(each["losses"]) == 2 * 8
        assert each["rest"] == each["losses"][11:]
