"""Running scripts under torchrun, with checks of their exit status and time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

#: Many times what a run takes; one that hangs is killed with all that it started.
TIME_LIMIT_SECONDS = 600


def torchrun(
    ranks: int,
    script: Path,
    *arguments: object,
    python: str = sys.executable,
    **environment: str,
):
    """Start a script in as many processes as ranks."""
    command = [python, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", str(script), *map(str, arguments)]
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_all(process: subprocess.Popen[str]) -> tuple[str, str]:
    """SIGKILL for a run and everything that it started (ranks have sessions of their own).

    Returns what it had written.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
            children.setdefault(parent, []).append(int(entry.name))
    doomed = [process.pid]
    for each in doomed:
        doomed += children.get(each, [])
    for each in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    """Standard output of a run that must end well, and in time."""
    try:
        out, errors = process.communicate(timeout=TIME_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        out, errors = kill_all(process)
        raise AssertionError(
            f"the run did not end within {TIME_LIMIT_SECONDS} s: a rank waits for another\n"
            f"{out[-2000:]}\n{errors[-3000:]}"
        ) from None
    except BaseException:  # Ctrl-C, or a test that is given up
        kill_all(process)
        raise
    assert process.returncode == 0, errors[-3000:]
    return out
