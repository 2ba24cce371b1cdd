"""Which epoch of a dataset comes next, and how far the one that was begun is."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock import _core
from penstock.base.shared_integers import is_spawning
from penstock.errors import InvalidArgument
from penstock.plan.fingerprint import fingerprint_of
from penstock.plan.planner import Planner
from penstock.plan.selection import Selection
from penstock.plan.shard import Shard, in_worker

from .epoch import EpochRun, begin_run
from .epoch_numbers import EpochNumbers
from .iterator import EpochProgress
from .rank_check import RankCheck
from .shuffle_choice import ShuffleChoice
from .worker_stats import WorkerCounts


@dataclass(frozen=True)
class _Place:
    """What a saved state is made from."""

    resumed: _core.ResumeState | None  # a loaded state that no iterator has begun
    running: _core.ResumeState | None  # of the epoch that is being read
    next: int


class EpochState:
    """The number of the next epoch, the epoch that was begun last, and a state to resume from.

    One for each dataset, which gives its selection and settings as they are at the moment. A copy
    knows the number and what is to be resumed, not the epoch that was begun.
    """

    def __init__(self) -> None:
        self.counter = EpochNumbers()
        self._known_next = 0  # the counter's, as far as this process has moved it
        self._run: EpochRun | None = None
        self._resumed: _core.ResumeState | None = None
        self._rank_check = RankCheck()
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
        return None if self._run is None else self._run.shuffle

    @property
    def next(self) -> int:
        """Number of the epoch that the next iterator begins."""
        return self.counter.next

    @property
    def is_loaded(self) -> bool:
        """Whether the next iterator resumes from a state."""
        return self._resumed is not None

    def set_next(self, epoch: int) -> None:
        """Choose the epoch that the next iterator begins; a loaded state of another is forgotten.

        An iterator that was made last and has given no batch follows: trainers make the first one
        before they say the epoch (Lightning).
        """
        run = self._run
        self._move_to(epoch)
        if run is not None and run.not_started:
            run.moved_to = epoch
            if run.epoch == epoch:
                self._run = run
        if self._resumed is not None and self._resumed.epoch != epoch:
            self._resumed = None

    def load(self, position: _core.ResumeState, planner: Planner) -> None:
        """Let the next iterator resume at a position.

        An iterator that was made last and has given no batch follows: torchdata's StatefulDataLoader
        makes one when it is asked for its state (Accelerate does, in `prepare`).

        Raises
        ------
        InvalidArgument
            It is a DataLoader worker's, and this is not that worker.
        """
        shard = planner.settings.find_shard()
        position.check_worker(shard.worker, shard.num_workers)
        self._resumed = position if position.segments else None
        if in_worker():  # others may have begun that epoch
            self.counter.next = max(self.counter.next, position.epoch)
            self._known_next = position.epoch
        else:
            run = self._run
            self._move_to(position.epoch)
            if run is not None and run.not_started:
                run.moved_to = position.epoch

    def _move_to(self, epoch: int) -> None:
        with self._beginning(), self._lock:
            self.counter.next = self._known_next = epoch
            self._run = None

    def begin(self, planner: Planner) -> EpochRun:
        """Begin the next epoch, or what a state left of it."""
        with self._beginning():
            with self._lock:
                epoch, serial = self.counter.begin()
                self._known_next = epoch + 1
            run = self._begin(epoch, planner, planner.settings.find_shard(), serial)
            run.serial = serial
            return run

    @contextmanager
    def begin_for_workers(self, ticket: int, round_number: int) -> Iterator[int]:
        """Move on to an epoch that workers read; the block starts them and begins it here as well.

        See `EpochNumbers.begin_for_workers`.
        """
        with self._beginning():
            with self._lock:
                epoch = self.counter.begin_for_workers(ticket, round_number)
                self._known_next = epoch + 1
            yield epoch

    def is_still_current(self, run: EpochRun) -> bool:
        """Whether the run is still what its iterator is to read, asked for the first batch.

        Where it is not the iterator begins the epoch that was chosen since.
        """
        epoch, run.moved_to = run.moved_to, None
        if epoch is None:
            return True
        if run is not self._run or self.counter.next != epoch:
            return False
        with self._beginning(), self._lock:
            self.counter.next = self._known_next = epoch + 1
        return True

    def compare_ranks(self, run: EpochRun) -> None:
        """Make sure that the other ranks of torch.distributed are about to read the same epoch.

        Raises
        ------
        InvalidArgument
            They are not.
        """
        self._rank_check.check(run)

    def begin_with_workers(self, epoch: int, num_workers: int, planner: Planner) -> EpochRun:
        """Begin an epoch that DataLoader workers read, who were started with the same state."""
        shard = replace(planner.settings.find_shard(), num_workers=num_workers)
        run = self._begin(epoch, planner, shard)
        run.plan_for_workers(run.left_of(planner))
        return run

    def choose_for_workers(
        self, epoch: int, ticket: int, round_number: int, planner: Planner
    ) -> None:
        """Decide which shuffle an epoch has, before workers with this ticket begin it."""
        if self._resumed is not None and self._resumed.epoch == epoch:
            return  # the state says it, to them as well
        word = self._choice.for_workers(
            epoch, planner, planner.settings.find_shard(), self._rank_check
        )
        if word:
            self.counter.choose_for_workers(ticket, round_number, word)

    def _begin(self, epoch: int, planner: Planner, shard: Shard, serial: int = 0) -> EpochRun:
        selection = planner.selection
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed.worker is not None:
            epoch = resumed.epoch  # of this worker's own state
            self._known_next = epoch + 1
        if resumed is None or resumed.epoch != epoch:
            planner.check_some_batch(shard)
            resumed = _core.ResumeState(epoch, fingerprint_of(selection))
        before = self._run  # none where the epoch was chosen
        planner = self._choice.settled(
            resumed,
            planner,
            shard,
            self._rank_check,
            lambda word: self.counter.chosen_shuffle(serial, word),
        )
        self._run = begin_run(resumed, planner, shard)
        self._run.left_before = None if before is None else before.batches
        self._run.first = self._run.batches
        settings = planner.settings
        self._run.is_watched = settings.compare_ranks and shard.world_size > 1
        self._run.is_compared = self._run.is_watched and settings.is_compared
        if selection.cache is not None and not in_worker():
            selection.cache.warn_if_too_small(selection.matrix)
        self._run.selected = len(selection.rows), selection.rows.fingerprint()
        return self._run

    def restart(self, position: _core.ResumeState, planner: Planner) -> EpochRun:
        """Begin an epoch where it was, also at its end, for an iterator that exists already."""
        shard = planner.settings.find_shard()
        position.check_worker(shard.worker, shard.num_workers)
        self._resumed = position
        run = self._begin(position.epoch, planner, shard)
        with self._beginning(), self._lock:
            self._known_next = position.epoch + 1
            if not in_worker():
                self.counter.next = self._known_next
        return run

    def progress(self, run: EpochRun) -> EpochProgress:
        """What a loader of the run reports to; in a worker, the main process too."""
        shared = WorkerCounts(self.counter, run.epoch, run.serial) if in_worker() else None
        return EpochProgress(run.serial, shared)

    def position(self, selection: Selection) -> _core.ResumeState:
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
        return known or _core.ResumeState(place.next, fingerprint_of(selection))

    def _place(self) -> _Place | None:
        """Where it is; None where workers of a plain DataLoader have begun an epoch."""
        # Workers share the counter and move it at their own times; each knows its own number.
        if not in_worker() and self.next != self._known_next:
            return None
        # A worker that has given its last batch stays in the epoch that others still read.
        run = self._run
        running = run is not None and (in_worker() or not run.finished)
        return _Place(
            self._resumed,
            run.position if run is not None and running else None,
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
            state["_rank_check"] = self._rank_check
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _run=None)
        self._start_threads_anew()
        if "_rank_check" not in state:
            self._rank_check = RankCheck()
