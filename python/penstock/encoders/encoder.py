"""Base class of encoders."""

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
    """Base class: encode one or more obs columns as one array for each batch.

    A `Dataset` fits its encoders once, on the cells that it selects. It encodes every cell once,
    before the first batch. Parts made by `Dataset.random_split` share the fitted encoders, so codes
    of training and validation agree. An encoder must be picklable if DataLoader workers are used.

    A subclass implements `transform`. It implements `fit` if it learns something, and
    `inverse_transform` if an inverse exists. The output of a cell must depend only on the cell's
    own values.

    Parameters
    ----------
    columns : str or sequence of str
        Columns of obs to encode.
    name : str, optional
        Key of the output in obs. By default the columns joined by ``+``.
    """

    #: True if the encoder has one column and the output of a cell depends on its value alone. The
    #: output is then computed once for each distinct value.
    is_elementwise: bool = False

    #: False if `fit` learns nothing; such an encoder may be used by several datasets.
    needs_fit: bool = True

    #: True if `fit` takes the combinations of values that occur, instead of each column's values.
    fits_combinations: bool = False

    #: True if `fit` takes the values of every cell.
    fits_rows: bool = False

    #: The dataset that fitted the encoder (`claim`).
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

    def __getattr__(self, name: str) -> Any:
        # Only for names that are no attributes.
        hint = ": len(encoder.classes_)" * (name in ("n_classes", "num_classes"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def claim(self, owner: str) -> None:
        """Refuse a second dataset, since fitting on it would replace the codes of the first.

        Raises
        ------
        InvalidArgument
            Another dataset has fitted this encoder.
        """
        if self.needs_fit and self._owner not in (None, owner):
            raise InvalidArgument(
                f"the encoder {self.name!r} is fitted on another Dataset, whose codes would change; "
                "make one for each Dataset, or use random_split, fixed() or fixed classes to share "
                "codes"
            )
        self._owner = owner

    def fixed(self) -> Self:
        """Return a fitted copy that any number of datasets may use.

        It is for cells of other datasets than the one it was fitted on:
        ``ps.Dataset(other, encoders=[train.encoders["cell_type"].fixed()])``.

        Returns
        -------
        Encoder
            A copy that is not fitted again.

        Raises
        ------
        InvalidArgument
            This encoder is not fitted yet.
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
        """Learn from the selected cells; a subclass that learns nothing does not override this.

        Parameters
        ----------
        values : mapping of str to ndarray
            1-D array for each column. By default its distinct values, sorted, without missing ones.
            If `fits_combinations`, one entry for each combination of values that occurs, sorted,
            without those that miss a value. If `fits_rows`, one entry for each cell.
        """

    @abc.abstractmethod
    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Encode rows.

        Parameters
        ----------
        obs : mapping of str to ndarray
            Values of each column, shape (rows,). Missing values are None in object arrays, NaN in
            numbers and NaT in dates.

        Returns
        -------
        ndarray
            Shape (rows,) or (rows, …), of any dtype.
        """

    def inverse_transform(self, encoded: Array) -> Array:
        """Return the values of codes, if the encoder can be inverted.

        Parameters
        ----------
        encoded : ndarray
            Output of `transform`, shape (rows,) or (rows, …).

        Returns
        -------
        ndarray
            Value of each row.

        Raises
        ------
        NotImplementedError
            The encoder has no inverse.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be inverted")

    def encode(self, obs: Mapping[str, Array]) -> Array:
        """Return what is stored for each selected cell; `expand` makes the output from it.

        By default the output of `transform`. Override both to store less if the output is wide.

        Parameters
        ----------
        obs : mapping of str to ndarray
            Values of each column, shape (rows,).

        Returns
        -------
        ndarray
            One entry for each row.
        """
        return self.transform(obs)

    def expand(self, kept: Array) -> Array:
        """Return the output for rows of a batch, from the rows that `encode` returned.

        Parameters
        ----------
        kept : ndarray
            Stored rows, with the dtype of `encode`.

        Returns
        -------
        ndarray
            Output as of `transform`.
        """
        return kept

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.columns))})"


def checked_encoders(encoders: Any) -> list[Encoder]:
    """Return the encoders as a list; accept a single encoder, too."""
    if isinstance(encoders, Encoder):
        return [encoders]
    if isinstance(encoders, str):
        encoders = [encoders]
    checked = checked_items("encoders", encoders, "a list of penstock Encoders")
    for encoder in checked:
        if isinstance(encoder, str):
            raise InvalidArgument(
                f"encoders must be penstock Encoders, such as ps.LabelEncoder({encoder!r}), got "
                f"{encoder!r}; obs_columns=[{encoder!r}] gives the values as they are"
            )
        if not isinstance(encoder, Encoder):
            raise InvalidArgument(f"encoders must be penstock Encoders, got {described(encoder)}")
    return checked


def as_codes(name: str, encoded: Any) -> npt.NDArray[np.int64]:
    """Return codes as an integer array; accept tensors, too.

    Raises
    ------
    InvalidArgument
        The codes are not integers.
    """
    codes = np.asarray(encoded)
    if codes.dtype.kind not in "iu" and codes.size:
        raise InvalidArgument(f"codes of {name!r} must be integers, got {described(encoded)}")
    return codes.astype(np.int64)
