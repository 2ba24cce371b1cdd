"""Reader of a dataset's epochs: counts, iterates, saves and resumes them."""

from __future__ import annotations

from typing import Any

from penstock import _core
from penstock.batches.format import BatchFormat
from penstock.epochs.epoch import ProcessRun
from penstock.epochs.iterator import EpochIterator, EpochProgress
from penstock.epochs.resume import check_selection, from_dict, to_dict
from penstock.epochs.state import EpochState
from penstock.epochs.worker_stats import WorkerTotal
from penstock.plan.planner import Planner
from penstock.plan.selection import Selection
from penstock.plan.settings import LoaderSettings
from penstock.plan.shard import Shard, check_divided_once
from penstock.plan.shuffle_cost import warn_of_bands, warn_of_chunks, warn_of_cost
from penstock.plan.stats import LoaderStats, with_hint, with_kept_cells

from .cells import Cells


class Reader:
    """Reads the epochs of a `Dataset`; for the modules of this package.

    Attributes
    ----------
    cells : Cells
        Cells, and the format of their batches.
    epochs : EpochState
        Number of the next epoch, and position of the most recent one.
    progress : EpochProgress
        Progress of the most recent epoch.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.epochs = EpochState()
        self._forget()

    def _forget(self) -> None:
        """Reset the state that a copy does not share."""
        self.progress = EpochProgress()
        self._worker_total = WorkerTotal()
        self._lengths: dict[tuple[int, int], int] = {}
        self._warned_of_cost = self._warned_of_bands = False

    @property
    def planner(self) -> Planner:
        """Planner of the epochs."""
        return self.cells.planner

    @property
    def selection(self) -> Selection:
        """Selected cells and genes."""
        return self.cells.planner.selection

    @property
    def settings(self) -> LoaderSettings:
        """Settings of the epochs."""
        return self.cells.planner.settings

    @property
    def format(self) -> BatchFormat:
        """Format of batches."""
        return self.cells.format

    def with_rows(self, rows: _core.RowSelection) -> Reader:
        """Return a reader of other cells of the same layer, at epoch 0."""
        return Reader(self.cells.with_rows(rows))

    def change_settings(self, **changes: Any) -> None:
        """Change settings, which are not checked, from the next epoch on."""
        planner = self.planner.replace_settings(**changes)
        if planner.settings != self.settings:
            self.cells = self.cells.with_planner(planner)
            self._lengths.clear()

    # Iteration

    def begin(self) -> EpochIterator:
        """Start the next epoch, or resume one from a loaded state."""
        check_divided_once(lambda: self.rank_and_world_size[1])
        run = self.epochs.begin(self.planner)
        cells, loader = self.planned(run)
        return cells.batches(loader, self.progress, run.count).attach(RunningEpoch(self, run))

    def planned(self, run: ProcessRun) -> tuple[Cells, _core.Loader]:
        """Return the cells that are left in the epoch, and the loader of this process."""
        left = run.left_of(self.planner)
        cells = self.cells
        if run.rows is not None:
            cells.fit()  # on all cells, not only on those that are left
            cells = cells.with_planner(left)
        cells.obs_batches()  # errors of obs are raised before the loader is made
        loader = run.loader(left)
        if not self._warned_of_cost and not self._warned_of_bands:
            self._warned_of_bands = True
            warn_of_bands(self.planner)
            warn_of_chunks(self.planner.selection)
        if run.order.global_shuffle and not self._warned_of_cost:
            self._warned_of_cost = True
            warn_of_cost(loader, left.selection, self.settings.memory_budget)
        self.progress = self.epochs.progress(run)
        self.progress.cache = self.selection.cache
        return cells, loader

    def begin_with_workers(self, epoch: int, num_workers: int) -> ProcessRun:
        """Start an epoch that DataLoader workers read."""
        return self.epochs.begin_with_workers(epoch, num_workers, self.planner)

    def prepare_for_workers(self, epoch: int, ticket: int, round_number: int) -> None:
        """Choose the shuffle of the epoch, before workers start it."""
        self.epochs.choose_for_workers(epoch, ticket, round_number, self.planner)

    @property
    def rank_and_world_size(self) -> tuple[int, int]:
        """Current rank and world size of this process."""
        shard = self.settings.find_shard()
        return shard.rank, shard.world_size

    @property
    def shuffle(self) -> str | None:
        """See `Dataset.shuffle`."""
        begun = self.epochs.shuffle
        planner = self.planner if begun is None else self.planner.replace_settings(shuffle=begun)
        return planner.shuffle

    # Saving and resuming

    def position(self) -> _core.ResumeState:
        """Return the position for a state dict."""
        return self.epochs.position(self.selection)

    def checked_position(self, state: dict[str, Any]) -> _core.ResumeState:
        """Parse a state dict; refuse one of other cells."""
        position = from_dict(state)
        check_selection(position, self.selection)
        return position

    def load(self, state: dict[str, Any]) -> None:
        """Make the next iterator resume from a state dict."""
        self.epochs.load(self.checked_position(state), self.planner)

    # Counts

    @property
    def stats(self) -> LoaderStats:
        """See `Dataset.stats`."""
        counter = self.epochs.counter
        if self._worker_total.began_after(self.progress.serial, counter):
            return with_hint(self._worker_total.stats(counter, self.planner), self.planner)
        return with_kept_cells(self.progress.stats, self.planner)

    def batches_of_rank(self) -> int:
        """Return the batches of an epoch for this rank; see `Dataset.__len__`."""
        shard = self.planner.shard_with_cells()
        key = shard.rank, shard.world_size
        if key not in self._lengths:
            self._lengths[key] = self._count_batches(*key)
        return self._lengths[key]

    def _count_batches(self, rank: int, world_size: int) -> int:
        settings = self.settings
        if world_size == 1 and settings.uneven != "exact" and settings.min_batch == 1:
            cells, size = self.planner.epoch_cells, settings.batch_size
            return cells // size if settings.drop_last else -(-cells // size)
        return self.planner.as_of_now(0).loader(Shard(rank, world_size), 0).size()

    # Copies

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells, "epochs": self.epochs.for_copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


class RunningEpoch:
    """Epoch of an iterator; `set_epoch` and a state dict may change it later."""

    def __init__(self, reader: Reader, run: ProcessRun) -> None:
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

    def _read(self, run: ProcessRun, iterator: EpochIterator) -> None:
        self._run = run
        cells, loader = self._reader.planned(run)
        iterator.read(loader, cells.obs_batches().take, self._reader.progress, run.count)
