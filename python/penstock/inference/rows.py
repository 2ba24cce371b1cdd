"""Destinations for the rows of an inference: memory, a memory-mapped file, or a zarr array."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from penstock.base.missing_package import require
from penstock.base.scratch import scratch_folder
from penstock.base.text import plural
from penstock.base.validation import check_no_secrets, checked_local_path, described
from penstock.dataset.dataset import Dataset
from penstock.errors import InvalidArgument, IoError
from penstock.experiment.bucket import Bucket, in_threads, is_bucket
from penstock.plan.shard import find_rank

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """One row for each cell, in stored order.

    ``np.asarray(rows)``, ``len(rows)`` and ``rows[:10]`` are those of `values`. In an AnnData of the
    same cells, ``adata.obsm["X_scVI"] = rows.values`` puts each row beside its cell.

    Attributes
    ----------
    values : (cells,) or (cells, columns) ndarray, memmap or zarr array
        The inferred values.
    joinids : (cells,) ndarray of int64
        ``soma_joinid`` of the cells.
    columns : ndarray or None
        Names of the columns: genes, labels.
    """

    values: Any
    joinids: npt.NDArray[np.int64]
    columns: npt.NDArray[Any] | None = None
    _index_name: str | None = field(default=None, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `values`."""
        return tuple(self.values.shape)

    def to_pandas(self) -> pd.DataFrame:
        """Return the values as a DataFrame, a column for each of `columns`.

        The rows are those of ``ds.obs.to_pandas()`` of the same cells, and the index is the same, so
        ``ds.obs.to_pandas().join(rows.to_pandas())`` puts them side by side. Without columns, or with
        labels as values, the one column is ``value``. All rows are read into memory.

        An AnnData of the same cells goes by names: ``rows.to_pandas().set_axis(ds.obs_names)`` has
        them, and an array such as `values` goes by place.
        """
        import pandas as pd

        values = np.asarray(self.values)
        return pd.DataFrame(
            values,
            pd.RangeIndex(len(values), name=self._index_name),
            columns=["value"] if values.ndim == 1 else self.columns,
        )

    def __len__(self) -> int:
        return len(self.joinids)

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy:
            return np.array(self.values, dtype=dtype)
        return np.asarray(self.values, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        hint = {"to_frame": "use to_pandas()", "X": "use values", "obs": "joinids name the cells"}
        text = f"Rows has no attribute {name!r}"
        raise AttributeError(f"{text}: {hint[name]}" if name in hint else text)

    def __repr__(self) -> str:
        of_each = "" if len(self.shape) == 1 else f" × {plural(self.shape[1], 'column')}"
        kind = getattr(self.values, "dtype", type(self.values).__name__)
        return f"Rows of {plural(len(self.joinids), 'cell')}{of_each}, {kind}: values, joinids, columns"


def joinids_of(cells: Dataset) -> npt.NDArray[np.int64]:
    """Return the ``soma_joinid`` of all cells, in stored order."""
    # The engine returns C's long long, a dtype that zarr does not support.
    rows = cells.reader.selection.rows.to_numpy().view(np.int64)
    return cells.obs.own_joinids(rows).view(np.int64)


#: Bytes in a chunk of a zarr array.
_CHUNK_BYTES = 4 << 20

#: The file that makes a folder a group, or an array.
_METADATA = "zarr.json"
#: The object that names the call that writes to a bucket.
_MARKER = "rows.partial"
_OBJECT_OF_ROWS = re.compile(rf"{_METADATA}|{_MARKER}|(values|joinids)/({_METADATA}|c(/\d+)*)")

#: Names that may occur in the folder of a zarr group of rows.
_IN_A_GROUP = {"values", "joinids", "zarr.json", ".zgroup", ".zattrs", ".zmetadata"}


def is_zarr(out: Any) -> bool:
    """Whether the rows go to a zarr array."""
    return isinstance(out, (str, os.PathLike)) and str(out).rstrip("/").endswith(".zarr")


def checked_out(out: Any) -> Path | Bucket | None:
    """Return the file or folder to make, None for memory.

    Raises
    ------
    InvalidArgument
        `out` is not None, ``"memory"``, a local path that ends in ``.npy`` or ``.zarr``, or the
        address of a folder in a bucket that ends in ``.zarr``; or it exists and does not hold rows of
        an inference.
    MissingPackage
        The path ends in ``.zarr``, but zarr is not installed; or obstore for a bucket.
    """
    if out is None or (isinstance(out, str) and out == "memory"):
        return None
    if is_bucket(out):
        check_no_secrets("out", out)
    if is_bucket(out) and is_zarr(out):
        require("zarr", extra="scvi")
        bucket = Bucket("out", out)
        _check_replaced_in(bucket)
        return bucket
    if isinstance(out, (str, os.PathLike)) and not is_bucket(out):
        path = Path(out)
        if path.suffix in (".npy", ".zarr"):
            checked_local_path("out", out, "file or folder")
            if path.suffix == ".zarr":
                require("zarr", extra="scvi")
            target = path.resolve()
            if target.suffix != path.suffix:
                raise InvalidArgument(f"out={str(path)!r} is a link to {target}: give that name")
            _check_replaced(target)
            return target
    raise InvalidArgument(
        f"out must be None or 'memory', a path that ends in .npy (a memory-mapped array) or .zarr, or an "
        f"address in a bucket that ends in .zarr, got {described(out)}"
    )


def check_writer(path: Path | Bucket | None) -> None:
    """Refuse a file of another rank than 0 within a run of ranks."""
    rank, world_size = find_rank()
    if rank > 0 and path is not None:
        name = path.name if isinstance(path, Path) else path.address
        raise InvalidArgument(
            f"only rank 0 can write {name}, but this is rank {rank} of {world_size}: pass out= "
            "on rank 0 only"
        )


def _check_replaced(path: Path) -> None:
    if path.suffix == ".npy":
        other = _other_than_rows(path)
    else:
        is_ours = not path.exists() or (
            path.is_dir() and {each.name for each in path.iterdir()} <= _IN_A_GROUP
        )
        other = None if is_ours else path
    if other is not None:
        what = "a folder" if other.is_dir() else "a file"
        raise InvalidArgument(
            f"out={str(path)!r}: {other.name} is {what} that holds something else than rows of an "
            "inference, which would be lost: choose another path, or remove it"
        )


def _check_replaced_in(bucket: Bucket) -> list[str]:
    """Return the objects of rows that are there."""
    there = list(bucket.sizes())
    others = [path for path in there if not _OBJECT_OF_ROWS.fullmatch(path)]
    if others:
        raise InvalidArgument(
            f"out={bucket.address!r} has something else than rows of an inference, such as {min(others)}: "
            "choose another address, or remove it"
        )
    return there


def _other_than_rows(path: Path) -> Path | None:
    """Return the one of the two files to replace that no inference wrote, or None."""
    names = _joinids_path(path)
    if not _may_be(names, ndim=1, dtype="int64"):
        return names
    if path.is_dir() or (path.exists() and not names.exists()):
        return path
    return None if _may_be(path) else path


def _may_be(path: Path, ndim: int | None = None, dtype: str | None = None) -> bool:
    """Whether a file does not exist or is an array of this kind."""
    if not path.exists():
        return True
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return False
    if not isinstance(array, np.ndarray):  # an archive of several arrays
        return False
    return ndim is None or (array.ndim == ndim and array.dtype == dtype)


def _joinids_path(path: Path) -> Path:
    return path.with_suffix(".joinids.npy")


@contextlib.contextmanager
def rows_file(path: Path | Bucket | None) -> Iterator[Path]:
    """Yield the .npy file that ranks fill, in a folder of this call.

    The folder is beside the path, or a temporary one for memory and buckets. It is removed afterwards.
    """
    if path is None or isinstance(path, Bucket):
        folder = scratch_folder("penstock-rows-")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = scratch_folder(f"{path.name}.", path.parent)
    with folder as own:
        yield own / "rows.npy"


def finished(file: Path, joinids: npt.NDArray[np.int64], path: Path | Bucket) -> Any:
    """Rename the file of filled rows, write the joinids, and return the rows."""
    if isinstance(path, Bucket):
        return _to_bucket(open_rows(file), joinids, file.parent, path)
    if is_zarr(path):
        return _to_zarr(open_rows(file), joinids, file.parent, path)
    names = _joinids_path(path)
    if not (path.exists() and _holds(names, joinids)):
        partial = file.with_name("joinids.npy")
        np.save(partial, joinids)
        # Two files cannot be replaced atomically. Old rows are removed first, so that a kill never
        # leaves them beside the joinids of other rows.
        path.unlink(missing_ok=True)
        partial.replace(names)
    file.replace(path)
    return open_rows(path)


def create(path: Path, shape: tuple[int, ...], dtype: str) -> Any:
    """Make a .npy file of zeros, which ranks open with `open_rows` and fill."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)


def open_rows(path: Path) -> Any:
    """Open a .npy file for writing."""
    return np.lib.format.open_memmap(path, mode="r+")


def _holds(names: Path, joinids: npt.NDArray[np.int64]) -> bool:
    """Whether an existing file holds these joinids; False if it cannot be read."""
    try:
        return np.array_equal(np.load(names), joinids)
    except (OSError, ValueError, EOFError):
        return False


def _to_zarr(
    rows: npt.NDArray[Any], joinids: npt.NDArray[np.int64], folder: Path, path: Path
) -> Any:
    """Write a group in a folder of this call, rename it, and return the rows."""
    import zarr

    group = _group_in(folder, rows, joinids)
    # Missing chunks read as zeros, so a group is renamed before it is removed.
    if path.exists():
        path.rename(folder / "old")
    group.rename(path)
    return zarr.open_group(str(path), mode="r+")["values"]


def _group_in(folder: Path, rows: npt.NDArray[Any], joinids: npt.NDArray[np.int64]) -> Path:
    """Write rows and joinids as the arrays ``values`` and ``joinids`` of a group."""
    import zarr

    group = zarr.open_group(str(folder / "group"), mode="w")
    width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
    step = max(1, min(len(rows) or 1, _CHUNK_BYTES // max(1, width)))
    values = group.create_array(
        "values", shape=rows.shape, dtype=rows.dtype, chunks=(step, *rows.shape[1:])
    )
    for begin in range(0, len(rows), step):
        values[begin : begin + step] = np.asarray(rows[begin : begin + step])
    group.create_array("joinids", shape=joinids.shape, dtype=joinids.dtype)[:] = joinids
    return folder / "group"


def _divided(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return metadata, that of arrays before that of the group, and chunks."""
    metadata = [path for path in paths if path.endswith(_METADATA)]
    chunks = set(paths) - {*metadata, _MARKER}
    return sorted(metadata, key=lambda path: -path.count("/")), sorted(chunks)


def _to_bucket(
    rows: npt.NDArray[Any], joinids: npt.NDArray[np.int64], folder: Path, bucket: Bucket
) -> Any:
    """Write a group to a bucket, by way of a folder on disk. It can be opened when it is whole.

    The last of several calls that write there at once is done, the others raise IoError.
    """
    import zarr
    from zarr.storage import ObjectStore

    local = _group_in(folder, rows, joinids)
    token = uuid4().hex.encode()

    def check() -> None:
        if bucket.read(_MARKER) != token:
            raise IoError(f"another call has begun to write there: {bucket.address}")

    def put(path: str) -> None:
        check()
        bucket.put(path, local / path)

    _check_replaced_in(bucket)
    bucket.put(_MARKER, token)
    metadata, chunks = _divided(_check_replaced_in(bucket))
    for path in reversed(metadata):
        bucket.delete(path)
    for _ in in_threads(bucket.delete, chunks):
        pass
    sizes = {
        each.relative_to(local).as_posix(): each.stat().st_size
        for each in local.rglob("*")
        if each.is_file()
    }
    metadata, chunks = _divided(sizes)
    for _ in in_threads(put, chunks):
        pass
    there = bucket.sizes()
    there.pop(_MARKER, None)
    if there != {path: sizes[path] for path in chunks}:
        check()
        raise IoError(f"what was written there has changed meanwhile: {bucket.address}")
    for path in metadata:
        put(path)
    check()
    bucket.delete(_MARKER)
    return zarr.open_group(ObjectStore(bucket.store, read_only=True), mode="r")["values"]
