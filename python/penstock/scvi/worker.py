"""One rank of a run that `launch` started."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
import traceback
from pathlib import Path
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


def main(name: str, parent: int) -> None:
    """Call the function, and leave what it returned or raised in the folder.

    The rank ends when its parent is gone, a kernel that was killed say: nobody would take its
    result, and it would write into the folder of the run that goes on.
    """
    threading.Thread(target=_end_without, args=(parent,), daemon=True).start()
    folder, rank = Path(name), int(os.environ["RANK"])
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
        told = {"rank": rank, "time": time.time(), "traceback": traceback.format_exc()}
        partial = error_path(folder, rank).with_suffix(".partial")
        partial.write_text(json.dumps(told))
        partial.rename(error_path(folder, rank))
        sys.stdout.flush()
        # Not by sys.exit: threads of a rank that waits for another would keep the process.
        os._exit(1)
