"""Encode the classes of obs columns as integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.base.validation import checked_int, described
from penstock.errors import InvalidArgument
from penstock.experiment.columns import is_missing, objects

from .classes import NO_CLASSES, Classes, fitted_names
from .encoder import Array, Encoder, as_codes

_NAMED_IN_ERRORS = 5


class LabelEncoder(Encoder):
    """Encode classes as integers from 0, in the sorted order of their names.

    Parameters
    ----------
    columns : str or sequence of str
        One column, or several whose values are joined by ``//`` into one label.
    name : str, optional
        Key of the output in obs. By default the columns joined by ``+``.
    classes : sequence or dict, optional
        Classes in the order of their codes, or a dict of value to code in which values may share a
        code. By default the values that occur in the cells of the `Dataset`, sorted (for several
        columns, all their combinations).
    unseen : int or "error", default "error"
        Code of a label that is not a class, which is possible if `classes` are given.
    missing : int or "error", default -1
        Code of a cell without a value. A loss ignores -1 if its ``ignore_index`` is -1.

    Attributes
    ----------
    classes_ : ndarray
        Class of each code, once fitted.

    Raises
    ------
    InvalidArgument
        An argument is not valid. Or, with the first batch, a label is not a class; the message
        names it.

    Notes
    -----
    The output is int64, shape (cells,). It is stored in 1 or 2 bytes a cell.
    """

    is_elementwise = True
    separator = "//"

    #: Advice in the error about a label that is not a class.
    unseen_hint = "give them a code of their own by unseen=-1"

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = None,
        classes: Sequence[Any] | Mapping[Any, int] | None = None,
        *,
        unseen: int | str = "error",
        missing: int | str = -1,
    ) -> None:
        super().__init__(columns, name)
        self.is_elementwise = len(self.columns) == 1
        self.needs_fit = classes is None
        self._unseen = _code_or_error("unseen", unseen)
        self._missing = _code_or_error("missing", missing)
        self._classes = NO_CLASSES if classes is None else Classes(classes)

    @property
    def classes_(self) -> Array:
        """Class of each code; None for an unused code. Raises InvalidArgument if it is not fitted."""
        names: Array = fitted_names(self._classes, self.name)
        return names

    def fit(self, values: Mapping[str, Array]) -> None:
        """Learn the distinct values as classes, unless classes were given."""
        if not self.needs_fit:
            return
        classes = values[self.columns[0]]
        for column in self.columns[1:]:
            joined = [
                f"{left}{self.separator}{right}" for left in classes for right in values[column]
            ]
            classes = objects(joined)
        self._classes = Classes(classes)

    def transform(self, obs: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Return the codes of the rows, int64, shape (rows,)."""
        labels = self._labels(obs)
        codes = self._classes.lookup(labels)
        no_class = np.flatnonzero(codes < 0)
        if len(no_class):
            # A missing value is None or one that differs from itself.
            missing = np.array([labels[i] is None or labels[i] != labels[i] for i in no_class])
            self._fill(codes, no_class[missing], self._missing, labels)
            self._fill(codes, no_class[~missing], self._unseen, labels)
        return codes

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the classes of codes.

        Parameters
        ----------
        encoded : ndarray or tensor of integers
            Codes, shape (rows,).

        Returns
        -------
        ndarray of object
            Class of each row, shape (rows,). None for the codes of missing values and unseen
            labels.

        Raises
        ------
        InvalidArgument
            A code is not an integer, or not a code of this encoder.
        """
        codes = as_codes(self.name, encoded)
        count = len(self.classes_)
        beyond = (codes < 0) | (codes >= count)
        known = beyond.copy()
        for code in (self._unseen, self._missing):
            known &= codes != code
        if known.any():
            raise InvalidArgument(
                f"a code is not in [0, {count}) nor one for missing or unseen labels, got "
                f"{int(codes[known][0])}, encoder {self.name!r}"
            )
        values: Array = np.append(self.classes_, [None])[np.where(beyond, count, codes)]
        return values

    def _labels(self, obs: Mapping[str, Array]) -> list[Any]:
        """Return the label of each row."""
        if len(self.columns) == 1:
            return list(obs[self.columns[0]].tolist())
        return self._joined(obs)

    def _joined(self, obs: Mapping[str, Array]) -> list[Any]:
        """Return the values of all columns joined as text; None if one is missing."""
        columns = [obs[column].tolist() for column in self.columns]
        labels: list[Any] = [
            self.separator.join(map(str, values)) for values in zip(*columns, strict=True)
        ]
        for column in self.columns:
            missing = is_missing(obs[column])
            if missing is not None:
                for row in np.flatnonzero(missing):
                    labels[row] = None
        return labels

    def _fill(
        self, codes: Array, rows: npt.NDArray[np.intp], code: int | None, labels: list[Any]
    ) -> None:
        """Set the code of rows without a class, or raise an error that names their labels."""
        if not len(rows):
            return
        if code is not None:
            codes[rows] = code
            return
        if self.needs_fit and not len(self._classes):
            raise InvalidArgument(
                f"the encoder {self.name!r} is not fitted yet: give it to a Dataset and use "
                f"ds.encoders[{self.name!r}], or give it classes"
            )
        found = list(dict.fromkeys(labels[row] for row in rows))
        if found[0] is None or found[0] != found[0]:
            raise InvalidArgument(
                f"cells miss a value of {', '.join(self.columns)} and so have no class of the "
                f"encoder {self.name!r}: give them a code with missing=-1, or leave them out with obs_query"
            )
        named = ", ".join(map(repr, found[:_NAMED_IN_ERRORS]))
        more = f" and {len(found) - _NAMED_IN_ERRORS} more" if len(found) > _NAMED_IN_ERRORS else ""
        raise InvalidArgument(
            f"labels are not classes of the encoder {self.name!r}: {named}{more}; add them to its "
            f"classes ({len(self._classes.names)} now), {self.unseen_hint}, or leave their cells out by "
            "obs_query"
        )

    def __repr__(self) -> str:
        count = len(self._classes.names)
        fitted = f", {plural(count, 'class')}" if count else ""
        return f"{type(self).__name__}({', '.join(map(repr, self.columns))}{fitted})"


def _code_or_error(name: str, code: Any) -> int | None:
    """Return the code, None for "error"."""
    if isinstance(code, str):
        if code != "error":
            raise InvalidArgument(f'{name} must be an integer or "error", got {described(code)}')
        return None
    return checked_int(name, code, least=-(2**31), most=2**31 - 1)
