"""How far an epoch is, to be saved and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any

from penstock import _core
from penstock.base.validation import described
from penstock.errors import InvalidArgument
from penstock.plan.fingerprint import Fingerprint
from penstock.plan.planner import Planner
from penstock.plan.sampling import Sampling
from penstock.plan.selection import Selection
from penstock.plan.settings import CHUNKS, DTYPES, GLOBAL, SCATTER, UNEVEN, LoaderSettings
from penstock.plan.shard import MOST_RANKS, MOST_WORKERS, Shard

_VERSION = 1
#: States from before have none.
_NEW_FIELDS = {"sampling": 0, "chunk_size": 0, "chunks_per_block": 0, "global_shuffle": False}
#: Least and most of each number of a segment. A saved file may hold anything, and what the engine
#: plans from must not take more memory than an epoch that somebody has read.
_BOUNDS = {
    "world_size": (1, MOST_RANKS),
    "num_workers": (1, MOST_WORKERS),
    "batch_size": (1, 2**31 - 1),
    "seed": (0, 2**64 - 1),
    "memory_budget": (0, 2**63 - 1),
    "min_batch": (1, 2**31 - 1),
    "sampling": (0, 2**64 - 1),
    "chunk_size": (0, 2**31 - 1),
    "chunks_per_block": (0, 2**31 - 1),
    "plan": (0, 2**64 - 1),
    "batches": (0, 2**62),
}
#: More orders than any epoch is read in.
_MOST_SEGMENTS = 1000


@dataclass(frozen=True)
class OrderSettings:
    """What the order of an epoch and its cut into batches depend on, but for rank and worker."""

    world_size: int
    num_workers: int
    batch_size: int
    shuffle: bool
    seed: int
    memory_budget: int
    sparse: bool
    dtype: str
    drop_last: bool
    min_batch: int
    uneven: str
    sampling: int = 0  # fingerprint of what is drawn and how
    chunk_size: int = 0
    chunks_per_block: int = 0
    global_shuffle: bool = False

    @classmethod
    def of(cls, planner: Planner, shard: Shard) -> OrderSettings:
        """Those of the epochs that are planned so."""
        settings = planner.settings
        is_global = planner.shuffle == GLOBAL
        return cls(
            shard.world_size,
            shard.num_workers,
            settings.batch_size,
            bool(settings.shuffle),
            settings.seed,
            0 if is_global else settings.memory_budget,  # a global order is the same with any
            planner.makes_csr,
            settings.engine_dtype,
            settings.drop_last,
            settings.min_batch,
            settings.uneven,
            planner.sampling_fingerprint,
            settings.chunk_size,
            settings.chunks_per_block,
            is_global,
        )

    @property
    def _shuffle(self) -> bool | str:
        if not self.shuffle:
            return False
        return GLOBAL if self.global_shuffle else CHUNKS if self.chunk_size else SCATTER

    def settings(self, now: LoaderSettings) -> LoaderSettings:
        """The settings that made epochs of this order, for the rest as `now`."""
        return replace(
            now,
            batch_size=self.batch_size,
            shuffle=self._shuffle,
            chunk_size=self.chunk_size,
            chunks_per_block=self.chunks_per_block,
            seed=self.seed,
            memory_budget=now.memory_budget if self.global_shuffle else self.memory_budget,
            sparse="csr" if self.sparse else None,
            dtype=self.dtype,
            device=None,
            drop_last=self.drop_last,
            min_batch=self.min_batch,
            uneven=self.uneven,
        )


@dataclass(frozen=True)
class ResumeSegment:
    """Batches of an epoch that came in one order, the same number on every rank."""

    order: OrderSettings
    plan: int  # fingerprint, to notice other data
    lanes: int  # how many of the order's workers have batches
    batches: int


@dataclass(frozen=True)
class ResumeState:
    """How far an epoch is: segments, one for each order it was read in. The same on every rank.

    In a DataLoader worker `worker` is its number, the batches are its own, and `lane` says whose
    batches it reads: a DataLoader asks worker 0 first, whoever was next when the state was saved.
    """

    epoch: int
    selection: Fingerprint
    segments: tuple[ResumeSegment, ...] = ()
    worker: int | None = None
    lane: int | None = None

    def state(self) -> dict[str, Any]:
        """As a dict of numbers, strings, lists and dicts."""
        state: dict[str, Any] = {
            "version": _VERSION,
            "epoch": self.epoch,
            "selection": self.selection.state(),
            "segments": [
                {
                    **asdict(each.order),
                    "plan": each.plan,
                    "lanes": each.lanes,
                    "batches": each.batches,
                }
                for each in self.segments
            ],
        }
        if self.worker is not None:
            state["worker"], state["lane"] = self.worker, self.lane
        return state

    @classmethod
    def from_state(cls, state: Any) -> ResumeState:
        """Check and take apart what `state` gave.

        Raises
        ------
        InvalidArgument
            It is no such dict, or one of a newer version.
        """
        if not isinstance(state, Mapping) or "version" not in state:
            raise InvalidArgument(
                f"a state is what Dataset.state_dict returned, got {described(state)}"
            )
        version = state["version"]
        if type(version) is not int or version != _VERSION:
            raise InvalidArgument(
                f"the state has version {described(version)}, this penstock reads {_VERSION}"
            )
        try:
            segments = _segments(state["segments"])
            worker, lane = state.get("worker"), state.get("lane")
            if worker is not None:
                worker = _number("worker", worker, 0, MOST_WORKERS - 1)
                lane = _number("lane", lane, 0, MOST_WORKERS - 1)
            return cls(
                _number("epoch", state["epoch"], 0, 2**62),  # the most that set_epoch takes
                Fingerprint.from_state(state["selection"]),
                segments,
                worker,
                lane if worker is not None else None,
            )
        except KeyError as error:
            reason = f"{error.args[0]} is missing"
        except (TypeError, ValueError) as error:
            reason = str(error)
        raise InvalidArgument(
            f"the state is damaged: {reason}; load one that Dataset.state_dict returned, got "
            + described(state)
        )


def _segments(saved: Any) -> tuple[ResumeSegment, ...]:
    if not isinstance(saved, (list, tuple)) or len(saved) > _MOST_SEGMENTS:
        raise ValueError(
            f"segments must be a list of at most {_MOST_SEGMENTS}, got {described(saved)}"
        )
    return tuple(_segment(each) for each in saved)


def _segment(fields: Any) -> ResumeSegment:
    if not isinstance(fields, Mapping):
        raise ValueError(f"a segment must be a dict, got {described(fields)}")
    values: dict[str, Any] = {}
    for each in dataclass_fields(OrderSettings):
        old = _NEW_FIELDS
        value = fields.get(each.name, old[each.name]) if each.name in old else fields[each.name]
        if each.type == "int":
            value = _number(each.name, value, *_BOUNDS[each.name])
        elif type(value) is not {"bool": bool, "str": str}[str(each.type)]:
            raise ValueError(f"{each.name} must be of type {each.type}, got {described(value)}")
        values[each.name] = value
    order = OrderSettings(**values)
    _check_order(order)
    # States of global orders from before have none.
    lanes = _number("lanes", fields.get("lanes", order.num_workers), 1, order.num_workers)
    plan, batches = (_number(name, fields[name], *_BOUNDS[name]) for name in ("plan", "batches"))
    return ResumeSegment(order, plan, lanes, batches)


def _check_order(order: OrderSettings) -> None:
    if order.dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {described(order.dtype)}")
    if order.uneven not in UNEVEN:
        raise ValueError(
            f"uneven must be one of {', '.join(UNEVEN)}, got {described(order.uneven)}"
        )
    if order.min_batch > order.batch_size:
        raise ValueError(f"min_batch {order.min_batch} is more than batch_size {order.batch_size}")
    is_chunks = order.chunk_size != 0
    if (
        is_chunks != (order.chunks_per_block != 0)
        or is_chunks + order.global_shuffle > order.shuffle
    ):
        raise ValueError(
            f"no shuffle has shuffle={order.shuffle}, global_shuffle={order.global_shuffle}, "
            f"chunk_size={order.chunk_size}, chunks_per_block={order.chunks_per_block}"
        )
    if not order.memory_budget and not order.global_shuffle:
        raise ValueError("memory_budget is 0")


def _number(name: str, number: Any, least: int, most: int) -> int:
    if type(number) is not int or not least <= number <= most:
        raise ValueError(
            f"{name} must be an integer from {least} to {most}, got {described(number)}"
        )
    return number


def batches_of_lane(batches: int, lane: int, lanes: int) -> int:
    """How many of a rank's first batches a DataLoader took from one of its workers: in turns."""
    return max(0, batches - lane + lanes - 1) // lanes


