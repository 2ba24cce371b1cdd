"""What an epoch did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import _core


@dataclass(frozen=True)
class LoaderStats:
    """Counts of the current epoch, or of the last one.

    Attributes
    ----------
    cells, nonzeros, batches : int
        Handed to the consumer.
    bytes_read : int
        Read from the store, metadata apart.
    bytes_needed : int
        Stored size of the distinct tiles that the cells touch.
    requests : int
        Reads that the store was asked for; of a remote store ranges, retries and metadata apart.
    units : int
        Fetch units read; 0 where cells are read one by one (a global shuffle of a pack).
    units_in_shuffle : int
        How many units feed a batch at any time; the more, the better mixed.
    consumer_wait_seconds : float
        Time that the consumer waited for batches.
    peak_buffered_bytes : int
        Most memory that rows, tiles in flight and finished batches took; batches that you hold count
        until you let go of them, and alone they can exceed the budget.
    spilled_bytes : int
        Written to disk because an estimate of memory proved too low.
    planned_bytes : int
        Memory that the plan sets aside for the epoch.
    planned_units, planned_bytes_read : int
        Fetch units that the plan visits, and the stored bytes that these visits will read. A tile counts
        once for each visit that reads it. A cache counts as empty. Both are 0 where cells are read
        one by one, as a global order reads packs and full caches.
    cached_units, cached_bytes : int
        Of `units`, those that `cache_dir` had, and what was read from there.
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

    @property
    def read_amplification(self) -> float:
        """Bytes read over bytes needed; 1 is the least, 0 before anything is read."""
        return self.bytes_read / self.bytes_needed if self.bytes_needed else 0.0


def from_core(stats: _core.LoaderStats) -> LoaderStats:
    """Copy the engine's counts."""
    return LoaderStats(**{name: getattr(stats, name) for name in LoaderStats.__dataclass_fields__})
