"""A Lightning DataModule over Datasets. Imports lightning (or pytorch_lightning) and torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from .base.missing_package import require
from .base.text import plural
from .base.validation import checked_number, described
from .dataset.dataset import Dataset
from .errors import InvalidArgument
from .experiment.data_frame import JOINID
from .plan.splits.random_split import random_split
from .pytorch.dataloader import check_names, dataloader

try:
    from lightning.pytorch import LightningDataModule
except ImportError:  # the package's other name
    try:
        from pytorch_lightning import LightningDataModule  # type: ignore[assignment]
    except ImportError:
        require("torch", "lightning", extra="lightning")
        raise


class DataModule(LightningDataModule):
    """Loaders for training, validation, test and prediction.

    Ranks and epochs need no code, with any strategy, and Lightning's mid-epoch checkpoints resume
    at the same batch. ``use_distributed_sampler`` has no effect, because a Dataset is not
    map-style.

    Parameters
    ----------
    train : Dataset, optional
        Training cells; used unchanged: shuffled, with equally many batches on every rank.
    val, test, predict : Dataset, optional
        Cells in stored order, each exactly once over all ranks (``shuffle=False``,
        ``uneven="exact"``, no ``drop_last``). They use no worker processes, each of which would
        read another part. Prediction has ``soma_joinid`` in obs.
    **dataloader
        Arguments of `penstock.dataloader`: ``num_workers`` (for training), ``pin_memory``, …

    Raises
    ------
    InvalidArgument
        An argument is not a Dataset.
    """

    def __init__(
        self,
        train: Dataset | None = None,
        val: Dataset | None = None,
        test: Dataset | None = None,
        predict: Dataset | None = None,
        **dataloader: Any,
    ) -> None:
        super().__init__()
        parts = {"train": train, "val": val, "test": test, "predict": predict}
        for name, part in parts.items():
            if part is not None and not isinstance(part, Dataset):
                raise InvalidArgument(f"{name} must be a penstock Dataset, got {described(part)}")
        self.train = train
        self.val = None if val is None else _evaluated(val)
        self.test = None if test is None else _evaluated(test)
        self.predict = None if predict is None else _with_joinids(_evaluated(predict))
        self._dataloader_arguments = dataloader
        _check_arguments(dataloader)

    def __repr__(self) -> str:
        parts = [
            f"{name}={plural(part.n_obs, 'cell')}"
            for name in ("train", "val", "test", "predict")
            if (part := getattr(self, name)) is not None
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    __str__ = __repr__  # Lightning's expects torch DataLoaders

    @classmethod
    def from_dataset(
        cls,
        dataset: Dataset,
        train: float = 0.8,
        val: float = 0.1,
        test: float | None = None,
        *,
        seed: int = 0,
        stratify: str | Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
        **dataloader: Any,
    ) -> DataModule:
        """Split a dataset by fractions or sizes, as `Dataset.random_split` does.

        By default the test part is what the others leave. A part of size 0 has no loader. A
        fraction that gives 0 cells is a `NoCellsWarning`. Prediction uses all cells.
        """
        if test is None:
            test = _rest(dataset, train, val)
        wanted = {"train": train, "val": val, "test": test}
        kept = [name for name, part in wanted.items() if part]
        if len(kept) == 1:
            parts = [dataset]
        else:
            sizes = [wanted[name] for name in kept]
            names = [f"part {name!r}" for name in kept]
            rows = dataset.reader.selection.rows
            cut = random_split(dataset.obs, rows, sizes, seed, stratify, group, names)
            parts = [dataset.with_rows(part) for part in cut]
        return cls(**dict(zip(kept, parts, strict=True)), predict=dataset, **dataloader)

    def train_dataloader(self) -> Any:
        """Return the loader of the training part."""
        return self._loader("train", self.train)

    def val_dataloader(self) -> Any:
        """Return the loader of the validation part; an empty list without one."""
        return [] if self.val is None else self._loader("val", self.val)

    def test_dataloader(self) -> Any:
        """Return the loader of the test part."""
        return self._loader("test", self.test)

    def predict_dataloader(self) -> Any:
        """Return the loader of the cells to predict for, in stored order."""
        return self._loader("predict", self.predict)

    def _loader(self, name: str, part: Dataset | None) -> Any:
        if part is None:
            raise InvalidArgument(f"this DataModule was made without {name!r}")
        arguments = self._dataloader_arguments
        if part is not self.train:
            arguments = {key: each for key, each in arguments.items() if key not in _OF_WORKERS}
        return dataloader(part, **arguments)


def _rest(dataset: Dataset, train: float, val: float) -> float:
    """Return the size or the fraction of the cells that are in no other part."""
    numbers = [checked_number("train", train), checked_number("val", val)]
    if all(isinstance(part, Integral) for part in (train, val)):
        return max(dataset.n_obs - int(train) - int(val), 0)
    rest = 1 - math.fsum(numbers)
    return rest if rest > 1e-6 else 0  # as exact as random_split is


def _check_arguments(arguments: dict[str, Any]) -> None:
    try:
        check_names(arguments)
    except TypeError as error:
        raise TypeError(
            f"{error}; DataModule.from_dataset(ds, 0.8, 0.1, 0.1) splits a Dataset"
        ) from None


_OF_WORKERS = (
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "multiprocessing_context",
    "worker_init_fn",
    "timeout",
)


def _evaluated(dataset: Dataset) -> Dataset:
    return dataset.with_settings(shuffle=False, uneven="exact", drop_last=False, min_batch=1)


def _with_joinids(dataset: Dataset) -> Dataset:
    columns = dataset.reader.format.obs_columns
    if JOINID in columns:
        return dataset
    return dataset.with_settings(obs_columns=[JOINID, *columns])
