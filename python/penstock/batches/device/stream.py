"""How work on a device is queued beside the training step. Imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch


class DeviceStream(Protocol):
    """Where copies to a device run.

    Attributes
    ----------
    pins_memory : bool
        Whether copies want page-locked memory to run by themselves.
    runs_beside : bool
        Whether what is queued here runs while the caller continues, so that it pays to be ahead.
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


class CudaStreams:
    """Streams and events of torch.cuda, which every torch that is supported has."""

    @staticmethod
    def stream(device: torch.device) -> Any:
        """A stream of its own."""
        return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @staticmethod
    def event(device: torch.device) -> Any:
        """An event that nothing has recorded."""
        return torch.cuda.Event()  # type: ignore[no-untyped-call]

    @staticmethod
    def as_current(stream: Any) -> AbstractContextManager[Any]:
        """What is queued within goes to the stream."""
        return torch.cuda.stream(stream)

    @staticmethod
    def current(device: torch.device) -> Any:
        """The caller's stream."""
        return torch.cuda.current_stream(device)


class AcceleratorStreams:
    """Those of any accelerator, by torch's names for all of them (torch 2.7 and later)."""

    @staticmethod
    def stream(device: torch.device) -> Any:
        """A stream of its own."""
        return torch.Stream(device)

    @staticmethod
    def event(device: torch.device) -> Any:
        """An event that nothing has recorded."""
        return torch.Event(device.type)

    @staticmethod
    def as_current(stream: Any) -> AbstractContextManager[Any]:
        """What is queued within goes to the stream."""
        found: AbstractContextManager[Any] = stream
        return found

    @staticmethod
    def current(device: torch.device) -> Any:
        """The caller's stream."""
        return torch.accelerator.current_stream(device)


Streams = type[CudaStreams] | type[AcceleratorStreams]


class StreamLane:
    """A stream of a device beside the one that the model computes on."""

    pins_memory = True
    runs_beside = True

    def __init__(self, device: torch.device, streams: Streams) -> None:
        self._device = device
        self._streams = streams
        self._stream = streams.stream(device)

    def queue(self) -> AbstractContextManager[Any]:
        """Make the stream the current one."""
        return self._streams.as_current(self._stream)

    def mark(self) -> Any:
        """Record an event on the stream."""
        event = self._streams.event(self._device)
        event.record(self._stream)
        return event

    def wait(self, mark: Any) -> None:
        """Block the process, not the device."""
        mark.synchronize()

    def hand_over(self, mark: Any, tensors: Iterable[torch.Tensor]) -> None:
        """Make the current stream wait; tell the allocator that it uses the tensors, too."""
        current = self._streams.current(self._device)
        current.wait_event(mark)
        for tensor in tensors:
            tensor.record_stream(current)


def streams_of(device: torch.device) -> Streams | None:
    """What makes streams on a device, or None where torch has none that run beside another."""
    if device.type == "cuda":
        return CudaStreams
    accelerator = getattr(torch, "accelerator", None)
    # A stream is a context from torch 2.7 on; Apple's GPU has one stream.
    if accelerator is None or not hasattr(torch.Stream, "__enter__") or device.type == "mps":
        return None
    found = accelerator.current_accelerator()
    return AcceleratorStreams if found is not None and found.type == device.type else None


def stream_of(device: torch.device) -> DeviceStream:
    """Make the lane for a device."""
    streams = streams_of(device)
    return BlockingLane() if streams is None else StreamLane(device, streams)
