"""Output for terminals and files of any encoding."""

from __future__ import annotations

import codecs
import sys

_PLAIN = {"×": "x", "…": "...", "–": "-", "→": "->", "█": "#", "░": "."}


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    escaped = character.encode("ascii", "backslashreplace").decode("ascii")
    return _PLAIN.get(character, escaped), error.start + 1


def allow_any_encoding() -> None:
    """Replace characters that the encoding of standard output or error lacks."""
    codecs.register_error("penstock", _plainer)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="penstock")
