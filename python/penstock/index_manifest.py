"""The list of files that a web server cannot give: ``.penstock-index.json``."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from .errors import InvalidArgument, IoError, NotFound

INDEX_NAME = ".penstock-index.json"
VERSION = 1


def write_index(folder: str | os.PathLike[str]) -> tuple[Path, int, int]:
    """Write the index of all files below a folder into it; an older one is replaced in one step.

    Returns
    -------
    path, files, bytes
        Where it is, and what it lists.

    Raises
    ------
    NotFound, InvalidArgument
        There is no such folder; a file's name is not UTF-8.
    IoError
        It cannot be read or written.
    """
    root = Path(folder)
    if not root.is_dir():
        raise NotFound(f"there is no folder {root}")
    try:
        files = dict(sorted(_sizes(root)))
        path = root / INDEX_NAME
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=root, prefix=INDEX_NAME, delete=False
        ) as new:
            try:
                json.dump({"format": "penstock-index", "version": VERSION, "files": files}, new)
                new.flush()
                os.fchmod(new.fileno(), 0o644)
                Path(new.name).replace(path)
            except BaseException:
                Path(new.name).unlink(missing_ok=True)
                raise
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the name of a file is not UTF-8: {error.object!r}") from None
    except OSError as error:
        raise IoError(f"cannot write the index: {error}") from None
    return path, len(files), sum(files.values())


def _sizes(root: Path) -> list[tuple[str, int]]:
    found = []
    for place, _, names in os.walk(root, followlinks=True):
        for name in names:
            path = Path(place) / name
            if name.startswith(INDEX_NAME):
                continue
            found.append((path.relative_to(root).as_posix(), path.stat().st_size))
    return found
