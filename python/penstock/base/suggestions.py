"""Suggestions for names that do not exist."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ParamSpec, TypeVar

#: Less alike names are different words, such as "backed" and "balance".
_LEAST_LIKE = 0.72
#: Of more choices only the case is compared, so that an error does not take seconds.
_MOST_COMPARED = 100_000

P = ParamSpec("P")
R = TypeVar("R")


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most like a name, whatever the case; None if none is like it."""
    by_lower: dict[str, str] = {}
    for choice in choices:
        by_lower.setdefault(choice.lower(), choice)
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    if len(by_lower) > _MOST_COMPARED:
        return None
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_LEAST_LIKE)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return the end of a message: ``; did you mean 'cell_type'?``, or nothing."""
    found = nearest(name, choices)
    return "" if found is None else f"; did you mean {found!r}?"


def suggests(
    instead: Mapping[str, str] | None = None, called: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function's error about an unknown argument say which argument is meant.

    Parameters
    ----------
    instead : mapping of str to str, optional
        Arguments that other libraries have, and what replaces them here.
    called : str, optional
        Name of the function in messages; by default its own.
    """
    words = {} if instead is None else instead

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters.values()
        keywords = {
            each.name
            for each in parameters
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        }
        shown = called or function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if unknown := [name for name in kwargs if name not in keywords]:
                raise TypeError(unknown_arguments(shown, unknown, keywords, words))
            return function(*args, **kwargs)

        return checked

    return decorate


def unknown_arguments(
    called: str, names: Sequence[str], choices: Iterable[str], instead: Mapping[str, str]
) -> str:
    """Return the message about arguments that a function does not have, all at once."""
    hints = [
        f"use {instead[name]}" if name in instead else did_you_mean(name, choices).strip("; ")
        for name in names
    ]
    if len(names) == 1:
        return f"{called}() has no argument {names[0]!r}" + (f"; {hints[0]}" if hints[0] else "")
    lines = [
        f"\n  {name}=" + (f": {hint}" if hint else "")
        for name, hint in zip(names, hints, strict=True)
    ]
    return f"{called}() does not have these arguments:{''.join(lines)}"
