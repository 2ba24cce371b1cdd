"""Iterator over an epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from penstock import _core
from penstock.batches.batch import Batch
from penstock.errors import InvalidArgument
from penstock.experiment.local_cache import LocalCache
from penstock.plan.stats import LoaderStats, from_core

from .worker_stats import WorkerCounts


class EpochSource(Protocol):
    """Source of the epoch of an iterator, which may change until its first batch."""

    def refresh(self, iterator: EpochIterator) -> None:
        """Make the iterator read another epoch if one was set since it was made."""

    def state(self) -> dict[str, Any]:
        """Return the position of the iterator."""

    def go_to(self, state: dict[str, Any], iterator: EpochIterator) -> None:
        """Make the iterator resume from a state dict."""


class EpochProgress:
    """Loader of a running epoch, and counts, which remain after its end.

    Parameters
    ----------
    serial : int
        Serial number of the iterator in the dataset.
    shared : WorkerCounts, optional
        Counts that the main process reads, in a DataLoader worker.
    """

    def __init__(self, serial: int = 0, shared: WorkerCounts | None = None) -> None:
        self.loader: _core.Loader | None = None
        self.serial = serial
        self.cache: LocalCache | None = None
        self._shared = shared
        self._final = LoaderStats()
        self._first_request: float | None = None
        self._seconds = 0.0

    @property
    def stats(self) -> LoaderStats:
        """Counts so far."""
        loader = self.loader
        return self._final if loader is None else self._timed(loader.stats())

    def ask(self) -> None:
        """Start the clock when the first batch is requested."""
        if self._first_request is None:
            self._first_request = time.monotonic()

    def answer(self) -> None:
        """Count the time until now, when a batch is yielded or the epoch has ended."""
        if self._first_request is not None:
            self._seconds = time.monotonic() - self._first_request

    def _timed(self, stats: _core.LoaderStats) -> LoaderStats:
        """Return the engine's counts with those of this process."""
        workers = 1 if self._shared is not None and stats.cells else 0
        return replace(from_core(stats), seconds=self._seconds, workers=workers)

    def share(self) -> None:
        """Send the counts of a worker to the main process, if an update is due."""
        if self.cache is not None:
            self.cache.warn()
        if self._shared is not None and self.loader is not None and self._shared.is_due:
            self._shared.add(self._timed(self.loader.counts()))

    @property
    def is_ready(self) -> bool:
        """Whether the loader has a batch or an error, or is at its end."""
        loader = self.loader
        return loader is not None and loader.is_ready()

    def end(self) -> None:
        """Stop the threads and free the memory; safe to call more than once."""
        loader, self.loader = self.loader, None
        if loader is not None:
            if self.cache is not None:
                self.cache.warn(at_once=True)
            loader.cancel()
            if loader.is_usable():
                self._final = self._timed(loader.stats())
                if self._shared is not None:
                    self._shared.add(self._final)


class EpochIterator(Iterator[Batch]):
    """Yields (X, obs) until the epoch ends; threads run from the first batch to the end.

    Ctrl-C interrupts the wait for a batch. Threads stop and memory is freed when the iterator is
    closed, deleted or exhausted, or raises an error.
    """

    def __init__(
        self,
        loader: _core.Loader,
        take_x: Callable[[_core.Batch], Any],
        take_obs: Callable[[_core.Batch], Any],
        progress: EpochProgress,
        count: Callable[[], None] | None = None,
    ) -> None:
        self._take_x = take_x
        self._take_obs = take_obs
        self._progress = progress
        self._count = count
        self._source: EpochSource | None = None
        self._is_new = True
        progress.loader = loader

    def attach(self, source: EpochSource) -> EpochIterator:
        """Set the object that decides which epoch to read."""
        self._source = source
        return self

    def read(
        self,
        loader: _core.Loader,
        take_obs: Callable[[_core.Batch], Any],
        progress: EpochProgress,
        count: Callable[[], None],
    ) -> None:
        """Read another loader from now on."""
        self.close()
        self._take_obs = take_obs
        self._progress = progress
        self._set_count(count)
        progress.loader = loader

    def _set_count(self, count: Callable[[], None]) -> None:
        self._count = count

    def _begin(self) -> None:
        """Prepare a batch; the first batch switches to the epoch that was set last."""
        if self._is_new:
            self._is_new = False
            if self._source is not None:
                self._source.refresh(self)

    def state_dict(self) -> dict[str, Any]:
        """Return the position, also at the end, for torchdata's StatefulDataLoader."""
        if self._source is None:
            raise InvalidArgument("this iterator belongs to no epoch, so it has no state")
        return self._source.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the state dict of an iterator of an equal dataset."""
        if self._source is None:
            raise InvalidArgument("this iterator belongs to no epoch, so it takes no state")
        self._source.go_to(state, self)

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> Batch:
        self._begin()
        loader = self._progress.loader
        if loader is None:
            raise StopIteration
        self._progress.ask()
        try:
            batch = loader.next()
            if batch is not None:
                taken = Batch((self._take_x(batch), self._take_obs(batch)))
                self._progress.answer()
                if self._count is not None:
                    self._count()
                self._progress.share()
                return taken
        except BaseException:
            self.close()
            raise
        self._progress.answer()
        self.close()
        raise StopIteration

    @property
    def stats(self) -> LoaderStats:
        """Counts so far."""
        return self._progress.stats

    def close(self) -> None:
        """Stop the threads and free the memory; safe to call more than once."""
        self._progress.end()

    def __reduce__(self) -> Any:
        raise TypeError(
            "an iterator cannot be pickled, since its threads and memory are of this process; "
            "pickle the Dataset, or give the Dataset to penstock.dataloader"
        )

    def __del__(self) -> None:
        # If the constructor raised, there is no progress.
        progress = getattr(self, "_progress", None)
        if progress is not None:
            progress.end()
