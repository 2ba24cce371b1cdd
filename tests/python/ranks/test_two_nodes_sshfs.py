"""Every job on two nodes of Slurm that share a folder over sshfs, where no lock holds between them.

The nodes have the same process numbers, and scratch folders of their own.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import part_functions
import penstock as ps
import pytest
import slurm
import sshfs
from conftest import write_small_tiles
from packed_experiments import contents
from penstock.genes import chunks

missing = [*slurm.missing_programs(), *sshfs.missing()]
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=f"not there: {', '.join(missing)}"),
    pytest.mark.usefixtures("one_torch_thread"),  # as dask-jobqueue gives its workers
]


class Nodes(NamedTuple):
    """Two nodes, which have the folders ``shared`` and ``scratch`` at the same paths."""

    environment: dict[str, str]
    shared: Path
    scratch: Path
    scratches: tuple[Path, Path]  # as this process sees them


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    # Not below pytest's folder: the path of munge's socket has at most 107 characters.
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as name,
        tempfile.TemporaryDirectory(prefix="sshfs-") as other,
        sshfs.two_mounts(Path(other)) as (mine, theirs),
    ):
        scratch, scratches = Path(other) / "scratch", (Path(other) / "s1", Path(other) / "s2")
        for each in (scratch, *scratches):
            each.mkdir()
        own = ([(scratches[0], scratch)], [(theirs, mine), (scratches[1], scratch)])
        with slurm.two_nodes(Path(name), own) as there:
            programs = str(Path(sys.executable).parent)
            environment = {
                **there,
                "PATH": f"{programs}:{there['PATH']}",
                "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
                "TMPDIR": str(scratch),
            }
            yield Nodes(environment, mine, scratch, scratches)


def on_both(nodes: Nodes, *command: object) -> str:
    """Output of a task on each node; it must succeed."""
    done = subprocess.run(
        ["srun", "-N2", "-n2", "--ntasks-per-node=1", "--kill-on-bad-exit=1", *map(str, command)],
        cwd=nodes.shared, env=nodes.environment, capture_output=True, text=True, timeout=500,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


LOCK = """
import fcntl, os, sys, time
from pathlib import Path
me = os.environ["SLURM_PROCID"]
with open("lock", "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    Path(f"locked-{me}").touch()
    while not Path(f"locked-{1 - int(me)}").exists():
        time.sleep(0.05)
Path(os.environ["TMPDIR"], "note").write_text(os.environ["SLURMD_NODENAME"])
print(os.environ["SLURMD_NODENAME"], os.getpid(), flush=True)
"""


def test_what_the_nodes_share(nodes: Nodes) -> None:
    """The folder, but no locks; scratch is not shared. This is what the tests below are for."""
    said = sorted(line.split() for line in on_both(nodes, sys.executable, "-c", LOCK).splitlines())
    assert [name for name, _ in said] == ["s1", "s2"]
    assert max(int(pid) for _, pid in said) < 1000, "processes are counted by node"
    assert [(each / "note").read_text() for each in nodes.scratches] == ["s1", "s2"]
    with (nodes.shared / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.fixture
def dask(nodes: Nodes) -> Iterator[Any]:
    """A client of dask-jobqueue, with a worker on each node."""
    with slurm.dask_workers(nodes.environment, nodes.shared, nodes.scratch) as (_, client):
        yield client


def test_a_pack_by_dask(nodes: Nodes, dask: Any, tmp_path: Path) -> None:
    """Also while a worker is killed: byte for byte the pack of one process."""
    source = write_small_tiles(nodes.shared / "cells", 3_000, 200, per_cell=40)
    pack, marker = nodes.shared / "dask.pack", nodes.shared / "killed"

    class Killing:
        """Calls parts so that the first worker that writes is killed."""

        def submit(self, function: Any, *arguments: Any) -> Any:
            call = (str(marker), f"{pack}.partial", function, arguments)
            return dask.submit(part_functions.killed_while_writing, *call)

    ps.pack(source, pack, rows_per_file=100, executor=Killing())
    assert marker.exists(), "a worker was killed"
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=100)
    assert contents(pack) == contents(tmp_path / "whole.pack")


#: Runs a command in a process whose number is 5000, and prints the number.
AS_5000 = """
import os, sys
while True:
    open("/proc/sys/kernel/ns_last_pid", "w").write("4999")
    pid = os.fork()
    if pid == 0 and os.getpid() == 5000:
        print("process", os.getpid(), flush=True)
        os.execvp(sys.argv[1], sys.argv[1:])
    elif pid == 0:  # another process was begun in between
        os._exit(77)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 77:
        sys.exit(status)
"""


def test_a_pack_by_a_job_array(nodes: Nodes, tmp_path: Path) -> None:
    """Each task of a step packs a part, and both pack the same one, in processes of the same number."""
    source = write_small_tiles(nodes.shared / "more", 3_000, 200, per_cell=40)
    pack = nodes.shared / "array.pack"
    command = ("penstock", "pack", source, pack, "--rows-per-file", "500")
    said = on_both(nodes, sys.executable, "-c", AS_5000, *command, "--part", "1/2")
    assert said.count("part 1 of 2 is done") == said.count("process 5000\n") == 2
    on_both(nodes, *command, "--part", "2/2")
    assert not pack.exists()
    done = subprocess.run(
        list(map(str, command)), env=nodes.environment, capture_output=True, text=True
    )
    assert "3,000 rows had been packed before" in done.stdout, done.stderr
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=500)
    assert contents(pack) == contents(tmp_path / "whole.pack")


def test_statistics(nodes: Nodes, dask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of one process."""
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 500)
    ds = ps.Dataset(ps.example("census-like", folder=nodes.shared), threads=1)
    for found, alone in (
        (ps.gene_statistics(ds, group_by="cell_type", executor=dask), ps.gene_statistics(ds, group_by="cell_type")),
        (ps.cell_statistics(ds, executor=dask), ps.cell_statistics(ds)),
        (ps.highly_variable_genes(ds, 100, executor=dask), ps.highly_variable_genes(ds, 100)),
    ):  # fmt: skip
        pd.testing.assert_frame_equal(found, alone, check_exact=True)


