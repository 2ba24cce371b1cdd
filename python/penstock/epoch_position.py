"""Where an epoch stands, to be saved and gone on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any

from . import _core
from .arguments import described
from .errors import InvalidArgument
from .loader_settings import CHUNKS, GLOBAL, SCATTER, LoaderSettings
from .selection_fingerprint import SelectionFingerprint
from .sharding import Share

if TYPE_CHECKING:
    from .selection import Selection

_VERSION = 1
#: States from before have none.
_NEW_FIELDS = {"sampling": 0, "chunk_size": 0, "chunks_per_block": 0, "global_shuffle": False}


@dataclass(frozen=True)
class Shape:
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
    def of(cls, settings: LoaderSettings, share: Share, selection: Selection) -> Shape:
        """Shape of the epochs that these settings make."""
        is_global = selection.shuffle(settings) == GLOBAL
        return cls(
            share.world_size,
            share.num_workers,
            settings.batch_size,
            bool(settings.shuffle),
            settings.seed,
            0 if is_global else settings.memory_budget,  # a global order is the same with any
            selection.engine_makes_csr(settings),
            settings.engine_dtype,
            settings.drop_last,
            settings.min_batch,
            settings.uneven,
            selection.sampling_fingerprint(settings),
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
        """The settings that made epochs of this shape, for the rest as `now`."""
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
class Segment:
    """Batches of an epoch that came in one shape, the same number on every rank."""

    shape: Shape
    plan: int  # fingerprint, to notice other data
    lanes: int  # how many of the shape's workers have batches
    batches: int


@dataclass(frozen=True)
class Position:
    """How far an epoch is: segments, one for each shape it was read in. The same on every rank.

    In a DataLoader worker `worker` is its number, the batches are its own, and `lane` says whose
    batches it reads: a DataLoader asks worker 0 first, whoever was next when the state was saved.
    """

    epoch: int
    selection: SelectionFingerprint
    segments: tuple[Segment, ...] = ()
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
                    **asdict(each.shape),
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
    def from_state(cls, state: Any) -> Position:
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
        if state["version"] != _VERSION:
            raise InvalidArgument(
                f"the state has version {state['version']!r}, this penstock reads {_VERSION}"
            )
        try:
            segments = tuple(_segment(each) for each in state["segments"])
            worker, lane = state.get("worker"), state.get("lane")
            return cls(
                _epoch(state["epoch"]),
                SelectionFingerprint.from_state(state["selection"]),
                segments,
                None if worker is None else _whole(worker),
                None if worker is None else _whole(lane),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"the state is damaged: {error!r}, got {state!r}") from None


def _segment(fields: Mapping[str, Any]) -> Segment:
    shape: dict[str, Any] = {}
    for each in dataclass_fields(Shape):
        old = _NEW_FIELDS
        value = fields.get(each.name, old[each.name]) if each.name in old else fields[each.name]
        if type(value).__name__ != each.type:  # a saved file may hold anything
            raise ValueError(f"{each.name} is {value!r}")
        shape[each.name] = _whole(value) if each.type == "int" else value
    # States of global orders from before have none.
    lanes = _whole(fields.get("lanes", shape["num_workers"]))
    if not 1 <= lanes <= shape["num_workers"]:
        raise ValueError(f"lanes is {lanes!r}")
    return Segment(Shape(**shape), _whole(fields["plan"]), lanes, _whole(fields["batches"]))


def _epoch(number: Any) -> int:
    if _whole(number) > 2**62:  # the most that set_epoch takes
        raise ValueError(f"{number!r} is no epoch")
    return _whole(number)


def _whole(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**64:
        raise ValueError(f"{number!r} is no count")
    return number


def batches_of_lane(batches: int, lane: int, lanes: int) -> int:
    """How many of a rank's first batches a DataLoader took from one of its workers: in turns."""
    return max(0, batches - lane + lanes - 1) // lanes


def check_selection(position: Position, selection: Selection) -> None:
    """Refuse a state of other cells, genes or values: half an epoch would be of each.

    Raises
    ------
    InvalidArgument
        It is such a state; the message says what differs.
    """
    found = position.selection.differences(SelectionFingerprint.of(selection))
    if found:
        raise InvalidArgument(
            f"the state is of another selection than this dataset's: {found}; load it into a dataset "
            "made as the one that was saved"
        )


def what_is_left(
    selection: Selection, settings: LoaderSettings, epoch: int, segments: tuple[Segment, ...]
) -> tuple[_core.RowSelection, LoaderSettings]:
    """Cells that no rank has handed over in the segments, and how many are still to be drawn.

    Plans the segments again; reads nothing.

    Raises
    ------
    InvalidArgument
        Other cells were drawn then, or stored data are not what they were.
    """
    rows = selection.rows
    drawn = selection.sampling_fingerprint(settings)
    for segment in segments:
        if segment.shape.sampling != drawn:
            raise InvalidArgument(
                "the state was saved in an epoch that draws other cells: weights, balance, "
                "replacement and num_samples must be what they were"
            )
        before = _core.RowSelection()
        count = 0
        then = segment.shape.settings(settings)
        part = selection.with_rows(rows)
        for rank in range(segment.shape.world_size):
            for lane in range(segment.lanes):
                share = Share(rank, segment.shape.world_size, lane, segment.shape.num_workers)
                first = batches_of_lane(segment.batches, lane, segment.lanes)
                loader = planned(part, then, share, epoch, first, segment)
                before = before | loader.rows_before()
                count += loader.row_count_before()
        sampling = settings.sampling
        if sampling is not None:
            left = max(0, part.epoch_cells(settings) - count)
            settings = replace(settings, sampling=sampling.for_the_rest(selection, left))
        if sampling is None or not sampling.replacement:
            rows = rows - before
    return rows, settings


def planned(
    selection: Selection,
    settings: LoaderSettings,
    share: Share,
    epoch: int,
    first_batch: int,
    segment: Segment,
) -> _core.Loader:
    """Plan an epoch as it was planned when the segment was read.

    Raises
    ------
    InvalidArgument
        The stored data are not what they were.
    """
    loader = selection.loader(settings, share, epoch, first_batch)
    if loader.fingerprint() != segment.plan or loader.lanes() != segment.lanes:
        raise InvalidArgument(
            "the state does not fit what is stored: it was saved by another version of penstock, "
            f"or cells were written or consolidated since, in {selection.matrix.uri}"
        )
    return loader
