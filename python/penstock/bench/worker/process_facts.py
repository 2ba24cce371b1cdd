"""Facts of the kernel about this process."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def peak_rss() -> int:
    """Return the peak of resident memory in bytes, since the start or `reset_peak_rss`.

    It is ``VmHWM``, because a child's ru_maxrss starts at the value of its parent.
    """
    return _status("VmHWM")


def rss() -> int:
    """Return resident memory in bytes."""
    return _status("VmRSS")


def reset_peak_rss() -> bool:
    """Restart `peak_rss` at the current resident memory; return False if the kernel refuses."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def bytes_read() -> tuple[int, int]:
    """Return bytes from read calls (``rchar``) and from the disk (``read_bytes``).

    They include all descendants, and ended ones if their parent has waited for them.
    """
    total = from_disk = 0
    for process in ("self", *_below("self")):
        try:
            lines = Path(f"/proc/{process}/io").read_text().splitlines()
        except OSError:
            continue
        counts = {name: int(value) for name, value in (line.split(": ") for line in lines)}
        total += counts.get("rchar", 0)
        from_disk += counts.get("read_bytes", 0)
    return total, from_disk


def cpu_seconds() -> tuple[float, float]:
    """Return seconds in user and in system mode of the same processes."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = mine.ru_utime + ended.ru_utime, mine.ru_stime + ended.ru_stime
    tick = 1 / os.sysconf("SC_CLK_TCK")
    for process in _below("self"):
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue
        # utime, stime, cutime, cstime: from the 14th field on; the second field may have spaces.
        times = [int(field) * tick for field in text.rpartition(")")[2].split()[11:15]]
        user, system = user + times[0] + times[2], system + times[1] + times[3]
    return user, system


def _below(process: str) -> list[str]:
    """Return the living descendants of a process."""
    found: list[str] = []
    try:
        for children in list(Path(f"/proc/{process}/task").glob("*/children")):
            found += children.read_text().split()
    except OSError:  # it has ended since
        pass
    return found + [each for child in found for each in _below(child)]
