"""The worker's own program: a request on standard input, answers on a file descriptor.

What comes on standard input after the request lets the imported loader begin.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from .measure import measure
from .parent import end_with_parent
from .request import Request

_OUT_OF_MEMORY = ("can't allocate", "cannot allocate", "unable to allocate", "out of memory",
                  "bad_alloc", "not enough memory", "allocation failed",
                  "failed to map segment")  # fmt: skip


def main() -> None:
    """Measure; leaves by ``_exit``, since a cut epoch leaves threads that nobody waits for."""
    end_with_parent()
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    request = Request.from_json(sys.stdin.readline())
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")

    def answer(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line, default=str) + "\n")
        answers.flush()

    status = 0
    try:
        measure(request, answer, sys.stdin.readline)
        answer({"event": "done"})
    except BaseException as error:
        status = 1
        answer({"event": "failed", "error": described(error), "oom": is_out_of_memory(error)})
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def described(error: BaseException) -> str:
    """Type and the first lines of the message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory is what there was too little of: Python's own error, or a library's words.

    Penstock's ResourceExhausted is a MemoryError also where a budget was set too low, which is not
    what is meant: its words decide.
    """
    text = str(error).lower()
    if any(words in text for words in _OUT_OF_MEMORY):
        return True
    name = type(error).__name__
    return name in ("OutOfMemoryError", "ArrowMemoryError") or (
        isinstance(error, MemoryError) and name != "ResourceExhausted"
    )