def check_selection(position: ResumeState, selection: Selection) -> None:
    """Refuse a state of other cells, genes or values: half an epoch would be of each.

    Raises
    ------
    InvalidArgument
        It is such a state; the message says what differs.
    """
    found = position.selection.differences(Fingerprint.of(selection))
    if found:
        raise InvalidArgument(
            f"the state is of another selection than this dataset's: {found}; load it into a dataset "
            "made as the one that was saved"
        )


def what_is_left(
    planner: Planner, epoch: int, segments: tuple[ResumeSegment, ...]
) -> tuple[_core.RowSelection, Sampling | None]:
    """Cells that no rank has handed over in the segments, and what is still drawn of them.

    Plans the segments again; reads nothing.

    Raises
    ------
    InvalidArgument
        Other cells were drawn then, or stored data are not what they were.
    """
    selection, settings = planner.selection, planner.settings
    rows, sampling = selection.rows, settings.sampling
    drawn = planner.sampling_fingerprint
    for segment in segments:
        if segment.order.sampling != drawn:
            raise InvalidArgument(
                "the state was saved in an epoch that draws other cells: weights, balance, "
                "replacement and num_samples must be what they were"
            )
        before = _core.RowSelection()
        count = 0
        now = planner.with_rows(rows).replace_settings(sampling=sampling)
        then = now.with_settings(segment.order.settings(now.settings))
        for rank in range(segment.order.world_size):
            for lane in range(segment.lanes):
                shard = Shard(rank, segment.order.world_size, lane, segment.order.num_workers)
                first = batches_of_lane(segment.batches, lane, segment.lanes)
                loader = planned(then, shard, epoch, first, segment)
                before = before | loader.rows_before()
                count += loader.row_count_before()
        if sampling is not None:
            left = max(0, now.epoch_cells - count)
            sampling = sampling.for_the_rest(selection.obs, selection.rows, left)
        if sampling is None or not sampling.replacement:
            rows = rows - before
    return rows, sampling


def planned(
    planner: Planner, shard: Shard, epoch: int, first_batch: int, segment: ResumeSegment
) -> _core.Loader:
    """Plan an epoch as it was planned when the segment was read.

    Raises
    ------
    InvalidArgument
        The stored data are not what they were.
    """
    loader = planner.loader(shard, epoch, first_batch)
    if loader.fingerprint() != segment.plan or loader.lanes() != segment.lanes:
        raise InvalidArgument(
            "the state does not fit what is stored: it was saved by another version of penstock, "
            f"or cells were written or consolidated since, in {planner.selection.matrix.uri}"
        )
    return loader
