"""Writes tests/data/table_golden.txt: the cells of the stores in tests/data/tiledb_golden.

    python make_table_golden.py [DATA]

and of tests/data/table_stores, which it makes where they are missing.

Every array at several times, as tiledb-py reads it; src/format/tiledb/reader/array_reader_test.cc prints
the same lines from what Penstock reads. Numbers in decimal, reals as the bits, text as
hexadecimal, "-" for null; cells of a sparse array are sorted lines.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import numpy as np
import tiledb

SKIPPED = {"encrypted", "groups", "labelled"}
END = 2**64 - 1


def cell_text(value: object, attr: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, memoryview):  # a blob
        value = value.tobytes()
    if isinstance(value, (bytes, str)):
        data = value.encode() if isinstance(value, str) else value
        return "'" + data.rstrip(b"\0").hex()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(int(value.astype("int64")))
    if isinstance(value, (float, np.floating)):
        width = 4 if np.asarray(value).dtype == np.float32 else 8
        packed = struct.pack("<f" if width == 4 else "<d", value)
        return "x" + packed.hex()
    return str(int(value))


def flat(found: object) -> list:
    if isinstance(found, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(found).ravel()
        return [None if m else v for v, m in zip(found.data.ravel(), mask, strict=True)]
    return list(np.asarray(found).ravel())


def readable(schema: tiledb.ArraySchema) -> list[str]:
    """Dimensions and attributes, but for cells of several values, which tiledb-py shows as records."""
    attributes = [schema.attr(i) for i in range(schema.nattr)]
    plain = [a.name for a in attributes if (a.dtype.kind in "SUO" if a.isvar else a.ncells == 1)]
    return plain + [schema.domain.dim(i).name for i in range(schema.domain.ndim)]


def array_lines(path: Path, name: str, end: int) -> list[str]:
    with tiledb.open(str(path), timestamp=None if end == END else (0, end)) as array:
        read = array[:] if array.ndim == 1 else array[(slice(None),) * array.ndim]
        if not isinstance(read, dict):
            read = {array.attr(0).name: read}
        names = sorted(set(read) & set(readable(array.schema)))
        columns = [[cell_text(v, None) for v in flat(read[n])] for n in names]
        rows = [" ".join(row) for row in zip(*columns, strict=True)]
        if array.schema.sparse:
            rows.sort()
        return [f"array {name} {end} {' '.join(names)}", *rows]


def make_stores(folder: Path) -> None:
    """Cells written over: two dimensions, and one (consolidated with timestamps, then more)."""
    random = np.random.default_rng(8)
    for name, rank in [("plane", 2), ("line", 1), ("line_consolidated", 1)]:
        dims = [tiledb.Dim(f"d{i}", domain=(0, 99), tile=10, dtype=np.int64) for i in range(rank)]
        schema = tiledb.ArraySchema(
            domain=tiledb.Domain(*dims),
            attrs=[tiledb.Attr("v", dtype=np.int32)],
            sparse=True,
            capacity=4,
        )
        uri = str(folder / name)
        folder.mkdir(exist_ok=True)
        tiledb.Array.create(uri, schema)
        for time in (10, 20, 30, 40):
            cells = np.sort(random.choice(30, 14, replace=False))
            at = (cells // 6, cells % 6) if rank == 2 else (cells,)
            with tiledb.open(uri, "w", timestamp=time) as array:
                array[at if rank == 2 else at[0]] = np.arange(14, dtype=np.int32) + time * 100
            if name == "line_consolidated" and time == 30:
                tiledb.consolidate(uri)
                tiledb.vacuum(uri)


def main() -> None:
    data = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "data")
    lines: list[str] = []
    stores = data / "table_stores"
    if not stores.exists():
        make_stores(stores)
    folders = [*(data / "tiledb_golden").rglob("__schema"), *stores.rglob("__schema")]
    for schema_folder in sorted(folders):
        path = schema_folder.parent
        name = os.path.relpath(path, data / "tiledb_golden")
        if name.split("/")[0] in SKIPPED:
            continue
        times = {int(f.name.split("_")[2]) for f in (path / "__fragments").glob("__*")}
        if stores in path.parents:
            times |= {15, 20, 25, 30}
        times |= {int(f.name.split("_")[2]) for f in (path / "__commits").glob("*.del")}
        for end in [*sorted(times), END]:
            try:
                lines += array_lines(path, name, end)
            except (tiledb.TileDBError, IndexError) as error:
                print("left out:", name, end, error)
    (data / "table_golden.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
