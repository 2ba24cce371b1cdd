"""Checks before overwriting: only files that these commands make are replaced."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

#: Files at the top of an experiment (TileDB's group, new and old format) and of a zarr store.
_EXPERIMENT = ("__group", "__tiledb_group.tdb")
_ZARR = ("zarr.json", ".zgroup")


def check_replaceable(path: Path, overwrite: bool, marks: tuple[str, ...] = _EXPERIMENT) -> None:
    """Check that a folder does not exist, or may be replaced: it is empty or one of ours.

    Raises
    ------
    FileExistsError
        The path exists, and `overwrite` is not set or the path holds something else.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise FileExistsError(
            errno.EEXIST,
            "the path exists already; give another, or overwrite it (overwrite=True, --overwrite or --force)",
            str(path),
        )
    is_ours = path.is_dir() and not path.is_symlink()
    if not is_ours or (any(path.iterdir()) and not any((path / mark).exists() for mark in marks)):
        raise FileExistsError(
            errno.EEXIST, "the path holds something else, which is not replaced", str(path)
        )


def check_zarr_replaceable(path: Path, overwrite: bool) -> None:
    """Check the same for a zarr store."""
    check_replaceable(path, overwrite, _ZARR)


def check_file_replaceable(path: Path, overwrite: bool) -> None:
    """Check the same for a file."""
    if path.is_file() and overwrite:
        return
    if path.exists() or path.is_symlink():
        what = "holds something else, which is not replaced" if overwrite else "exists already"
        raise FileExistsError(errno.EEXIST, f"the path {what}", str(path))


def remove_replaced(path: Path) -> None:
    """Remove the old file or folder, so that a new one can be renamed to its path."""
    if path.is_dir():
        shutil.rmtree(path)
