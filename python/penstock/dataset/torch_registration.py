"""Tell torch what a Dataset and its batches are, without importing torch."""

from __future__ import annotations

import sys
from typing import Any

from penstock.batches.batch import Batch


def register_with_torch(dataset_class: type) -> None:
    """Make a Dataset an IterableDataset, and its batches known to a plain DataLoader.

    Does nothing before torch is imported. A plain DataLoader then gives a batch as it is, in place
    of a stack of one batch.
    """
    data: Any = sys.modules.get("torch.utils.data")
    iterable = getattr(data, "IterableDataset", None)
    if iterable is None or issubclass(dataset_class, iterable):
        return
    iterable.register(dataset_class)
    # torch's way to extend default_collate: https://docs.pytorch.org/docs/stable/data.html
    data._utils.collate.default_collate_fn_map[Batch] = _collated  # noqa: SLF001


def _collated(batches: list[Batch], *, collate_fn_map: Any = None) -> Batch:
    from penstock.batches.tensors import collated

    return collated(batches)
