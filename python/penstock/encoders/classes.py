"""Map between classes and codes, for the label encoders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_int, described
from penstock.errors import InvalidArgument
from penstock.experiment.columns import objects

Array = npt.NDArray[Any]

_MOST_CODES = 2**24


class Classes:
    """Map of values to codes and back.

    `classes` are values in the order of their codes, or a mapping of value to code. In a mapping,
    several values may share a code (the first is its name), and codes may be unused.
    """

    def __init__(self, classes: Any) -> None:
        if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
            raise InvalidArgument(
                "classes must be a list of values or a dict of value to code, "
                f"got {described(classes)}"
            )
        try:
            if isinstance(classes, Mapping):
                self._code_of = {_plain(value): _code(code) for value, code in classes.items()}
            else:
                listed = classes.tolist() if isinstance(classes, np.ndarray) else classes
                values = [_plain(value) for value in listed]
                self._code_of = {value: code for code, value in enumerate(values)}
                if len(self._code_of) != len(values):
                    raise InvalidArgument(f"a class is named twice, classes {described(values)}")
        except TypeError:
            raise InvalidArgument(
                f"classes must be numbers, strings or the like, got {described(classes)}"
            ) from None
        if isinstance(classes, np.ndarray):
            self.names = classes
            return
        names: list[Any] = [None] * (1 + max(self._code_of.values(), default=-1))
        for value, code in reversed(self._code_of.items()):
            names[code] = value
        self.names = objects(names)

    def __len__(self) -> int:
        """Return the highest code plus one."""
        return len(self.names)

    def lookup(self, values: list[Any]) -> npt.NDArray[np.int64]:
        """Return the codes of values; -1 for a value that is not a class."""
        known = self._code_of
        return np.fromiter((known.get(value, -1) for value in values), np.int64, len(values))


def _plain(value: Any) -> Any:
    # Numpy strings and numbers become Python's, which are equal; dates are not equal and stay.
    return value.item() if isinstance(value, (np.str_, np.number, np.bool_)) else value


def _code(code: Any) -> int:
    return checked_int("a code of classes", code, least=0, most=_MOST_CODES)


#: Of an encoder that is not fitted.
NO_CLASSES = Classes([])


def fitted_names(classes: Classes, encoder: str) -> Any:
    """Return the names of the classes of an encoder.

    Raises
    ------
    InvalidArgument
        No Dataset has fitted the encoder yet.
    """
    if classes is NO_CLASSES:
        raise InvalidArgument(
            f"the encoder {encoder!r} has no classes yet: a Dataset fits it when it needs it, so "
            f"ds.encoders[{encoder!r}] has them"
        )
    return classes.names
