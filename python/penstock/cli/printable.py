"""Output for terminals and files of any encoding."""

from __future__ import annotations

import codecs
import re
import sys

_PLAIN = {"×": "x", "…": "...", "–": "-", "→": "->", "█": "#", "░": "."}

#: Characters by which a name in a store could change the terminal, or the order of what is read there.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return a text whose control characters, except newlines and tabs, are escaped as ``\x1b``."""

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _CONTROLS.sub(escaped, text)


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
