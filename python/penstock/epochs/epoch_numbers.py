"""Number of the next epoch, shared by a process and its DataLoader workers."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable
from typing import Any

from penstock.base.shared_integers import SharedIntegers, is_spawning
from penstock.plan.shard import find_iterator_seed, find_worker

# Layout of the words: the next epoch, the next slot to fill, the number of iterators started, the
# iterator that workers count for, their counts (worker_stats.py), then slots. A slot holds the
# epoch that the workers of one DataLoader iterator read: the first worker fills it, the others find
# it. The key of a slot identifies these workers: the ticket of EpochDataLoader, or the seed of
# torch's iterator and its number of workers; and the round, which counts the epochs of persistent
# workers.
_NEXT, _TURN, _SERIAL, _COUNTED, _COUNTS = 0, 1, 2, 3, 4
COUNT_WORDS = 24
_HEADER = _COUNTS + COUNT_WORDS
_KEY = 4  # ticket, seed, number of workers, round
_EPOCH, _OWN_SERIAL, _SHUFFLE, _JOINED = 4, 5, 6, 7
_JOINED_WORDS = 8
_SLOT = _JOINED + _JOINED_WORDS
_SLOTS = 16
_WORDS = _HEADER + _SLOTS * _SLOT


class EpochNumbers:
    """Number of the next epoch, and of the epoch that each DataLoader iterator reads.

    It is shared only with the DataLoader workers, forked or spawned, of the process that made it. A
    forked or spawned rank counts separately from then on.
    """

    def __init__(self, next_epoch: int = 0) -> None:
        self._start(next_epoch)
        self._tickets = 0
        self._ticket = 0

    def _start(self, next_epoch: int) -> None:
        self._owner = os.getpid()
        self._rounds = 0
        self._shared = SharedIntegers(_WORDS)
        with self._shared.changing() as words:
            words[_NEXT] = next_epoch

    def _words(self) -> SharedIntegers:
        process = os.getpid()
        if process != self._owner and _parent_if_worker() != self._owner:
            self._start(self._shared.read()[_NEXT])
            self._ticket = 0
        return self._shared

    @property
    def next(self) -> int:
        """Number of the epoch that the next iterator reads."""
        return self._words().read()[_NEXT]

    @next.setter
    def next(self, epoch: int) -> None:
        with self._words().changing() as words:
            words[_NEXT] = epoch

    def begin(self) -> tuple[int, int]:
        """Start the next epoch; return its number, and a serial number of the iterator.

        Both are equal in all workers of a DataLoader iterator. Later iterators have larger serial
        numbers.
        """
        with self._words().changing() as words:
            if os.getpid() == self._owner:
                return _take_next(words), _take_serial(words)
            self._rounds += 1
            worker, num_workers = find_worker()
            seed = (0, 0) if self._ticket else (find_iterator_seed() or 0, num_workers)
            key = self._ticket, *seed, self._rounds
            slot = _find(words, key, worker)
            if slot is None:
                slot = _fill(words, key)
            _join(words, slot, worker)
            return words[slot + _EPOCH], words[slot + _OWN_SERIAL]

    def begin_for_workers(self, ticket: int, round_number: int) -> int:
        """Start an epoch that workers with this ticket read in their `round_number`-th round.

        Processes that start before `end_of_start` get the ticket.
        """
        with self._words().changing() as words:
            self._ticket = ticket
            return words[_fill(words, (ticket, 0, 0, round_number)) + _EPOCH]

    def choose_for_workers(self, ticket: int, round_number: int, shuffle: int) -> None:
        """Set the shuffle of that epoch, before workers start it."""
        with self._words().changing() as words:
            for slot in range(_HEADER, _WORDS, _SLOT):
                if tuple(words[slot : slot + _KEY]) == (ticket, 0, 0, round_number):
                    words[slot + _SHUFFLE] = shuffle

    def chosen_shuffle(self, serial: int, shuffle: int) -> int:
        """Return the number of the shuffle of an iterator's workers; set it if it is 0."""
        with self._words().changing() as words:
            for slot in range(_HEADER, _WORDS, _SLOT):
                if serial and words[slot + _OWN_SERIAL] == serial:
                    words[slot + _SHUFFLE] = words[slot + _SHUFFLE] or shuffle
                    return words[slot + _SHUFFLE]
        return shuffle

    def end_of_start(self) -> None:
        """Give no ticket to processes that start from now on."""
        self._ticket = 0

    def change_counts(self, serial: int, change: Callable[[array[int]], None]) -> None:
        """Change the workers' counts for the iterator `serial`; they start at 0.

        Counts of an earlier iterator are dropped. If there are counts of a later one, nothing
        changes.
        """
        with self._words().changing() as words:
            if words[_COUNTED] > serial:
                return
            same = words[_COUNTED] == serial
            counts = words[_COUNTS:_HEADER] if same else array("q", bytes(8 * COUNT_WORDS))
            change(counts)
            words[_COUNTED] = serial
            words[_COUNTS:_HEADER] = counts

    def counts(self) -> tuple[int, array[int]]:
        """Return the serial number of the iterator that workers count for (0: none), and counts."""
        words = self._words().read()
        return words[_COUNTED], words[_COUNTS:_HEADER]

    def draw_ticket(self) -> int:
        """Return a number that no DataLoader of this process has for this dataset."""
        self._words()
        self._tickets += 1
        return self._tickets

    def for_copy(self) -> EpochNumbers:
        """Return the object for a copy: this one if a process is being spawned, else a new one."""
        return self if is_spawning() else EpochNumbers(self.next)

    def __reduce__(self) -> Any:
        if is_spawning():
            return _received, (self._words(), self._owner, self._ticket)
        return EpochNumbers, (self.next,)


