"""Facts of the machine, of the code and of who runs it; what makes rows comparable."""

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

_DMI = Path("/sys/devices/virtual/dmi/id")


@functools.cache
def machine_facts() -> dict[str, Any]:
    """Columns that are the same for every row of a run."""
    identity, kind = cloud_instance()
    return {
        "hostname": socket.gethostname(),
        "host": os.environ.get("PENSTOCK_BENCH_HOST", socket.gethostname().split(".")[0]),
        "user": _user(),
        "instance_id": identity,
        "instance_type": kind,
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "sha": commit(),
    }


def described() -> str:
    """One line for people."""
    facts = machine_facts()
    kind = f"{facts['instance_type']}, " if facts["instance_type"] else ""
    return (
        f"{kind}{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.1f} GiB; "
        f"{facts['system']}; Python {platform.python_version()}"
    )


def cloud_instance(folder: Path = _DMI) -> tuple[str | None, str | None]:
    """(instance id, instance type) as the machine's firmware tells them; nothing is asked.

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


def commit(folder: Path = Path(__file__).parent) -> str | None:
    """Commit of the checkout that Penstock runs from, with ``-dirty``; None outside of one."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )

    try:
        top = git("rev-parse", "--show-toplevel")
        if top.returncode or not (Path(top.stdout.strip()) / "include" / "penstock").is_dir():
            return os.environ.get("PENSTOCK_BENCH_COMMIT")
        sha = git("rev-parse", "HEAD").stdout.strip()
        return sha if git("diff", "--quiet", "HEAD").returncode == 0 else f"{sha}-dirty"
    except (OSError, subprocess.TimeoutExpired):
        return os.environ.get("PENSTOCK_BENCH_COMMIT")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
