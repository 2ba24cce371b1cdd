"""The worker's program: a request on standard input, answers on a file descriptor.

When standard input ends after the request, the imported loader starts.
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
# Messages under a limit of address space. A thread's stack cannot be allocated (the system, Python,
# and TileDB, whose context starts threads); or an extension module uses a failed allocation.
_OF_A_LIMIT = ("resource temporarily unavailable", "can't start new thread",
               "failed to create context", "error return without exception set")  # fmt: skip


def main() -> None:
    """Measure, then end with ``_exit``, because a cut epoch leaves running threads."""
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
        oom = is_out_of_memory(error, limited=request.memory_limit is not None)
        answer({"event": "failed", "error": described(error), "oom": oom})
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def described(error: BaseException) -> str:
    """Return the type and the first lines of the message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def is_out_of_memory(error: BaseException, limited: bool = False) -> bool:
    """Whether memory ran out, by the type of the error or a library's message.

    Errors that were handled when this one was raised count, too, because packages retry. `limited`
    address space has more messages.
    """
    following: BaseException | None = error
    while following is not None:
        if _says_so(following, limited):
            return True
        following = following.__cause__ or following.__context__
    return False


def _says_so(error: BaseException, limited: bool) -> bool:
    """Judge ResourceExhausted only by its message: a low budget is a MemoryError, too."""
    text = str(error).lower()
    if any(words in text for words in _OUT_OF_MEMORY + (_OF_A_LIMIT if limited else ())):
        return True
    name = type(error).__name__
    return name in ("OutOfMemoryError", "ArrowMemoryError") or (
        isinstance(error, MemoryError) and name != "ResourceExhausted"
    )
