"""What may be written over: only what these commands make, never anything else."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

#: What lies at the top of an experiment (TileDB's group, old and new) and of a zarr store.
_EXPERIMENT = ("__group", "__tiledb_group.tdb")
_ZARR = ("zarr.json", ".zgroup")


def check_replaceable(path: Path, overwrite: bool, marks: tuple[str, ...] = _EXPERIMENT) -> None:
    """Look whether a folder may be written: it is not there, is empty, or is one of ours.

    Raises
    ------
    FileExistsError
        There is something, and `overwrite` is not set or it is no experiment.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise FileExistsError(
            errno.EEXIST, "there is something already (ask to overwrite it)", str(path)
        )
    is_ours = path.is_dir() and not path.is_symlink()
    if not is_ours or (any(path.iterdir()) and not any((path / mark).exists() for mark in marks)):
        raise FileExistsError(
            errno.EEXIST, "there is something else, which is not replaced", str(path)
        )


def check_zarr_replaceable(path: Path, overwrite: bool) -> None:
    """`check_replaceable` of a zarr store."""
    check_replaceable(path, overwrite, _ZARR)


def check_file_replaceable(path: Path, overwrite: bool) -> None:
    """`check_replaceable` of a file."""
    if path.is_file() and overwrite:
        return
    if path.exists() or path.is_symlink():
        what = "something else, which is not replaced" if overwrite else "something already"
        raise FileExistsError(errno.EEXIST, f"there is {what}", str(path))


def remove_replaced(path: Path) -> None:
    """Make room for what was written under another name."""
    if path.is_dir():
        shutil.rmtree(path)
