"""Filling, emptying and measuring the page cache of files."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

CHOICES = ("warm", "cold", "as-is")
_BLOCK = 4 << 20


def files_of(path: str | Path) -> list[Path]:
    """Return the file, or every file below the folder; empty for a path that is not local."""
    path = Path(path)
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def warm(files: Iterable[Path]) -> int:
    """Read every file once; return the bytes."""
    total = 0
    buffer = bytearray(_BLOCK)
    for file in files:
        with file.open("rb", buffering=0) as handle:
            while n := handle.readinto(buffer):
                total += n
    return total


def drop(files: Iterable[Path]) -> None:
    """Ask the kernel to drop the files' pages; pages that other processes map stay."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)  # dirty pages are not dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def prepare(cache: str, path: str | Path) -> float | None:
    """Bring the source's files into this cache state; return the resident share."""
    files = files_of(path)
    if cache == "warm":
        warm(files)
    elif cache == "cold":
        drop(files)
    return resident_share(files)


def resident_share(files: Iterable[Path]) -> float | None:
    """Return the share of the files' pages in the page cache; None if unknown."""
    resident = pages = 0
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        for file in files:
            size = file.stat().st_size
            if size == 0:
                continue
            mine = _resident(libc, file, size)
            resident += mine
            pages += -(-size // mmap.PAGESIZE)
    except (OSError, AttributeError):
        return None
    return resident / pages if pages else None


def _resident(libc: ctypes.CDLL, file: Path, size: int) -> int:
    n_pages = -(-size // mmap.PAGESIZE)
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), size, mmap.MAP_PRIVATE) as mapped:
        states = (ctypes.c_ubyte * n_pages)()
        start = ctypes.c_ubyte.from_buffer(mapped)
        try:
            done = libc.mincore(
                ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), states
            )
        finally:
            del start
        if done != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(state & 1 for state in states)
