"""The obs half of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .column_values import ColumnValues, combinations
from .encoders import Encoder
from .errors import InvalidArgument
from .matrix_batches import as_tensor
from .table import JOINID, DataFrame

Array = npt.NDArray[Any]

OBS_FORMATS = ("arrays", "pandas", "torch")


class ObsBatches:
    """Gathers obs values and encoded labels for batches of a selection.

    Columns are read once, for the selected rows, and kept as codes where values repeat;
    ``soma_joinid`` comes with each batch and is not read. Immutable once made.
    """

    def __init__(
        self,
        obs: DataFrame,
        columns: Sequence[str],
        encoders: Sequence[Encoder],
        obs_format: str,
    ) -> None:
        self._columns = list(columns)
        self._encoders = list(encoders)
        self._format = obs_format
        needed = list(columns) + [column for encoder in encoders for column in encoder.columns]
        stored = [name for name in dict.fromkeys(needed) if name != JOINID]
        self._values = obs.read(stored) if stored else {}
        for encoder in self._encoders:
            if JOINID in encoder.columns:
                self._values.setdefault(JOINID, _joinid_column(obs))
        self._lookups: dict[str, Array] = {}

    @property
    def nbytes(self) -> int:
        """Memory that the columns take."""
        return sum(values.nbytes for values in self._values.values())

    def fit(self) -> None:
        """Fit the encoders on the selected rows."""
        for encoder in self._encoders:
            columns = {name: self._values[name] for name in encoder.columns}
            if encoder.fits_combinations:
                encoder.fit(combinations(columns))
            else:
                encoder.fit({name: values.distinct() for name, values in columns.items()})

    def take(self, batch: _core.Batch) -> Any:
        """Obs of a batch in the format asked for."""
        positions = batch.positions()
        obs: dict[str, Any] = {}
        for name in self._columns:
            if name == JOINID:
                obs[name] = batch.joinids().view(np.int64)
            elif self._format == "pandas":
                obs[name] = self._values[name].to_pandas(positions)
            else:
                obs[name] = self._values[name].take(positions)
        for encoder in self._encoders:
            obs[encoder.name] = self._encode(encoder, positions)
        if self._format == "pandas":
            import pandas as pd

            return pd.DataFrame(obs, copy=False)
        if self._format == "torch":
            return {name: to_tensor(values) for name, values in obs.items()}
        return obs

    def _encode(self, encoder: Encoder, positions: npt.NDArray[np.int64]) -> Array:
        if not encoder.is_elementwise:
            obs = {name: self._values[name].take(positions) for name in encoder.columns}
            return _transformed(encoder, obs, len(positions))
        (column,) = encoder.columns
        values = self._values[column]
        if values.codes is None:
            return _transformed(encoder, {column: values.take(positions)}, len(positions))
        lookup = self._lookups.get(encoder.name)
        if lookup is None:
            distinct = values.values
            lookup = np.asarray(_transformed(encoder, {column: distinct}, len(distinct)))
            self._lookups[encoder.name] = lookup
        return lookup.take(values.codes.take(positions), axis=0)


def _transformed(encoder: Encoder, obs: dict[str, Array], rows: int) -> Array:
    encoded = encoder.transform(obs)
    shape = np.shape(encoded)
    if not shape or shape[0] != rows:
        raise InvalidArgument(
            f"an encoder must give one entry a row, {encoder.name!r} gave shape {shape} "
            f"for {rows} rows"
        )
    return encoded


def _joinid_column(obs: DataFrame) -> ColumnValues:
    return ColumnValues(JOINID, obs.select().to_numpy())


def to_tensor(values: Array) -> Any:
    """Share memory with a tensor; strings and dates have none."""
    if values.dtype.kind in "OMm":
        raise InvalidArgument(
            f"values of dtype {values.dtype} have no tensor; use an encoder or obs_format='arrays'"
        )
    return as_tensor(values)


def check_tensor_columns(obs: DataFrame, columns: Sequence[str]) -> None:
    """Raise `InvalidArgument` for columns that obs_format='torch' cannot give."""
    for info in obs.schema:
        if info.name in columns and (info.is_string or info.type.startswith(("date", "time"))):
            raise InvalidArgument(
                f"obs column {info.name!r} holds {info.type} values, which have no tensor; use "
                f"encoders=[LabelEncoder({info.name!r})] or obs_format='arrays'"
            )


def check_encoders(obs: DataFrame, columns: Sequence[str], encoders: Sequence[Encoder]) -> None:
    """Raise for an encoder of a column that is not there, and for two outputs of one name."""
    names = list(columns)
    for encoder in encoders:
        obs.checked_columns(encoder.columns)
        if encoder.name in names:
            raise InvalidArgument(
                f"obs has {encoder.name!r} twice; give the encoder another name or leave the "
                "column out of obs_columns"
            )
        names.append(encoder.name)
