"""Batches as tensors. Imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock.errors import InvalidArgument

from .batch import Batch, BatchObs
from .matrix import Tokens, as_tensor, coo_tensor, csr_tensor


def to_tensors(batch: Any) -> Batch:
    """Convert X and numbers of obs to tensors that share memory; leave strings and dates."""
    X, obs = batch
    if isinstance(obs, dict):
        obs = BatchObs({name: _tensor_or_same(values) for name, values in obs.items()})
    if isinstance(X, Tokens):
        return Batch((Tokens(*map(_tensor_or_same, X)), obs))
    if hasattr(X, "indptr"):
        return Batch((csr_tensor(X.indptr, X.indices, X.data, X.shape), obs))
    if hasattr(X, "coords"):  # a scipy coo_matrix of this package, whose rows ascend
        counts = np.bincount(X.row, minlength=X.shape[0])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return Batch((coo_tensor(indptr, X.col, X.data, X.shape), obs))
    if isinstance(X, torch.Tensor) and X.device.type != "cpu" and isinstance(obs, dict):
        obs = BatchObs({name: _on_device(values, X.device) for name, values in obs.items()})
    return Batch((_tensor_or_same(X), obs))


def collated(batches: list[Batch]) -> Batch:
    """Return the batch that a plain DataLoader has collected, as `penstock.dataloader` gives it.

    torch's default_collate calls it, with one batch for each of the DataLoader's `batch_size`.

    Raises
    ------
    InvalidArgument
        There are several batches: the DataLoader's `batch_size` is not 1 or None.
    """
    if len(batches) > 1:
        raise InvalidArgument(
            "a Dataset makes the batches, and the DataLoader has collected several of them: give "
            "batch_size to the Dataset, and use penstock.dataloader(ds), or DataLoader(ds, "
            "batch_size=None)"
        )
    return to_tensors(batches[0])


def _tensor_or_same(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return as_tensor(values)
    return values


def _on_device(values: Any, device: torch.device) -> Any:
    return values.to(device) if isinstance(values, torch.Tensor) else values
