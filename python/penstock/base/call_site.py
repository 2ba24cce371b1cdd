"""Name the line where the user's program made an object, so that all processes use one name."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import PurePath
from types import FrameType

_PACKAGE = __name__.partition(".")[0]
_made: Counter[str] = Counter()


def caller_level() -> int:
    """Return the `stacklevel` with which a warning names the line that called this package."""
    level, frame = 1, sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def call_site() -> str:
    """Return a name of the place that called this package, with the number of calls so far.

    The whole stack counts: one line of a function has several names if it has several callers.
    The name is equal in all processes that have run the same lines. It does not depend on the
    folder of the program.
    """
    digest = hashlib.blake2b(digest_size=12)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_ours(frame):
            code = frame.f_code
            place = f"{PurePath(code.co_filename).name}:{frame.f_lineno}:{code.co_name}\n"
            digest.update(place.encode(errors="surrogateescape"))
        frame = frame.f_back
    site = digest.hexdigest()
    _made[site] += 1
    return f"{site}.{_made[site]}"


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return bool(module == _PACKAGE or module.startswith(f"{_PACKAGE}."))
