"""Encoders turn obs columns into numbers for a model."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import checked_names, checked_text, described
from .column_values import is_missing, objects
from .errors import InvalidArgument

Array = npt.NDArray[Any]


class Encoder(abc.ABC):
    """From one or more obs columns to one array for each batch.

    A `Dataset` fits its encoders once, on the cells that it selects, before the first batch;
    datasets made from it by `Dataset.random_split` share the fitted encoders, so that the codes of
    training and validation agree. An encoder must be picklable when DataLoader workers are used.

    Parameters
    ----------
    columns : str or sequence of str
        The obs columns that it reads.
    name : str, optional
        The key of its output in obs; by default the columns joined by ``+``.
    """

    #: True when the output of a cell depends on the value of its one column alone. It is then
    #: computed once for each distinct value and looked up for each cell.
    is_elementwise: bool = False

    #: False when `fit` learns nothing: such an encoder may serve several datasets.
    needs_fit: bool = True

    #: True when `fit` wants the combinations of values that occur, in place of each column's values.
    fits_combinations: bool = False

    #: The dataset that fitted it (`claim`).
    _owner: str | None = None

    def __init__(self, columns: str | Sequence[str], name: str | None = None) -> None:
        names = [columns] if isinstance(columns, str) else columns
        self.columns: tuple[str, ...] = tuple(checked_names("columns of an encoder", names))
        if not self.columns:
            raise InvalidArgument(f"an encoder needs the names of obs columns, got {columns!r}")
        self.name: str = (
            "+".join(self.columns) if name is None else checked_text("name of an encoder", name)
        )

    def claim(self, owner: str) -> None:
        """Refuse to be fitted by a second dataset, whose codes would replace those of the first.

        Raises
        ------
        InvalidArgument
            Another dataset has fitted it.
        """
        if self.needs_fit and self._owner not in (None, owner):
            raise InvalidArgument(
                f"the encoder {self.name!r} is fitted on another Dataset, whose codes would change; "
                "make one for each Dataset, or use random_split or fixed classes to share codes"
            )
        self._owner = owner

    def fit(self, distinct: Mapping[str, Array]) -> None:  # noqa: B027
        """Learn from the distinct values (sorted, none missing) of each column, if there is need.

        Where `fits_combinations`, the columns have one entry for each combination of values that
        occurs, sorted, without those that miss a value.
        """

    @abc.abstractmethod
    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Encode rows; `obs` maps each column to its values, the result has one entry a row."""

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the values that were encoded, where that is possible."""
        raise NotImplementedError(f"{type(self).__name__} cannot be inverted")


class LabelEncoder(Encoder):
    """Classes as integers from 0, in the sorted order of their names.

    Parameters
    ----------
    columns : str or sequence of str
        One column, or several whose values are joined by ``//`` into one label.
    name : str, optional
        The key of its output in obs.
    classes : sequence, optional
        The classes, in the order of their codes; by default the values that occur in the cells of
        the `Dataset`, sorted (for several columns, all combinations of them).

    Attributes
    ----------
    classes_ : ndarray
        Code to class, once fitted.

    Notes
    -----
    The output is int64. A missing value, or one that is not a class, is -1, which is
    ``ignore_index`` of a loss when so told.
    """

    is_elementwise = True
    separator = "//"

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(columns, name)
        if isinstance(classes, (str, bytes)) or not (
            classes is None or isinstance(classes, Iterable)
        ):
            raise InvalidArgument(f"classes must be a list of values, got {described(classes)}")
        self.is_elementwise = len(self.columns) == 1
        self.needs_fit = classes is None
        self._set_classes(np.empty(0, object) if classes is None else objects(list(classes)))

    def _set_classes(self, classes: Array) -> None:
        self.classes_ = classes
        try:
            self._code_of = {value: code for code, value in enumerate(classes.tolist())}
        except TypeError:
            raise InvalidArgument(
                f"classes must be numbers, strings or the like, got {described(classes.tolist())}"
            ) from None
        if len(self._code_of) != len(classes):
            raise InvalidArgument(f"a class is named twice, classes {classes.tolist()}")

    def fit(self, distinct: Mapping[str, Array]) -> None:
        """Take the distinct values as classes, unless they were given."""
        if not self.needs_fit:
            return
        classes = distinct[self.columns[0]]
        for column in self.columns[1:]:
            joined = [
                f"{left}{self.separator}{right}" for left in classes for right in distinct[column]
            ]
            classes = objects(joined)
        self._set_classes(classes)

    def transform(self, obs: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Codes of the rows, int64; -1 for what is no class."""
        values = obs[self.columns[0]].tolist()
        for column in self.columns[1:]:
            values = [
                f"{left}{self.separator}{right}"
                for left, right in zip(values, obs[column].tolist(), strict=True)
            ]
        return np.fromiter((self._code_of.get(v, -1) for v in values), np.int64, len(values))

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the classes of codes; None for -1."""
        codes = np.asarray(encoded)
        if codes.size and (codes.min() < -1 or codes.max() >= len(self.classes_)):
            raise InvalidArgument(
                f"a code is not in [-1, {len(self.classes_)}), codes {codes.min()} to {codes.max()}"
            )
        values: Array = np.append(self.classes_.astype(object), [None])[codes]
        return values

    def __repr__(self) -> str:
        fitted = f", {len(self.classes_)} classes" if len(self.classes_) else ""
        return f"LabelEncoder({', '.join(map(repr, self.columns))}{fitted})"


class BatchEncoder(LabelEncoder):
    """Combinations of several columns as integers from 0: the batch covariate of a model.

    Parameters
    ----------
    columns : str or sequence of str
        The columns whose values are joined by ``//`` into one label.
    name : str, default "batch"
        The key of its output in obs.
    classes : sequence, optional
        The labels, in the order of their codes; by default the combinations that occur in the cells
        of the `Dataset` (a `LabelEncoder` of several columns takes all that could), sorted column
        by column.

    Notes
    -----
    The output is int64. A cell that misses a value, or whose label is not a class, is -1.
    """

    fits_combinations = True

    def __init__(
        self,
        columns: str | Sequence[str],
        name: str | None = "batch",
        classes: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(columns, name, classes)
        self.is_elementwise = False  # labels are text, also those of one column

    def fit(self, distinct: Mapping[str, Array]) -> None:
        """Take the combinations as classes, unless they were given."""
        if self.needs_fit:
            self._set_classes(objects(list(dict.fromkeys(self._labels(distinct)))))

    def transform(self, obs: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Codes of the rows, int64; -1 for what is no class."""
        labels = self._labels(obs)
        codes = np.fromiter((self._code_of.get(v, -1) for v in labels), np.int64, len(labels))
        for column in self.columns:
            missing = is_missing(obs[column])
            if missing is not None:
                codes[missing] = -1
        return codes

    def _labels(self, obs: Mapping[str, Array]) -> list[str]:
        columns = [obs[column].tolist() for column in self.columns]
        return [self.separator.join(map(str, values)) for values in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        return super().__repr__().replace("LabelEncoder", "BatchEncoder", 1)


def checked_encoders(encoders: Any) -> list[Encoder]:
    """Return the encoders as a list; one alone is taken too."""
    if isinstance(encoders, Encoder):
        return [encoders]
    if isinstance(encoders, str) or not isinstance(encoders, Iterable):
        raise InvalidArgument(
            f"encoders must be a list of penstock Encoders, got {described(encoders)}"
        )
    checked = list(encoders)
    for encoder in checked:
        if not isinstance(encoder, Encoder):
            raise InvalidArgument(f"encoders must be penstock Encoders, got {described(encoder)}")
    return checked
