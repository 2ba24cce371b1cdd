"""A running epoch: what it reads and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock import _core
from penstock.plan.planner import Planner
from penstock.plan.sampling import Sampling
from penstock.plan.shard import Shard, in_worker

from .resume import what_is_left


@dataclass
class EpochRun:
    """An epoch, or what a state left of it, in the order of now."""

    core: _core.EpochRun  # counts batches and makes states
    shard: Shard  # whose batches this process reads
    rows: _core.RowSelection | None  # None: every selected cell
    sampling: Sampling | None  # what is still drawn, where there are earlier segments
    shuffle: bool | str  # the argument, or the shuffle that a cache allows
    serial: int = 0  # of its iterator, among those of the dataset

    is_watched: bool = False  # one of several ranks, which must notice what differs
    is_compared: bool = False  # with what other ranks of torch.distributed read
    selected: tuple[int, int] = (0, 0)  # number of cells, and fingerprint
    rank_plan: int = 0  # fingerprint of the plan of all of the rank's workers
    first: int = 0  # batches that were handed over before its iterator was made
    left_before: int | None = None  # batches of the epoch before, where this one only follows on it
    moved_to: int | None = None  # epoch chosen since, before a batch was taken

    @property
    def epoch(self) -> int:
        """Its number."""
        return self.core.epoch

    @property
    def order(self) -> _core.OrderSettings:
        """What the order of its batches depends on."""
        return self.core.order

    @property
    def earlier(self) -> Sequence[_core.ResumeSegment]:
        """What was read in other orders."""
        return self.core.earlier

    @property
    def batches(self) -> int:
        """Batches that were handed over in this order."""
        return self.core.batches

    @property
    def size(self) -> int:
        """Batches in this order, once they are planned."""
        return self.core.size

    @property
    def not_started(self) -> bool:
        """Whether its iterator has given no batch."""
        return self.batches == self.first

    @property
    def finished(self) -> bool:
        """Whether every batch was handed over."""
        return self.core.finished

    @property
    def position(self) -> _core.ResumeState:
        """How far it is."""
        return self.core.state()

    def count(self) -> None:
        """Count one more batch as handed over."""
        self.core.count_batch()

    def left_of(self, planner: Planner) -> Planner:
        """Plan what is left of the dataset's cells, in the order of now."""
        left = planner if self.rows is None else planner.with_rows(self.rows)
        left = left.replace_settings(shuffle=self.shuffle)
        return left.replace_settings(sampling=self.sampling) if self.earlier else left

    def loader(self, left: Planner) -> _core.Loader:
        """Plan what this process reads of it; `left` is that of `left_of`.

        Raises
        ------
        InvalidArgument
            It resumes from a state, and the stored data are not what they were.
        """
        options = self.core.loader_options(left.epoch_options(self.shard, self.epoch))
        loader = _core.Loader(left.selection.matrix, options)
        self._set_plan(loader, loader, left)
        return loader

    def plan_for_workers(self, left: Planner) -> None:
        """Plan as the main process, which reads nothing and counts what all workers give."""
        of_worker = left.loader(self.shard, self.epoch)
        alone = left.loader(replace(self.shard, num_workers=1), self.epoch)
        self._set_plan(of_worker, alone, left)

    def _set_plan(self, loader: _core.Loader, of_rank: _core.Loader, left: Planner) -> None:
        """Note the plan, and the batches of the rank: at once, as a signal may come between."""
        uri = left.selection.matrix.uri
        self.core.set_plan(loader.fingerprint(), loader.lanes(), of_rank.size(), uri)
        self.rank_plan = of_rank.fingerprint()


def begin_run(position: _core.ResumeState, planner: Planner, shard: Shard) -> EpochRun:
    """Start the epoch at `position`; without segments that is its first batch."""
    core = _core.EpochRun(position, planner.epoch_options(shard, position.epoch), in_worker())
    rows, sampling = None, planner.settings.sampling
    if core.earlier:
        left, sampling = what_is_left(planner, position.epoch, core.earlier)
        rows = None if left == planner.selection.rows else left
    shard = replace(shard, worker=core.lane)
    return EpochRun(core, shard, rows, sampling, planner.settings.shuffle)
