"""The DataLoader of both loaders."""

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
    """Make a DataLoader that hands over batches as they come.

    Over a dataset of torch's that was made from one of ours it is a plain one.

    Raises
    ------
    InvalidArgument
        An argument that the dataset has in its stead; ``in_order=False``.
    """
    refused = [name for name in not_supported if name in arguments]
    if refused:
        raise InvalidArgument(
            f"{', '.join(refused)} of the DataLoader are not supported: the dataset makes the "
            "batches and their order"
        )
    of_ours = isinstance(dataset, BlockEpochs)
    if of_ours:
        check_in_order(arguments)
    loader: type[DataLoader[Any]] = EpochDataLoader if of_ours else DataLoader
    return loader(dataset, **{"collate_fn": same, **arguments}, batch_size=None, shuffle=False)


def same(batch: Any) -> Any:
    """Leave a batch as it is; picklable, for workers that are spawned."""
    return batch
