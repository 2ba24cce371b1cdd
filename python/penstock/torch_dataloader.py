"""The DataLoader that `penstock.dataloader` makes. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from .dataset import Dataset


class EpochDataLoader(DataLoader[Any]):
    """Advances the epoch in this process when the copies that iterate are in others."""

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        batches = super().__iter__()  # workers get their copies here
        if self.num_workers > 0 and isinstance(self.dataset, Dataset):
            self.dataset.set_epoch(self.dataset.epoch + 1)
        return batches


def to_tensors(batch: Any) -> tuple[Any, Any]:
    """X and the numbers of obs as tensors that share memory; strings and dates as they are."""
    X, obs = batch
    if isinstance(obs, dict):
        obs = {name: _tensor_or_same(values) for name, values in obs.items()}
    if hasattr(X, "indptr"):
        indptr, indices, data = map(torch.from_numpy, (X.indptr, X.indices, X.data))
        return torch.sparse_csr_tensor(
            indptr, indices, data, size=X.shape, check_invariants=False
        ), obs
    return _tensor_or_same(X), obs


def _tensor_or_same(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return torch.from_numpy(values)
    return values
