"""Streams that queue work on a device beside the training step. Imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch


class DeviceStream(Protocol):
    """Stream for copies to a device.

    Attributes
    ----------
    pins_memory : bool
        Whether copies need page-locked memory to run asynchronously.
    runs_beside : bool
        Whether queued work runs while the caller continues.
    """

    pins_memory: bool
    runs_beside: bool

    def queue(self) -> AbstractContextManager[Any]:
        """Return a context in which torch queues work on this stream."""

    def mark(self) -> Any:
        """Return a mark after the work that is queued so far."""

    def wait(self, mark: Any) -> None:
        """Block until the work before a mark is complete."""

    def hand_over(self, mark: Any, tensors: Iterable[torch.Tensor]) -> None:
        """Let the caller's work use tensors after the work before the mark.

        Their memory is not reused before that work is complete.
        """


class BlockingStream:
    """Synchronous work, without a stream of its own (CPU and others)."""

    pins_memory = False
    runs_beside = False

    def queue(self) -> AbstractContextManager[Any]:
        """Return an empty context."""
        return nullcontext()

    def mark(self) -> None:
        """Return None, since work is already complete."""

    def wait(self, mark: None) -> None:
        """Return at once."""

    def hand_over(self, mark: None, tensors: Iterable[torch.Tensor]) -> None:
        """Do nothing."""


class CudaStreams:
    """Streams and events of torch.cuda, which every supported torch has."""

    @staticmethod
    def stream(device: torch.device) -> Any:
        """Return a new stream."""
        return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @staticmethod
    def event(device: torch.device) -> Any:
        """Return a new event."""
        return torch.cuda.Event()  # type: ignore[no-untyped-call]

    @staticmethod
    def as_current(stream: Any) -> AbstractContextManager[Any]:
        """Return a context that makes the stream current."""
        return torch.cuda.stream(stream)

    @staticmethod
    def current(device: torch.device) -> Any:
        """Return the current stream."""
        return torch.cuda.current_stream(device)


class AcceleratorStreams:
    """Streams and events of any accelerator (torch 2.7 and later)."""

    @staticmethod
    def stream(device: torch.device) -> Any:
        """Return a new stream."""
        return torch.Stream(device)

    @staticmethod
    def event(device: torch.device) -> Any:
        """Return a new event."""
        return torch.Event(device.type)

    @staticmethod
    def as_current(stream: Any) -> AbstractContextManager[Any]:
        """Return a context that makes the stream current."""
        found: AbstractContextManager[Any] = stream
        return found

    @staticmethod
    def current(device: torch.device) -> Any:
        """Return the current stream."""
        return torch.accelerator.current_stream(device)


Streams = type[CudaStreams] | type[AcceleratorStreams]


class SideStream:
    """A stream of a device besides the one of the model."""

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
        """Block the process, but not the device."""
        mark.synchronize()

    def hand_over(self, mark: Any, tensors: Iterable[torch.Tensor]) -> None:
        """Make the current stream wait, and tell the allocator that it uses the tensors."""
        current = self._streams.current(self._device)
        current.wait_event(mark)
        for tensor in tensors:
            tensor.record_stream(current)


def streams_of(device: torch.device) -> Streams | None:
    """Return the class for streams of a device; None if torch has no parallel streams for it."""
    if device.type == "cuda":
        return CudaStreams
    accelerator = getattr(torch, "accelerator", None)
    # A stream is a context from torch 2.7 on; Apple's GPU has one stream.
    if accelerator is None or not hasattr(torch.Stream, "__enter__") or device.type == "mps":
        return None
    found = accelerator.current_accelerator()
    return AcceleratorStreams if found is not None and found.type == device.type else None


def stream_of(device: torch.device) -> DeviceStream:
    """Return the stream for a device."""
    streams = streams_of(device)
    return BlockingStream() if streams is None else SideStream(device, streams)
