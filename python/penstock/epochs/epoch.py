"""A running epoch: its plan and its position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock import _core
from penstock.plan.planner import Planner
from penstock.plan.sampling import Sampling
from penstock.plan.shard import Shard, in_worker

from .resume import what_is_left


@dataclass
class ProcessRun:
    """An epoch, or the rest of it after a resume, in the order of the current settings."""

    core: _core.EpochRun  # counts batches and makes states
    shard: Shard  # whose batches this process reads
    rows: _core.RowSelection | None  # None: all selected cells
    sampling: Sampling | None  # draws that are left, if there are earlier segments
    shuffle: bool | str  # argument, or the shuffle that was chosen by the cache
    memory: tuple[int, int]  # memory_budget and kept_memory, from all cells
    serial: int = 0  # serial number of its iterator in the dataset

    is_watched: bool = False  # one of several ranks: differences must be noticed
    is_compared: bool = False  # compared with other ranks of torch.distributed
    selected: tuple[int, int] = (0, 0)  # number of selected cells, and their fingerprint
    rank_plan: int = 0  # fingerprint of the plan of all workers of the rank
    first: int = 0  # batches that were yielded before its iterator was made
    left_before: int | None = None  # batches of the previous epoch, unless this epoch was set
    moved_to: int | None = None  # epoch that was set before the first batch was taken

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return self.core.epoch

    @property
    def order(self) -> _core.OrderSettings:
        """Settings that the order of the batches depends on."""
        return self.core.order

    @property
    def earlier(self) -> Sequence[_core.ResumeSegment]:
        """Segments that were read in other orders, before a resume."""
        return self.core.earlier

    @property
    def batches(self) -> int:
        """Number of batches that were yielded in this order."""
        return self.core.batches

    @property
    def size(self) -> int:
        """Number of planned batches in this order."""
        return self.core.size

    @property
    def not_started(self) -> bool:
        """Whether the iterator has yielded no batch."""
        return self.batches == self.first

    @property
    def finished(self) -> bool:
        """Whether every batch was yielded."""
        return self.core.finished

    @property
    def position(self) -> _core.ResumeState:
        """Position in the epoch, to resume from."""
        return self.core.state()

    def count(self) -> None:
        """Count one more batch as yielded."""
        self.core.count_batch()

    def left_of(self, planner: Planner) -> Planner:
        """Return a planner of the cells that are left, in the order of the current settings."""
        left = planner if self.rows is None else planner.with_rows(self.rows)
        budget, kept = self.memory
        left = left.replace_settings(shuffle=self.shuffle, memory_budget=budget, kept_memory=kept)
        return left.replace_settings(sampling=self.sampling) if self.earlier else left

    def loader(self, left: Planner) -> _core.Loader:
        """Return a loader of the cells that this process reads; `left` comes from `left_of`.

        Raises
        ------
        InvalidArgument
            The epoch resumes from a state, but the stored data have changed.
        """
        loader = left.loader(self.shard, self.epoch, self.core)
        self._set_plan(loader, loader, left)
        return loader

    def plan_for_workers(self, left: Planner) -> None:
        """Plan in the main process, which reads nothing and counts the batches of all workers."""
        of_worker = left.loader(self.shard, self.epoch)
        alone = left.loader(replace(self.shard, num_workers=1), self.epoch)
        self._set_plan(of_worker, alone, left)

    def _set_plan(self, loader: _core.Loader, of_rank: _core.Loader, left: Planner) -> None:
        """Set the plan and the rank's batches in one call, since a signal may come in between."""
        uri = left.selection.matrix.uri
        self.core.set_plan(loader.fingerprint(), loader.active_workers(), of_rank.size(), uri)
        self.rank_plan = of_rank.fingerprint()


def begin_run(position: _core.ResumeState, planner: Planner, shard: Shard) -> ProcessRun:
    """Start the epoch at `position`; a position without segments is the first batch."""
    core = _core.EpochRun(position, planner.epoch_options(shard, position.epoch), in_worker())
    rows, sampling = None, planner.settings.sampling
    if core.earlier:
        left, sampling = what_is_left(planner, position.epoch, core.earlier)
        rows = None if left == planner.selection.rows else left
    shard = replace(shard, worker=core.as_worker)
    settings = planner.settings
    memory = settings.memory_budget, settings.kept_memory
    return ProcessRun(core, shard, rows, sampling, settings.shuffle, memory)
