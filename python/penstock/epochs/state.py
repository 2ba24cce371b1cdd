"""Which epoch of a dataset comes next, and how far the one that was begun is."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock.base.shared_integers import is_spawning
from penstock.errors import InvalidArgument
from penstock.plan.epoch_size import check_some_batch
from penstock.plan.fingerprint import SelectionFingerprint
from penstock.plan.selection import Selection
from penstock.plan.settings import LoaderSettings
from penstock.plan.shard import Share, in_worker

from .epoch import Course, begin_course, check_worker
from .epoch_numbers import EpochCounter
from .iterator import EpochProgress
from .rank_check import RankAgreement
from .resume import Position
from .shuffle_choice import ShuffleChoice
from .worker_stats import WorkerCounts


@dataclass(frozen=True)
class _Place:
    """What a saved state is made from."""

    resumed: Position | None  # a loaded state that no iterator has begun
    running: Position | None  # of the epoch that is being read
    next: int


class EpochState:
    """The number of the next epoch, the epoch that was begun last, and a state to go on from.

    One for each dataset, which gives its selection and settings as they are at the moment. A copy
    knows the number and what is to be gone on from, not the epoch that was begun.
    """

    def __init__(self) -> None:
        self.counter = EpochCounter()
        self._known_next = 0  # the counter's, as far as this process has moved it
        self._course: Course | None = None
        self._resumed: Position | None = None
        self._agreement = RankAgreement()
        self._start_threads_anew()

    def _start_threads_anew(self) -> None:
        self._choice = ShuffleChoice()
        self._threads = threading.RLock(), os.getpid()
        self._begins = 0  # epochs that threads are beginning at this moment
        self._place_before: _Place | None = None  # they began

    @property
    def _lock(self) -> threading.RLock:
        # A signal handler may save a state while its own thread holds the lock. A copy that was
        # forked while another thread held it would never be released; nor does a thread of this
        # process begin what one of the parent did.
        lock, process = self._threads
        if process != os.getpid():
            lock = threading.RLock()
            self._threads = lock, os.getpid()
            self._begins = 0
        return lock

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """Let other threads and signal handlers find the place before, until what changes has changed."""
        with self._lock:
            if not self._begins:
                self._place_before = self._place()
            self._begins += 1
        try:
            yield
        finally:
            with self._lock:
                self._begins -= 1

    @property
    def shuffle(self) -> bool | str | None:
        """That of the epoch that was begun last, None before: the argument, or what it came to."""
        return None if self._course is None else self._course.shuffle

    @property
    def next(self) -> int:
        """Number of the epoch that the next iterator begins."""
        return self.counter.next

    @property
    def is_loaded(self) -> bool:
        """Whether the next iterator goes on from a state."""
        return self._resumed is not None

    def set_next(self, epoch: int) -> None:
        """Choose the epoch that the next iterator begins; a loaded state of another is forgotten.

        An iterator that was made last and has given no batch follows: trainers make the first one
        before they say the epoch (Lightning).
        """
        course = self._course
        self._move_to(epoch)
        if course is not None and course.is_fresh:
            course.moved_to = epoch
            if course.epoch == epoch:
                self._course = course
        if self._resumed is not None and self._resumed.epoch != epoch:
            self._resumed = None

    def load(self, position: Position, settings: LoaderSettings) -> None:
        """Let the next iterator go on from a position.

        An iterator that was made last and has given no batch follows: torchdata's StatefulDataLoader
        makes one when it is asked for its state (Accelerate does, in `prepare`).

        Raises
        ------
        InvalidArgument
            It is a DataLoader worker's, and this is not that worker.
        """
        check_worker(position, settings.share())
        self._resumed = position if position.segments else None
        if in_worker():  # others may have begun that epoch
            self.counter.next = max(self.counter.next, position.epoch)
            self._known_next = position.epoch
        else:
            course = self._course
            self._move_to(position.epoch)
            if course is not None and course.is_fresh:
                course.moved_to = position.epoch

    def _move_to(self, epoch: int) -> None:
        with self._beginning(), self._lock:
            self.counter.next = self._known_next = epoch
            self._course = None

    def begin(self, selection: Selection, settings: LoaderSettings) -> Course:
        """Begin the next epoch, or what a state left of it."""
        with self._beginning():
            with self._lock:
                epoch, serial = self.counter.begin()
                self._known_next = epoch + 1
            course = self._begin(epoch, selection, settings, settings.share(), serial)
            course.serial = serial
            return course

    @contextmanager
    def begin_for_workers(self, ticket: int, round_number: int) -> Iterator[int]:
        """Move on to an epoch that workers read; the block starts them and begins it here as well.

        See `EpochCounter.begin_for_workers`.
        """
        with self._beginning():
            with self._lock:
                epoch = self.counter.begin_for_workers(ticket, round_number)
                self._known_next = epoch + 1
            yield epoch

    def take_up(self, course: Course) -> bool:
        """Whether the course is still what its iterator is to read, asked for the first batch.

        Where it is not the iterator begins the epoch that was chosen since.
        """
        epoch, course.moved_to = course.moved_to, None
        if epoch is None:
            return True
        if course is not self._course or self.counter.next != epoch:
            return False
        with self._beginning(), self._lock:
            self.counter.next = self._known_next = epoch + 1
        return True

    def compare_ranks(self, course: Course) -> None:
        """Make sure that the other ranks of torch.distributed are about to read the same epoch.

        Raises
        ------
        InvalidArgument
            They are not.
        """
        self._agreement.check(course)

    def begin_with_workers(
        self, epoch: int, num_workers: int, selection: Selection, settings: LoaderSettings
    ) -> Course:
        """Begin an epoch that DataLoader workers read, who were started with the same state."""
        share = replace(settings.share(), num_workers=num_workers)
        course = self._begin(epoch, selection, settings, share)
        course.plan_for_workers(course.cells(selection), settings)
        return course

    def choose_for_workers(
        self,
        epoch: int,
        ticket: int,
        round_number: int,
        selection: Selection,
        settings: LoaderSettings,
    ) -> None:
        """Decide which shuffle an epoch has, before workers with this ticket begin it."""
        if self._resumed is not None and self._resumed.epoch == epoch:
            return  # the state says it, to them as well
        word = self._choice.for_workers(
            epoch, selection, settings, settings.share(), self._agreement
        )
        if word:
            self.counter.choose_for_workers(ticket, round_number, word)

    def _begin(
        self,
        epoch: int,
        selection: Selection,
        settings: LoaderSettings,
        share: Share,
        serial: int = 0,
    ) -> Course:
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed.worker is not None:
            epoch = resumed.epoch  # of this worker's own state
            self._known_next = epoch + 1
        if resumed is None or resumed.epoch != epoch:
            check_some_batch(selection.epoch_cells(settings), settings, share)
            resumed = Position(epoch, SelectionFingerprint.of(selection))
        before = self._course  # none where the epoch was chosen
        settings = self._choice.settled(
            resumed,
            selection,
            settings,
            share,
            self._agreement,
            lambda word: self.counter.chosen_shuffle(serial, word),
        )
        self._course = begin_course(resumed, selection, settings, share)
        self._course.left_before = None if before is None else before.batches
        self._course.first = self._course.batches
        self._course.is_watched = settings.compare_ranks and share.world_size > 1
        self._course.is_compared = self._course.is_watched and settings.is_compared
        if selection.cache is not None and not in_worker():
            selection.cache.warn_if_too_small(selection.matrix)
        self._course.selected = len(selection.rows), selection.rows.fingerprint()
        return self._course

    def restart(self, position: Position, selection: Selection, settings: LoaderSettings) -> Course:
        """Begin an epoch where it was, also at its end, for an iterator that exists already."""
        check_worker(position, settings.share())
        self._resumed = position
        course = self._begin(position.epoch, selection, settings, settings.share())
        with self._beginning(), self._lock:
            self._known_next = position.epoch + 1
            if not in_worker():
                self.counter.next = self._known_next
        return course

    def progress(self, course: Course) -> EpochProgress:
        """What a loader of the course reports to; in a worker, the main process too."""
        shared = WorkerCounts(self.counter, course.epoch, course.serial) if in_worker() else None
        return EpochProgress(course.serial, shared)

    def position(self, selection: Selection) -> Position:
        """How far it is.

        Raises
        ------
        InvalidArgument
            Workers of a plain DataLoader read the epoch.
        """
        with self._lock:
            place = self._place_before if self._begins else self._place()
        if place is None:
            raise InvalidArgument(
                "workers of a plain DataLoader read batches, and which of them the training loop "
                "took is not known here; make it with penstock.dataloader"
            )
        known = place.running if place.resumed is None else place.resumed
        return Position(place.next, SelectionFingerprint.of(selection)) if known is None else known

    def _place(self) -> _Place | None:
        """Where it is; None where workers of a plain DataLoader have begun an epoch."""
        # Workers share the counter and move it at their own times; each knows its own number.
        if not in_worker() and self.next != self._known_next:
            return None
        # A worker that has given its last batch stays in the epoch that others still read.
        course = self._course
        running = course is not None and (in_worker() or not course.is_over)
        return _Place(
            self._resumed,
            course.position if course is not None and running else None,
            self._known_next,
        )

    def for_copy(self) -> EpochState:
        """What a copy of the dataset has."""
        other = object.__new__(EpochState)
        other.__setstate__(self.__getstate__())
        return other

    # The counter is not to be asked while a worker takes this apart: it looks for its parent.
    def __getstate__(self) -> dict[str, Any]:
        state = {
            "counter": self.counter.for_copy(),
            "_known_next": self._known_next,
            "_resumed": self._resumed,
        }
        if is_spawning():  # it may be on its way to all ranks
            state["_agreement"] = self._agreement
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _course=None)
        self._start_threads_anew()
        if "_agreement" not in state:
            self._agreement = RankAgreement()
