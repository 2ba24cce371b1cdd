"""A full disk as an OSError with ``errno.ENOSPC`` and the folder."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TOLD = "not enough space on the disk"


def check_space(folder: Path, needed: int) -> None:
    """Check that so many bytes are free.

    Raises
    ------
    OSError
        Fewer bytes are free; with ``errno.ENOSPC``.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _no_space(folder, f"{_size(needed)} needed, {_size(free)} free")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.2f} MB"


@contextmanager
def told_when_full(folder: Path) -> Iterator[None]:
    """Turn errors of a full disk below `folder` into OSErrors with ``errno.ENOSPC``.

    TileDB, HDF5 and zarr each report a full disk in another way, or not at all.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and str(error.strerror).startswith(_TOLD):
            raise  # by `check_space`
        if _is_out_of_space(error, folder):
            raise _no_space(folder, f"it filled up while writing ({error})") from error
        raise


def _no_space(folder: Path, why: str) -> OSError:
    return OSError(errno.ENOSPC, f"{_TOLD}: {why}", str(folder))


def _is_out_of_space(error: Exception, folder: Path) -> bool:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return True
    if "No space left on device" in str(error):
        return True
    try:
        return shutil.disk_usage(folder).free < 1 << 20
    except OSError:
        return False
