"""Batches on their way to a device. Imports torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .. import _core
from ..errors import InvalidArgument
from ..loader_settings import LoaderSettings
from .lane import DeviceLane, lane_of
from .matrix import place_matrix, widened
from .staging import Place, Staging, unpacked

Array = npt.NDArray[Any]

_FLOAT16_MOST = 65504.0


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


class SentBatch(NamedTuple):
    """A batch whose copy is queued."""

    X: torch.Tensor
    obs: Any
    tensors: list[torch.Tensor]  # all whose memory it is
    mark: Any  # where its work ends


class DeviceCopier:
    """Sends batches narrow and sparse, and has the device widen them and make them dense.

    Two pieces of page-locked memory take turns: one is filled while the device copies from the
    other, and none is filled again before its copy is done.

    Parameters
    ----------
    settings : LoaderSettings
        With `device`, `sparse` and `dtype` of X.
    lane : DeviceLane, optional
        Where copies run; the device's own by default.
    """

    def __init__(self, settings: LoaderSettings, lane: DeviceLane | None = None) -> None:
        self._device = torch.device(settings.device or "cpu")
        self._layout = settings.sparse
        self._dtype: torch.dtype = getattr(torch, settings.dtype)
        self.lane = lane_of(self._device) if lane is None else lane
        self._staging = [Staging(self.lane.pins_memory) for _ in range(2)]
        self._copied: list[Any] = [None, None]
        self._turn = 0

    def send(self, X: CsrArrays, obs: Any) -> SentBatch:
        """Queue the copy of a batch, and of the tensors of a dict obs.

        Raises
        ------
        InvalidArgument
            A value does not fit float16.
        """
        if self._dtype == torch.float16:
            _check_float16(X.values)
        moved = _tensors_of(obs)
        arrays = [X.indptr, X.indices, X.values, *moved.values()]
        dtypes = [each.dtype for each in arrays]
        if X.shape[1] <= 2**16:
            dtypes[1] = np.dtype(np.uint16)
        turn, self._turn = self._turn, 1 - self._turn
        if self._copied[turn] is not None:
            self.lane.wait(self._copied[turn])
        memory, places = self._staging[turn].pack(arrays, dtypes)
        with self.lane.queue():
            there = torch.empty(len(memory), dtype=torch.uint8, device=self._device)
            there.copy_(memory, non_blocking=True)
            self._copied[turn] = self.lane.mark()
            matrix, tensors = self._matrix(there, places, X)
            # Copies, since labels that are kept would keep all of the batch's bytes.
            placed = {
                name: unpacked(there, place).clone()
                for name, place in zip(moved, places[3:], strict=True)
            }
            mark = self.lane.mark()
        tensors += placed.values()
        return SentBatch(matrix, {**obs, **placed} if placed else obs, tensors, mark)

    def _matrix(
        self, there: torch.Tensor, places: list[Place], X: CsrArrays
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        indptr, columns, values = (unpacked(there, place) for place in places[:3])
        if places[1].dtype == np.uint16:
            columns = widened(columns)
        if places[2].dtype == np.uint16:
            values = widened(values)
        is_coalesced = self._layout == "coo" and _ascends(X)
        return place_matrix(
            self._layout, indptr, columns, values, X.shape, self._dtype, is_coalesced
        )

    def receive(self, sent: SentBatch) -> tuple[torch.Tensor, Any]:
        """(X, obs) of a batch that was sent, for what the caller queues from now on."""
        self.lane.hand_over(sent.mark, sent.tensors)
        return sent.X, sent.obs


def _tensors_of(obs: Any) -> dict[str, Array]:
    if not isinstance(obs, dict):
        return {}
    return {
        name: values.numpy() for name, values in obs.items() if isinstance(values, torch.Tensor)
    }


def _ascends(X: CsrArrays) -> bool:
    """Whether columns ascend within each row, none twice."""
    ascends = X.indices[1:] > X.indices[:-1]
    starts = X.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < len(X.indices))] - 1] = True
    return bool(ascends.all())


def _check_float16(values: Array) -> None:
    extremes = values.min(initial=0), values.max(initial=0)
    for value in map(float, extremes):
        if _FLOAT16_MOST < abs(value) < np.inf:
            raise InvalidArgument(
                f"a value does not fit float16, whose largest is 65504: {value}; use bfloat16 or "
                "float32"
            )
