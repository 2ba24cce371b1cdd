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
# Under a limit of address space: a thread's stack cannot be had, in the words of the system, of Python
# and of TileDB, whose context starts threads; extension modules that do not look what they were given.
_OF_A_LIMIT = ("resource temporarily unavailable", "can't start new thread",
               "failed to create context", "error return without exception set")  # fmt: skip


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
        oom = is_out_of_memory(error, limited=request.memory_limit is not None)
        answer({"event": "failed", "error": described(error), "oom": oom})
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def described(error: BaseException) -> str:
    """Type and the first lines of the message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def is_out_of_memory(error: BaseException, limited: bool = False) -> bool:
    """Whether memory is what there was too little of: Python's own error, or a library's words.

    Also where the error came while another was handled that says so: packages try one thing after
    another. `limited` says that address space is; then there are more words for it.
    """
    following: BaseException | None = error
    while following is not None:
        if _says_so(following, limited):
            return True
        following = following.__cause__ or following.__context__
    return False


def _says_so(error: BaseException, limited: bool) -> bool:
    """Of Penstock's ResourceExhausted, a MemoryError also where a budget was set too low, by words alone."""
    text = str(error).lower()
    if any(words in text for words in _OUT_OF_MEMORY + (_OF_A_LIMIT if limited else ())):
        return True
    name = type(error).__name__
    return name in ("OutOfMemoryError", "ArrowMemoryError") or (
        isinstance(error, MemoryError) and name != "ResourceExhausted"
    )
