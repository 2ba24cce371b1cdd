"""Processes and devices of a run, and models to send to processes. Imports torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from penstock.base.text import plural
from penstock.base.validation import checked_int
from penstock.errors import InvalidArgument

from ..data.data_module import DataModule


def checked_devices(accelerator: str, devices: int | str) -> tuple[str, int]:
    """Return the accelerator, "cpu" or "gpu", and the number of processes.

    Raises
    ------
    InvalidArgument
        The accelerator does not exist, or there are fewer GPUs.
    """
    names = ("auto", "cpu", "gpu", "cuda")
    if accelerator not in names:
        raise InvalidArgument(f"accelerator must be one of {', '.join(names)}, got {accelerator!r}")
    if accelerator == "auto":
        accelerator = "gpu" if torch.cuda.is_available() else "cpu"
    gpus = torch.cuda.device_count()
    if accelerator != "cpu" and not gpus:
        raise InvalidArgument(f"accelerator={accelerator!r}, but torch finds no GPU")
    if devices == "auto":
        return accelerator, 1
    count = checked_int("devices", devices, least=-1)
    if count == 0:
        raise InvalidArgument("devices must be 1 or more, -1 for all, or 'auto', got 0")
    if count == -1:
        return accelerator, len(os.sched_getaffinity(0)) if accelerator == "cpu" else gpus
    if accelerator != "cpu" and count > gpus:
        raise InvalidArgument(f"devices={count}, but torch finds {plural(gpus, 'GPU')}")
    return accelerator, count


@contextlib.contextmanager
def detached(model: Any, data: DataModule) -> Iterator[None]:
    """Remove the trainers of an earlier run, which hold loaders."""
    model.__dict__.pop("trainer", None)
    data.trainer = None
    yield


@contextlib.contextmanager
def on_cpu(model: Any) -> Iterator[None]:
    """Keep the model on the CPU, to be sent to processes; then move it back."""
    device = model.device
    model.to_device("cpu")
    try:
        yield
    finally:
        model.to_device(device)
