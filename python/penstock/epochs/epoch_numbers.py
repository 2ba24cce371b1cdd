"""Which epoch comes next, agreed on by a process and its DataLoader workers."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable
from typing import Any

from penstock.base.shared_integers import SharedIntegers, is_spawning
from penstock.plan.shard import find_iterator_seed, find_worker

# Words: the next epoch, the next slot to fill, how many iterators have begun; what workers count
# (worker_stats.py), and for which iterator; then slots. A slot remembers the epoch that the
# workers of one DataLoader iterator read: whoever comes first takes the next one, the others find
# it. The key of a slot is what they have in common and no others have: the ticket that
# EpochDataLoader drew, or the seed of torch's iterator and how many workers it has; and the round,
# which counts the epochs of workers that are kept.
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
    """The number of the next epoch, and of the one that each DataLoader iterator reads.

    It is shared with the DataLoader workers of the process that made it, forked or spawned, and
    with nobody else: a rank that is forked or spawned with a copy counts on by itself.
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
        """Number of the epoch that the next iterator begins."""
        return self._words().read()[_NEXT]

    @next.setter
    def next(self, epoch: int) -> None:
        with self._words().changing() as words:
            words[_NEXT] = epoch

    def begin(self) -> tuple[int, int]:
        """Number of the epoch that begins now, and a number that later iterators exceed.

        Both are the same in all workers of a DataLoader iterator.
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
        """Begin an epoch that workers with this ticket will read in their `round_number`-th round.

        The processes that start until `end_of_start` get the ticket.
        """
        with self._words().changing() as words:
            self._ticket = ticket
            return words[_fill(words, (ticket, 0, 0, round_number)) + _EPOCH]

    def choose_for_workers(self, ticket: int, round_number: int, word: int) -> None:
        """Say which shuffle that epoch has, before workers begin it."""
        with self._words().changing() as words:
            for slot in range(_HEADER, _WORDS, _SLOT):
                if tuple(words[slot : slot + _KEY]) == (ticket, 0, 0, round_number):
                    words[slot + _SHUFFLE] = word

    def chosen_shuffle(self, serial: int, word: int) -> int:
        """Word of the shuffle that the workers of an iterator have, set to `word` where it is 0."""
        with self._words().changing() as words:
            for slot in range(_HEADER, _WORDS, _SLOT):
                if serial and words[slot + _OWN_SERIAL] == serial:
                    words[slot + _SHUFFLE] = words[slot + _SHUFFLE] or word
                    return words[slot + _SHUFFLE]
        return word

    def end_of_start(self) -> None:
        """Processes that start from now on have no ticket."""
        self._ticket = 0

    def change_counts(self, serial: int, change: Callable[[array[int]], None]) -> None:
        """Change what workers count for the iterator of that number; zeros at first.

        Counts of an earlier one are dropped, a later one's stay.
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
        """Number of the iterator that workers counted for last, 0 for none, and the counts."""
        words = self._words().read()
        return words[_COUNTED], words[_COUNTS:_HEADER]

    def draw_ticket(self) -> int:
        """Number that no DataLoader of this process has for this dataset."""
        self._words()
        self._tickets += 1
        return self._tickets

    def for_copy(self) -> EpochNumbers:
        """What a copy of the dataset has: this where a process is being started, else its own."""
        return self if is_spawning() else EpochNumbers(self.next)

    def __reduce__(self) -> Any:
        if is_spawning():
            return _received, (self._words(), self._owner, self._ticket)
        return EpochNumbers, (self.next,)


def _received(shared: SharedIntegers, owner: int, ticket: int) -> EpochNumbers:
    counter = object.__new__(EpochNumbers)
    counter._shared, counter._owner, counter._ticket = shared, owner, ticket
    counter._tickets = counter._rounds = 0
    return counter


def _parent_if_worker() -> int | None:
    """Process that started this DataLoader worker; None in any other process."""
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
    """Slot of the key that the worker may join, if there is one.

    A worker that has joined it already is one of another iterator, whose seed is the same because
    the user seeds torch before each.
    """
    word, bit = divmod(worker, 63)
    for slot in range(_HEADER, _WORDS, _SLOT):
        if tuple(words[slot : slot + _KEY]) != key:
            continue
        if word >= _JOINED_WORDS or not words[slot + _JOINED + word] >> bit & 1:
            return slot
    return None


def _fill(words: array[int], key: tuple[int, int, int, int]) -> int:
    """Begin the next epoch in the slot that was filled longest ago."""
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
