"""Where the user's program made an object, to find the same one in other processes of the program."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import PurePath
from types import FrameType

_PACKAGE = __name__.partition(".")[0]
_made: Counter[str] = Counter()


def caller_level() -> int:
    """`stacklevel` with which a warning names the line of the program that called this package."""
    level, frame = 1, sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def call_site() -> str:
    """Name of the place in the program that called into this package, and how often it has by now.

    The whole stack counts: what one line of a function makes for several callers has several
    names. The same in all processes that have run the same lines, wherever the program's files lie.
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
