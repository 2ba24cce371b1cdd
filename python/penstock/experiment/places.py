"""Places of rows that a slice or an array of bools chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidArgument


def slice_places(part: slice, count: int, what: str) -> npt.NDArray[np.int64]:
    """Return the places among `count` that a slice has; refuse what is no slice of integers."""
    try:
        return np.arange(count)[part]
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{what} are a slice of integers, got {part} ({error})") from None


def as_mask(key: Any) -> npt.NDArray[np.bool_] | None:
    """Return an array of bools, also of a nullable Series without missing values; else None."""
    try:
        values = np.asarray(key)
    except (ValueError, TypeError):  # lists of unequal lengths
        return None
    if (
        values.dtype == object
        and values.size
        and all(isinstance(each, bool) for each in values.flat)
    ):
        values = values.astype(bool)
    return values if values.ndim == 1 and values.dtype == bool else None
