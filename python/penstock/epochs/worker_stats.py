"""Counts of an epoch that DataLoader workers read, added up for the main process."""

from __future__ import annotations

import time
from array import array
from dataclasses import replace

from penstock.plan.planner import Planner
from penstock.plan.stats import COUNTS, LoaderStats

from .epoch_numbers import COUNT_WORDS, EpochNumbers

_EPOCH = COUNT_WORDS - 1
assert len(COUNTS) <= _EPOCH
_SECONDS = ("seconds", "consumer_wait_seconds")  # stored as nanoseconds
# Other counts are added.
_LEAST = COUNTS.index("units_in_shuffle")  # the least of all workers
_MOST = COUNTS.index("seconds")  # the most of all workers

_AMPLE = 2**50
#: Interval during an epoch; at its end a worker adds the rest.
SECONDS_BETWEEN = 0.25


class WorkerCounts:
    """Counts that one worker adds for one epoch.

    Parameters
    ----------
    counter : EpochNumbers
        Counter that is shared with the main process.
    epoch, serial : int
        Epoch and serial number of the DataLoader's iterator.
    """

    def __init__(self, counter: EpochNumbers, epoch: int, serial: int) -> None:
        self._counter = counter
        self._epoch = epoch
        self._serial = serial
        self._added = [0] * len(COUNTS)
        self._next_time = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next update is due."""
        return time.monotonic() >= self._next_time

    def add(self, stats: LoaderStats) -> None:
        """Add the counts since the last update."""
        self._next_time = time.monotonic() + SECONDS_BETWEEN
        now = _words(stats)

        def change(counts: array[int]) -> None:
            counts[_EPOCH] = self._epoch
            for i, (value, before) in enumerate(zip(now, self._added, strict=True)):
                if i == _LEAST:
                    if stats.planned_units:  # a worker without cells has no units
                        counts[i] = min(counts[i], value) if counts[i] else value
                elif i == _MOST:
                    counts[i] = max(counts[i], value)
                else:
                    counts[i] += value - before

        self._counter.change_counts(self._serial, change)
        self._added = now


class WorkerTotal:
    """Counts of all workers of a rank, for their most recent iterator."""

    def __init__(self) -> None:
        self._needed = 0, 0  # serial number of an iterator, bytes

    def began_after(self, serial: int, counter: EpochNumbers) -> bool:
        """Return whether workers have counts of a later iterator than `serial`."""
        return counter.counts()[0] > serial

    def stats(self, counter: EpochNumbers, planner: Planner) -> LoaderStats:
        """Return the counts so far; `bytes_needed` counts a tile once for all workers."""
        serial, counts = counter.counts()
        values: dict[str, float] = dict(zip(COUNTS, counts, strict=False))
        for name in _SECONDS:
            values[name] /= 1e9
        total = LoaderStats(**values)  # type: ignore[arg-type]
        if not total.bytes_needed:
            return total
        if self._needed[0] != serial:
            alone = replace(planner.settings.find_shard(), worker=0, num_workers=1)
            # The needed tiles do not depend on memory, which may be too small for one worker.
            ample = planner.replace_settings(memory_budget=_AMPLE)
            planned = ample.loader(alone, counts[_EPOCH])
            self._needed = serial, planned.stats().bytes_needed
        # If they resumed from a state, they need less than the rank's whole epoch.
        return replace(total, bytes_needed=min(total.bytes_needed, self._needed[1]))


def _words(stats: LoaderStats) -> list[int]:
    return [
        round(getattr(stats, name) * 1e9) if name in _SECONDS else getattr(stats, name)
        for name in COUNTS
    ]
