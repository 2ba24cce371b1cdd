"""Encode numeric obs columns as floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_choice, checked_dtype, described
from penstock.errors import InvalidArgument

from .encoder import Array, Encoder

_SCALES = ("none", "standard", "minmax")


class NumericEncoder(Encoder):
    """Encode columns of numbers or booleans as floats, optionally scaled.

    Parameters
    ----------
    columns : str or sequence of str
        Columns of obs.
    name : str, optional
        Key of the output in obs. By default the columns joined by ``+``.
    scale : {"none", "standard", "minmax"}, default "none"
        "standard" subtracts the mean and divides by the population standard deviation, like
        scikit-learn's StandardScaler. "minmax" maps the least value to 0 and the largest to 1. Both
        are over the cells of the `Dataset`. A column of one value becomes zeros.
    missing : float, default NaN
        Output for a missing value, after scaling: 0 is the mean if `scale` is "standard".
    dtype : str, default "float32"
        Type of the output.

    Attributes
    ----------
    center_, scale_ : ndarray of float64
        Number to subtract and then to divide by, for each obs column; shape (obs columns,).

    Raises
    ------
    InvalidArgument
        An argument is not valid. Or, with the first batch, a column does not hold numbers.

    Notes
    -----
    The output has shape (cells,) for one obs column, else (cells, obs columns). It is stored as it
    is.
    """

    fits_rows = True

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = None,
        *,
        scale: str = "none",
        missing: float = float("nan"),
        dtype: npt.DTypeLike = "float32",
    ) -> None:
        super().__init__(columns, name)
        self.scale = checked_choice("scale", scale, _SCALES)
        if isinstance(missing, bool) or not isinstance(missing, (int, float, np.number)):
            raise InvalidArgument(f"missing must be a number, got {described(missing)}")
        try:
            self.missing = float(missing)
        except OverflowError:
            raise InvalidArgument(f"missing must be a float, got {described(missing)}") from None
        self.dtype = checked_dtype("dtype", dtype)
        if self.dtype.kind != "f":
            raise InvalidArgument(f"dtype must be a type of floats, got {described(dtype)}")
        self.needs_fit = self.scale != "none"
        self.center_ = np.zeros(len(self.columns))
        self.scale_ = np.ones(len(self.columns))

    def fit(self, values: Mapping[str, Array]) -> None:
        """Learn the scale from the values of all cells, without missing ones."""
        if not self.needs_fit:
            return
        learn = _mean_and_deviation if self.scale == "standard" else _least_and_range
        for i, column in enumerate(self.columns):
            center, width = learn(self._numbers(column, values[column]))
            self.center_[i], self.scale_[i] = center, width or 1

    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Return floats of `dtype`, shape (rows,) or (rows, obs columns)."""
        columns = []
        for i, column in enumerate(self.columns):
            numbers = (self._numbers(column, obs[column]) - self.center_[i]) / self.scale_[i]
            if not np.isnan(self.missing):
                numbers = np.where(np.isnan(numbers), self.missing, numbers)
            columns.append(numbers.astype(self.dtype))
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def inverse_transform(self, encoded: Array) -> npt.NDArray[np.float64]:
        """Return the numbers before scaling, float64; replaced missing values are unscaled, too."""
        return np.asarray(encoded, np.float64) * (
            self.scale_[0] if len(self.columns) == 1 else self.scale_
        ) + (self.center_[0] if len(self.columns) == 1 else self.center_)

    def _numbers(self, column: str, values: Array) -> npt.NDArray[np.float64]:
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        if values.dtype.kind == "O":  # booleans or large integers, with None
            known = [value for value in values if value is not None]
            if all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in known):
                return np.array([np.nan if v is None else v for v in values], np.float64)
        raise InvalidArgument(
            f"obs column {column!r} holds no numbers, so that NumericEncoder cannot take it; use "
            f"LabelEncoder({column!r}) or OneHotEncoder({column!r})"
        )


def _mean_and_deviation(numbers: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation without NaN; two passes, exact to rounding."""
    known = numbers[~np.isnan(numbers)]
    if not len(known) or known.min() == known.max():
        return (float(known[0]) if len(known) else 0.0), 0.0
    mean = float(known.mean())
    return mean, float(np.sqrt(np.square(known - mean).mean()))


def _least_and_range(numbers: npt.NDArray[np.float64]) -> tuple[float, float]:
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return 0.0, 0.0
    return float(known.min()), float(known.max() - known.min())
