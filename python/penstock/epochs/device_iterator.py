"""Iterator over an epoch whose batches are made on a device. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import _core
from penstock.batches.batch import Batch
from penstock.batches.device.arrays import arrays_of
from penstock.batches.device.copier import DeviceCopier, SentBatch
from penstock.plan.x_array import XArrays

from .iterator import EpochIterator, EpochProgress


def _callables_of(arrays: XArrays) -> Callable[[Any], Any]:
    """Return a function that applies the callables of the transforms to X."""
    if isinstance(arrays, dict):
        made = {name: _callables_of(array) for name, array in arrays.items()}
        return lambda X: {name: call(X[name]) for name, call in made.items()}
    callables = () if arrays.chain is None else arrays.chain.callables

    def call_all(X: Any) -> Any:
        for call in callables:
            X = call(X)
        return X

    return call_all


class DeviceIterator(EpochIterator):
    """Yields (X, obs) on a device; the next batch is copied during the step on this batch.

    The next batch is sent ahead only if the loader has it already, so no batch waits for it. It
    counts as yielded when the caller gets it.
    """

    def __init__(
        self,
        loader: _core.Loader,
        copier: DeviceCopier,
        take_obs: Callable[[_core.Batch], Any],
        progress: EpochProgress,
        arrays: XArrays,
        count: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(loader, arrays_of(arrays), take_obs, progress)
        self._copier = copier
        self._count_handed_over = count
        self._call = _callables_of(arrays)
        self._ahead: SentBatch | None = None
        self._error: Exception | None = None

    def _set_count(self, count: Callable[[], None]) -> None:
        self._count_handed_over = count

    def __next__(self) -> Batch:
        self._begin()
        sent, self._ahead = self._ahead, None
        if sent is None:
            sent = self._send_next()
        if self._copier.stream.runs_beside and self._progress.is_ready:
            self._send_ahead()
        X, obs = self._copier.receive(sent)
        X = self._call(X)
        if self._count_handed_over is not None:
            self._count_handed_over()
        return Batch((X, obs))

    def _send_next(self) -> SentBatch:
        error, self._error = self._error, None
        if error is not None:
            raise error
        X, obs = super().__next__()
        try:
            return self._copier.send(X, obs)
        except BaseException:
            self.close()
            raise

    def _send_ahead(self) -> None:
        try:
            self._ahead = self._send_next()
        except StopIteration:
            pass
        except Exception as error:
            self._error = error  # an error of the next batch, raised when that batch is due

    def close(self) -> None:
        """Stop the threads and free the memory; safe to call more than once."""
        self._ahead = None
        super().close()
