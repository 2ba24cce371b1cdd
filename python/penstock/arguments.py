"""Checks of what the user passes, and errors that say what was expected."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

from .errors import InvalidArgument

_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip


def checked_int(name: str, value: Any, *, least: int, most: int = 2**63 - 1) -> int:
    """Return an int within ``[least, most]``; bools and floats are refused."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if number < least:
                raise InvalidArgument(f"{name} must be {least} or more, got {number}")
            if number > most:
                raise InvalidArgument(f"{name} must be {most} or less, got {number}")
            return number
    raise InvalidArgument(f"{name} must be an integer, got {value!r}")


def checked_bool(name: str, value: Any) -> bool:
    """Return a bool; numpy's own is taken too."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise InvalidArgument(f"{name} must be True or False, got {value!r}")


def checked_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidArgument(f"{name} must be one of {listed}, got {value!r}")
    return value


def parse_memory_size(name: str, value: Any) -> int:
    """Bytes from an int or from text such as ``"256MiB"``, ``"2 GiB"``, ``"1.5GB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", value)
        scale = _UNITS.get(match[2].upper()) if match else None
        if match is None or scale is None:
            raise InvalidArgument(
                f"{name} must be a number of bytes or text such as '512MiB' or '2GiB', "
                f"got {value!r}"
            )
        value = int(float(match[1]) * scale)
    return checked_int(name, value, least=1)
