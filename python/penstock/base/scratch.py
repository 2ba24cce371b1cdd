"""Folders for files that are not finished, which no two processes share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder(prefix: str, parent: str | Path | None = None) -> Iterator[Path]:
    """Make a folder of a new name, and remove it in the end.

    A process locks its folder while it lives. So the next call on this machine removes the folders of
    killed ones. The name has the machine's, since some shared file systems keep locks to one machine.

    Parameters
    ----------
    prefix : str
        What the name starts with; it ends in ``.partial``.
    parent : path, optional
        Folder to make it in, by default the one for temporary files.
    """
    parent = Path(parent or tempfile.gettempdir())
    prefix = f"{prefix}{platform.node()}-"
    _remove_left(parent, prefix)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".partial", dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another call took it for left before it was locked
            continue
        with contextlib.suppress(OSError):  # no lock: nobody removes it
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            break
        os.close(lock)  # it was removed while it was locked
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_left(parent: Path, prefix: str) -> None:
    name = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}\.partial")
    for folder in os.listdir(parent):
        if not name.fullmatch(folder):
            continue
        with contextlib.suppress(OSError):  # of another user, or locked
            lock = os.open(parent / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(parent / folder, ignore_errors=True)
            finally:
                os.close(lock)
