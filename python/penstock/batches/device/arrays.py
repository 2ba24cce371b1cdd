"""X of a batch as it travels to a device, and as it is made there. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from penstock import _core
from penstock.batches.matrix import Tokens

from .matrix import place_matrix, widened

if TYPE_CHECKING:
    from penstock.transforms.chain import Chain

Array = npt.NDArray[Any]
#: X on the device, and the tensors whose memory it is.
Placed = tuple[Any, list[torch.Tensor]]


class CsrArrays(NamedTuple):
    """X as the engine makes it; values are uint16 where all of a batch fit."""

    indptr: Array
    indices: Array
    values: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, batch: _core.Batch) -> CsrArrays:
        """Those of a batch, over its memory."""
        return cls(*batch.csr(), (batch.rows, batch.columns))

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Arrays to copy, and as which dtypes: gene numbers as 16 bits where these hold them."""
        indices = np.dtype(np.uint16) if self.shape[1] <= 2**16 else self.indices.dtype
        return [
            (self.indptr, self.indptr.dtype),
            (self.indices, indices),
            (self.values, self.values.dtype),
        ]

    def place(self, arrived: list[torch.Tensor], layout: str | None, dtype: torch.dtype) -> Placed:
        """X from what has arrived; 16-bit numbers have come as int16."""
        indptr, columns, values = arrived
        if self.shape[1] <= 2**16:
            columns = widened(columns)
        if self.values.dtype == np.uint16:
            values = widened(values)
        is_coalesced = layout == "coo" and self._ascends()
        return place_matrix(layout, indptr, columns, values, self.shape, dtype, is_coalesced)

    def _ascends(self) -> bool:
        """Whether columns ascend within each row, none twice."""
        ascends = self.indices[1:] > self.indices[:-1]
        starts = self.indptr[1:-1]
        ascends[starts[(starts > 0) & (starts < len(self.indices))] - 1] = True
        return bool(ascends.all())


class DenseArrays(NamedTuple):
    """X whose zeros are values: whole rows travel."""

    values: Array

    @classmethod
    def of(cls, batch: _core.Batch) -> DenseArrays:
        """That of a batch, over its memory."""
        return cls(batch.dense())

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Array to copy, as it is."""
        return [(self.values, self.values.dtype)]

    def place(self, arrived: list[torch.Tensor], layout: str | None, dtype: torch.dtype) -> Placed:
        """X from what has arrived."""
        X = arrived[0].to(dtype)
        return X, [X]


class TokenArrays(NamedTuple):
    """X of `RankTokens`."""

    ids: Array
    lengths: Array

    @classmethod
    def of(cls, batch: _core.Batch) -> TokenArrays:
        """Those of a batch, over its memory."""
        return cls(batch.dense(), batch.lengths())

    @property
    def values(self) -> Array:
        """None that are rounded."""
        return np.empty(0, np.float32)

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Arrays to copy, as they are."""
        return [(self.ids, self.ids.dtype), (self.lengths, self.lengths.dtype)]

    def place(self, arrived: list[torch.Tensor], layout: str | None, dtype: torch.dtype) -> Placed:
        """Tokens from what has arrived."""
        return Tokens(*arrived), arrived


TravellingArrays = CsrArrays | DenseArrays | TokenArrays


def arrays_of(chain: Chain | None) -> Callable[[_core.Batch], TravellingArrays]:
    """Return what takes from a batch what travels, by what transforms make of it."""
    if chain is not None and chain.max_tokens is not None:
        return TokenArrays.of
    return DenseArrays.of if chain is not None and chain.is_centred else CsrArrays.of
