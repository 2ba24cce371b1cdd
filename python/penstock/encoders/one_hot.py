"""Encode the classes of obs columns as one-hot vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_choice, checked_dtype, described
from penstock.errors import InvalidArgument
from penstock.experiment.columns import objects

from .encoder import Array, Encoder
from .label import LabelEncoder


class OneHotEncoder(Encoder):
    """Encode classes as one-hot vectors; those of several obs columns are side by side.

    Parameters
    ----------
    columns : str or sequence of str
        Columns of obs.
    name : str, optional
        Key of the output in obs. By default the columns joined by ``+``.
    classes : sequence, or sequence of sequences for several columns, optional
        Classes in the order of the output. By default the values that occur in the cells of the
        `Dataset`, sorted.
    unseen : {"error", "zeros"}, default "error"
        What to do with a label that is not a class, which is possible if `classes` are given.
    dtype : str, default "float32"
        Type of the output.

    Attributes
    ----------
    categories_ : list of ndarray
        Classes of each obs column, once fitted (scikit-learn's name).

    Raises
    ------
    InvalidArgument
        An argument is not valid. Or, with the first batch, a label is not a class; the message
        names it.

    Notes
    -----
    The output has shape (cells, classes). A missing value is all zeros. The number of the class is
    stored for each cell, in 1 or 2 bytes for each obs column.
    """

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = None,
        classes: Sequence[Any] | None = None,
        *,
        unseen: str = "error",
        dtype: npt.DTypeLike = "float32",
    ) -> None:
        super().__init__(columns, name)
        checked_choice("unseen", unseen, ("error", "zeros"))
        self.is_elementwise = len(self.columns) == 1
        self.needs_fit = classes is None
        given: Sequence[Any] = [None] * len(self.columns)
        if classes is not None:
            given = [classes] if len(self.columns) == 1 else classes
        if len(given) != len(self.columns):
            raise InvalidArgument(
                f"classes must be one list for each of the {len(self.columns)} columns, "
                f"got {described(classes)}"
            )
        code: int | str = -1 if unseen == "zeros" else "error"
        self._labels = [
            LabelEncoder(column, self.name, own, unseen=code)
            for column, own in zip(self.columns, given, strict=True)
        ]
        for each in self._labels:
            each.unseen_hint = 'make them zeros by unseen="zeros"'
        self.dtype = checked_dtype("dtype", dtype)

    @property
    def categories_(self) -> list[Array]:
        """Classes of each obs column."""
        return [each.classes_ for each in self._labels]

    def fit(self, values: Mapping[str, Array]) -> None:
        """Learn the distinct values as classes, unless classes were given."""
        for each in self._labels:
            each.fit(values)

    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Return zeros and ones of `dtype`, shape (rows, classes)."""
        return self.expand(self.encode(obs))

    def encode(self, obs: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Return the numbers of the classes, int64, shape (rows, obs columns); -1 for zeros."""
        return np.stack([each.transform(obs) for each in self._labels], axis=1)

    def expand(self, kept: Array) -> Array:
        """Return zeros and ones of `dtype`, shape (rows, classes)."""
        widths = [len(each.classes_) for each in self._labels]
        out = np.zeros((len(kept), sum(widths)), self.dtype)
        for codes, begin in zip(kept.T, np.cumsum([0, *widths[:-1]]), strict=True):
            rows = np.flatnonzero(codes >= 0)
            out[rows, begin + codes[rows].astype(np.intp)] = 1
        return out

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the classes of one-hot vectors.

        Parameters
        ----------
        encoded : ndarray
            Zeros and ones, shape (rows, classes).

        Returns
        -------
        ndarray of object
            Classes, shape (rows,) for one obs column, else (rows, obs columns). None for zeros.

        Raises
        ------
        InvalidArgument
            The shape is not (rows, classes).
        """
        hot = np.asarray(encoded)
        width = sum(len(each.classes_) for each in self._labels)
        if hot.ndim != 2 or hot.shape[1] != width:
            raise InvalidArgument(f"encoded must have shape (rows, {width}), got {hot.shape}")
        columns, begin = [], 0
        for classes in self.categories_:
            own = hot[:, begin : begin + len(classes)] != 0
            codes = np.where(own.any(axis=1), own.argmax(axis=1) if len(classes) else 0, -1)
            columns.append(np.append(objects(classes.tolist()), [None])[codes])
            begin += len(classes)
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
