"""Which epoch an iterator reads, that may be chosen after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.dataset.iteration import DatasetEpochs

    from .epoch import Course
    from .iterator import EpochIterator


class RunningEpoch:
    """The epoch that an iterator reads, which `set_epoch` and a state may change after it was made."""

    def __init__(self, dataset: DatasetEpochs, course: Course) -> None:
        self._dataset = dataset
        self._course = course

    def renewed(self, iterator: EpochIterator) -> None:
        """Begin another epoch where one was chosen since."""
        dataset = self._dataset
        if not dataset._epochs.take_up(self._course):
            self._read(dataset._epochs.begin(dataset._selection, dataset._settings), iterator)
        try:
            dataset._epochs.compare_ranks(self._course)
        except BaseException:
            iterator.close()
            raise

    def state(self) -> dict[str, Any]:
        """Where it is."""
        return self._course.position.state()

    def go_to(self, state: dict[str, Any], iterator: EpochIterator) -> None:
        """Go on from there, if it is not where the dataset's own state has brought it."""
        dataset = self._dataset
        position = dataset._checked_position(state)
        if position != self._course.position:
            course = dataset._epochs.restart(position, dataset._selection, dataset._settings)
            self._read(course, iterator)

    def _read(self, course: Course, iterator: EpochIterator) -> None:
        self._course = course
        loader, obs = self._dataset._planned(course)
        iterator.read(loader, obs.take, self._dataset._progress, course.count)
