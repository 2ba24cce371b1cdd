"""Fields that a model reads from obs, and their encoders.

A categorical field is a column, several columns whose values are joined by ``//``, or an `Encoder`
whose output is the category. Its categories are the values that occur, sorted. scvi-tools then
fixes their order (`registration`), and an encoder gives each cell the number of its category.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.base.validation import checked_names, checked_text, described
from penstock.batches.obs import ObsBatches
from penstock.dataset.dataset import Dataset
from penstock.encoders import BatchEncoder, Encoder, LabelEncoder, NumericEncoder
from penstock.errors import InvalidArgument, NotFound
from penstock.experiment.columns import is_missing, objects
from penstock.experiment.factorize import BLOCK_ROWS, unique_rows

Array = npt.NDArray[Any]

#: Separator of column names, as in the name of an encoder of several columns.
JOIN_NAMES = "+"


@dataclass(frozen=True)
class Field:
    """One field of a cell that a model reads.

    Attributes
    ----------
    name : str
        Name for scvi-tools: the column, the columns joined by ``+``, or the name of the encoder.
    columns : tuple of str
        Columns of obs; empty with an encoder.
    encoder : Encoder, optional
        Makes the category or the number of a cell.
    """

    name: str
    columns: tuple[str, ...]
    encoder: Encoder | None = None

    @classmethod
    def of(cls, argument: str, key: Any) -> Field:
        """Check a key that a user gave.

        Raises
        ------
        InvalidArgument
            The key is neither a name, a list of names nor an Encoder.
        """
        if isinstance(key, Encoder):
            return cls(key.name, (), key)
        if isinstance(key, str):
            return cls(checked_text(argument, key), (key,))
        if isinstance(key, Iterable):
            names = checked_names(argument, key)
            if names:
                return cls(JOIN_NAMES.join(names), tuple(names))
        raise InvalidArgument(
            f"{argument} must be an obs column, a list of columns to be joined, or an Encoder, got "
            f"{described(key)}"
        )

    @classmethod
    def saved(cls, name: str, columns: Sequence[str], encoders: Mapping[str, Encoder]) -> Field:
        """Return the field of a saved model: an encoder of that name, a column, or joined columns.

        Raises
        ------
        NotFound
            Neither an obs column nor an encoder has the name.
        """
        if name in encoders:
            return cls(name, (), encoders[name])
        if name in columns:
            return cls(name, (name,))
        parts = name.split(JOIN_NAMES)
        if all(part in columns for part in parts):
            return cls(name, tuple(parts))
        raise NotFound(
            f"the model was trained with {name!r} of obs, which these cells do not have; obs has "
            f"{', '.join(columns)}. If an encoder made it, pass it in encoders="
        )

    def categories(self, dataset: Dataset) -> Array:
        """Return the values of the selected cells, in the enumeration's order or sorted.

        Raises
        ------
        InvalidArgument
            A cell has no value.
        """
        if self.encoder is not None:
            return self._encoded(dataset)
        columns = dataset.obs.read(list(self.columns))
        for column in columns.values():
            missing = is_missing(column.values) if column.codes is None else None
            if column.has_missing or (missing is not None and bool(missing.any())):
                raise InvalidArgument(
                    f"cells miss a value of {column.name!r}, but scvi-tools needs a category for each "
                    "cell: leave these cells out with obs_query, or give them a category with an Encoder"
                )
        if len(self.columns) == 1:
            column = columns[self.columns[0]]
            present = column.distinct()
            if not column.is_enumerated:
                return present
            # The order in an AnnData of these cells, whose Categorical scvi-tools keeps.
            return column.values[np.isin(column.values, present)]
        found = unique_rows(columns)
        rows = zip(*(found[name].tolist() for name in self.columns), strict=True)
        joined = sorted(BatchEncoder.separator.join(map(str, row)) for row in rows)
        return objects(list(dict.fromkeys(joined)))

    def _encoded(self, dataset: Dataset) -> Array:
        encoder = self.encoder
        assert encoder is not None
        rows = ObsBatches(dataset.obs, [], [encoder], "arrays", None, fit=encoder.needs_fit)
        encoder.claim(dataset.reader.cells.owner)
        found: set[Any] = set()
        encoded = rows.encoded[encoder.name]
        for begin in range(0, dataset.n_obs, BLOCK_ROWS):
            places = np.arange(begin, min(dataset.n_obs, begin + BLOCK_ROWS), dtype=np.int64)
            block = np.asarray(encoded.take(places))
            if block.ndim != 1:
                raise InvalidArgument(
                    f"the encoder {encoder.name!r} gives {block.shape[1:]} values for each cell, but "
                    "a category must be one value"
                )
            found.update(np.unique(block).tolist())
        values = sorted(found)
        return objects(values) if values and isinstance(values[0], str) else np.array(values)

    def category_encoder(self, name: str, mapping: Array) -> Encoder:
        """Return an encoder of a cell's index in `mapping`; int64, (cells,)."""
        if self.encoder is not None:
            return Numbered(self.encoder, name, mapping)
        make = LabelEncoder if len(self.columns) == 1 else BatchEncoder
        columns = self.columns[0] if len(self.columns) == 1 else self.columns
        return make(columns, name, mapping.tolist(), missing="error")

    def number_encoder(self, name: str) -> Encoder:
        """Return an encoder of a cell's number; float32, (cells,)."""
        if self.encoder is not None:
            return Renamed(self.encoder, name)
        return NumericEncoder(self.columns[0], name)

    def check_numbers(self, dataset: Dataset) -> None:
        """Refuse several columns, and numbers that are missing or not finite."""
        if self.encoder is not None:
            if self.encoder.needs_fit:
                ObsBatches(dataset.obs, [], [self.encoder], "arrays")
                self.encoder.claim(dataset.reader.cells.owner)
            return
        if len(self.columns) != 1:
            raise InvalidArgument(f"a number is one column of obs, got {list(self.columns)}")
        values = NumericEncoder(self.columns[0]).transform(
            {self.columns[0]: dataset.obs.read(list(self.columns))[self.columns[0]].to_numpy()}
        )
        if not np.isfinite(values).all():
            raise InvalidArgument(
                f"{self.columns[0]!r} has no finite number for "
                f"{plural(int((~np.isfinite(values)).sum()), 'cell')}: leave such cells out by "
                "obs_query, or use NumericEncoder("
                f"{self.columns[0]!r}, missing=0)"
            )


