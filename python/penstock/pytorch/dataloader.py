"""Make a DataLoader for a Dataset; torch is imported when this is called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import require
from penstock.base.suggestions import did_you_mean
from penstock.base.validation import checked_bool, checked_int, checked_number, described
from penstock.errors import InvalidArgument
from penstock.plan.device import check_no_workers

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset

_SAMPLED = (
    "weights or balance of the Dataset to draw cells unevenly; ranks are divided without a sampler"
)
#: Arguments of DataLoader, their values that do nothing, and what replaces them in a Dataset.
_OURS: dict[str, tuple[Any, str]] = {
    "batch_size": (None, "batch_size of the Dataset: ds.with_settings(batch_size=…)"),
    "shuffle": (None, "shuffle of the Dataset: ds.with_settings(shuffle=…)"),
    "sampler": (None, _SAMPLED),
    "batch_sampler": (None, "batch_size of the Dataset, and " + _SAMPLED),
    "drop_last": (False, "drop_last of the Dataset: ds.with_settings(drop_last=…)"),
}


def check_in_order(arguments: Mapping[str, Any]) -> None:
    """Refuse ``in_order=False``: the number of batches would not tell which batches were taken.

    Raises
    ------
    InvalidArgument
        ``in_order=False`` is given.
    """
    if not arguments.get("in_order", True):
        raise InvalidArgument(
            "in_order=False gives batches in the order that workers happen to make them, so that no "
            "seed gives the same order again and no state can resume at a batch: leave it out"
        )


def dataloader(dataset: Dataset, **arguments: Any) -> Any:
    """Make a torch DataLoader for a Dataset.

    Parameters
    ----------
    dataset : Dataset
        Batches are tensors, whatever its `format`. obs values that have no tensor (strings, dates)
        are not converted.
    **arguments
        Arguments of DataLoader: ``num_workers``, ``pin_memory``, ``prefetch_factor``, … A
        ``collate_fn`` gets a batch, ``(X, obs)``, and the loop gets what it returns. The default
        ``num_workers=0`` is usually fastest, since the engine has its own threads. A worker is used
        only if it gets at least eight fetch units, so in a small selection some workers are idle.

    Returns
    -------
    torch.utils.data.DataLoader
        Each ``for`` loop reads the next epoch. `Dataset.set_epoch` sets the epoch, also with worker
        processes.

    Raises
    ------
    InvalidArgument
        `dataset` is not a Dataset, an argument belongs to the Dataset (such as ``batch_size``), or
        ``in_order=False``, or an argument has an invalid value.
    MissingPackage
        torch is not installed.
    """
    from penstock.dataset.dataset import Dataset

    if not isinstance(dataset, Dataset):
        raise InvalidArgument(f"dataloader takes a penstock Dataset, got {described(dataset)}")
    given = [
        name for name, (nothing, _) in _OURS.items() if arguments.pop(name, nothing) is not nothing
    ]
    if given:
        instead = "; ".join(
            f"{name} is not for the DataLoader, use {_OURS[name][1]}" for name in given
        )
        raise InvalidArgument(instead)
    check_in_order(arguments)
    _check_values(arguments)
    if "num_workers" in arguments:
        checked_int("num_workers", arguments["num_workers"], least=0)

        check_no_workers(dataset.reader.settings.device, arguments["num_workers"])

    require("torch")
    from penstock.batches.tensors import to_tensors

    from .epoch_dataloader import EpochDataLoader

    iterable: Any = dataset  # a registered IterableDataset
    function = arguments.pop("collate_fn", None)
    if function is not None and not callable(function):
        raise InvalidArgument(
            f"collate_fn must be a function of (X, obs), got {described(function)}"
        )
    collate = to_tensors if function is None else _Collated(function)
    check_names(arguments)
    return EpochDataLoader(iterable, batch_size=None, collate_fn=collate, **arguments)


class _Collated:
    """A user's `collate_fn`, called with tensors; picklable if the function is."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, batch: Any) -> Any:
        from penstock.batches.tensors import to_tensors

        try:
            return self._function(to_tensors(batch))
        except Exception as error:
            error.add_note("collate_fn gets one batch, (X, obs) as tensors, not a list of cells")
            raise


def check_names(arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that torch's DataLoader does not have; imports torch.

    Raises
    ------
    TypeError
        There is no such argument.
    """
    from torch.utils.data import DataLoader

    there = set(inspect.signature(DataLoader).parameters) - {"dataset", *_OURS}
    for name in arguments:
        if name not in there:
            from penstock.dataset.dataset import Dataset

            of_dataset = name in inspect.signature(Dataset).parameters
            hint = f"; give {name}= to the Dataset" if of_dataset else did_you_mean(name, there)
            raise TypeError(f"dataloader() has no argument {name!r}{hint}")


def _check_values(arguments: Mapping[str, Any]) -> None:
    """Check arguments whose values torch checks late or not at all."""
    for name in ("pin_memory", "persistent_workers"):
        checked_bool(name, arguments.get(name, False))
    prefetch_factor = arguments.get("prefetch_factor")
    if prefetch_factor is not None:
        checked_int("prefetch_factor", prefetch_factor, least=1)
    timeout = arguments.get("timeout", 0)
    if not 0 <= checked_number("timeout", timeout) < math.inf:
        raise InvalidArgument(f"timeout must be a number of seconds, 0 or more, got {timeout}")
    function = arguments.get("worker_init_fn")
    if function is not None and not callable(function):
        raise InvalidArgument(f"worker_init_fn must be a function, got {described(function)}")
