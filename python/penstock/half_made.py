"""Objects that were never made whole, as an error in ``__init__`` leaves them, can be shown, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class")


def shown_half_made(cls: Class) -> Class:
    """Let the reprs of a class say what a half-made object lacks; other things stay as they are."""
    if isinstance(cls, type):
        for name in ("__repr__", "_repr_html_"):
            if name in vars(cls):
                setattr(cls, name, _guarded(vars(cls)[name]))
    return cls


def _guarded(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(shown)
    def guarded(self: Any) -> str:
        try:
            return shown(self)
        except AttributeError as error:
            if error.obj is not self:
                raise
            return f"{type(self).__name__}, not whole: it has no {error.name}"

    return guarded
