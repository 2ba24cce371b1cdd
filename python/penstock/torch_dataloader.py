"""The DataLoader that `penstock.dataloader` makes. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from .dataset import Dataset
from .matrix_batches import as_tensor, csr_tensor


class EpochDataLoader(DataLoader[Any]):
    """Numbers the epochs in this process, so that `Dataset.set_epoch` never comes too late."""

    _ticket = 0
    _round = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self.num_workers == 0 or not isinstance(self.dataset, Dataset):
            return super().__iter__()
        epochs = self.dataset._epochs
        if self._ticket == 0 or not self.persistent_workers:
            self._ticket, self._round = epochs.draw_ticket(), 0
        self._round += 1
        epochs.begin_for_workers(self._ticket, self._round)
        try:
            return super().__iter__()  # workers start here, or go on
        finally:
            epochs.end_of_start()


def to_tensors(batch: Any) -> tuple[Any, Any]:
    """X and the numbers of obs as tensors that share memory; strings and dates as they are."""
    X, obs = batch
    if isinstance(obs, dict):
        obs = {name: _tensor_or_same(values) for name, values in obs.items()}
    if hasattr(X, "indptr"):
        return csr_tensor(X.indptr, X.indices, X.data, X.shape), obs
    return _tensor_or_same(X), obs


def _tensor_or_same(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return as_tensor(values)
    return values
