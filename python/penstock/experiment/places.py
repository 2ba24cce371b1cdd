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
        names = any(isinstance(each, str) for each in (part.start, part.stop))
        hint = "a list of names instead" if names else str(error)
        raise InvalidArgument(f"{what} are a slice of integers, got {part} ({hint})") from None


def _is_missing(value: Any) -> bool:
    missing = value is None or type(value).__name__ == "NAType"  # of pandas, which may not be there
    return missing or (isinstance(value, float) and value != value)


def as_mask(key: Any) -> npt.NDArray[np.bool_] | None:
    """Return an array of bools, also of a nullable Series; else None.

    Raises
    ------
    InvalidArgument
        Some of the bools are missing.
    """
    try:
        values = np.asarray(key)
    except (ValueError, TypeError):  # lists of unequal lengths
        return None
    if values.dtype == object and values.ndim == 1 and values.size:
        are_bools = [isinstance(each, (bool, np.bool_)) for each in values]
        if all(are_bools):
            values = values.astype(bool)
        elif any(are_bools) and all(
            each or _is_missing(value) for each, value in zip(are_bools, values, strict=True)
        ):
            raise InvalidArgument(
                f"{len(values) - sum(are_bools):,} of {len(values):,} bools are missing: "
                "mask.fillna(False) leaves these rows out"
            )
    return values if values.ndim == 1 and values.dtype == bool else None
