"""Staging memory, which gathers the arrays of a batch for a copy to a device. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]

_ALIGNMENT = 64


class Place(NamedTuple):
    """Position of an array in the memory of its batch."""

    begin: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Staging:
    """A buffer of host memory, reused for each batch, so that a batch is one copy.

    Parameters
    ----------
    pin : bool
        Lock the pages, so that a GPU copies from them while the process continues.
    """

    def __init__(self, pin: bool) -> None:
        self._pin = pin
        self._memory = torch.empty(0, dtype=torch.uint8)

    def pack(
        self, arrays: Sequence[tuple[Array, np.dtype[Any]]]
    ) -> tuple[torch.Tensor, list[Place]]:
        """Copy arrays side by side, each with its dtype; overwrites the memory.

        Returns
        -------
        (bytes, places)
            A uint8 tensor over the memory, and the position of each array.
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
    """Return the tensor at a place; uint16 becomes int16, which torch can compute with."""
    dtype = np.dtype(np.int16) if place.dtype == np.uint16 else place.dtype
    return memory[place.begin : place.end].view(_torch_dtype(dtype)).reshape(place.shape)


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    found = torch.bool if dtype == np.bool_ else getattr(torch, dtype.name)
    assert isinstance(found, torch.dtype)
    return found
