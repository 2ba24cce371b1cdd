"""How work on a device is queued beside the training step. Imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch


class DeviceLane(Protocol):
    """Where copies to a device run.

    Attributes
    ----------
    pins_memory : bool
        Whether copies want page-locked memory to run by themselves.
    runs_beside : bool
        Whether what is queued here runs while the caller goes on, so that it pays to be ahead.
    """

    pins_memory: bool
    runs_beside: bool

    def queue(self) -> AbstractContextManager[Any]:
        """Work that torch is given within runs here."""

    def mark(self) -> Any:
        """A point in the work queued so far."""

    def wait(self, mark: Any) -> None:
        """Block until the work before a mark is done."""

    def hand_over(self, mark: Any, tensors: Iterable[torch.Tensor]) -> None:
        """Let the caller's own work use tensors, once the work before the mark is done.

        Their memory is not used again before the caller's work is done with them.
        """


class BlockingLane:
    """The caller's own: everything is done when it has been asked for (the CPU, and others)."""

    pins_memory = False
    runs_beside = False

    def queue(self) -> AbstractContextManager[Any]:
        """Nothing to switch to."""
        return nullcontext()

    def mark(self) -> None:
        """Nothing runs beside."""

    def wait(self, mark: None) -> None:
        """Nothing to wait for."""

    def hand_over(self, mark: None, tensors: Iterable[torch.Tensor]) -> None:
        """They are the caller's."""


class CudaLane:
    """A CUDA stream beside the one that the model computes on."""

    pins_memory = True
    runs_beside = True

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def queue(self) -> AbstractContextManager[Any]:
        """Make the stream the current one."""
        return torch.cuda.stream(self._stream)

    def mark(self) -> torch.cuda.Event:
        """Record an event on the stream."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        """Block the process, not the device."""
        mark.synchronize()

    def hand_over(self, mark: torch.cuda.Event, tensors: Iterable[torch.Tensor]) -> None:
        """Make the current stream wait; tell the allocator that it uses the tensors, too."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(mark)
        for tensor in tensors:
            tensor.record_stream(current)


def lane_of(device: torch.device) -> DeviceLane:
    """Make the lane for a device."""
    return CudaLane(device) if device.type == "cuda" else BlockingLane()
