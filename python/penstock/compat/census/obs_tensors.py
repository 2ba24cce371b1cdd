"""Tensors of obs for batches, made with the Census's encoders, which take DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from penstock.base.text import plural
from penstock.batches.matrix import as_tensor
from penstock.encoders import Encoder as DatasetEncoder
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import JOINID, DataFrame

from .encoders import Encoder, LabelEncoder

Array = npt.NDArray[Any]


class _LabelCodes(DatasetEncoder):
    """A fitted LabelEncoder as a Dataset's encoder; it looks up each distinct value once."""

    is_elementwise = True
    needs_fit = False

    def __init__(self, labels: LabelEncoder, name: str) -> None:
        super().__init__(labels.columns, name)
        self._labels = labels

    def transform(self, obs: Mapping[str, Array]) -> Array:
        # Distinct values include categories that no selected cell has; these get -1.
        return self._labels.codes(obs[self.columns[0]])


class ObsTensors:
    """Encodes obs of batches as tensors of shape (cells, encoders).

    Attributes
    ----------
    dataset_encoders : list of penstock.Encoder
        Encoders that the Dataset applies.
    dataset_columns : list of str
        Further columns from the Dataset, for the user's own encoders.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self._encoders = list(encoders)
        # A subclass may have changed the labels.
        self._names = [
            f"{position}:{encoder.name}" if type(encoder) is LabelEncoder else None
            for position, encoder in enumerate(self._encoders)
        ]
        self.dataset_encoders: list[DatasetEncoder] = [
            _LabelCodes(encoder, name)
            for encoder, name in zip(self._encoders, self._names, strict=True)
            if name is not None and isinstance(encoder, LabelEncoder)
        ]
        by_frame = [
            encoder
            for encoder, name in zip(self._encoders, self._names, strict=True)
            if name is None
        ]
        columns = [column for encoder in by_frame for column in encoder.columns]
        self.dataset_columns = list(dict.fromkeys([JOINID, *columns])) if by_frame else []

    def fit(self, obs: DataFrame) -> None:
        """Fit all encoders on the selected cells."""
        for encoder, name in zip(self._encoders, self._names, strict=True):
            # One column at a time if possible: joinids alone take 8 bytes a cell.
            if name is not None:
                encoder.fit(obs.to_pandas(columns=encoder.columns))
        if self.dataset_columns:
            frame = obs.to_pandas(columns=self.dataset_columns)
            for encoder, name in zip(self._encoders, self._names, strict=True):
                if name is None:
                    encoder.fit(frame)

    def tensor(self, obs: Any, cells: int) -> torch.Tensor:
        """Encode the obs of a batch, a DataFrame or dict of arrays, in a dtype for all columns."""
        if self.dataset_columns:
            frame = obs[self.dataset_columns].set_index(JOINID, drop=False)
        columns = [
            np.asarray(obs[name]) if name is not None else _transformed(encoder, frame)
            for encoder, name in zip(self._encoders, self._names, strict=True)
        ]
        if not columns:
            return torch.empty((cells, 0), dtype=torch.int64)
        return torch.from_numpy(np.stack(columns, axis=1))


def _transformed(encoder: Encoder, frame: Any) -> Array:
    encoded = np.asarray(encoder.transform(frame))
    if encoded.shape not in ((len(frame),), (len(frame), 1)):
        raise InvalidArgument(
            f"an encoder must give one number a row, {encoder.name!r} gave shape {encoded.shape} "
            f"for {plural(len(frame), 'row')}"
        )
    return encoded.reshape(len(frame))


def coo_tensor(matrix: Any) -> torch.Tensor:
    """Return a sparse COO tensor that shares the values of a csr_matrix."""
    coo = matrix.tocoo(copy=False)
    indices = torch.from_numpy(np.array([coo.row, coo.col], np.int64))
    return torch.sparse_coo_tensor(
        indices, as_tensor(coo.data), size=coo.shape, check_invariants=False
    )
