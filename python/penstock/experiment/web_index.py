"""Index of the files on a web server, which cannot list them: ``.penstock-index.json``."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from penstock.base.text import plural
from penstock.base.validation import checked_local_path
from penstock.errors import InvalidArgument, IoError, NotFound

INDEX_NAME = ".penstock-index.json"
VERSION = 1

#: Largest index that readers accept (src/io/remote).
MOST_BYTES = 256 << 20


def write_index(folder: str | os.PathLike[str]) -> tuple[Path, int, int]:
    """Write an index of all files below a folder into the folder; replace an old index atomically.

    Named pipes, sockets and devices are left out.

    Returns
    -------
    path, files, bytes
        Path of the index, and the number and total bytes of the files in it.

    Raises
    ------
    NotFound
        The folder does not exist.
    InvalidArgument
        The folder is a URL, the name of a file is not UTF-8, or there are too many files.
    IoError
        A file or folder cannot be read, or the index cannot be written.
    """
    root = Path(checked_local_path("folder", folder))
    if not root.is_dir():
        raise NotFound(f"there is no folder {root}")
    files = dict(sorted(_sizes(root)))
    text = json.dumps({"format": "penstock-index", "version": VERSION, "files": files}).encode()
    if len(text) > MOST_BYTES:
        raise InvalidArgument(
            f"the index of {plural(len(files), 'file')} has {len(text)} bytes, but at most {MOST_BYTES} are "
            f"read; index parts of it separately, such as each experiment: {root}"
        )
    path = root / INDEX_NAME
    try:
        with tempfile.NamedTemporaryFile(dir=root, prefix=INDEX_NAME, delete=False) as new:
            try:
                new.write(text)
                new.flush()
                os.fchmod(new.fileno(), 0o644)
                Path(new.name).replace(path)
            except BaseException:
                Path(new.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise IoError(f"cannot write the index: {error}") from None
    return path, len(files), sum(files.values())


def _sizes(root: Path) -> Iterator[tuple[str, int]]:
    for place, _, names in os.walk(root, followlinks=True, onerror=_unreadable):
        for name in names:
            if name.startswith(INDEX_NAME):
                continue
            path = Path(place) / name
            relative = path.relative_to(root).as_posix()
            try:
                relative.encode()
                status = path.stat()
            except UnicodeEncodeError:
                raise InvalidArgument(f"the name of a file is not UTF-8: {str(path)!r}") from None
            except OSError as error:
                _unreadable(error)
            if stat.S_ISREG(status.st_mode):
                yield relative, status.st_size


def _unreadable(error: OSError) -> NoReturn:
    raise IoError(f"cannot read: {error.strerror}: {error.filename}") from None
