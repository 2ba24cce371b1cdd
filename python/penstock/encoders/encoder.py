"""What an encoder is."""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock.base.validation import checked_items, checked_names, checked_text, described
from penstock.errors import InvalidArgument

Array = npt.NDArray[Any]


class Encoder(abc.ABC):
    """From one or more obs columns to one array for each batch.

    A `Dataset` fits its encoders once, on the cells that it selects, and encodes every cell once,
    before the first batch; batches gather what was encoded. Datasets made from it by
    `Dataset.random_split` share the fitted encoders, so that the codes of training and validation
    agree. An encoder must be picklable when DataLoader workers are used.

    A subclass has `transform`, `fit` when it learns something, and `inverse_transform` where there
    is one. What a cell gets depends on the cell's own values alone.

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

    #: True when `fit` wants every cell's values.
    fits_rows: bool = False

    #: The dataset that fitted it (`claim`).
    _owner: str | None = None

    def __init__(self, columns: str | Sequence[str], name: str | None = None) -> None:
        names = [columns] if isinstance(columns, str) else columns
        self.columns: tuple[str, ...] = tuple(checked_names("columns of an encoder", names))
        if not self.columns:
            raise InvalidArgument(f"an encoder needs the names of obs columns, got {columns!r}")
        if len(set(self.columns)) != len(self.columns):
            raise InvalidArgument(f"an encoder names a column twice, got {list(self.columns)}")
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
                "make one for each Dataset, or use random_split, fixed() or fixed classes to share "
                "codes"
            )
        self._owner = owner

    def fixed(self) -> Self:
        """Return a copy that keeps what it has learned and may serve any number of datasets.

        For cells that are not a part of the dataset that it was fitted on:
        ``ps.Dataset(other, encoders=[train.encoders["cell_type"].fixed()])``.

        Raises
        ------
        InvalidArgument
            It is not fitted yet.
        """
        if self.needs_fit and self._owner is None:
            raise InvalidArgument(
                f"the encoder {self.name!r} is not fitted yet; ask its Dataset for it: "
                f"ds.encoders[{self.name!r}].fixed()"
            )
        other = copy.copy(self)
        vars(other).update(needs_fit=False, _owner=None)
        return other

    def fit(self, values: Mapping[str, Array]) -> None:  # noqa: B027
        """Learn from the distinct values (sorted, none missing) of each column, if there is need.

        Where `fits_combinations`, the columns have one entry for each combination of values that
        occurs, sorted, without those that miss a value. Where `fits_rows`, one for each cell.
        """

    @abc.abstractmethod
    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Encode rows; `obs` maps each column to its values, the result has one entry a row."""

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the values that were encoded, where that is possible."""
        raise NotImplementedError(f"{type(self).__name__} cannot be inverted")

    def encode(self, obs: Mapping[str, Array]) -> Array:
        """Return what is kept of each selected cell, from which `expand` makes the output.

        `transform` itself unless overridden: where the output is wide, keep less.
        """
        return self.transform(obs)

    def expand(self, kept: Array) -> Array:
        """Make the output of a batch's rows from what was kept of them."""
        return kept

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.columns))})"


def checked_encoders(encoders: Any) -> list[Encoder]:
    """Return the encoders as a list; one alone is taken too."""
    if isinstance(encoders, Encoder):
        return [encoders]
    checked: list[Encoder] = checked_items("encoders", encoders, "a list of penstock Encoders")
    for encoder in checked:
        if not isinstance(encoder, Encoder):
            raise InvalidArgument(f"encoders must be penstock Encoders, got {described(encoder)}")
    return checked


def as_codes(name: str, encoded: Any) -> npt.NDArray[np.int64]:
    """Return codes to be inverted as an integer array; tensors are taken.

    Raises
    ------
    InvalidArgument
        They are no integers.
    """
    codes = np.asarray(encoded)
    if codes.dtype.kind not in "iu" and codes.size:
        raise InvalidArgument(f"codes of {name!r} must be integers, got {described(encoded)}")
    return codes.astype(np.int64)
