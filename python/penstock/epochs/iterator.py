"""One pass over a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock import _core
from penstock.errors import InvalidArgument
from penstock.experiment.local_cache import LocalCache
from penstock.plan.stats import LoaderStats, from_core

from .worker_stats import WorkerCounts


class EpochSource(Protocol):
    """Says which epoch an iterator reads, which may change until its first batch."""

    def refresh(self, iterator: EpochIterator) -> None:
        """Let the iterator read another epoch where one was chosen since it was made."""

    def state(self) -> dict[str, Any]:
        """Where the iterator is."""

    def go_to(self, state: dict[str, Any], iterator: EpochIterator) -> None:
        """Let the iterator resume from a state."""


class EpochProgress:
    """The loader of a running epoch, and the counts that stay when it has ended.

    Parameters
    ----------
    serial : int
        Of its iterator, among those of the dataset.
    shared : WorkerCounts, optional
        In a DataLoader worker, where the main process finds the counts.
    """

    def __init__(self, serial: int = 0, shared: WorkerCounts | None = None) -> None:
        self.loader: _core.Loader | None = None
        self.serial = serial
        self.cache: LocalCache | None = None
        self._shared = shared
        self._final = LoaderStats()

    @property
    def stats(self) -> LoaderStats:
        """Counts so far."""
        loader = self.loader
        return self._final if loader is None else from_core(loader.stats())

    def share(self) -> None:
        """Let the main process know how far a worker is, if it is time to."""
        if self.cache is not None:
            self.cache.warn()
        if self._shared is not None and self.loader is not None and self._shared.is_due:
            self._shared.add(from_core(self.loader.counts()))

    @property
    def is_ready(self) -> bool:
        """Whether the loader has a batch by now, an error, or come to its end."""
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
                self._final = from_core(loader.stats())
                if self._shared is not None:
                    self._shared.add(self._final)


class EpochIterator(Iterator[tuple[Any, Any]]):
    """Yields (X, obs) until the epoch ends; threads run from the first batch to the end.

    Ctrl-C interrupts the wait for a batch. When it is closed, dropped, exhausted or has raised, its
    threads are gone and its memory is free.
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
        """Give it somebody to ask what it reads."""
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
        """Before every batch: the first one finds the epoch that was chosen last."""
        if self._is_new:
            self._is_new = False
            if self._source is not None:
                self._source.refresh(self)

    def state_dict(self) -> dict[str, Any]:
        """Where this iterator is, also at its end: what torchdata's StatefulDataLoader keeps."""
        if self._source is None:
            raise InvalidArgument("this iterator is of no epoch, so it has no state")
        return self._source.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state that an iterator of such a dataset gave."""
        if self._source is None:
            raise InvalidArgument("this iterator is of no epoch, so it takes no state")
        self._source.go_to(state, self)

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> tuple[Any, Any]:
        self._begin()
        loader = self._progress.loader
        if loader is None:
            raise StopIteration
        try:
            batch = loader.next()
            if batch is not None:
                taken = self._take_x(batch), self._take_obs(batch)
                if self._count is not None:
                    self._count()
                self._progress.share()
                return taken
        except BaseException:
            self.close()
            raise
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
        # A constructor that raised leaves no progress.
        progress = getattr(self, "_progress", None)
        if progress is not None:
            progress.end()