def _received(shared: SharedIntegers, owner: int, ticket: int) -> EpochNumbers:
    counter = object.__new__(EpochNumbers)  # __init__ would map integers of its own
    counter._shared, counter._owner, counter._ticket = shared, owner, ticket
    counter._tickets = counter._rounds = 0
    return counter


def _parent_if_worker() -> int | None:
    """Return the process that started this DataLoader worker; None in other processes."""
    process: Any = sys.modules.get("multiprocessing.process")
    parent = process.parent_process() if process is not None else None
    return parent.pid if parent is not None and find_iterator_seed() is not None else None


def _take_next(words: array[int]) -> int:
    words[_NEXT] += 1
    return words[_NEXT] - 1


def _take_serial(words: array[int]) -> int:
    words[_SERIAL] += 1
    return words[_SERIAL]


def _find(words: array[int], key: tuple[int, int, int, int], worker: int) -> int | None:
    """Return the slot of the key that the worker may join, if any.

    If this worker number has joined the slot already, the worker belongs to another iterator. Its
    seed can be equal if the user seeds torch before each iterator.
    """
    word, bit = divmod(worker, 63)
    for slot in range(_HEADER, _WORDS, _SLOT):
        if tuple(words[slot : slot + _KEY]) != key:
            continue
        if word >= _JOINED_WORDS or not words[slot + _JOINED + word] >> bit & 1:
            return slot
    return None


def _fill(words: array[int], key: tuple[int, int, int, int]) -> int:
    """Start the next epoch in the slot that was filled longest ago."""
    slot = _HEADER + words[_TURN] * _SLOT
    words[_TURN] = (words[_TURN] + 1) % _SLOTS
    words[slot : slot + _SLOT] = array("q", bytes(8 * _SLOT))
    words[slot : slot + _KEY] = array("q", key)
    words[slot + _EPOCH] = _take_next(words)
    words[slot + _OWN_SERIAL] = _take_serial(words)
    return slot


def _join(words: array[int], slot: int, worker: int) -> None:
    word, bit = divmod(worker, 63)
    if word < _JOINED_WORDS:
        words[slot + _JOINED + word] |= 1 << bit
