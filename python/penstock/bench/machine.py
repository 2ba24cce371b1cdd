"""Facts about the machine and the code, which make rows comparable."""

from __future__ import annotations

import functools
import getpass
import os
import platform
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

from penstock.base.cpu import cpu_name

#: Sources of a build; other changes in a checkout, such as new results, do not change the build.
SOURCES = ("src", "include", "python", "bindings", "cmake", "CMakeLists.txt", "pyproject.toml")
_PACKAGE = Path(__file__).resolve().parents[1]
_DMI = Path("/sys/devices/virtual/dmi/id")


@functools.cache
def machine_facts() -> dict[str, Any]:
    """Return the columns that are the same for every row of a run."""
    identity, kind = cloud_instance()
    return {
        "hostname": socket.gethostname(),
        "host": os.environ.get("PENSTOCK_BENCH_HOST", socket.gethostname().split(".")[0]),
        "user": _user(),
        "instance_id": identity,
        "instance_type": kind,
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "sha": commit(),
    }


def described() -> str:
    """Return a description of the machine in one line."""
    facts = machine_facts()
    kind = f"{facts['instance_type']}, " if facts["instance_type"] else ""
    return (
        f"{kind}{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.1f} GiB; "
        f"{facts['system']}; Python {platform.python_version()}"
    )


def cloud_instance(folder: Path = _DMI) -> tuple[str | None, str | None]:
    """Return (instance id, instance type) from the machine's firmware, without a request.

    On EC2 the asset tag is the instance's id and the product name its type.
    """

    def read(name: str) -> str:
        try:
            return (folder / name).read_text().strip()
        except OSError:
            return ""

    tag = read("board_asset_tag")
    if re.fullmatch(r"i-[0-9a-f]{8,}", tag):
        return tag, read("product_name") or None
    return None, None


def commit(package: Path = _PACKAGE) -> str | None:
    """Return the commit that Penstock was built from, with ``-dirty`` if sources were changed.

    The build writes the commit beside the package (cmake/PenstockCommit.cmake). In a checkout, it
    is the checkout's commit. Otherwise it is PENSTOCK_BENCH_COMMIT, or None.
    """
    try:
        return (package / "commit.txt").read_text().strip()
    except OSError:
        elsewhere = os.environ.get("PENSTOCK_BENCH_COMMIT")

    def git(folder: Path, *arguments: str) -> str | None:
        command = ["git", "-C", str(folder), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    top = Path(git(package, "rev-parse", "--show-toplevel") or "/nowhere")
    if not (top / "include" / "penstock").is_dir():
        return elsewhere
    sha = git(top, "rev-parse", "HEAD")
    changed = git(top, "status", "--porcelain", "--", *SOURCES)
    if sha is None or changed is None:
        return elsewhere
    return f"{sha}-dirty" if changed else sha


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
