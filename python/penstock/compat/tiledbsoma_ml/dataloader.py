"""experiment_dataloader: a torch DataLoader over an ExperimentDataset."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from penstock.compat.block_loader import block_loader

_NOT_SUPPORTED = ("shuffle", "batch_size", "sampler", "batch_sampler")


def experiment_dataloader(ds: Any, **dataloader_kwargs: Any) -> DataLoader[Any]:
    """Return a torch DataLoader that yields the batches of an ExperimentDataset.

    Parameters
    ----------
    ds : ExperimentDataset
        The dataset, or a torch dataset that wraps one.
    **dataloader_kwargs
        Further arguments of the DataLoader.

    Raises
    ------
    InvalidArgument
        ``shuffle``, ``batch_size``, ``sampler`` or ``batch_sampler`` is given.
    """
    return block_loader(ds, _NOT_SUPPORTED, dataloader_kwargs)
