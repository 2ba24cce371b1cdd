"""Where the rows of an inference go: memory, a memory-mapped file, or a zarr array."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import described
from ..errors import InvalidArgument


class Rows(NamedTuple):
    """One row for each cell, in stored order.

    Attributes
    ----------
    values : (cells,) or (cells, columns) ndarray, memmap or zarr array
        What was inferred.
    joinids : (cells,) ndarray of int64
        ``soma_joinid`` of the cells.
    columns : ndarray or None
        Names of the columns: genes, labels.
    """

    values: Any
    joinids: npt.NDArray[np.int64]
    columns: npt.NDArray[Any] | None = None


#: A chunk of a zarr array: some megabytes.
_CHUNK_BYTES = 4 << 20


def is_zarr(out: Any) -> bool:
    """Whether the rows go to a zarr array."""
    return isinstance(out, (str, os.PathLike)) and str(out).rstrip("/").endswith(".zarr")


def checked_out(out: Any) -> Path | None:
    """Return the path of a file or folder to make, None for memory.

    Raises
    ------
    InvalidArgument
        Something else than None, ``"memory"``, and a path that ends in ``.npy`` or ``.zarr``.
    """
    if out is None or (isinstance(out, str) and out == "memory"):
        return None
    if isinstance(out, (str, os.PathLike)):
        path = Path(out)
        if path.suffix in (".npy", ".zarr"):
            return path.absolute()
    raise InvalidArgument(
        f"out must be None or 'memory', or a path that ends in .npy (a memory-mapped array) or .zarr, "
        f"got {described(out)}"
    )


def create(path: Path, shape: tuple[int, ...], dtype: str) -> Any:
    """Make a .npy file of zeros to be filled by ranks that `open_rows` it."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)


def open_rows(path: Path) -> Any:
    """Open it to write."""
    return np.lib.format.open_memmap(path, mode="r+")


def to_zarr(rows: npt.NDArray[Any], joinids: npt.NDArray[np.int64], path: Path) -> Any:
    """Write rows chunk by chunk, and joinids beside them: ``values`` and ``joinids`` of a group."""
    import zarr

    group = zarr.open_group(str(path), mode="w")
    width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
    step = max(1, min(len(rows) or 1, _CHUNK_BYTES // max(1, width)))
    values = group.create_array(
        "values", shape=rows.shape, dtype=rows.dtype, chunks=(step, *rows.shape[1:])
    )
    for begin in range(0, len(rows), step):
        values[begin : begin + step] = np.asarray(rows[begin : begin + step])
    group.create_array("joinids", shape=joinids.shape, dtype=joinids.dtype)[:] = joinids
    return values
