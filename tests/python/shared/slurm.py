"""A Slurm of two nodes on this machine, with daemons and ports of its own, for as long as a test lasts."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

NODES = ("s1", "s2")
#: As root, daemons of Debian's packages slurmctld, slurmd, slurm-client and munge.
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo")


def missing_programs() -> list[str]:
    """Programs that are not installed, or root."""
    there = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    missing = [name for name in PROGRAMS if shutil.which(name, path=there) is None]
    return missing if os.getuid() == 0 else [*missing, "root"]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _configuration(folder: Path, ports: list[int]) -> str:
    lines = [
        "ClusterName=test",
        f"SlurmctldHost={socket.gethostname()}(127.0.0.1)",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder}/munge.socket",
        "CredType=cred/munge",
        f"SlurmctldPort={ports[0]}",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd-%n.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/slurmd-%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "MpiDefault=none",
        "ReturnToService=2",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "SchedulerParameters=sched_interval=1,batch_sched_delay=1",
    ]
    for node, port in zip(NODES, ports[1:], strict=True):
        lines.append(
            f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=2"
        )
    lines.append(f"PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


#: Folders that a node has elsewhere: (what, where).
Mounts = Sequence[tuple[Path, Path]]


@contextmanager
def two_nodes(folder: Path, mounts: tuple[Mounts, Mounts] = ((), ())) -> Iterator[dict[str, str]]:
    """Yield the environment in which srun and sbatch use this Slurm. `folder` must be short and empty.

    Each node has process numbers of its own, which begin with 1, and what is mounted for it.
    """
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    # Rendezvous go to a node by its name, which only the nodes need to resolve.
    hosts = folder / "hosts"
    hosts.write_text(
        Path("/etc/hosts").read_text() + "".join(f"\n127.0.0.1 {node}" for node in NODES) + "\n"
    )
    nodes = [
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
         " && ".join(f"mount --bind {what} {where}" for what, where in [(hosts, "/etc/hosts"), *own])
         + ' && exec "$0" "$@"', "slurmd", "-D", "-N", node, "-f", str(folder / "slurm.conf")]
        for node, own in zip(NODES, mounts, strict=True)
    ]  # fmt: skip
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    configuration = folder / "slurm.conf"
    configuration.write_text(_configuration(folder, _free_ports(3)))
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    environment = {**kept, "PATH": path, "SLURM_CONF": str(configuration)}
    daemons = [
        [
            "munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
        ],
        ["slurmctld", "-D", "-f", str(configuration)],
        *nodes,
    ]  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        for daemon in daemons:
            if daemon[0] == "slurmctld":
                _wait(lambda: (folder / "munge.socket").exists(), folder, started)
            with (folder / f"{len(started)}.out").open("wb") as out:
                started.append(
                    subprocess.Popen(daemon, env=environment, stdout=out, stderr=subprocess.STDOUT)
                )
        _wait(lambda: _idle(environment) == len(NODES), folder, started)
        yield environment
        # What still ends would outlive its daemons.
        subprocess.run(["scancel", "--user=root"], env=environment, check=False)
        _wait(lambda: _said(environment, "squeue", "-h") == "", folder, started)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def dask_workers(
    environment: dict[str, str], folder: Path, scratch: Path
) -> Iterator[tuple[Any, Any]]:
    """Yield a dask-jobqueue cluster of a worker on each node, and a client; jobs begin in `folder`."""
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    jobqueue = pytest.importorskip("dask_jobqueue")
    signal.signal(signal.SIGINT, on_ctrl_c)  # whose import sets one that calls sys.exit
    distributed = pytest.importorskip("distributed")
    path = [str(Path(__file__).parent), environment.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", ":".join(filter(None, path)))
        patch.chdir(folder)
        with (
            jobqueue.SLURMCluster(
                cores=1, processes=1, memory="2GiB", job_cpu=2, job_mem="0", interface="lo",
                walltime="00:20:00", python=sys.executable, local_directory=str(scratch),
                scheduler_options={"dashboard_address": None},
            ) as jobs,
            distributed.Client(jobs) as client,
        ):  # fmt: skip
            jobs.scale(jobs=2)
            client.wait_for_workers(2, timeout=120)
            found = client.run(lambda: os.environ["SLURMD_NODENAME"])
            assert sorted(found.values()) == list(NODES)
            yield jobs, client


def _idle(environment: dict[str, str]) -> int:
    said = _said(environment, "sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
    return 0 if said is None else len(said.split())


def _said(environment: dict[str, str], *command: str) -> str | None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _wait(ready: Callable[[], bool], folder: Path, daemons: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + 120
    while not ready():
        if time.monotonic() > end or any(each.poll() is not None for each in daemons):
            said = "\n".join(
                f"{each.name}: {each.read_text(errors='replace')[-1500:]}"
                for each in sorted([*folder.glob("*.log"), *folder.glob("*.out")])
            )
            raise AssertionError(f"Slurm does not start\n{said}")
        time.sleep(0.1)
