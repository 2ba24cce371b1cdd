"""Checks of user arguments, and errors that say what was expected."""

from __future__ import annotations

import math
import operator
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.suggestions import did_you_mean
from penstock.errors import InvalidArgument

#: Start of an address in a text, also with a mistyped or encoded scheme.
_SCHEME_END = r"(?:[:\uff1a]|(?i:%3a))(?://|(?i:%2f%2f))|(?i:https?(?:[:;\uff1a]|//|%3a))"
#: Start of a URL in a Path, which drops a slash.
_URL_IN_PATH = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip


#: Less than any cell takes.
_LEAST_BUDGET = 10_000


def checked_int(name: str, value: Any, *, least: int, most: int = 2**63 - 1) -> int:
    """Return an int within ``[least, most]``; refuse bools and floats."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if number < least:
                raise InvalidArgument(f"{name} must be {least} or more, got {shown(number)}")
            if number > most:
                raise InvalidArgument(f"{name} must be {most} or less, got {shown(number)}")
            return number
    raise InvalidArgument(f"{name} must be an integer, got {described(value)}")


def checked_bool(name: str, value: Any) -> bool:
    """Return a bool; accept numpy's bool, too."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise InvalidArgument(f"{name} must be True or False, got {described(value)}")


def checked_number(name: str, value: Any) -> float:
    """Return a float, perhaps infinite; refuse bools, texts and arrays with dimensions."""
    try:
        # NumPy 1 converts an array of one number to a number.
        refused = isinstance(value, (bool, str, bytes)) or getattr(value, "ndim", 0) > 0
        number = math.nan if refused else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise InvalidArgument(f"{name} must be a number, got {described(value)}")
    return number


def checked_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        meant = ""
        if isinstance(value, str) and value:
            begun = [choice for choice in choices if choice.startswith(value.lower())]
            meant = did_you_mean(value, choices)
            if not meant and len(begun) == 1:
                meant = f"; did you mean {begun[0]!r}?"
        raise InvalidArgument(f"{name} must be one of {listed}, got {described(value)}{meant}")
    return value


def checked_text(name: str, value: Any) -> str:
    """Return a string that the engine accepts: valid Unicode without NUL."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a string, got {described(value)}")
    if "\0" in value:
        raise InvalidArgument(f"{name} must hold no NUL character, got {described(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"{name} must be valid Unicode (UTF-8), got {described(value)}"
        ) from None
    return str(value)


def checked_path(name: str, value: Any) -> str:
    """Return a path or URI as text."""
    if isinstance(value, (str, os.PathLike)):
        check_no_secrets(name, os.fsdecode(value))
        text = checked_text(name, os.fsdecode(value))
        if not isinstance(value, str) and _URL_IN_PATH.match(text):
            raise InvalidArgument(
                f"{name} must be a str if it is a URL; a Path drops a slash of '//'"
            )
        if not text:
            raise InvalidArgument(f"{name} must be a path or URI, got an empty string")
        return text
    raise InvalidArgument(f"{name} must be a path or URI, got {described(value)}")


def checked_local_path(name: str, value: Any, what: str = "folder") -> str:
    """Return the path of a folder or file on this machine as text; refuse a URL."""
    is_path = isinstance(value, os.PathLike)
    text = checked_path(name, os.fsdecode(value) if is_path else value)
    if "://" in text or (is_path and _URL_IN_PATH.match(text)):
        raise InvalidArgument(f"{name} must be a {what} on this machine, got {text!r}")
    return text


def check_regular(name: str, path: str) -> None:
    """Refuse a named pipe, socket or device, since opening it may never return."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:  # reported when the file is opened
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        is_pipe, is_socket = stat.S_ISFIFO(mode), stat.S_ISSOCK(mode)
        kind = "a named pipe" if is_pipe else "a socket" if is_socket else "a device"
        raise InvalidArgument(f"{name} must be a file, but it is {kind}: {path}")


def check_no_secrets(name: str, address: str) -> None:
    """Refuse an address with a user, password, query or fragment, since addresses are shown."""
    from penstock import _core  # imported here, so that other checks do not need the engine

    _core.check_no_secrets(name, address.encode(errors="replace"))


def checked_items(name: str, values: Any, what: str) -> list[Any]:
    """Return the items of an iterable; `what` says in errors what `values` must be."""
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)):
        try:
            return list(values)
        except TypeError:  # an array without dimensions
            pass
    raise InvalidArgument(f"{name} must be {what}, got {described(values)}")


def checked_names(name: str, values: Any) -> list[str]:
    """Return a list of names; a single name may stand for a list of it."""
    if isinstance(values, str):
        values = [values]
    items = checked_items(name, values, "a list of names")
    return [checked_text(f"each name in {name}", value) for value in items]


def described(value: Any) -> str:
    """Return an invalid value with its type, for a message: ``5 (int)``.

    User, password and query of an address in the text are left out.
    """
    try:
        text = repr(value)
    except Exception:  # raised by a user's class, or by an int of thousands of digits
        text = "a value that cannot be shown"
    text = re.sub(rf"({_SCHEME_END}|['\"]//)[^\s'\"]*(?:@|%40)", r"\1…@", text)
    text = re.sub(rf"({_SCHEME_END}[^\s'\"?]*\?)[^\s'\"]*", r"\1…", text)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def checked_dtype(name: str, value: Any) -> np.dtype[Any]:
    """Return a numpy dtype."""
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except Exception:  # TypeError, ValueError, or an error of the value's class
        raise InvalidArgument(
            f"{name} must be a dtype of numpy such as 'float32', got {described(value)}"
        ) from None
    return dtype


def shown(number: int) -> str:
    """Return an integer as text, also one with more digits than Python converts."""
    return str(number) if abs(number) < 2**128 else f"{'-' * (number < 0)}2**128 or beyond"


def parse_memory_size(name: str, value: Any) -> int:
    """Return bytes from an int or from text such as ``"256MiB"``, ``"2 GiB"``, ``"1.5GB"``."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", value)
        scale = _UNITS.get(match[2].upper()) if match else None
        if match is None or scale is None:
            raise InvalidArgument(
                f"{name} must be a number of bytes or text such as '512MiB' or '2GiB', "
                f"got {value!r}"
            )
        if len(match[1]) > 300 or float(match[1]) * scale >= 2**63:
            raise InvalidArgument(f"{name} must be less than 2**63 bytes, got {described(value)}")
        value = int(float(match[1]) * scale)
    elif isinstance(value, float) or not hasattr(value, "__index__"):
        raise InvalidArgument(
            f"{name} must be a whole number of bytes or text such as '2GiB', got {described(value)}"
        )
    return checked_int(name, value, least=1)


def checked_memory_budget(memory_budget: Any) -> int:
    """Return the bytes of a memory budget; refuse so few that a larger unit is meant."""
    if isinstance(memory_budget, float) and 0 < memory_budget < _LEAST_BUDGET:
        raise InvalidArgument(
            "memory_budget must be a whole number of bytes or text such as '2GiB', got "
            f"{memory_budget!r}; did you mean '{memory_budget:g}GiB'?"
        )
    size = parse_memory_size("memory_budget", memory_budget)
    if size < _LEAST_BUDGET:
        number = re.match(r"[\s\d.]*", str(memory_budget))
        meant = "0" if number is None else number[0].strip()
        unit = "GiB" if float(meant) < 1000 else "MiB"
        raise InvalidArgument(
            f"memory_budget={memory_budget!r} is {size:,} byte{'s' * (size != 1)}; did you mean '{meant}{unit}'?"
        )
    return size
