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

#: The program of a rank, run by ``python -c`` with the caller's module path.
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
from penstock.scvi.run.worker import main
main(folder, header["parent"])
"""

_SECONDS_BETWEEN_LOOKS = 0.5


def output_path(folder: Path, rank: Any) -> Path:
    """Return the file for the output of a rank."""
    return folder / f"output-{rank}.txt"


def error_path(folder: Path, rank: Any) -> Path:
    """Return the file for the error of a rank."""
    return folder / f"error-{rank}.json"


def result_path(folder: Path, rank: Any) -> Path:
    """Return the file for the result of a rank."""
    return folder / f"result-{rank}.pkl"


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def _tell(folder: Path, rank: int, **cause: str) -> None:
    """Write the cause and the time of the failure of this rank."""
    partial = error_path(folder, rank).with_suffix(".partial")
    partial.write_text(json.dumps({"rank": rank, "time": time.time(), **cause}))
    partial.rename(error_path(folder, rank))


class Terminated:
    """SIGTERM handler of a rank: it writes an error file and exits.

    When a rank fails, the agent ends the others; the time in the file shows which failed first.
    Python runs handlers only between two of its instructions, not while a rank waits in C. Before
    Lightning runs, SIGTERM has the system's default action. Later, `launch` kills a rank that waits
    in C after some seconds.
    """

    of_this_rank: Terminated | None = None  #: set if `launch` started this process

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._process = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if os.getpid() == self._process:  # not in a worker of its loader
            _tell(self._folder, self._rank, signal=signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def main(name: str, parent: int) -> None:
    """Call the function, and write its result or error into the folder.

    The rank ends when its parent is gone, for example a killed notebook kernel. It would otherwise
    write into the folder of the run that resumes.
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
        # sys.exit would wait for threads of a rank that waits for another one.
        os._exit(1)
    _leave()


def _leave() -> None:
    """End a finished rank without the shutdown of the interpreter.

    During the shutdown, a C++ thread that releases a Python tensor aborts the process, as gloo's
    threads do just after the last collective (pytorch/pytorch issues 38228 and 190489). A
    successful run would then look like a failed one.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
