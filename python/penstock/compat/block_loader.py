"""The DataLoader of both `compat` loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader

from penstock.errors import InvalidArgument
from penstock.pytorch.dataloader import check_in_order
from penstock.pytorch.epoch_dataloader import EpochDataLoader

from .block_dataset import BlockEpochs


def block_loader(
    dataset: Any, not_supported: Sequence[str], arguments: Mapping[str, Any]
) -> DataLoader[Any]:
    """Return a DataLoader that yields batches as the dataset makes them.

    For a torch dataset that wraps such a dataset, it is a plain DataLoader.

    Raises
    ------
    InvalidArgument
        An argument belongs to the dataset instead, or ``in_order=False``.
    """
    refused = [name for name in not_supported if name in arguments]
    if refused:
        raise InvalidArgument(
            f"a DataLoader here takes no {', '.join(refused)}: the dataset makes the batches and their "
            "order"
        )
    of_ours = isinstance(dataset, BlockEpochs)
    if of_ours:
        check_in_order(arguments)
    loader: type[DataLoader[Any]] = EpochDataLoader if of_ours else DataLoader
    return loader(dataset, **{"collate_fn": same, **arguments}, batch_size=None, shuffle=False)


def same(batch: Any) -> Any:
    """Return the batch; picklable, for spawned workers."""
    return batch
