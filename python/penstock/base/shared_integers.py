"""A few integers that processes share: those that this one forks or spawns, and itself."""

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
    """A file without a name, cut into regions; one descriptor for all of them.

    A forked child inherits it; a spawned one gets the descriptor when an object that holds it is
    pickled on the way there.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._owner = os.getpid() if descriptor is None else 0
        self.descriptor = _new_descriptor() if descriptor is None else descriptor
        self._used = 0
        self._free: list[int] = []

    def take_region(self) -> int:
        """Number of a region that nobody has."""
        if self._free:
            return self._free.pop()
        self._used += 1
        return self._used - 1

    def give_back(self, region: int) -> None:
        """Let the region be taken again; in another process than its own nothing happens."""
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
        _files.clear()  # a parent's: its regions are not ours to hand out
        _files[process] = _SharedFile()
    return _files[process]


class SharedIntegers:
    """`count` signed 64-bit integers, at most 512, zeros at first, changed by one process at a time.

    The lock is the operating system's and ends with a process that is killed.
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
        """The words as they are now."""
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
        # The lock on the file holds off processes only. A copy of ours that was forked while
        # another thread held it would never be released.
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
    """Whether what is pickled now goes to a process that is being started."""
    context: Any = sys.modules.get("multiprocessing.context")
    return context is not None and context.get_spawning_popen() is not None
