"""Checks of the torch device that batches are made on."""

from __future__ import annotations

from typing import Any

from penstock.base.missing_package import require
from penstock.base.validation import described
from penstock.errors import InvalidArgument

from .shard import in_worker


def checked_device(device: Any) -> str:
    """Return the name of a torch device, which must be usable. Imports torch.

    Raises
    ------
    InvalidArgument
        The device is not valid, torch cannot find or use it here, or it is "meta".
    """
    require("torch")
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise InvalidArgument(
            f"device must be a torch device such as 'cuda' or 'cuda:1', got {described(device)}"
        ) from None
    if found.type == "cuda":
        _check_cuda(str(found), found.index, torch.cuda)
    elif found.type == "meta":
        raise InvalidArgument(
            "device='meta' holds no numbers: leave device out, or name a real one"
        )
    elif found.type != "cpu":
        try:
            torch.zeros(1, dtype=torch.uint8).to(found)
        except Exception as error:  # the type depends on the backend
            raise InvalidArgument(
                f"device={str(found)!r} cannot be used by torch here: leave device out for batches "
                "in main memory, or install a torch that is built for it on a machine that has one "
                f"({type(error).__name__}: {str(error).splitlines()[0][:200]})"
            ) from None
    return str(found)


def _check_cuda(name: str, index: int | None, cuda: Any) -> None:
    if not cuda.is_available():
        raise InvalidArgument(
            f"device={name!r}, but torch finds no CUDA GPU here: leave device out for batches in "
            "main memory, or install a torch that is built for CUDA on a machine with a GPU"
        )
    if index is not None and index >= cuda.device_count():
        raise InvalidArgument(
            f"device={name!r}, but torch finds {cuda.device_count()} CUDA GPUs, numbered from 0"
        )


def check_no_workers(device: str | None, num_workers: int) -> None:
    """Refuse an accelerator with DataLoader workers.

    Raises
    ------
    InvalidArgument
        `device` is an accelerator and `num_workers` is not 0.
    """
    if num_workers and _is_accelerator(device):
        raise InvalidArgument(
            f"device={device!r} works in the training process only, got num_workers={num_workers}: use "
            "num_workers=0 (the engine has threads of its own), or leave device out"
        )


def check_main_process(device: str | None) -> None:
    """Refuse an accelerator in a DataLoader worker, before the device is used.

    Raises
    ------
    InvalidArgument
        `device` is an accelerator and this process is a worker.
    """
    if _is_accelerator(device) and in_worker():
        raise InvalidArgument(
            f"device={device!r} works in the training process only, but this is a DataLoader worker: "
            "use num_workers=0 (the engine has threads of its own); or leave device out, pass "
            "pin_memory=True to the DataLoader, and copy batches in the training loop"
        )


def _is_accelerator(device: str | None) -> bool:
    return device is not None and not device.startswith("cpu")
