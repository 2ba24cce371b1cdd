"""Counts of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from penstock.base.text import aligned, block_html, count, plural, size

if TYPE_CHECKING:
    from penstock import _core

    from .planner import Planner

_HINT_FOR_PROCESSES = (
    "with several ranks or DataLoader workers no cells stay in memory; "
    "a cache_dir keeps them on disk for later epochs"
)


@dataclass(frozen=True, repr=False)
class LoaderStats:
    """Counts of the running epoch, or of the last one.

    Attributes
    ----------
    cells, nonzeros, batches : int
        Cells, non-zeros and batches that were yielded.
    bytes_read : int
        Bytes read from the store, without metadata.
    bytes_needed : int
        Stored bytes of the distinct tiles that the cells touch.
    requests : int
        Read requests to the store. For a remote store: ranges, without retries and metadata.
    units : int
        Fetch units read. 0 if cells are read one by one (a global shuffle of a pack).
    units_in_shuffle : int
        Units that feed a batch at any time. More units mix better.
    seconds : float
        Seconds from the request of the first batch to the most recent batch, or to the end of the
        epoch, with the steps of the training loop. With DataLoader workers: of the worker that took
        longest.
    workers : int
        DataLoader workers that have read cells. 0 if this process reads.
    consumer_wait_seconds : float
        Seconds that the consumer waited for batches. With DataLoader workers: the sum of the
        seconds that each waited.
    loop_seconds, loop_wait_seconds : float
        Seconds of the training loop, from its start to the most recent batch, and those of them that
        it waited for DataLoader workers. `stats` of the loader has them, `Dataset.stats` 0.
    peak_buffered_bytes : int
        Peak memory of rows, tiles in flight and finished batches, in bytes. Batches count until the
        consumer releases them; they alone can exceed the budget.
    spilled_bytes : int
        Bytes written to disk because an estimate of memory was too low.
    planned_bytes : int
        Bytes of memory that the plan uses for the epoch.
    planned_units, planned_bytes_read : int
        Fetch units that the plan visits, and the stored bytes that these visits read. A tile counts
        once for each visit. Memory and a cache count as empty. Both are 0 if cells are read one by one, as in
        a global shuffle of a pack or a full cache.
    cached_units, cached_bytes : int
        Units of `units` that `cache_dir` had, and bytes read from there.
    kept_units : int
        Units of `units` that were in memory from an earlier epoch.
    kept_cells, kept_packed_cells : int
        Cells that are in memory between epochs, and those of them that are bit-packed. `Dataset.stats`
        has the numbers of now, also after an epoch.
    kept_bytes : int
        Bytes of memory that hold these cells.
    all_kept : bool
        Whether every cell was in memory when the epoch began, so that nothing is read.
    hint : str
        What would make later epochs faster, or nothing.
    """

    cells: int = 0
    nonzeros: int = 0
    batches: int = 0
    bytes_read: int = 0
    bytes_needed: int = 0
    requests: int = 0
    units: int = 0
    units_in_shuffle: int = 0
    seconds: float = 0.0
    workers: int = 0
    consumer_wait_seconds: float = 0.0
    loop_seconds: float = 0.0
    loop_wait_seconds: float = 0.0
    peak_buffered_bytes: int = 0
    spilled_bytes: int = 0
    planned_bytes: int = 0
    planned_units: int = 0
    planned_bytes_read: int = 0
    cached_units: int = 0
    cached_bytes: int = 0
    kept_units: int = 0
    kept_cells: int = 0
    kept_packed_cells: int = 0
    kept_bytes: int = 0
    all_kept: bool = False
    hint: str = ""

    @property
    def read_amplification(self) -> float:
        """`bytes_read` divided by `bytes_needed`: 1 or more, but 0 before anything is read."""
        return self.bytes_read / self.bytes_needed if self.bytes_needed else 0.0

    @property
    def cells_per_second(self) -> float:
        """`cells` divided by `seconds`: the speed of the loop. 0 before the first batch."""
        return self.cells / self.seconds if self.seconds else 0.0

    @property
    def wait_share(self) -> float:
        """Share of `seconds` that the loop waited for batches, from 0 to 1.

        A share near 0 means that the model is slower than the loader. With DataLoader workers
        `stats` of the loader has it; of `Dataset.stats` it is the share of time that the workers
        waited for cells.
        """
        if self.loop_seconds:
            return min(1.0, self.loop_wait_seconds / self.loop_seconds)
        seconds = self.seconds * max(1, self.workers)
        return min(1.0, self.consumer_wait_seconds / seconds) if seconds else 0.0

    def __str__(self) -> str:
        title, rows = self._described()
        return "\n".join([title, *(f"  {line}" for line in aligned(rows))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, rows = self._described()
        return block_html("LoaderStats", title, rows)

    def _described(self) -> tuple[str, list[tuple[str, str]]]:
        """Return a title, and rows of a name and a text."""
        planned = f"{size(self.planned_bytes)} planned"
        if not self.batches:
            if not self.planned_bytes:
                return "No batch yet", []
            return "Plan of an epoch", [("units", _units(self)), ("memory", planned)]
        of_workers = self.workers and not self.loop_seconds
        who = plural(self.workers, "worker") if of_workers else "the loop"
        rows = [
            ("speed", f"{count(round(self.cells_per_second))} cells/s"),
            ("waiting", f"{who} waited {100 * self.wait_share:.0f} % of the time for cells"),
            ("read", _read(self)),
            *([] if self.all_kept else [("units", _units(self))]),
            ("memory", f"{size(self.peak_buffered_bytes)} at most, {planned}"),
        ]
        if self.kept_bytes:
            rows.append(("kept", _kept(self)))
        if self.cached_units:
            rows.append(("cache", f"{size(self.cached_bytes)} of {_of(self.cached_units)} read"))
        if self.spilled_bytes:
            rows.append(("spilled", f"{size(self.spilled_bytes)} to disk"))
        if self.hint:
            rows.append(("hint", self.hint))
        title = f"{plural(self.cells, 'cell')} in {plural(self.batches, 'batch')}"
        return f"{title}, {self.seconds:,.2f} s", rows


def _of(units: int) -> str:
    return plural(units, "unit")


def _read(stats: LoaderStats) -> str:
    """Return bytes, requests, and bytes for each needed byte."""
    if stats.all_kept:
        return "nothing: all cells are in memory"
    text = f"{size(stats.bytes_read)} in {plural(stats.requests, 'request')}"
    if not stats.bytes_read or not stats.bytes_needed:
        return text
    return f"{text}; {stats.read_amplification:.2f} bytes for each one needed"


def _units(stats: LoaderStats) -> str:
    """Return units read, planned and mixed."""
    if not stats.planned_units:
        return "none, cells are read one by one"
    planned = _of(stats.planned_units)
    units = f"{count(stats.units)} of {planned} read" if stats.batches else f"{planned} planned"
    return f"{units}, {count(stats.units_in_shuffle)} mixed at any time"


def _kept(stats: LoaderStats) -> str:
    cells = f"{plural(stats.kept_cells, 'cell')} in " if stats.kept_cells else ""
    return f"{cells}{size(stats.kept_bytes)} stay in memory"


#: The fields that are counts of those who read.
COUNTS = tuple(
    field.name
    for field in fields(LoaderStats)
    if field.name not in ("hint", "loop_seconds", "loop_wait_seconds")
)
_NOT_OF_LOADER = ("kept_cells", "kept_packed_cells", "seconds", "workers")
_OF_LOADER = tuple(name for name in COUNTS if name not in _NOT_OF_LOADER)


def from_core(stats: _core.LoaderStats) -> LoaderStats:
    """Copy the engine's counts."""
    return LoaderStats(**{name: getattr(stats, name) for name in _OF_LOADER})


def with_kept_cells(stats: LoaderStats, planner: Planner) -> LoaderStats:
    """Return counts with the cells that a dataset keeps now; where it keeps none, with a hint."""
    if not planner.keeps_cells(planner.settings.find_shard()):
        return with_hint(stats, planner)
    kept = planner.selection.kept
    return replace(
        stats,
        kept_cells=kept.rows(),
        kept_packed_cells=kept.packed_rows(),
        kept_bytes=kept.bytes(),
    )


def with_hint(stats: LoaderStats, planner: Planner) -> LoaderStats:
    """Return the counts of a rank or of workers, with a hint if a cache would serve them."""
    selection = planner.selection
    if not planner.settings.keep or selection.cache or selection.matrix.addresses_rows:
        return stats
    return replace(stats, hint=_HINT_FOR_PROCESSES)
