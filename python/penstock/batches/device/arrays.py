"""Arrays of X to copy to a device, and X made of them there. Imports torch."""

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
    from penstock.plan.x_array import XArray, XArrays
    from penstock.transforms.chain import Chain

Array = npt.NDArray[Any]
#: X on the device, and the tensors that own its memory.
Placed = tuple[Any, list[torch.Tensor]]


class CsrArrays(NamedTuple):
    """X as CSR; values are uint16 if all values of the batch fit."""

    indptr: Array
    indices: Array
    values: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, batch: _core.Batch) -> CsrArrays:
        """Return the arrays of a batch, over its memory."""
        return cls(*batch.csr(), (batch.rows, batch.columns))

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Return the arrays to copy and their dtypes: gene numbers in 16 bits if they fit."""
        indices = np.dtype(np.uint16) if self.shape[1] <= 2**16 else self.indices.dtype
        return [
            (self.indptr, self.indptr.dtype),
            (self.indices, indices),
            (self.values, self.values.dtype),
        ]

    def place(self, arrived: list[torch.Tensor], layout: str | None, dtype: torch.dtype) -> Placed:
        """Make X from the copied tensors; 16-bit numbers are int16 there."""
        indptr, columns, values = arrived
        if self.shape[1] <= 2**16:
            columns = widened(columns)
        if self.values.dtype == np.uint16:
            values = widened(values)
        is_coalesced = layout == "coo" and self._ascends()
        return place_matrix(layout, indptr, columns, values, self.shape, dtype, is_coalesced)

    def _ascends(self) -> bool:
        """Whether columns ascend strictly within each row."""
        ascends = self.indices[1:] > self.indices[:-1]
        starts = self.indptr[1:-1]
        ascends[starts[(starts > 0) & (starts < len(self.indices))] - 1] = True
        return bool(ascends.all())


class DenseArrays(NamedTuple):
    """Dense X, whose zeros are values."""

    values: Array

    @classmethod
    def of(cls, batch: _core.Batch) -> DenseArrays:
        """Return the array of a batch, over its memory."""
        return cls(batch.dense())

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Return the array to copy, and its dtype."""
        return [(self.values, self.values.dtype)]

    def place(self, arrived: list[torch.Tensor], layout: str | None, dtype: torch.dtype) -> Placed:
        """Make X from the copied tensor."""
        X = arrived[0].to(dtype)
        return X, [X]


class TokenArrays(NamedTuple):
    """X with `RankTokens`."""

    ids: Array
    lengths: Array

    @classmethod
    def of(cls, batch: _core.Batch) -> TokenArrays:
        """Return the arrays of a batch, over its memory."""
        return cls(batch.dense(), batch.lengths())

    @property
    def values(self) -> Array:
        """Empty, since no values are rounded."""
        return np.empty(0, np.float32)

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Return the arrays to copy, and their dtypes."""
        return [(self.ids, self.ids.dtype), (self.lengths, self.lengths.dtype)]

    def place(self, arrived: list[torch.Tensor], layout: str | None, dtype: torch.dtype) -> Placed:
        """Make `Tokens` from the copied tensors."""
        return Tokens(*arrived), arrived


TravellingArrays = CsrArrays | DenseArrays | TokenArrays


class Target(NamedTuple):
    """Layout and dtype of an array of X on the device."""

    layout: str | None
    dtype: torch.dtype

    @classmethod
    def of(cls, array: XArray) -> Target:
        """Return those of an array."""
        return cls(array.sparse, getattr(torch, array.dtype))


class SentX(NamedTuple):
    """Arrays of X to copy, one or by measurement, and what becomes of each."""

    parts: dict[str | None, tuple[TravellingArrays, Target]]

    def travelling(self) -> list[tuple[Array, np.dtype[Any]]]:
        """Return the arrays to copy, and their dtypes."""
        return [each for arrays, _ in self.parts.values() for each in arrays.travelling()]

    def place(self, arrived: list[torch.Tensor]) -> Placed:
        """Make X from the copied tensors: an array, or a dict of arrays."""
        placed, tensors, begin = {}, [], 0
        for name, (arrays, target) in self.parts.items():
            end = begin + len(arrays.travelling())
            placed[name], own = arrays.place(arrived[begin:end], *target)
            tensors += own
            begin = end
        return placed.get(None, placed), tensors


def arrays_of(arrays: XArrays) -> Callable[[_core.Batch], SentX]:
    """Return a function that gets the arrays to copy from a batch."""
    if isinstance(arrays, dict):
        takers = {name: (_taker(each.chain), Target.of(each)) for name, each in arrays.items()}
        return lambda batch: SentX(
            {
                name: (take(batch.part(i)), target)
                for i, (name, (take, target)) in enumerate(takers.items())
            }
        )
    take, target = _taker(arrays.chain), Target.of(arrays)
    return lambda batch: SentX({None: (take(batch), target)})


def _taker(chain: Chain | None) -> Callable[[_core.Batch], TravellingArrays]:
    if chain is not None and chain.max_tokens is not None:
        return TokenArrays.of
    return DenseArrays.of if chain is not None and chain.is_centred else CsrArrays.of
