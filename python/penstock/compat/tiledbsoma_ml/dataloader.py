"""experiment_dataloader: a torch DataLoader over an ExperimentDataset."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from penstock.compat.block_loader import block_loader

_NOT_SUPPORTED = ("shuffle", "batch_size", "sampler", "batch_sampler")


def experiment_dataloader(ds: Any, **dataloader_kwargs: Any) -> DataLoader[Any]:
    """Make a torch DataLoader of an ExperimentDataset; batches come as the dataset makes them.

    Parameters
    ----------
    ds : ExperimentDataset
        Or a dataset of torch's that was made from one.
    **dataloader_kwargs
        Of the DataLoader.

    Raises
    ------
    InvalidArgument
        ``shuffle``, ``batch_size``, ``sampler`` or ``batch_sampler`` is given.
    """
    return block_loader(ds, _NOT_SUPPORTED, dataloader_kwargs)
