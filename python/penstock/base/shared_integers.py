"""A few integers that a process shares with the processes that it forks or spawns."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
import weakref
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_REGION_BYTES = 4096


class _SharedFile:
    """A file without a name, split into regions that share one descriptor.

    A forked child inherits the descriptor. A spawned child gets it with a pickled object that
    holds it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._owner = os.getpid() if descriptor is None else 0
        self.descriptor = _new_descriptor() if descriptor is None else descriptor
        self._used = 0
        self._free: list[int] = []

    def take_region(self) -> int:
        """Return the number of an unused region."""
        if self._free:
            return self._free.pop()
        self._used += 1
        return self._used - 1

    def give_back(self, region: int) -> None:
        """Free the region for reuse; has no effect in a process that does not own the file."""
        if self._owner == os.getpid():
            self._free.append(region)

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import DupFd

        return _received, (DupFd(self.descriptor),)


def _new_descriptor() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("penstock")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _received(descriptor: Any) -> _SharedFile:
    return _SharedFile(descriptor.detach())


_files: dict[int, _SharedFile] = {}


def _file_of_this_process() -> _SharedFile:
    process = os.getpid()
    if process not in _files:
        _files.clear()  # the parent's file: this process must not assign its regions
        _files[process] = _SharedFile()
    return _files[process]


class SharedIntegers:
    """`count` signed 64-bit integers (at most 512), initially 0, changed by one process at a time.

    The operating system releases the lock when a process is killed.
    """

    def __init__(self, count: int) -> None:
        self._file = _file_of_this_process()
        self._bytes = count * 8
        region = self._file.take_region()
        self._begin = region * _REGION_BYTES
        self._write(array("q", bytes(self._bytes)))
        self._threads = threading.Lock(), os.getpid()
        weakref.finalize(self, self._file.give_back, region)

    def read(self) -> array[int]:
        """Return the current words."""
        return array("q", os.pread(self._file.descriptor, self._bytes, self._begin))

    @contextmanager
    def changing(self) -> Iterator[array[int]]:
        """Lock, yield the words, and write them back."""
        place = self._file.descriptor, self._bytes, self._begin
        with self._thread_lock():
            fcntl.lockf(place[0], fcntl.LOCK_EX, *place[1:])
            try:
                words = self.read()
                yield words
                self._write(words)
            finally:
                fcntl.lockf(place[0], fcntl.LOCK_UN, *place[1:])

    def _thread_lock(self) -> threading.Lock:
        # The file lock excludes processes, not threads. A thread lock that is held during a fork
        # would never be released in the child, so each process makes its own.
        lock, process = self._threads
        if process != os.getpid():
            lock = threading.Lock()
            self._threads = lock, os.getpid()
        return lock

    def _write(self, words: array[int]) -> None:
        os.pwrite(self._file.descriptor, words.tobytes(), self._begin)

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": self._file, "_bytes": self._bytes, "_begin": self._begin}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._threads = threading.Lock(), os.getpid()


def is_spawning() -> bool:
    """Whether an object that is pickled now is for a process that is being spawned."""
    context: Any = sys.modules.get("multiprocessing.context")
    return context is not None and context.get_spawning_popen() is not None
