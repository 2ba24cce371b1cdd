"""Make obs of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.base.missing_package import require
from penstock.encoders import Encoder
from penstock.encoders.encoded_rows import EncodedRows
from penstock.errors import InvalidArgument
from penstock.experiment.columns import ColumnValues
from penstock.experiment.data_frame import JOINID, DataFrame
from penstock.experiment.factorize import unique_rows

from .batch import BatchObs
from .matrix import as_tensor

Array = npt.NDArray[Any]


class ObsBatches:
    """Gathers obs values and encoded labels for batches of a selection.

    Columns are read once, for the selected rows, and stored as codes if values repeat. Columns that
    only encoders need are dropped after encoding. Batches have ``soma_joinid``, so it is not read.
    Immutable after construction.

    Parameters
    ----------
    obs : DataFrame
        The selected cells.
    columns : sequence of str
        Columns that batches have unchanged.
    encoders : sequence of Encoder
        Encoders whose output batches have.
    obs_format : str
        One of `format.OBS_FORMATS`.
    pad_column : str or None
        Name of a bool column that is True for cells repeated by ``uneven="pad"``.
    fit : bool
        Whether to fit the encoders on these rows.
    missing : mapping
        Bool columns that are True for cells without a value in a part of X, and that part.
    """

    def __init__(
        self,
        obs: DataFrame,
        columns: Sequence[str],
        encoders: Sequence[Encoder],
        obs_format: str,
        pad_column: str | None = None,
        fit: bool = True,
        missing: Mapping[str, int] | None = None,
    ) -> None:
        self._columns = list(columns)
        self._pad_column = pad_column
        self._missing = dict(missing or {})
        self._own_joinids = obs.own_joinids
        self._format = obs_format
        needed = list(columns) + [column for encoder in encoders for column in encoder.columns]
        stored = [name for name in dict.fromkeys(needed) if name != JOINID]
        self._stored = obs.read(stored) if stored else {}
        if any(JOINID in encoder.columns for encoder in encoders):
            self._stored[JOINID] = _joinid_column(obs)
        if fit:
            self._fit(encoders)
        self.encoded = {
            encoder.name: EncodedRows(
                encoder, {name: self._stored[name] for name in encoder.columns}
            )
            for encoder in encoders
        }
        self._stored = {name: self._stored[name] for name in columns if name != JOINID}

    @property
    def nbytes(self) -> int:
        """Upper bound of the memory of columns and encoded rows, in bytes."""
        kept: list[ColumnValues | EncodedRows] = [*self._stored.values(), *self.encoded.values()]
        return sum(each.nbytes for each in kept)

    def _fit(self, encoders: Sequence[Encoder]) -> None:
        for encoder in encoders:
            columns = {name: self._stored[name] for name in encoder.columns}
            if not encoder.needs_fit:
                continue
            if encoder.fits_combinations:
                encoder.fit(unique_rows(columns))
            elif encoder.fits_rows:
                encoder.fit({name: values.to_numpy() for name, values in columns.items()})
            else:
                encoder.fit({name: values.distinct() for name, values in columns.items()})

    def take(self, batch: _core.Batch) -> Any:
        """Return obs of a batch in the chosen format."""
        positions = batch.positions()
        obs = BatchObs()
        for name in self._columns:
            if name == JOINID:
                obs[name] = self._own_joinids(batch.joinids().view(np.int64))
            elif self._format == "pandas":
                obs[name] = self._stored[name].to_pandas(positions)
            else:
                obs[name] = self._stored[name].take(positions)
        for name, rows in self.encoded.items():
            obs[name] = rows.take(positions)
        if self._pad_column is not None:
            obs[self._pad_column] = _is_padding(batch)
        for name, part in self._missing.items():
            obs[name] = batch.part(part).missing().view(np.bool_)
        if self._format == "pandas":
            return _frame(obs)
        if self._format == "torch":
            require("torch")
            return BatchObs({name: to_tensor(values) for name, values in obs.items()})
        return obs


def _is_padding(batch: _core.Batch) -> npt.NDArray[np.bool_]:
    mask = np.zeros(batch.rows, np.bool_)
    if batch.repeated_row is not None:
        mask[batch.repeated_row] = True
    return mask


def _frame(obs: dict[str, Any]) -> Any:
    """Return a DataFrame; 2-D output of an encoder becomes columns ``name_0``, ``name_1``, …."""
    require("pandas")
    import pandas as pd

    flat: dict[str, Any] = {}
    for name, values in obs.items():
        if np.ndim(values) == 2:
            flat.update({f"{name}_{i}": column for i, column in enumerate(values.T)})
        else:
            flat[name] = values
    return pd.DataFrame(flat, copy=False)


def _joinid_column(obs: DataFrame) -> ColumnValues:
    return ColumnValues(JOINID, obs.own_joinids(obs.select().to_numpy()))


def to_tensor(values: Array) -> Any:
    """Return a tensor over the memory of an array; refuse strings and dates."""
    if values.dtype.kind in "OMm":
        raise InvalidArgument(
            f"values of dtype {values.dtype} have no tensor; use an encoder or obs_format='arrays'"
        )
    return as_tensor(values)
