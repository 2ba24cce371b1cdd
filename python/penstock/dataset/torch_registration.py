"""Make a Dataset an IterableDataset for DataLoader, without importing torch."""

from __future__ import annotations

import sys
from typing import Any


def register_with_torch(dataset_class: type) -> None:
    """Make ``isinstance(dataset, IterableDataset)`` true if torch is imported."""
    data: Any = sys.modules.get("torch.utils.data")
    iterable = getattr(data, "IterableDataset", None)
    if iterable is not None and not issubclass(dataset_class, iterable):
        iterable.register(dataset_class)
