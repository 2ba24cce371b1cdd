"""Files and folders that are made once, whatever happens meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return `path`, made by `make` unless it exists.

    `make` writes elsewhere, and the result is renamed: a process that is killed leaves nothing under
    the name, and of two processes that make it at once one wins.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        made = Path(folder) / path.name
        make(made)
        try:
            made.rename(path)
        except OSError:  # of folders, that of the first process stays
            if not path.exists():
                raise
    return path
