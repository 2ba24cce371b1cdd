"""Encoders of obs that take pandas DataFrames."""

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
    """Base class of encoders, which turn columns of obs into one number per cell.

    `fit` is called once with the obs of all selected cells (``soma_joinid`` and `columns`).
    `transform` is called with the same columns of each batch, indexed by joinid.
    """

    @abc.abstractmethod
    def fit(self, obs: pd.DataFrame) -> None:
        """Learn from obs."""

    @abc.abstractmethod
    def transform(self, df: pd.DataFrame) -> Any:
        """Return one number per row."""

    @abc.abstractmethod
    def inverse_transform(self, encoded_values: npt.ArrayLike) -> Any:
        """Return the values of encoded numbers."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Key of the encoder, unique within a pipe."""

    @property
    @abc.abstractmethod
    def columns(self) -> list[str]:
        """Columns of obs that the encoder reads."""


class _ClassEncoder(Encoder):
    """Classes as integers from 0 in sorted order; a missing value is the last class."""

    def __init__(self) -> None:
        self._index: Any = None

    @abc.abstractmethod
    def _labels(self, df: pd.DataFrame) -> Any:
        """Return the value of each row, in any form that pandas can look up."""

    def fit(self, obs: pd.DataFrame) -> None:
        """Use the values that occur as classes."""
        require("pandas")
        import pandas as pd

        found = pd.Series(self._labels(obs).unique())
        missing = found.isna()
        classes = np.sort(found[~missing].to_numpy())
        self._index = pd.Index(np.append(classes, found[missing].to_numpy()[:1]))

    def codes(self, values: Any) -> npt.NDArray[np.int64]:
        """Return the codes of values; -1 for a value that is not a class."""
        codes: npt.NDArray[np.int64] = self._fitted().get_indexer(values).astype(np.int64)
        return codes

    def transform(self, df: pd.DataFrame) -> npt.NDArray[np.int64]:
        """Return the codes of the rows.

        Raises
        ------
        InvalidArgument
            A value is not a class.
        """
        labels = self._labels(df)
        codes = self.codes(labels)
        if len(codes) and codes.min() < 0:
            unseen = np.unique(np.asarray(labels, object)[codes < 0].astype(str)).tolist()
            raise InvalidArgument(f"{self.name!r} was not fitted to the values {unseen}")
        return codes

    def inverse_transform(self, encoded_values: npt.ArrayLike) -> Array:
        """Return the classes of codes, as a flat array; codes may be a tensor.

        Raises
        ------
        InvalidArgument
            A code belongs to no class.
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
        """Classes by code."""
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
        """Name of the column."""
        return self.col

    @property
    def columns(self) -> list[str]:
        """List of this one column."""
        return [self.col]


class BatchEncoder(_ClassEncoder):
    """Classes of several columns, whose values are joined as strings without a separator."""

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
        """The given name, or "batch"."""
        return self._name

    @property
    def columns(self) -> list[str]:
        """The columns that are joined."""
        return self.cols
