"""Name of the processor."""

from __future__ import annotations

import platform
from pathlib import Path


def cpu_name() -> str:
    """Return the name of the processor as Linux gives it, else of its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
