"""State of the epochs of a dataset: number of the next epoch, and position in the current one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from penstock import _core
from penstock.base.shared_integers import is_spawning
from penstock.errors import InvalidArgument
from penstock.plan.fingerprint import fingerprint_of
from penstock.plan.planner import Planner
from penstock.plan.selection import Selection
from penstock.plan.shard import Shard, in_worker

from .epoch import ProcessRun, begin_run
from .epoch_numbers import EpochNumbers
from .iterator import EpochProgress
from .rank_check import RankCheck
from .shuffle_choice import ShuffleChoice
from .worker_stats import WorkerCounts


@dataclass(frozen=True)
class _Place:
    """Values that a saved state is made from."""

    resumed: _core.ResumeState | None  # a loaded state that no iterator has started
    running: _core.ResumeState | None  # position in the current epoch
    next: int  # number of the next epoch


class EpochState:
    """The number of the next epoch, the current epoch, and a state to resume from.

    Each dataset has one, and passes its current selection and settings as a planner. A copy has the
    number and the state to resume from, but no current epoch.
    """

    def __init__(self) -> None:
        self.counter = EpochNumbers()
        self._known_next = 0  # the counter's value when this process last changed it
        self._run: ProcessRun | None = None
        self._resumed: _core.ResumeState | None = None
        self._rank_check = RankCheck()
        self._reset_threads()

    def _reset_threads(self) -> None:
        self._choice = ShuffleChoice()
        self._threads = threading.RLock(), os.getpid()
        self._begins = 0  # threads that are starting an epoch
        self._place_before: _Place | None = None  # the first of them started

    @property
    def _lock(self) -> threading.RLock:
        # Reentrant: a signal handler may save a state while its own thread holds the lock. A fork
        # gets a new lock, since a thread of the parent may hold the old one, and that thread does not
        # exist here. For the same reason no epoch is being started here.
        lock, process = self._threads
        if process != os.getpid():
            lock = threading.RLock()
            self._threads = lock, os.getpid()
            self._begins = 0
        return lock

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """Give other threads and signal handlers the previous place until the block has ended."""
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
        """Shuffle of the most recent epoch, with True resolved; None before the first epoch."""
        return None if self._run is None else self._run.shuffle

    @property
    def next(self) -> int:
        """Number of the epoch that the next iterator reads."""
        return self.counter.next

    @property
    def is_loaded(self) -> bool:
        """Whether the next iterator resumes from a state."""
        return self._resumed is not None

    def set_next(self, epoch: int) -> None:
        """Set the epoch that the next iterator reads; drop a loaded state of another epoch.

        If the last iterator has given no batch yet, it reads that epoch too: Lightning makes the
        first iterator before it sets the epoch.
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

        If the last iterator has given no batch yet, it resumes there too: torchdata's
        StatefulDataLoader makes an iterator when its state is read (by Accelerate, in `prepare`).

        Raises
        ------
        InvalidArgument
            The position is that of a DataLoader worker, but this is another process.
        """
        shard = planner.settings.find_shard()
        position.check_worker(shard.worker, shard.num_workers)
        self._resumed = position if position.segments else None
        if in_worker():  # another worker may have started that epoch
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

    def begin(self, planner: Planner) -> ProcessRun:
        """Start the next epoch, or the rest of it after a loaded state."""
        with self._beginning():
            with self._lock:
                epoch, serial = self.counter.begin()
                self._known_next = epoch + 1
            return self._begin(epoch, planner, planner.settings.find_shard(), serial)

    @contextmanager
    def begin_for_workers(self, ticket: int, round_number: int) -> Iterator[int]:
        """Take the next epoch for workers; the block starts them, and the epoch in this process.

        See `EpochNumbers.begin_for_workers`.
        """
        with self._beginning():
            with self._lock:
                epoch = self.counter.begin_for_workers(ticket, round_number)
                self._known_next = epoch + 1
            yield epoch

    def is_still_current(self, run: ProcessRun) -> bool:
        """Return whether the iterator of the run is still to read it, at its first batch.

        If not, the iterator starts the epoch that was set in the meantime.
        """
        epoch, run.moved_to = run.moved_to, None
        if epoch is None:
            return True
        if run is not self._run or self.counter.next != epoch:
            return False
        with self._beginning(), self._lock:
            self.counter.next = self._known_next = epoch + 1
        return True

    def compare_ranks(self, run: ProcessRun) -> None:
        """Check that the other ranks of torch.distributed are about to read the same epoch.

        Raises
        ------
        InvalidArgument
            Another rank is about to read another epoch.
        """
        self._rank_check.check(run)

    def begin_with_workers(self, epoch: int, num_workers: int, planner: Planner) -> ProcessRun:
        """Start, in the main process, an epoch that DataLoader workers of the same state read."""
        planner = planner.replace_settings(keep=False)  # as in workers
        shard = replace(planner.settings.find_shard(), num_workers=num_workers)
        run = self._begin(epoch, planner, shard, reads=False)
        run.plan_for_workers(run.left_of(planner))
        return run

    def choose_for_workers(
        self, epoch: int, ticket: int, round_number: int, planner: Planner
    ) -> None:
        """Choose the shuffle of an epoch before workers with this ticket start it."""
        if self._resumed is not None and self._resumed.epoch == epoch:
            return  # the state has the shuffle, also for workers
        planner = planner.replace_settings(keep=False)  # as in workers
        number = self._choice.for_workers(
            epoch, planner, planner.settings.find_shard(), self._rank_check
        )
        if number:
            self.counter.choose_for_workers(ticket, round_number, number)

    def _begin(
        self, epoch: int, planner: Planner, shard: Shard, serial: int = 0, reads: bool = True
    ) -> ProcessRun:
        """Start an epoch that this process `reads`, or its workers."""
        selection = planner.selection
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed.worker is not None:
            epoch = resumed.epoch  # a state of this worker
            self._known_next = epoch + 1
        if resumed is None or resumed.epoch != epoch:
            planner.check_some_batch(shard)
            resumed = _core.ResumeState(epoch, fingerprint_of(selection))
        before = self._run  # None if the epoch was set
        planner = self._choice.settled(
            resumed,
            planner,
            shard,
            self._rank_check,
            lambda number: self.counter.chosen_shuffle(serial, number),
            reads,
        )
        planner = planner.divided(shard, resumed if reads else None)
        run = begin_run(resumed, planner, shard)
        run.serial = serial
        run.left_before = None if before is None else before.batches
        run.first = run.batches
        settings = planner.settings
        run.is_watched = settings.compare_ranks and shard.world_size > 1
        run.is_compared = run.is_watched and settings.is_compared
        if selection.cache is not None and not in_worker():
            selection.cache.warn_if_too_small(selection.matrix)
        run.selected = len(selection.rows), selection.rows.fingerprint()
        with self._lock:
            # Another thread may have begun a later epoch, and have planned it sooner.
            if not serial or self._run is None or self._run.serial < serial:
                self._run = run
        return run

    def restart(self, position: _core.ResumeState, planner: Planner) -> ProcessRun:
        """Start an epoch at a position, also at its end, for an iterator that already exists."""
        shard = planner.settings.find_shard()
        position.check_worker(shard.worker, shard.num_workers)
        self._resumed = position
        run = self._begin(position.epoch, planner, shard)
        with self._beginning(), self._lock:
            self._known_next = position.epoch + 1
            if not in_worker():
                self.counter.next = self._known_next
        return run

    def progress(self, run: ProcessRun) -> EpochProgress:
        """Return the counts that a loader of the run updates; a worker shares them."""
        shared = WorkerCounts(self.counter, run.epoch, run.serial) if in_worker() else None
        return EpochProgress(run.serial, shared)

    def position(self, selection: Selection) -> _core.ResumeState:
        """Return the position in the current epoch, or where the next iterator starts.

        Raises
        ------
        InvalidArgument
            Workers of a plain DataLoader read the epoch.
        """
        with self._lock:
            place = self._place_before if self._begins else self._place()
        if place is None:
            raise InvalidArgument(
                "workers of a plain DataLoader read batches, so it is not known here which batches the "
                "training loop took; make the loader with penstock.dataloader"
            )
        known = place.running if place.resumed is None else place.resumed
        return known or _core.ResumeState(place.next, fingerprint_of(selection))

    def _place(self) -> _Place | None:
        """Return the current place; None if workers of a plain DataLoader have started an epoch."""
        # Workers share the counter and change it at different times; each knows its own number.
        if not in_worker() and self.next != self._known_next:
            return None
        # A worker that has given its last batch stays in the epoch, which other workers still read.
        run = self._run
        running = run is not None and (in_worker() or not run.finished)
        return _Place(
            self._resumed,
            run.position if run is not None and running else None,
            self._known_next,
        )

    def for_copy(self) -> EpochState:
        """Return the state for a copy of the dataset."""
        return copy(self)

    # Unpickling in a DataLoader worker must not read the counter: the process is not known to be a
    # worker yet. So the state has the number too.
    def __getstate__(self) -> dict[str, Any]:
        state = {
            "counter": self.counter.for_copy(),
            "_known_next": self._known_next,
            "_resumed": self._resumed,
        }
        if is_spawning():  # all ranks may be spawned with it
            state["_rank_check"] = self._rank_check
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _run=None)
        self._reset_threads()
        if "_rank_check" not in state:
            self._rank_check = RankCheck()
