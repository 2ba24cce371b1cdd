"""Errors for missing names, with the types that the originals raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import NotFound


class MissingName(NotFound, KeyError):
    """Missing measurement, layer or column; also a KeyError, as a lookup in SOMA raises."""

    __str__ = Exception.__str__  # KeyError's shows the message as a literal


@contextmanager
def missing_names() -> Iterator[None]:
    """Turn `NotFound` within the block into `MissingName`."""
    try:
        yield
    except NotFound as error:
        raise MissingName(*error.args) from None
