"""Which epoch an iterator reads, that may be chosen after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.epochs.epoch import EpochRun
from penstock.epochs.iterator import EpochIterator

if TYPE_CHECKING:
    from .reader import Reader


class RunningEpoch:
    """The epoch that an iterator reads, which `set_epoch` and a state may change after it was made."""

    def __init__(self, reader: Reader, run: EpochRun) -> None:
        self._reader = reader
        self._run = run

    def refresh(self, iterator: EpochIterator) -> None:
        """Begin another epoch where one was chosen since."""
        epochs = self._reader.epochs
        if not epochs.is_still_current(self._run):
            self._read(epochs.begin(self._reader.planner), iterator)
        try:
            epochs.compare_ranks(self._run)
        except BaseException:
            iterator.close()
            raise

    def state(self) -> dict[str, Any]:
        """Where it is."""
        return self._run.position.state()

    def go_to(self, state: dict[str, Any], iterator: EpochIterator) -> None:
        """Resume there, if it is not where the dataset's own state has brought it."""
        position = self._reader.checked_position(state)
        if position != self._run.position:
            self._read(self._reader.epochs.restart(position, self._reader.planner), iterator)

    def _read(self, run: EpochRun, iterator: EpochIterator) -> None:
        self._run = run
        cells, loader = self._reader.planned(run)
        iterator.read(loader, cells.obs_batches().take, self._reader.progress, run.count)
