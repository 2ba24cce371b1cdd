"""A running epoch: what it reads and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock import _core
from penstock.errors import InvalidArgument
from penstock.plan.fingerprint import Fingerprint
from penstock.plan.planner import Planner
from penstock.plan.sampling import Sampling
from penstock.plan.shard import Shard, in_worker

from .resume import (
    OrderSettings,
    ResumeSegment,
    ResumeState,
    batches_of_lane,
    planned,
    what_is_left,
)


@dataclass
class EpochRun:
    """An epoch, or what a state left of it, in the order of now."""

    epoch: int
    selection: Fingerprint
    earlier: tuple[ResumeSegment, ...]  # in other orders
    order: OrderSettings
    shard: Shard  # whose batches this process reads
    worker: int | None  # number of the DataLoader worker that it is
    rows: _core.RowSelection | None  # None: every selected cell
    batches: int  # handed over in this order
    shuffle: bool | str  # what the argument came to, where it depends on a cache
    sampling: Sampling | None = None  # what is still drawn, where there are earlier segments
    plan: int = 0
    lanes: int = 1  # workers that have batches
    size: int = -1  # batches in this order; -1: not known
    serial: int = 0  # of its iterator, among those of the dataset

    is_watched: bool = False  # one of several ranks, which are to notice what differs
    is_compared: bool = False  # with what other ranks of torch.distributed read
    selected: tuple[int, int] = (0, 0)  # number of cells, and fingerprint
    rank_plan: int = 0  # fingerprint of the plan of all of the rank's workers
    first: int = 0  # batches that were handed over before its iterator was made
    left_before: int | None = None  # batches of the epoch before, where this one only follows on it
    moved_to: int | None = None  # epoch chosen since, before a batch was taken

    @property
    def not_started(self) -> bool:
        """Whether its iterator has given no batch."""
        return self.batches == self.first

    @property
    def finished(self) -> bool:
        """Whether every batch was handed over."""
        return self.batches == self.size

    @property
    def position(self) -> ResumeState:
        """How far it is."""
        segments = (*self.earlier, ResumeSegment(self.order, self.plan, self.lanes, self.batches))
        lane = None if self.worker is None else self.shard.worker
        return ResumeState(self.epoch, self.selection, segments, self.worker, lane)

    def count(self) -> None:
        """One more batch was handed over."""
        self.batches += 1

    def left_of(self, planner: Planner) -> Planner:
        """Plans what is left of the dataset's cells, in the order of now."""
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
        if self.batches:
            begun = ResumeSegment(self.order, self.plan, self.lanes, self.batches)
            loader = planned(left, self.shard, self.epoch, self.batches, begun)
        else:
            loader = left.loader(self.shard, self.epoch)
            self.plan = loader.fingerprint()
        self.lanes = loader.lanes()
        self.size = loader.size()
        self.rank_plan = loader.fingerprint()
        return loader

    def plan_for_workers(self, left: Planner) -> None:
        """Plan as the main process, which reads nothing and counts what all workers give."""
        if self.batches == 0:
            of_worker = left.loader(self.shard, self.epoch)
            self.plan, self.lanes = of_worker.fingerprint(), of_worker.lanes()
        else:
            begun = ResumeSegment(self.order, self.plan, self.lanes, self.batches)
            planned(left, self.shard, self.epoch, 0, begun)
        alone = left.loader(replace(self.shard, num_workers=1), self.epoch)
        self.size, self.rank_plan = alone.size(), alone.fingerprint()


def begin_run(position: ResumeState, planner: Planner, shard: Shard) -> EpochRun:
    """Start the epoch at `position`; without segments that is its first batch."""
    order = OrderSettings.of(planner, shard)
    segments = position.segments
    here = segments[-1] if segments and segments[-1].order == order else None
    earlier = segments[:-1] if here is not None else segments
    if here is None and position.worker is not None:
        # Its count is one worker's: which cells the others gave cannot be told from it.
        raise InvalidArgument(
            "the state of a DataLoader worker resumes with the arguments that it was saved with; "
            "save Dataset.state_dict of the main process, which fits others"
        )
    rows, sampling = None, planner.settings.sampling
    if earlier:
        left, sampling = what_is_left(planner, position.epoch, earlier)
        rows = None if left == planner.selection.rows else left
    worker = shard.worker if shard.num_workers > 1 and in_worker() else None
    run = EpochRun(
        position.epoch,
        position.selection,
        earlier,
        order,
        shard,
        worker,
        rows,
        0,
        planner.settings.shuffle,
        sampling,
    )
    if here is None:
        return run
    run.plan, run.lanes, run.batches = here.plan, here.lanes, here.batches
    if worker is None:
        return run
    if position.lane is not None:
        run.shard = replace(shard, worker=position.lane)
    elif worker >= here.lanes:  # it has no batches
        run.batches = 0
    else:  # the state counts what all workers gave: the first one is next in turn
        lane = (worker + here.batches) % here.lanes
        run.shard = replace(shard, worker=lane)
        run.batches = batches_of_lane(here.batches, lane, here.lanes)
    return run


def check_worker(position: ResumeState, shard: Shard) -> None:
    """Refuse the state of a DataLoader worker anywhere but in the same worker of as many.

    Raises
    ------
    InvalidArgument
        It is loaded elsewhere.
    """
    if position.worker is None:
        return
    workers = position.segments[-1].order.num_workers if position.segments else 0
    if position.worker != shard.worker or workers != shard.num_workers:
        raise InvalidArgument(
            f"the state is of DataLoader worker {position.worker} of {workers}, and this is worker "
            f"{shard.worker} of {shard.num_workers}: keep num_workers, or save Dataset.state_dict "
            "of the main process, which fits any number of workers"
        )
