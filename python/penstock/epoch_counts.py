"""Counts of an epoch that DataLoader workers read, added up where the main process finds them."""

from __future__ import annotations

import time
from array import array
from dataclasses import fields
from typing import NamedTuple

from .epoch_counter import COUNT_WORDS, EpochCounter
from .loader_stats import LoaderStats

_NAMES = tuple(each.name for each in fields(LoaderStats))
_EPOCH = COUNT_WORDS - 1
assert len(_NAMES) <= _EPOCH
_SECONDS = _NAMES.index("consumer_wait_seconds")  # kept as nanoseconds
_LEAST = _NAMES.index("units_in_shuffle")  # the least of all workers, where others are added up

#: While an epoch runs; at its end a worker adds what is left.
SECONDS_BETWEEN = 0.25


class WorkerCounts:
    """What one worker adds for one epoch.

    Parameters
    ----------
    counter : EpochCounter
        Shared with the main process.
    epoch, serial : int
        Of the DataLoader's iterator.
    """

    def __init__(self, counter: EpochCounter, epoch: int, serial: int) -> None:
        self._counter = counter
        self._epoch = epoch
        self._serial = serial
        self._added = [0] * len(_NAMES)
        self._next_time = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time to add again."""
        return time.monotonic() >= self._next_time

    def add(self, stats: LoaderStats) -> None:
        """Add what has come since the last time."""
        self._next_time = time.monotonic() + SECONDS_BETWEEN
        now = _words(stats)

        def change(counts: array[int]) -> None:
            counts[_EPOCH] = self._epoch
            for i, (value, before) in enumerate(zip(now, self._added, strict=True)):
                if i == _LEAST:
                    counts[i] = min(counts[i], value) if counts[i] else value
                else:
                    counts[i] += value - before

        self._counter.change_counts(self._serial, change)
        self._added = now


class TotalCounts(NamedTuple):
    """Of all workers of an iterator.

    `bytes_needed` counts tiles for each worker that needs them.
    """

    serial: int
    epoch: int
    stats: LoaderStats


def added_up(counter: EpochCounter, since: int) -> TotalCounts | None:
    """Counts of all workers of the last iterator, if it began after the one numbered `since`."""
    serial, counts = counter.counts()
    if serial <= since:
        return None
    values: dict[str, float] = dict(zip(_NAMES, counts, strict=False))
    values["consumer_wait_seconds"] /= 1e9
    return TotalCounts(serial, counts[_EPOCH], LoaderStats(**values))  # type: ignore[arg-type]


def _words(stats: LoaderStats) -> list[int]:
    values = [getattr(stats, name) for name in _NAMES]
    values[_SECONDS] = round(values[_SECONDS] * 1e9)
    return values
