"""Names that are not there, as the errors that the originals raise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import NotFound


class MissingName(NotFound, KeyError):
    """No such measurement, layer or column: a KeyError, too, as looking it up in SOMA raises."""

    __str__ = Exception.__str__  # KeyError's shows the message as a literal


@contextmanager
def missing_names() -> Iterator[None]:
    """Raise `MissingName` where `NotFound` is raised within."""
    try:
        yield
    except NotFound as error:
        raise MissingName(*error.args) from None
