"""Rows of measurements in a Parquet file: appending atomically, and reading several files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.validation import check_regular, checked_local_path
from penstock.errors import InvalidArgument

from ..schema import COLUMNS, schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

DEFAULT = "epochs.parquet"


def append(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> int:
    """Append rows to the file, which is made if needed; return its number of rows.

    The file is replaced atomically under a lock, so readers never see a part of it and concurrent
    writers lose no rows. Other columns (``-M key=value``, other versions) are kept; new ones are
    strings.
    """
    import pyarrow.parquet as pq

    path = Path(checked_local_path("results", path, "file"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        table = _with_what_is_there(path, _table(rows))
        partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
        try:
            pq.write_table(table, partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return int(table.num_rows)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check, before anything is measured, that rows can be appended to the file.

    Raises
    ------
    InvalidArgument
        The path is not a Parquet file of measurements.
    OSError
        The file is not writable.
    """
    path = Path(checked_local_path("results", path, "file"))
    if not path.name or path.is_dir() or (path.exists() and not path.is_file()):
        raise InvalidArgument(f"results must be a Parquet file, got {str(path)!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        _with_what_is_there(path, _table([]))
        partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
        partial.touch()
        partial.unlink()


def _with_what_is_there(path: Path, table: pa.Table) -> pa.Table:
    """Return the file's rows, then the table's; unknown columns are strings in both."""
    import pyarrow as pa

    if not path.exists():
        return table
    there = read(path)
    ours = schema()
    for name in set(there.column_names) & set(table.column_names) - set(ours.names):
        if there.schema.field(name).type != pa.string():
            at = there.schema.get_field_index(name)
            there = there.set_column(at, name, there[name].cast(pa.string()))
    try:
        return pa.concat_tables([there, table], promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidArgument(f"{path} has columns of other types: {error}") from None


def read(path: str | os.PathLike[str]) -> pa.Table:
    """Return the rows of one file.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    InvalidArgument
        The path is not that of a Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).exists():
        raise FileNotFoundError(2, "no such file of measurements", str(path))
    check_regular("FILE", str(path))
    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{path} is not a Parquet file of measurements: {error}") from None


def read_all(paths: Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Return the rows of several files, also of ``alb``, with all columns of the schema.

    Columns that ``alb`` lacks are derived: `method` from `chunk_method`, and `cells_per_second` as
    rows over `elapsed`, like its published figures. These include garbage collection; ours do not.
    """
    import pandas as pd

    local = [checked_local_path("FILE", path, "file") for path in paths]
    tables = [read(path).to_pandas() for path in local]
    merged = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    for name in COLUMNS:
        if name not in merged:
            merged[name] = None
    merged["method"] = merged["method"].where(merged["method"].notna(), merged["chunk_method"])
    seconds = merged["elapsed"].astype(float)
    counted = merged["n_rows"].astype(float)
    derived = counted.where(counted > 0) / seconds.where(seconds > 0)
    speed = merged["cells_per_second"].astype(float)
    merged["cells_per_second"] = speed.where(speed.notna(), derived)
    failed = merged["oom"].astype("boolean").fillna(False) | merged["elapsed"].isna()
    known = merged["status"].notna()
    merged["status"] = merged["status"].where(known, failed.map({True: "oom", False: "ok"}))
    return merged


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    fields = schema()
    extra = sorted({name for row in rows for name in row} - set(fields.names))
    for name in extra:
        fields = fields.append(pa.field(name, pa.string()))
    return pa.Table.from_pylist([dict(row) for row in rows], schema=fields)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel releases when the process ends."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
