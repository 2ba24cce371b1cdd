"""Copy batches to a device. Imports torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from penstock.batches.batch import BatchObs
from penstock.errors import InvalidArgument
from penstock.plan.settings import LoaderSettings

from .arrays import SentX
from .staging import Staging, unpacked
from .stream import DeviceStream, stream_of

Array = npt.NDArray[Any]

_FLOAT16_MOST = 65504.0


class SentBatch(NamedTuple):
    """A batch whose copy is queued."""

    X: Any  # a tensor, Tokens, or a dict of such
    obs: Any
    tensors: list[torch.Tensor]  # the tensors that own the memory
    mark: Any  # end of the queued work


class DeviceCopier:
    """Copies batches narrow and sparse; the device widens them and makes them dense.

    Two buffers of page-locked memory alternate: one is filled while the device copies from the
    other. A buffer is not reused before its copy is complete.

    Parameters
    ----------
    settings : LoaderSettings
        Settings; `device` is used.
    stream : DeviceStream, optional
        Stream for copies. By default a new stream of the device.
    """

    def __init__(self, settings: LoaderSettings, stream: DeviceStream | None = None) -> None:
        self._device = torch.device(settings.device or "cpu")
        self.stream = stream_of(self._device) if stream is None else stream
        self._staging = [Staging(self.stream.pins_memory) for _ in range(2)]
        self._copied: list[Any] = [None, None]
        self._turn = 0

    def send(self, X: SentX, obs: Any) -> SentBatch:
        """Queue the copy of X, and of the tensors of `obs` if it is a dict.

        Raises
        ------
        InvalidArgument
            A value does not fit float16.
        """
        for arrays, target in X.parts.values():
            if target.dtype == torch.float16:
                _check_float16(arrays.values)
        moved = _tensors_of(obs)
        travelling = [*X.travelling(), *((each, each.dtype) for each in moved.values())]
        turn, self._turn = self._turn, 1 - self._turn
        if self._copied[turn] is not None:
            self.stream.wait(self._copied[turn])
        memory, places = self._staging[turn].pack(travelling)
        with self.stream.queue():
            there = torch.empty(len(memory), dtype=torch.uint8, device=self._device)
            there.copy_(memory, non_blocking=True)
            self._copied[turn] = self.stream.mark()
            arrived = [unpacked(there, place) for place in places]
            count = len(arrived) - len(moved)
            matrix, tensors = X.place(arrived[:count])
            # Cloned, since a label that the user keeps would keep the memory of the whole batch.
            placed = {
                name: values.clone() for name, values in zip(moved, arrived[count:], strict=True)
            }
            mark = self.stream.mark()
        tensors = [*tensors, *placed.values()]
        return SentBatch(matrix, BatchObs({**obs, **placed}) if placed else obs, tensors, mark)

    def receive(self, sent: SentBatch) -> tuple[Any, Any]:
        """Return (X, obs) of a sent batch, ready for work that the caller queues from now on."""
        self.stream.hand_over(sent.mark, sent.tensors)
        return sent.X, sent.obs


def _tensors_of(obs: Any) -> dict[str, Array]:
    if not isinstance(obs, dict):
        return {}
    return {
        name: values.numpy() for name, values in obs.items() if isinstance(values, torch.Tensor)
    }


def _check_float16(values: Array) -> None:
    extremes = values.min(initial=0), values.max(initial=0)
    for value in map(float, extremes):
        if _FLOAT16_MOST < abs(value) < np.inf:
            raise InvalidArgument(
                f"a value does not fit float16, whose largest is 65504: {value}; use bfloat16 or "
                "float32"
            )
