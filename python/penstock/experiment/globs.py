"""Patterns of paths, such as ``"atlas/*.zarr"``."""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from penstock.base.validation import check_no_secrets
from penstock.errors import InvalidArgument, NotFound, Unsupported

#: Start of a URI, also if a pathlib.Path has joined its slashes.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def expanded(source: Any) -> Any:
    """Return the sorted paths that a pattern matches, and any other source as it is.

    Patterns in a list are replaced by what they match. A text is a pattern if it has ``*``, ``?``
    or ``[`` and nothing of that name exists; ``**`` matches any folders.

    Raises
    ------
    NotFound
        Nothing matches the pattern.
    Unsupported
        The pattern is of a remote store, which cannot be searched.
    InvalidArgument
        It is a URL with a user, password, query or fragment.
    """
    if isinstance(source, (list, tuple)):
        parts = [_matches(part) or [part] for part in source]
        return [each for part in parts for each in part]
    return _matches(source) or source


def _matches(source: Any) -> list[str] | None:
    """Return the paths that a pattern matches; None for anything but a pattern."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    text = os.fsdecode(source)
    if not glob.has_magic(text):
        return None
    check_no_secrets("a path or URI", text)
    if _SCHEME.match(text):
        if "*" not in text:
            return None
        raise Unsupported(f"a pattern must be of a local folder: list the URIs instead of {text}")
    if os.path.lexists(text):
        return None
    found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  (patterns are texts)
    if not found:
        raise NotFound(f"nothing matches {text}")
    return found


def check_one_path(source: Any) -> None:
    """Raise `InvalidArgument` for a list of sources or a pattern of local paths."""
    if isinstance(source, (list, tuple, dict)):
        raise InvalidArgument(
            f"one path is opened, not a {type(source).__name__}: penstock.join takes several"
        )
    if not isinstance(source, (str, os.PathLike)):
        return
    text = os.fsdecode(source)
    if "*" in text and not _SCHEME.match(text) and not os.path.lexists(text):
        check_no_secrets("a path or URI", text)
        raise InvalidArgument(
            f"one path is opened, not a pattern: join what it matches with penstock.join({text!r})"
        )
