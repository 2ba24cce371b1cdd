"""Encoders of obs that are given pandas DataFrames."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.missing_package import require
from penstock.base.validation import checked_names
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]


class Encoder(abc.ABC):
    """Base of encoders: from columns of obs to one number a cell.

    `fit` is called once with obs of all cells that are selected (``soma_joinid`` and `columns`),
    `transform` with the same columns of each batch, indexed by joinid.
    """

    @abc.abstractmethod
    def fit(self, obs: pd.DataFrame) -> None:
        """Learn from obs."""

    @abc.abstractmethod
    def transform(self, df: pd.DataFrame) -> Any:
        """Encode rows: one number each."""

    @abc.abstractmethod
    def inverse_transform(self, encoded_values: npt.ArrayLike) -> Any:
        """Return the values that were encoded."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Key of the encoder; no two of a pipe have the same."""

    @property
    @abc.abstractmethod
    def columns(self) -> list[str]:
        """Columns of obs that it reads."""


class _ClassEncoder(Encoder):
    """Classes as integers from 0 in sorted order, a missing value as the last of them."""

    def __init__(self) -> None:
        self._index: Any = None

    @abc.abstractmethod
    def _labels(self, df: pd.DataFrame) -> Any:
        """Value of each row: anything that pandas can look up."""

    def fit(self, obs: pd.DataFrame) -> None:
        """Take the values that occur as classes."""
        require("pandas")
        import pandas as pd

        found = pd.Series(self._labels(obs).unique())
        missing = found.isna()
        classes = np.sort(found[~missing].to_numpy())
        self._index = pd.Index(np.append(classes, found[missing].to_numpy()[:1]))

    def codes(self, values: Any) -> npt.NDArray[np.int64]:
        """Codes of values; -1 for what is no class."""
        codes: npt.NDArray[np.int64] = self._fitted().get_indexer(values).astype(np.int64)
        return codes

    def transform(self, df: pd.DataFrame) -> npt.NDArray[np.int64]:
        """Codes of the rows.

        Raises
        ------
        InvalidArgument
            A value is no class.
        """
        labels = self._labels(df)
        codes = self.codes(labels)
        if len(codes) and codes.min() < 0:
            unseen = np.unique(np.asarray(labels, object)[codes < 0].astype(str)).tolist()
            raise InvalidArgument(f"values were not there when {self.name!r} was fitted: {unseen}")
        return codes

    def inverse_transform(self, encoded_values: npt.ArrayLike) -> Array:
        """Classes of codes, flat; codes may be a tensor.

        Raises
        ------
        InvalidArgument
            A code is no class's.
        """
        classes = self.classes_
        codes = np.asarray(encoded_values).ravel()
        if codes.size and (codes.min() < 0 or codes.max() >= len(classes)):
            raise InvalidArgument(
                f"a code is not in [0, {len(classes)}), codes {codes.min()} to {codes.max()}"
            )
        return classes[codes.astype(np.intp)]

    @property
    def classes_(self) -> Array:
        """Code to class."""
        classes: Array = self._fitted().to_numpy()
        return classes

    def _fitted(self) -> Any:
        if self._index is None:
            raise InvalidArgument(f"the encoder {self.name!r} is not fitted yet")
        return self._index


class LabelEncoder(_ClassEncoder):
    """Classes of one column as integers."""

    def __init__(self, col: str) -> None:
        super().__init__()
        self.col = col

    def _labels(self, df: pd.DataFrame) -> Any:
        return df[self.col]

    @property
    def name(self) -> str:
        """The column."""
        return self.col

    @property
    def columns(self) -> list[str]:
        """The column, alone."""
        return [self.col]


class BatchEncoder(_ClassEncoder):
    """Classes of several columns, whose values are joined as strings with nothing between."""

    def __init__(self, cols: Sequence[str], name: str = "batch") -> None:
        super().__init__()
        self.cols = checked_names("cols", cols)
        if not self.cols:
            raise InvalidArgument("cols must name one column or more, got none")
        self._name = name

    def _labels(self, df: pd.DataFrame) -> Any:
        joined = df[self.cols[0]].astype(str)
        for column in self.cols[1:]:
            joined = joined + df[column].astype(str)
        return joined

    @property
    def name(self) -> str:
        """Given, or "batch"."""
        return self._name

    @property
    def columns(self) -> list[str]:
        """The columns that are joined."""
        return self.cols
