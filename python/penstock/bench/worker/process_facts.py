"""What the kernel says of this process."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_rss() -> int:
    """High-water mark of resident memory in bytes, since the start or `reset_peak_rss`.

    ``VmHWM``; ru_maxrss will not do, since a child begins with its parent's.
    """
    return _status("VmHWM")


def rss() -> int:
    """Resident memory in bytes."""
    return _status("VmRSS")


def reset_peak_rss() -> bool:
    """Let `peak_rss` begin again at what is resident now; False where the kernel refuses."""
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
    """Bytes that read calls returned (``rchar``), and that came from the disk (``read_bytes``)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0, 0
    counts = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return counts.get("rchar", 0), counts.get("read_bytes", 0)


def cpu_seconds() -> tuple[float, float]:
    """Seconds in user and in system mode of this process and of children that have ended."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + ended.ru_utime, mine.ru_stime + ended.ru_stime
