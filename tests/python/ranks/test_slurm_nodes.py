"""The batch scripts of docs/how-to/slurm.md, as they stand, on a real Slurm of two nodes."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import part_functions
import penstock as ps
import pytest
import torch
from conftest import write_small_tiles
from penstock.executors import parts
from slurm import dask_workers, missing_programs, two_nodes

missing = missing_programs()
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not there: {', '.join(missing)}")

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    # Not below pytest's folder: the path of munge's socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, two_nodes(Path(folder)) as there:
        programs = str(Path(sys.executable).parent)
        yield {**there, "PATH": f"{programs}:{there['PATH']}", "OMP_NUM_THREADS": "1"}


def submit(cluster: dict[str, str], script: Path) -> str:
    """Output of a job that must complete."""
    command = ["sbatch", "--parsable", "--output", "job.out", script.name]
    said = subprocess.run(
        command, cwd=script.parent, env=cluster, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    job, end, state = said.stdout.strip(), time.monotonic() + 600, ""
    while state not in ENDED:
        assert time.monotonic() < end, f"the job is {state} after 600 s"
        time.sleep(0.5)
        shown = subprocess.run(
            ["scontrol", "show", "job", job],
            env=cluster,
            capture_output=True,
            text=True,
            check=True,
        )
        (state,) = re.findall(r"JobState=(\w+)", shown.stdout)
    out = (script.parent / "job.out").read_text()
    assert state == "COMPLETED", out[-4000:]
    assert re.search(r"NumNodes=2\b", shown.stdout), shown.stdout
    return out


def test_a_training_loop_by_torchrun(cluster: dict[str, str], tmp_path: Path) -> None:
    (script,) = blocks("many-gpus.md", "python")
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "train.sbatch").write_text(blocks("slurm.md", "bash")[0])
    out = submit({**cluster, "CUDA_VISIBLE_DEVICES": ""}, tmp_path / "train.sbatch")
    epochs = re.findall(r"epoch (\d): [\d.]+% of (\d+) cells", out)
    assert [epoch for epoch, _ in epochs] == ["0", "1", "2"], out
    assert {cells for _, cells in epochs} == {"1200"}, (
        "validation has each cell once over the nodes"
    )


def test_scvi(cluster: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("scvi")
    (script,) = blocks("slurm.md", "python")
    (tmp_path / "scvi_job.py").write_text(script)
    (tmp_path / "scvi.sbatch").write_text(blocks("slurm.md", "bash")[1])
    out = submit({**cluster, "CUDA_VISIBLE_DEVICES": ""}, tmp_path / "scvi.sbatch")
    assert out.count("latent (6000, 10)") == 1, out
    latent = np.load(tmp_path / "latent.npy")
    assert np.isfinite(latent).all()
    assert len(np.unique(latent, axis=0)) == 6000
    assert (tmp_path / "model" / "model.pt").is_file()


def test_a_pack_by_a_job_array(cluster: dict[str, str], tmp_path: Path) -> None:
    """The script of docs/how-to/executors.md, as it stands; the plain command then has nothing left to pack."""
    source = write_small_tiles(tmp_path / "cells.soma", 2_000, 200, per_cell=40)
    given = ["--rows-per-file", "100"]
    (script,) = blocks("executors.md", "bash")
    (line,) = [line for line in script.splitlines() if line.startswith("penstock")]
    (tmp_path / "pack.sbatch").write_text(script.replace(line, " ".join([line, *given])))
    run = {"cwd": tmp_path, "env": {**cluster, "SOURCE": str(source)}, "text": True}
    done = subprocess.run(
        ["sbatch", "--wait", "--output", "task-%a.out", "pack.sbatch"],
        capture_output=True, timeout=600, check=False, **run,
    )  # fmt: skip
    said = [path.read_text() for path in sorted(tmp_path.glob("task-*.out"))]
    assert done.returncode == 0, [done.stderr, *said]
    assert [text.splitlines()[0].split(":")[0] for text in said] == [
        f"part {task} of 4 is done" for task in range(1, 5)
    ]
    assert not (tmp_path / "cells.pack").exists()
    whole = subprocess.run(
        ["penstock", "pack", source, "cells.pack", *given], capture_output=True, check=False, **run
    )
    assert whole.returncode == 0, whole.stderr
    assert "2,000 rows had been packed before" in whole.stdout
    assert "packed in" not in whole.stdout
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=100)
    files = [
        sorted(path.rglob("*.rows")) for path in (tmp_path / "cells.pack", tmp_path / "whole.pack")
    ]
    assert len(files[0]) >= 4
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]


def test_each_node_has_its_share(cluster: dict[str, str], tmp_path: Path) -> None:
    """A plain Dataset in the tasks of a step: the ranks are those of Slurm, and no cell comes twice."""
    code = (
        "import os, penstock as ps\n"
        "ds = ps.Dataset(ps.example('census-like'), uneven='exact')\n"
        "ids = [int(i) for _, obs in ds for i in obs['soma_joinid']]\n"
        "open(os.environ['SLURM_PROCID'], 'w').write(' '.join([os.environ['SLURMD_NODENAME'], *map(str, ids)]))\n"
    )
    (tmp_path / "read.py").write_text(code)
    done = subprocess.run(
        ["srun", "-N2", "-n2", "--ntasks-per-node=1", sys.executable, "read.py"],
        cwd=tmp_path, env=cluster, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = [(tmp_path / str(rank)).read_text().split() for rank in range(2)]
    assert read[0][0] != read[1][0], "two nodes"
    assert abs(len(read[0]) - len(read[1])) <= 1
    assert sorted(int(each) for node in read for each in node[1:]) == list(range(6000))


def test_a_task_that_is_killed_ends_the_job(cluster: dict[str, str]) -> None:
    """By the option of srun that docs/how-to/slurm.md has: the other task does not wait for the dead one."""
    assert all("srun --kill-on-bad-exit=1" in script for script in blocks("slurm.md", "bash"))
    done = subprocess.run(
        ["srun", "-N2", "-n2", "--kill-on-bad-exit=1", "bash", "-c", '[ "$SLURM_PROCID" = 1 ] && kill -9 $$; sleep 300'],
        env=cluster, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Killed" in done.stderr


@pytest.fixture
def dask(cluster: dict[str, str], tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """A dask-jobqueue cluster of a worker on each node, and a client."""
    with dask_workers(cluster, tmp_path, tmp_path) as there:
        yield there


@pytest.mark.usefixtures("one_torch_thread")  # as dask-jobqueue gives its workers
def test_inference_by_dask_on_two_nodes(dask: tuple[Any, Any], tmp_path: Path) -> None:
    """The bits of one process; a worker that is killed loses nothing."""
    _, client = dask
    torch.manual_seed(0)
    model = torch.nn.Linear(1500, 3)
    ds = ps.Dataset(ps.example("census-like", folder=tmp_path), batch_size=100, threads=1)
    found = ps.map_batches(model, ds, executor=client)
    np.testing.assert_array_equal(found.values, ps.map_batches(model, ds).values)

    given = [parts.Part(f"part {i}", (str(tmp_path), i, 3)) for i in range(6)]
    got = [each for _, each in parts.results(client, part_functions.killing, given)]
    assert sorted(got) == list(range(6))
    assert (tmp_path / "killed").exists()
    assert part_functions.ran(tmp_path).count(3) == 2, "the part ran twice"


def test_a_job_of_a_worker_is_cancelled(
    dask: tuple[Any, Any], cluster: dict[str, str], tmp_path: Path
) -> None:
    """scancel takes a node away while parts run: the other one does the rest."""
    jobs, client = dask
    given = [parts.Part(f"part {i}", (str(tmp_path), i)) for i in range(12)]
    running = parts.results(client, part_functions.slow, given)
    got = [next(running)[1]]
    victim = next(iter(jobs.workers.values())).job_id
    subprocess.run(["scancel", victim], env=cluster, check=True)
    got += [each for _, each in running]
    assert sorted(got) == list(range(12))
    assert len(client.scheduler_info()["workers"]) < 2
