"""Copies batches to a device and tells how long that took."""

from __future__ import annotations

import time
from typing import Any


class DeviceCopy:
    """Call it with X; does nothing without a device. `seconds` adds up until it is set again."""

    def __init__(self, device: str | None) -> None:
        self.seconds = 0.0
        self._device: Any = None
        if device is not None:
            import torch

            self._torch = torch
            self._device = torch.device(device)
            if self._device.type == "cuda":
                if not torch.cuda.is_available():
                    raise RuntimeError(
                        f"batches cannot be copied to {device!r}, since torch finds no CUDA GPU here: "
                        "leave the device out, or name another, such as 'cpu'"
                    )
                torch.cuda.synchronize()  # so that the first copy is one

    def __call__(self, x: Any) -> Any:
        """X on the device, the copy finished."""
        if self._device is None:
            return x
        begin = time.perf_counter()
        if not isinstance(x, self._torch.Tensor):
            x = self._tensor(x)
        x = x.to(self._device)
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)
        self.seconds += time.perf_counter() - begin
        return x

    def _tensor(self, x: Any) -> Any:
        if hasattr(x, "indptr"):
            indptr, indices, data = map(self._torch.from_numpy, (x.indptr, x.indices, x.data))
            return self._torch.sparse_csr_tensor(indptr, indices, data, x.shape)
        return self._torch.from_numpy(x)
