"""Counts of an epoch that DataLoader workers read, added up where the main process finds them."""

from __future__ import annotations

import time
from array import array
from dataclasses import fields, replace

from penstock.plan.planner import Planner
from penstock.plan.stats import LoaderStats

from .epoch_numbers import COUNT_WORDS, EpochNumbers

_NAMES = tuple(each.name for each in fields(LoaderStats))
_EPOCH = COUNT_WORDS - 1
assert len(_NAMES) <= _EPOCH
_SECONDS = _NAMES.index("consumer_wait_seconds")  # kept as nanoseconds
_LEAST = _NAMES.index("units_in_shuffle")  # the least of all workers, where others are added up

_AMPLE = 2**50
#: While an epoch runs; at its end a worker adds what is left.
SECONDS_BETWEEN = 0.25


class WorkerCounts:
    """What one worker adds for one epoch.

    Parameters
    ----------
    counter : EpochNumbers
        Shared with the main process.
    epoch, serial : int
        Of the DataLoader's iterator.
    """

    def __init__(self, counter: EpochNumbers, epoch: int, serial: int) -> None:
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
                    if stats.planned_units:  # a worker without cells shuffles none
                        counts[i] = min(counts[i], value) if counts[i] else value
                else:
                    counts[i] += value - before

        self._counter.change_counts(self._serial, change)
        self._added = now


class WorkerTotal:
    """Counts of all workers of a rank, for the iterator that they were started by last."""

    def __init__(self) -> None:
        self._needed = 0, 0  # number of an iterator, bytes

    def began_after(self, serial: int, counter: EpochNumbers) -> bool:
        """Whether workers have counted for an iterator that began after the one of that number."""
        return counter.counts()[0] > serial

    def stats(self, counter: EpochNumbers, planner: Planner) -> LoaderStats:
        """What they have added so far; `bytes_needed` counts a tile once, whoever needs it."""
        serial, counts = counter.counts()
        values: dict[str, float] = dict(zip(_NAMES, counts, strict=False))
        values["consumer_wait_seconds"] /= 1e9
        total = LoaderStats(**values)  # type: ignore[arg-type]
        if not total.bytes_needed:
            return total
        if self._needed[0] != serial:
            alone = replace(planner.settings.find_shard(), worker=0, num_workers=1)
            # Which tiles are needed does not depend on memory, which may be too little for one.
            ample = planner.replace_settings(memory_budget=_AMPLE)
            planned = ample.loader(alone, counts[_EPOCH])
            self._needed = serial, planned.stats().bytes_needed
        # Where they went on from a state, it is less than what the rank's epoch needs.
        return replace(total, bytes_needed=min(total.bytes_needed, self._needed[1]))


def _words(stats: LoaderStats) -> list[int]:
    values = [getattr(stats, name) for name in _NAMES]
    values[_SECONDS] = round(values[_SECONDS] * 1e9)
    return values
