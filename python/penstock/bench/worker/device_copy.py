"""Timed copies of batches to a device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class DeviceCopy:
    """Copy X when called, if there is a device; `seconds` sums the times until it is reset."""

    def __init__(self, device: str | None) -> None:
        self.seconds = 0.0
        self._device: Any = None
        if device is not None:
            import torch

            self._torch = torch
            self._device = torch.device(device)
            self._wait = _waiting(torch, self._device)
            self._wait()  # so that the first copy is only a copy

    def __call__(self, x: Any) -> Any:
        """Return X on the device, when the copy is finished."""
        if self._device is None:
            return x
        begin = time.perf_counter()
        if not isinstance(x, self._torch.Tensor):
            x = self._tensor(x)
        x = x.to(self._device)
        self._wait()
        self.seconds += time.perf_counter() - begin
        return x

    def _tensor(self, x: Any) -> Any:
        if hasattr(x, "indptr"):
            indptr, indices, data = map(self._torch.from_numpy, (x.indptr, x.indices, x.data))
            return self._torch.sparse_csr_tensor(indptr, indices, data, x.shape)
        return self._torch.from_numpy(x)


def _waiting(torch: Any, device: Any) -> Callable[[], object]:
    """Return a function that waits for the device, because copies may be asynchronous.

    Raises
    ------
    RuntimeError
        torch finds no such device, or cannot wait for it.
    """
    if device.type == "cpu":
        return lambda: None
    instead = "leave the device out, or name another, such as 'cpu'"
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(
                f"batches cannot be copied to {str(device)!r}, since torch finds no CUDA GPU here: {instead}"
            )
        return lambda: torch.cuda.synchronize(device)
    if not hasattr(torch, "accelerator"):
        raise RuntimeError(
            f"copies to {str(device)!r} cannot be timed by torch {torch.__version__}, but from 2.6 on: {instead}"
        )
    here = torch.accelerator.current_accelerator()
    if here is None or here.type != device.type or not torch.accelerator.is_available():
        raise RuntimeError(
            f"batches cannot be copied to {str(device)!r}, since torch finds no such device here: {instead}"
        )
    return lambda: torch.accelerator.synchronize(device)
