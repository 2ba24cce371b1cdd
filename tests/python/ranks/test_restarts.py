"""The script of docs/how-to/restarts.md under torchrun: a rank is killed, and no cell is lost or comes twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from torchrun import finish, kill_all

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
#: Notes the cells of a step, and takes time, so that a rank can be killed in between.
NOTE = """
        with open(f"cells-{epoch}-{rank}.jsonl", "a") as file:
            file.write(json.dumps([dist.get_world_size(), os.getpid(), obs["soma_joinid"].tolist()]) + "\\n")
        time.sleep(0.02)
"""


def start(folder: Path, ranks: int) -> subprocess.Popen[str]:
    (script,) = re.findall(r"```python\n(.*?)```", (DOCS / "restarts.md").read_text(), re.DOTALL)
    assert script.count("        steps += 1\n") == 1
    noting = script.replace("        steps += 1\n", NOTE + "        steps += 1\n")
    (folder / "train.py").write_text("import json, time\n" + noting)
    return subprocess.Popen(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone",
            f"--nproc-per-node={ranks}", "--max-restarts=3", "train.py",
        ],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip


def noted(folder: Path, epoch: int, rank: int) -> list[tuple[int, int, list[int]]]:
    path = folder / f"cells-{epoch}-{rank}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(json.loads(line)) for line in lines]


def kill_a_rank(folder: Path, run: subprocess.Popen[str], rank: int) -> int:
    """Kill a rank that is past its first save; return its process id."""
    end = time.monotonic() + 300
    while True:
        assert time.monotonic() < end, "no step was noted"
        if run.poll() is not None:
            raise AssertionError(run.communicate()[1][-3000:])
        steps = noted(folder, 0, rank)
        if (folder / "checkpoint.pt").exists() and len(steps) >= 13:
            os.kill(steps[-1][1], signal.SIGKILL)
            return steps[-1][1]
        time.sleep(0.01)


def kept(folder: Path, epoch: int, ranks: list[int], saved_steps: int) -> Counter[int]:
    """Cells of an epoch that count: of the first processes up to their last save, then of the others."""
    cells: Counter[int] = Counter()
    for rank in ranks:
        steps = noted(folder, epoch, rank)
        first = [step for step in steps if step[1] == steps[0][1]]
        after = [step for step in steps if step[1] != steps[0][1]]
        for _, _, ids in first[: saved_steps if after else None] + after:
            cells.update(ids)
    return cells


def test_torchrun_starts_the_ranks_again(tmp_path: Path) -> None:
    run = start(tmp_path, 2)
    try:
        killed = kill_a_rank(tmp_path, run, 1)
    except BaseException:
        kill_all(run)
        raise
    out = finish(run)
    # The line of an epoch that ended before the kill may come twice.
    assert sorted(set(re.findall(r"epoch (\d) is done", out))) == ["0", "1", "2"]
    processes = {step[1] for epoch in range(3) for step in noted(tmp_path, epoch, 1)}
    assert killed in processes
    assert len(processes) == 2, "the rank was started again"
    for epoch in range(3):
        # The first processes saved after some tens of steps of each rank, or at the end.
        held = [kept(tmp_path, epoch, [0, 1], saved) for saved in range(0, 40, 10)]
        assert Counter(range(6000)) in held


@pytest.mark.parametrize("ranks", [1, 3])
def test_another_number_of_ranks_resumes(tmp_path: Path, ranks: int) -> None:
    run = start(tmp_path, 2)
    try:
        kill_a_rank(tmp_path, run, 0)
    finally:
        kill_all(run)  # torchrun too
    before = {epoch: [noted(tmp_path, epoch, rank) for rank in range(2)] for epoch in range(3)}
    for file in tmp_path.glob("cells-*.jsonl"):
        file.unlink()
    out = finish(start(tmp_path, ranks))
    assert re.findall(r"epoch (\d) is done", out)[-1] == "2"
    for epoch in range(3):
        options = []
        for count in range(0, 40, 10):
            steps = [step for rank in range(ranks) for step in noted(tmp_path, epoch, rank)]
            assert {world for world, _, _ in steps} <= {ranks}
            steps += [step for rank in before[epoch] for step in rank[:count]]
            options.append(Counter(cell for step in steps for cell in step[2]))
        assert Counter(range(6000)) in options
