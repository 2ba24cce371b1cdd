"""One pass over a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import _core
from .epoch_counts import WorkerCounts
from .loader_stats import LoaderStats, from_core


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
        self._shared = shared
        self._final = LoaderStats()

    @property
    def stats(self) -> LoaderStats:
        """Counts so far."""
        loader = self.loader
        return self._final if loader is None else from_core(loader.stats())

    def share(self) -> None:
        """Let the main process know how far a worker is, if it is time to."""
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
        progress.loader = loader

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> tuple[Any, Any]:
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