class Renamed(Encoder):
    """The output of a fitted encoder under another name."""

    needs_fit = False

    def __init__(self, encoder: Encoder, name: str) -> None:
        super().__init__(encoder.columns, name)
        self.is_elementwise = encoder.is_elementwise
        self._encoder = encoder

    def transform(self, obs: Mapping[str, Array]) -> Array:
        """Transform with the encoder."""
        return np.asarray(self._encoder.expand(np.asarray(self._encoder.encode(obs))))


class Numbered(Renamed):
    """The index of a fitted encoder's output among the categories."""

    def __init__(self, encoder: Encoder, name: str, mapping: Array) -> None:
        super().__init__(encoder, name)
        self._codes = {value: code for code, value in enumerate(mapping.tolist())}

    def transform(self, obs: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Return codes, int64."""
        values = super().transform(obs).tolist()
        try:
            return np.array([self._codes[value] for value in values], np.int64)
        except KeyError as error:
            raise InvalidArgument(
                f"the encoder of {self.name!r} gave {error.args[0]!r} for a cell, which is no "
                f"category of the model, which has {len(self._codes)}"
            ) from None


class Constant(Encoder):
    """The same code for every cell: the code of unlabelled cells."""

    needs_fit = False

    def __init__(self, name: str, code: int) -> None:
        super().__init__("soma_joinid", name)
        self._code = code

    def transform(self, obs: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Return the code for each cell, int64."""
        return np.full(len(obs[self.columns[0]]), self._code, np.int64)