TRAIN = """
import os, sys
import penstock.scvi as pscvi
import torch
from lightning.pytorch import seed_everything
seed_everything(0)
data = pscvi.DataModule(sys.argv[1], batch_key="dataset_id", batch_size=256)
model = data.create_model(n_latent=4, n_hidden=16)
pscvi.train(model, data, max_epochs=1, accelerator="cpu", progress=False)
if os.environ["SLURM_PROCID"] == "0":
    model.save("model", overwrite=True)
print("trained", os.environ["SLURMD_NODENAME"], torch.distributed.get_world_size())
"""


@pytest.fixture(scope="module")
def trained(nodes: Nodes) -> Path:
    """The folder of a model that both nodes trained; before Dask takes all of their cores."""
    pytest.importorskip("scvi")
    cells = ps.example("census-like", folder=nodes.shared)
    said = on_both(nodes, sys.executable, "-c", TRAIN, cells)
    assert sorted(line for line in said.splitlines() if line.startswith("trained")) == [
        "trained s1 2", "trained s2 2",
    ]  # fmt: skip
    return nodes.shared / "model"


def test_latents_of_a_model_that_both_nodes_trained(nodes: Nodes, trained: Path, dask: Any) -> None:
    """The bits of one process."""
    import penstock.scvi as pscvi

    cells = ps.example("census-like", folder=nodes.shared)
    data = pscvi.DataModule(cells, batch_key="dataset_id", dataset={"threads": 1})
    model = pscvi.load(trained, data)
    out = nodes.shared / "latent.zarr"
    found = pscvi.latent(model, data, out=out, executor=dask)
    alone = pscvi.latent(model, data, devices=1, accelerator="cpu")
    assert len(found) == 6_000
    np.testing.assert_array_equal(np.asarray(found), alone.values)
