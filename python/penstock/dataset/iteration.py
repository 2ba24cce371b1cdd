"""The epochs of a dataset: iterating, counting, saving and going on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.validation import checked_int
from penstock.batches import matrix as matrix_batches
from penstock.batches.obs import ObsBatches
from penstock.epochs.epoch import EpochRun
from penstock.epochs.iterator import EpochIterator, EpochProgress
from penstock.epochs.resume import ResumeState, check_selection
from penstock.epochs.running_epoch import RunningEpoch
from penstock.epochs.shuffle_choice import expected
from penstock.plan.device import check_main_process
from penstock.plan.epoch_size import check_some_batch
from penstock.plan.shard import Shard, check_divided_once
from penstock.plan.shuffle_cost import warn_of_cost
from penstock.plan.stats import LoaderStats, from_core

from .cells import SelectedCells


class DatasetEpochs(SelectedCells):
    """An iterable of batches, whose every iterator is the next epoch."""

    # Iteration

    def __iter__(self) -> EpochIterator:
        check_divided_once(self._settings.find_shard())
        run = self._epochs.begin(self._selection, self._settings)
        loader, obs = self._planned(run)
        iterator = self._iterate(loader, obs, self._progress, run.count)
        return iterator.attach(RunningEpoch(self, run))

    def _planned(self, run: EpochRun) -> tuple[_core.Loader, ObsBatches]:
        if run.rows is not None and self._encoders:
            self._fitted_obs()  # on all cells, not on those that are left
        part = self if run.rows is None else self._part(run.cells(self._selection))
        obs = part._fitted_obs()
        loader = run.loader(part._selection, self._settings)
        if run.order.global_shuffle and not self._warned_of_cost:
            self._warned_of_cost = True
            warn_of_cost(loader, part._selection, self._settings.memory_budget)
        self._progress = self._epochs.progress(run)
        self._progress.cache = self._selection.cache
        return loader, obs

    def _iterate(
        self,
        loader: _core.Loader,
        obs: ObsBatches,
        progress: EpochProgress,
        count: Callable[[], None] | None = None,
    ) -> EpochIterator:
        settings = self._settings
        if settings.is_placed:
            check_main_process(settings.device)
            require("torch")
            from penstock.batches.device.copier import DeviceCopier
            from penstock.epochs.device_iterator import DeviceIterator

            copier = DeviceCopier(settings)
            chain = self._selection.transforms
            return DeviceIterator(loader, copier, obs.take, progress, count, chain)
        take_x = matrix_batches.transformed(
            self._batch_format.format, settings.sparse, self._selection.transforms
        )
        return EpochIterator(loader, take_x, obs.take, progress, count)

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next iterator begins."""
        return self._epochs.next

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iterator begins, also in DataLoader workers; 0 is the first.

        An iterator that was made last and has given no batch yet begins it, too: Lightning makes
        the first one before it says which epoch it is.

        Raises
        ------
        InvalidArgument
            It is negative or no integer.
        """
        self._epochs.set_next(checked_int("epoch", epoch, least=0, most=2**62))

    def _choose_shuffle_for_workers(self, epoch: int, ticket: int, round_number: int) -> None:
        self._epochs.choose_for_workers(
            epoch, ticket, round_number, self._selection, self._settings
        )

    @property
    def _rank_and_world_size(self) -> tuple[int, int]:
        shard = self._settings.find_shard()
        return shard.rank, shard.world_size

    def _begin_with_workers(self, epoch: int, num_workers: int) -> EpochRun:
        return self._epochs.begin_with_workers(epoch, num_workers, self._selection, self._settings)

    # Saving and going on

    def state_dict(self) -> dict[str, Any]:
        """Where training is: the epoch, and how many of its batches were handed over.

        Small, of numbers and strings, and the same on every rank, so that one rank's is enough.
        Batches that were made and not taken do not count.

        Raises
        ------
        InvalidArgument
            A plain DataLoader had workers read the epoch, so that it is not known here how far it
            is: use `penstock.dataloader`.
        """
        return self._epochs.position(self._selection).state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next iterator gives the batches that were left.

        So does one that was made last and has given no batch yet.

        They are the same, bit for bit, where the world, the workers and the arguments that the
        order depends on are the same. Otherwise every cell that was left comes once, in a new order
        and in the new batches, but for what `uneven` and `drop_last` leave out or repeat. Nothing
        is read to find the place; of fetch units that also hold cells of batches handed over
        before, all is read again: few of them in a large selection, all of them where the memory
        budget holds the whole selection.

        Raises
        ------
        InvalidArgument
            It is no state, or one of other cells, genes, layer, transforms or joined experiments,
            which the message names, or the stored data are not what they were.
        """
        self._epochs.load(self._checked_position(state), self._settings)

    def _checked_position(self, state: dict[str, Any]) -> ResumeState:
        position = ResumeState.from_state(state)
        check_selection(position, self._selection)
        return position

    @property
    def stats(self) -> LoaderStats:
        """Counts of the epoch that is running, else of the last one.

        Those of DataLoader workers are added up, a quarter of a second late while they read;
        `bytes_needed`, `planned_bytes` and `planned_bytes_read` come when they have ended.
        `units_in_shuffle` is the least of theirs; `bytes_needed` counts a tile once, whoever of them needs it.
        """
        total = self._worker_total
        if total.began_after(self._progress.serial, self._epochs.counter):
            return total.stats(self._epochs.counter, self._selection, self._settings)
        return self._progress.stats

    def __len__(self) -> int:
        """Batches of an epoch for this rank, over all of its DataLoader workers.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        ResourceExhausted
            The memory budget is too small for the epoch.
        """
        shard = self._shard_with_cells()
        key = shard.rank, shard.world_size
        if key not in self._lengths:
            self._lengths[key] = self._count_batches(*key)
        return self._lengths[key]

    def _count_batches(self, rank: int, world_size: int) -> int:
        size = self._settings.batch_size
        simple = self._settings.uneven != "exact" and self._settings.min_batch == 1
        if world_size == 1 and simple:
            cells = self._selection.epoch_cells(self._settings)
            return cells // size if self._settings.drop_last else -(-cells // size)
        settings = expected(self._selection, self._settings)
        return self._selection.loader(settings, Shard(rank, world_size), 0).size()

    def _shard_with_cells(self) -> Shard:
        shard = self._settings.find_shard()
        check_some_batch(self._selection.epoch_cells(self._settings), self._settings, shard)
        return shard

    def plan(self) -> LoaderStats:
        """Plan the next epoch without reading cells: `planned_bytes` and `units_in_shuffle`.

        Raises
        ------
        InvalidArgument
            Cells are selected, but the settings leave an epoch without a batch.
        ResourceExhausted
            The memory budget is too small; the message says the least that works.
        """
        settings = expected(self._selection, self._settings)
        loader = self._selection.loader(settings, self._shard_with_cells(), self.epoch)
        return from_core(loader.stats())
