"""Counts of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import _core

    from .planner import Planner

_HINT_FOR_PROCESSES = (
    "with several ranks or DataLoader workers no cells stay in memory; "
    "a cache_dir keeps them on disk for later epochs"
)


@dataclass(frozen=True)
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
    consumer_wait_seconds : float
        Seconds that the consumer waited for batches.
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
    consumer_wait_seconds: float = 0.0
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


#: The fields that are counts.
COUNTS = tuple(field.name for field in fields(LoaderStats) if field.name != "hint")
_OF_LOADER = tuple(name for name in COUNTS if name not in ("kept_cells", "kept_packed_cells"))


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
