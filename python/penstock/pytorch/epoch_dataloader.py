"""DataLoader that `penstock.dataloader` returns. Imports torch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from torch.utils.data import DataLoader

from penstock.dataset.dataset import Dataset
from penstock.epochs.epoch import ProcessRun
from penstock.epochs.state import EpochState
from penstock.plan.shard import check_divided_once
from penstock.plan.stats import LoaderStats


class EpochReader(Protocol):
    """Counts the epochs of a dataset: `dataset.reader.Reader`."""

    @property
    def epochs(self) -> EpochState:
        """Number of the next epoch, and position of the running one."""

    @property
    def rank_and_world_size(self) -> tuple[int, int]:
        """Rank and world size of this process."""

    def prepare_for_workers(self, epoch: int, ticket: int, round_number: int) -> None:
        """Choose what workers must agree on, before they start the epoch."""

    def begin_with_workers(self, epoch: int, num_workers: int) -> ProcessRun:
        """Start an epoch that workers read."""


class NumberedDataset(Protocol):
    """A dataset that counts its epochs: `penstock.Dataset`, or one of `penstock.compat`."""

    @property
    def reader(self) -> EpochReader:
        """Reader of the epochs."""

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the next iterator reads."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position of training."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state dict."""


class EpochSampler:
    """Sampler on which trainers (Lightning, Accelerate) set the epoch; forwards to the dataset.

    It does not sample, since a Dataset has its own order.
    """

    def __init__(self, dataset: NumberedDataset) -> None:
        self._dataset = dataset

    def set_epoch(self, epoch: int) -> None:
        """Call `set_epoch` of the dataset."""
        self._dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class EpochDataLoader(DataLoader[Any]):
    """DataLoader that counts epochs and batches in the main process, also with workers.

    So `Dataset.set_epoch` has effect before workers start, and `Dataset.state_dict` counts the
    batches that the training loop took. The dataset is a `NumberedDataset`.
    """

    _ticket = 0
    _round = 0
    _began = _seconds = _waited = 0.0  # of the newest iterator, in seconds

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self.num_workers == 0:
            return super().__iter__()
        check_divided_once(lambda: self._reader.rank_and_world_size[1])
        self._began, self._seconds, self._waited = time.perf_counter(), 0.0, 0.0
        return _Counted(self, *self.begin_epoch())

    def note_wait(self, begin: float) -> None:
        """Note a batch that the loop has waited for since a time of `time.perf_counter`."""
        now = time.perf_counter()
        self._seconds = now - self._began
        self._waited += now - begin

    def begin_epoch(self) -> tuple[Iterator[Any], ProcessRun]:
        """Start the next epoch in workers."""
        if isinstance(self.dataset, Dataset):
            self.dataset.reader.cells.fit()  # once, not in each worker
        reader, epochs = self._reader, self.epochs
        if epochs.is_loaded:
            self._iterator = None  # persistent workers would not get the loaded state
        if self._ticket == 0 or self._iterator is None:
            self._ticket, self._round = epochs.counter.draw_ticket(), 0
        self._round += 1
        with epochs.begin_for_workers(self._ticket, self._round) as epoch:
            try:
                reader.prepare_for_workers(epoch, self._ticket, self._round)
                batches = super().__iter__()  # workers start or continue here
            finally:
                epochs.counter.end_of_start()
            return batches, reader.begin_with_workers(epoch, self.num_workers)

    @property
    def epochs(self) -> EpochState:
        """Epochs of the dataset."""
        return self._reader.epochs

    @property
    def _reader(self) -> EpochReader:
        dataset: NumberedDataset = self.dataset  # type: ignore[assignment]
        return dataset.reader

    @property
    def sampler(self) -> Any:
        """Sampler that forwards `set_epoch` to the dataset."""
        return self._sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self._sampler = EpochSampler(self.dataset)  # type: ignore[arg-type]

    @property
    def stats(self) -> LoaderStats:
        """Counts as of `Dataset.stats`; with workers also how long the loop waited for them."""
        stats: LoaderStats = self.dataset.stats  # type: ignore[attr-defined]
        if not stats.workers:
            return stats
        return replace(stats, loop_seconds=self._seconds, loop_wait_seconds=self._waited)

    def set_epoch(self, epoch: int) -> None:
        """See `Dataset.set_epoch`."""
        self.dataset.set_epoch(epoch)  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, Any]:
        """See `Dataset.state_dict`."""
        return self.dataset.state_dict()  # type: ignore[attr-defined,no-any-return]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Dataset.load_state_dict`."""
        self.dataset.load_state_dict(state)  # type: ignore[attr-defined]


class _Counted(Iterator[Any]):
    """Iterator over batches of workers that counts the batches taken."""

    def __init__(self, loader: EpochDataLoader, batches: Iterator[Any], run: ProcessRun) -> None:
        self._loader: EpochDataLoader | None = loader  # until the first batch
        self._note_wait = loader.note_wait
        self._batches: Iterator[Any] | None = batches
        self._run = run

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        loader, self._loader = self._loader, None
        if loader is not None and not loader.epochs.is_still_current(self._run):
            # Another epoch was set since: workers end, or drop the epoch that they read.
            self._batches = None
            self._batches, self._run = loader.begin_epoch()
        if loader is not None:
            try:
                loader.epochs.compare_ranks(self._run)
            except BaseException:
                self._batches = iter(())
                raise
        assert self._batches is not None
        begin = time.perf_counter()
        batch = next(self._batches)
        self._note_wait(begin)
        self._run.count()
        return batch

    def __len__(self) -> int:
        return self._run.size
