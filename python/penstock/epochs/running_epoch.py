"""Which epoch an iterator reads, that may be chosen after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.dataset.iteration import DatasetEpochs

    from .epoch import EpochRun
    from .iterator import EpochIterator


class RunningEpoch:
    """The epoch that an iterator reads, which `set_epoch` and a state may change after it was made."""

    def __init__(self, dataset: DatasetEpochs, run: EpochRun) -> None:
        self._dataset = dataset
        self._run = run

    def refresh(self, iterator: EpochIterator) -> None:
        """Begin another epoch where one was chosen since."""
        dataset = self._dataset
        if not dataset._epochs.is_still_current(self._run):
            self._read(dataset._epochs.begin(dataset._selection, dataset._settings), iterator)
        try:
            dataset._epochs.compare_ranks(self._run)
        except BaseException:
            iterator.close()
            raise

    def state(self) -> dict[str, Any]:
        """Where it is."""
        return self._run.position.state()

    def go_to(self, state: dict[str, Any], iterator: EpochIterator) -> None:
        """Go on from there, if it is not where the dataset's own state has brought it."""
        dataset = self._dataset
        position = dataset._checked_position(state)
        if position != self._run.position:
            run = dataset._epochs.restart(position, dataset._selection, dataset._settings)
            self._read(run, iterator)

    def _read(self, run: EpochRun, iterator: EpochIterator) -> None:
        self._run = run
        loader, obs = self._dataset._planned(run)
        iterator.read(loader, obs.take, self._dataset._progress, run.count)
