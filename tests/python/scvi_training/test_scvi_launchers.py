"""penstock.scvi.train with other launchers: torchrun on two nodes, Slurm, Ray Train.

Each gives the result of two processes that `train` starts itself.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Oracle
from torchrun import finish

pytest.importorskip("scvi")

import scvi_rank_script

SCRIPT = Path(scvi_rank_script.__file__)


@pytest.fixture(scope="module")
def started_here(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return scvi_rank_script.train(cells.path, tmp_path_factory.mktemp("here"), devices=2)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(*command: object, **environment: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
            "OMP_NUM_THREADS": "1",
            **{name: str(value) for name, value in environment.items()},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(outputs: list[str], folder: Path, expected: dict[str, Any]) -> None:
    (line,) = [line for out in outputs for line in out.splitlines() if line.startswith("RESULTS ")]
    ranks = json.loads(line.removeprefix("RESULTS "))
    assert [each["rank"] for each in ranks] == [0, 1]
    for each in ranks:
        assert each["split"] == expected["split"]
        assert each["weights"] == pytest.approx(expected["weights"], rel=1e-5)
        np.testing.assert_allclose(each["latent"], expected["latent"], rtol=1e-3, atol=1e-4)
    for each in ranks:
        assert each["history"].keys() == expected["history"].keys()
        for name, values in expected["history"].items():
            assert each["history"][name] == pytest.approx(values, rel=1e-5), name
        assert each["best"] == ranks[0]["best"] != {}
    assert len(ranks[0]["history"]["elbo_validation"]) == 2, "stopped early"
    assert (folder / "checkpoint" / "best" / "model.pt").exists()


def test_torchrun_on_two_nodes(cells: Oracle, started_here: dict, tmp_path: Path) -> None:
    port = free_port()
    nodes = [
        start(
            "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={node}",
            "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}",
            SCRIPT, cells.path, tmp_path,
        )
        for node in range(2)
    ]  # fmt: skip
    check([finish(node) for node in nodes], tmp_path, started_here)


@pytest.mark.parametrize("nodes", [1, 2])
def test_slurm(cells: Oracle, started_here: dict, tmp_path: Path, nodes: int) -> None:
    """The environment that srun gives two tasks, on one node or one on each of two."""
    port = free_port()
    tasks = [
        start(
            SCRIPT,
            cells.path,
            tmp_path,
            SLURM_JOB_ID=1234,
            SLURM_JOB_NAME="train",
            SLURM_NTASKS=2,
            SLURM_STEP_NUM_TASKS=2,
            SLURM_NTASKS_PER_NODE=2 // nodes,
            SLURM_NNODES=nodes,
            SLURM_PROCID=task,
            SLURM_NODEID=task * nodes // 2,
            SLURM_LOCALID=task if nodes == 1 else 0,
            SLURM_NODELIST="127.0.0.1",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for task in range(2)
    ]
    outputs = [finish(task) for task in tasks]
    check(outputs, tmp_path, started_here)
    assert "Epoch 2/4" in outputs[0], "rank 0 shows how far it is"
    assert "Epoch" not in outputs[1]


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_of_our_own_in_an_allocation_of_slurm(
    cells: Oracle, started_here: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: int
) -> None:
    """A notebook or a batch script without srun: there is one task, and `train` starts ranks."""
    for name, value in {
        "JOB_ID": 1234, "JOB_NAME": "jupyter", "NTASKS": 1, "NNODES": 1, "PROCID": 0, "LOCALID": 0,
        "NODEID": 0, "NODELIST": "node-1", "NTASKS_PER_NODE": 1, "STEP_NUM_TASKS": 1,
    }.items():  # fmt: skip
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    made = scvi_rank_script.train(cells.path, tmp_path, devices=devices)
    assert len(made["history"]["elbo_validation"]) == 2
    if devices == 2:
        assert made["weights"] == pytest.approx(started_here["weights"], rel=1e-5)


def _ray_rank(config: dict[str, Any]) -> None:
    import ray.train
    import torch.distributed as dist

    torch.set_num_threads(1)
    mine = scvi_rank_script.train(config["cells"], Path(config["folder"]))
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, {"rank": dist.get_rank(), **mine})
    if dist.get_rank() == 0:
        Path(config["folder"], "results").write_text("RESULTS " + json.dumps(everybody))
    ray.train.report({})


def test_ray_train(
    cells: Oracle, started_here: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is no dependency: this runs where it is installed")
    pytest.importorskip("ray.train.torch", reason="needs ray[train]")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # it would write a token into the home folder
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
    )
    try:
        TorchTrainer(
            _ray_rank,
            train_loop_config={"cells": str(cells.path), "folder": str(tmp_path)},
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
            torch_config=TorchConfig(backend="gloo"),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    check([(tmp_path / "results").read_text()], tmp_path, started_here)
