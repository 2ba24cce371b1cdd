"""One folder, mounted twice by sshfs from a server of this machine: a shared folder that keeps no locks between nodes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def missing() -> list[str]:
    """What this machine lacks for it."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    programs = ("sshfs", "sshd", "ssh-keygen", "fusermount3", "unshare")
    lacks = [name for name in programs if shutil.which(name, path=path) is None]
    if os.geteuid() != 0:
        lacks.append("root")
    if not Path("/dev/fuse").exists():
        lacks.append("/dev/fuse")
    return lacks


@contextmanager
def two_mounts(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Two mounts of ``folder/shared``."""
    for name in ("shared", "a", "b"):
        (folder / name).mkdir()
    for key in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True
        )
    shutil.copy(folder / "user.pub", folder / "keys")
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/keys\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
    )
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert sshd is not None
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd.conf"], stderr=log)
    mounted: list[Path] = []
    try:
        _wait_for(port)
        for name in ("a", "b"):
            options = (
                f"IdentityFile={folder}/user,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"
            )
            subprocess.run(
                ["sshfs", "-p", str(port), "-o", options, f"root@127.0.0.1:{folder}/shared", folder / name],
                check=True, timeout=60,
            )  # fmt: skip
            mounted.append(folder / name)
        yield folder / "a", folder / "b"
    finally:
        for mount in mounted:
            subprocess.run(["fusermount3", "-u", "-z", mount], check=True)
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
