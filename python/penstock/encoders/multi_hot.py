"""Encode cells that have several values in one column, such as several diseases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_choice, checked_dtype, checked_text
from penstock.errors import InvalidArgument
from penstock.experiment.columns import objects

from .classes import NO_CLASSES, Classes, fitted_names
from .encoder import Array, Encoder

#: What stands between the values of a cell in the Census, from schema 2.4 on.
SEPARATOR = " || "


class MultiHotEncoder(Encoder):
    """Encode the values of a column as zeros and ones, where a cell may have several values.

    Since release 2025-11-08 the Census writes the diseases of a cell as ``"asthma || COVID-19"``.

    Parameters
    ----------
    column : str
        Column of obs, with text.
    name : str, optional
        Key of the output in obs. By default the column.
    classes : sequence of str, optional
        Classes in the order of the output. By default the values that occur in the cells of the
        `Dataset`, sorted.
    separator : str, default " || "
        What stands between the values of a cell.
    unseen : {"error", "zeros"}, default "error"
        What to do with a value that is not a class, which is possible if `classes` are given.
    dtype : str, default "float32"
        Type of the output.

    Attributes
    ----------
    classes_ : ndarray
        Class of each place of the output, once fitted.

    Raises
    ------
    InvalidArgument
        An argument is not valid. Or, with the first batch, a value is not a class or is no text; the
        message names it.

    Notes
    -----
    The output has shape (cells, classes). A missing value is all zeros.
    """

    is_elementwise = True

    def __init__(
        self,
        column: str,
        name: str | None = None,
        classes: Sequence[str] | None = None,
        *,
        separator: str = SEPARATOR,
        unseen: str = "error",
        dtype: npt.DTypeLike = "float32",
    ) -> None:
        super().__init__(checked_text("column", column), name)
        checked_choice("unseen", unseen, ("error", "zeros"))
        self.separator = checked_text("separator", separator)
        if not separator:
            raise InvalidArgument("separator must have a character or more")
        self.needs_fit = classes is None
        self._leaves_out_unseen = unseen == "zeros"
        self._classes = NO_CLASSES if classes is None else Classes(classes)
        self.dtype = checked_dtype("dtype", dtype)

    @property
    def classes_(self) -> Array:
        """Class of each place of the output. Raises InvalidArgument if it is not fitted."""
        names: Array = fitted_names(self._classes, self.name)
        return names

    def fit(self, values: Mapping[str, Array]) -> None:
        """Learn the distinct values as classes, unless classes were given."""
        if self.needs_fit:
            each = {part for text in values[self.columns[0]] for part in self._parts(text)}
            self._classes = Classes(objects(sorted(each)))

    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Return zeros and ones of `dtype`, shape (rows, classes)."""
        return self.expand(self.encode(obs))

    def encode(self, obs: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Return which classes each row has, shape (rows, classes)."""
        texts = obs[self.columns[0]].tolist()
        out = np.zeros((len(texts), len(self._classes.names)), np.bool_)
        for row, text in enumerate(texts):
            parts = self._parts(text)
            codes = self._classes.lookup(parts)
            if (codes < 0).any() and not self._leaves_out_unseen:
                raise InvalidArgument(
                    f"{parts[int(codes.argmin())]!r} is no class of the encoder {self.name!r}; add it "
                    'to its classes, make it zeros by unseen="zeros", or leave its cells out by '
                    "obs_query"
                )
            out[row, codes[codes >= 0]] = True
        return out

    def expand(self, kept: Array) -> Array:
        """Return zeros and ones of `dtype`, shape (rows, classes)."""
        return kept.astype(self.dtype)

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the texts of rows of zeros and ones.

        Parameters
        ----------
        encoded : ndarray
            Zeros and ones, shape (rows, classes).

        Returns
        -------
        ndarray of object
            Values joined by the separator in the order of the classes, shape (rows,). None for
            zeros.

        Raises
        ------
        InvalidArgument
            The shape is not (rows, classes).
        """
        hot = np.asarray(encoded)
        classes = self.classes_.tolist()
        if hot.ndim != 2 or hot.shape[1] != len(classes):
            raise InvalidArgument(
                f"encoded must have shape (rows, {len(classes)}), got {hot.shape}"
            )
        rows = [[classes[i] for i in np.flatnonzero(row)] for row in hot]
        return objects([self.separator.join(row) if row else None for row in rows])

    def _parts(self, text: Any) -> list[str]:
        if text is None or text != text:
            return []
        if not isinstance(text, str):
            raise InvalidArgument(
                f"the encoder {self.name!r} divides text, got {text!r} of {self.columns[0]!r}; "
                "OneHotEncoder encodes other values"
            )
        return text.split(self.separator)
