"""One rank of a run that `launch` started."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

#: The program of a rank, ``python -c``: modules are found where the caller finds them.
BOOTSTRAP = """\
import json, os, sys
folder = sys.argv[1]
header = json.load(open(os.path.join(folder, "header.json")))
os.environ.setdefault("OMP_NUM_THREADS", str(header["threads"]))
output = os.open(
    os.path.join(folder, "output-" + os.environ["RANK"] + ".txt"),
    os.O_WRONLY | os.O_CREAT | os.O_APPEND,
)
os.dup2(output, 1)
os.dup2(output, 2)
sys.path[:] = header["path"]
from penstock.scvi.worker import main
main(folder, header["parent"])
"""

_SECONDS_BETWEEN_LOOKS = 0.5


def output_path(folder: Path, rank: Any) -> Path:
    """Where a rank writes what it prints."""
    return folder / f"output-{rank}.txt"


def error_path(folder: Path, rank: Any) -> Path:
    """Where a rank writes why it failed."""
    return folder / f"error-{rank}.json"


def result_path(folder: Path, rank: Any) -> Path:
    """Where a rank writes what its function returned."""
    return folder / f"result-{rank}.pkl"


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def _tell(folder: Path, rank: int, **cause: str) -> None:
    """Say why this rank fails, and when it did."""
    partial = error_path(folder, rank).with_suffix(".partial")
    partial.write_text(json.dumps({"rank": rank, "time": time.time(), **cause}))
    partial.rename(error_path(folder, rank))


class Terminated:
    """What a rank does when somebody asks it to end: it says so, and is gone.

    Others ask the ranks that they wait for; who came first tells the cause. Python answers between
    two of its own steps: before Lightning runs, when a rank may wait in C, SIGTERM is left to the
    system; later a rank that waits in C is killed, as `launch` gives it seconds to end.
    """

    of_this_rank: Terminated | None = None  #: where `launch` started this process

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._process = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Answer the signal."""
        if os.getpid() == self._process:  # and not a worker of its loader
            _tell(self._folder, self._rank, signal=signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def main(name: str, parent: int) -> None:
    """Call the function, and leave what it returned or raised in the folder.

    The rank ends when its parent is gone, a kernel that was killed say: nobody would take its
    result, and it would write into the folder of the run that continues.
    """
    threading.Thread(target=_end_without, args=(parent,), daemon=True).start()
    folder, rank = Path(name), int(os.environ["RANK"])
    Terminated.of_this_rank = Terminated(folder, rank)
    try:
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        with (folder / "call.pkl").open("rb") as file:
            function, arguments = pickle.load(file)
        result = function(**arguments)
        partial = result_path(folder, rank).with_suffix(".partial")
        partial.write_bytes(pickle.dumps(result))
        partial.rename(result_path(folder, rank))
    except BaseException:
        _tell(folder, rank, traceback=traceback.format_exc())
        sys.stdout.flush()
        # Not by sys.exit: threads of a rank that waits for another would keep the process.
        os._exit(1)
    _leave()


def _leave() -> None:
    """End a rank that has done its work, without the interpreter's own end.

    A thread of C++ that lets go of a tensor of Python then, as gloo's do a moment after the last
    collective, aborts the process (pytorch/pytorch issues 38228 and 190489): a run that went well
    would be one that failed.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
