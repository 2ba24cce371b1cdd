"""PyTorch without importing it: DataLoader takes a Dataset for an IterableDataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import require
from penstock.base.validation import checked_int, described
from penstock.errors import InvalidArgument
from penstock.plan.device import check_no_workers

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset

#: Arguments of DataLoader that the Dataset has in its stead.
_OURS = {
    "batch_size": "batch_size of the Dataset",
    "shuffle": "shuffle of the Dataset",
    "sampler": "obs_query of the Dataset",
    "batch_sampler": "batch_size and shuffle of the Dataset",
    "drop_last": "drop_last of the Dataset",
    "collate_fn": "format and obs_format of the Dataset",
}


def check_in_order(arguments: Mapping[str, Any]) -> None:
    """Refuse ``in_order=False``: which worker's batches were taken could not be told from their number.

    Raises
    ------
    InvalidArgument
        It is given.
    """
    if not arguments.get("in_order", True):
        raise InvalidArgument(
            "in_order=False gives batches in the order that workers happen to make them, so that no "
            "seed gives the same order again and no state can resume at a batch: leave it out"
        )


def dataloader(dataset: Dataset, **arguments: Any) -> Any:
    """Make a torch DataLoader with the right arguments.

    Parameters
    ----------
    dataset : Dataset
        Its batches come as tensors whatever its `format`; obs values that have no tensor (strings,
        dates) stay as they are.
    **arguments
        Passed on: ``num_workers``, ``pin_memory``, ``prefetch_factor``, … The engine has threads of
        its own, so that ``num_workers=0``, the default, is the fastest as a rule. Of a selection of
        few fetch units fewer workers have batches: as many as get eight units each.

    Returns
    -------
    torch.utils.data.DataLoader
        Each ``for`` over it is the next epoch, and `Dataset.set_epoch` sets it, with worker
        processes too.

    Raises
    ------
    InvalidArgument
        An argument that the Dataset has in its stead, such as ``batch_size``; ``in_order=False``.
    """
    from penstock.dataset.dataset import Dataset

    if not isinstance(dataset, Dataset):
        raise InvalidArgument(f"dataloader takes a penstock Dataset, got {described(dataset)}")
    for name in arguments:
        if name in _OURS:
            raise InvalidArgument(f"{name} is not for the DataLoader; use {_OURS[name]}")
    check_in_order(arguments)
    if "num_workers" in arguments:
        checked_int("num_workers", arguments["num_workers"], least=0)

        check_no_workers(dataset.reader.settings.device, arguments["num_workers"])

    require("torch")
    from .epoch_dataloader import EpochDataLoader, to_tensors

    iterable: Any = dataset  # an IterableDataset by registration
    return EpochDataLoader(iterable, batch_size=None, collate_fn=to_tensors, **arguments)
