"""Host memory that the arrays of a batch are gathered in on their way to a device. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]

_ALIGNMENT = 64


class Place(NamedTuple):
    """Where an array is in the memory of its batch."""

    begin: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Staging:
    """One piece of host memory, so that a batch is one copy; used again for batch after batch.

    Parameters
    ----------
    pin : bool
        Lock the pages, which lets a GPU copy from them while the process continues.
    """

    def __init__(self, pin: bool) -> None:
        self._pin = pin
        self._memory = torch.empty(0, dtype=torch.uint8)

    def pack(
        self, arrays: Sequence[tuple[Array, np.dtype[Any]]]
    ) -> tuple[torch.Tensor, list[Place]]:
        """Copy arrays side by side, each as the dtype beside it; the memory is overwritten.

        Returns
        -------
        (bytes, places)
            A uint8 tensor over the memory, and where in it each array is.
        """
        places: list[Place] = []
        begin = 0
        for array, dtype in arrays:
            end = begin + array.size * dtype.itemsize
            places.append(Place(begin, end, dtype, array.shape))
            begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        if begin > len(self._memory):
            self._memory = torch.empty(begin + begin // 4, dtype=torch.uint8, pin_memory=self._pin)
        host = self._memory.numpy()
        for (array, _), place in zip(arrays, places, strict=True):
            there = host[place.begin : place.end].view(place.dtype).reshape(place.shape)
            np.copyto(there, array, casting="unsafe")
        return self._memory[:begin], places


def unpacked(memory: torch.Tensor, place: Place) -> torch.Tensor:
    """The tensor at a place; 16-bit unsigned ones come as int16, which torch can compute with."""
    dtype = np.dtype(np.int16) if place.dtype == np.uint16 else place.dtype
    return memory[place.begin : place.end].view(_torch_dtype(dtype)).reshape(place.shape)


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    found = torch.bool if dtype == np.bool_ else getattr(torch, dtype.name)
    assert isinstance(found, torch.dtype)
    return found
