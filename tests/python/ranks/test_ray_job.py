"""The job of docs/how-to/ray.md, where Ray is installed: a worker is killed, and no cell is lost or comes twice."""

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

pytest.importorskip(
    "ray.train.torch", reason="Ray is no dependency: this runs where it is installed"
)

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
#: Notes the cells of a step, and takes time, so that a worker can be killed in between.
NOTE = """
            with open(f"{config['notes']}/{epoch}-{ray.train.get_context().get_world_rank()}", "a") as file:
                file.write(json.dumps([os.getpid(), obs["soma_joinid"].tolist()]) + "\\n")
            time.sleep(0.3)
"""


def noted(folder: Path, epoch: int, rank: int) -> list[tuple[int, list[int]]]:
    path = folder / f"{epoch}-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(json.loads(line)) for line in lines]


def started(folder: Path, workers: int, epochs: int, notes: Path) -> subprocess.Popen[bytes]:
    """The job of the page, on a cluster of its own."""
    (script,) = re.findall(r"```python\n(.*?)```", (DOCS / "ray.md").read_text(), re.DOTALL)
    for old, new in (
        ("            steps += 1\n", NOTE + "            steps += 1\n"),
        ('"epochs": 3}', f'"epochs": {epochs}, "notes": {str(notes)!r}}}'),
        ("num_workers=2", f"num_workers={workers}"),
        (
            "    ray.init()\n",
            '    ray.init(address="local", num_cpus=3, include_dashboard=False)\n',
        ),
    ):
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    notes.mkdir()
    (folder / "ray_job.py").write_text("import json, time\n" + script)
    paths = os.pathsep.join(filter(None, [str(folder), *sys.path]))
    with (folder / "out").open("w") as out:
        return subprocess.Popen(
            [sys.executable, "ray_job.py"], cwd=folder, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
                 "RAY_AUTH_MODE": "disabled", "RAY_TRAIN_V2_ENABLED": "1"},
            start_new_session=True,
        )  # fmt: skip


def wait_for_steps(job: subprocess.Popen[bytes], folder: Path, notes: Path) -> None:
    """Past the first report, and long enough for its checkpoint to be taken."""
    end = time.monotonic() + 300
    while len(noted(notes, 0, 1)) < 18:
        said = (folder / "out").read_text()
        assert job.poll() is None, said[-3000:]
        assert time.monotonic() < end, said[-3000:]
        time.sleep(0.05)


def ended(job: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait for the job, which must succeed."""
    try:
        job.wait(300)
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait(60)
    said = (folder / "out").read_text()
    assert job.returncode == 0, said[-3000:]
    assert "done:" in said


def test_a_worker_of_the_job_is_killed(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    job = started(tmp_path, 2, 2, notes)
    try:
        wait_for_steps(job, tmp_path, notes)
        killed = noted(notes, 0, 1)[-1][0]
        os.kill(killed, signal.SIGKILL)
    finally:
        ended(job, tmp_path)
    first = noted(notes, 0, 1)
    assert killed in {pid for pid, _ in first}
    assert len({pid for pid, _ in first}) == 2, "the worker was started again"
    for epoch in range(2):
        held = []
        for saved in (10, 20):
            cells: Counter[int] = Counter()
            for rank in range(2):
                steps = noted(notes, epoch, rank)
                before = [step for step in steps if step[0] == steps[0][0]]
                after = [step for step in steps if step[0] != steps[0][0]]
                for _, ids in before[: saved if after else None] + after:
                    cells.update(ids)
            held.append(cells)
        assert Counter(range(6000)) in held


def test_the_job_is_killed_and_resumes_with_one_worker(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    job = started(tmp_path, 2, 1, before)
    try:
        wait_for_steps(job, tmp_path, before)
    finally:
        os.killpg(job.pid, signal.SIGKILL)  # Ray's own processes too
    assert job.wait() == -signal.SIGKILL
    ended(started(tmp_path, 1, 1, after), tmp_path)
    assert noted(after, 0, 0)
    assert not noted(after, 0, 1)
    held = []
    for saved in (10, 20):
        steps = [*noted(before, 0, 0)[:saved], *noted(before, 0, 1)[:saved], *noted(after, 0, 0)]
        held.append(Counter(cell for _, ids in steps for cell in ids))
    assert Counter(range(6000)) in held
