"""Epoch of an iterator, which may be set after the iterator was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.epochs.epoch import EpochRun
from penstock.epochs.iterator import EpochIterator
from penstock.epochs.resume import to_dict

if TYPE_CHECKING:
    from .reader import Reader


class RunningEpoch:
    """Epoch of an iterator; `set_epoch` and a state dict may change it later."""

    def __init__(self, reader: Reader, run: EpochRun) -> None:
        self._reader = reader
        self._run = run

    def refresh(self, iterator: EpochIterator) -> None:
        """Start another epoch if one was set since."""
        epochs = self._reader.epochs
        if not epochs.is_still_current(self._run):
            self._read(epochs.begin(self._reader.planner), iterator)
        try:
            epochs.compare_ranks(self._run)
        except BaseException:
            iterator.close()
            raise

    def state(self) -> dict[str, Any]:
        """Return the state dict of the iterator."""
        return to_dict(self._run.position)

    def go_to(self, state: dict[str, Any], iterator: EpochIterator) -> None:
        """Resume from a state dict, unless the iterator is already at its position."""
        position = self._reader.checked_position(state)
        if position != self._run.position:
            self._read(self._reader.epochs.restart(position, self._reader.planner), iterator)

    def _read(self, run: EpochRun, iterator: EpochIterator) -> None:
        self._run = run
        cells, loader = self._reader.planned(run)
        iterator.read(loader, cells.obs_batches().take, self._reader.progress, run.count)
