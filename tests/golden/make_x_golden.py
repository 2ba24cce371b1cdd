"""Writes tests/data/x_golden: 2-D arrays of many layouts and what TileDB reads from them.

Each case is one gzipped tar of
    array/...      the array's files
    expected.bin   int64 rows, columns, value type code, time start, time end (all little-endian),
                   int64 indptr[rows + 1], int64 columns[nnz], values[nnz]; a row's cells are sorted
                   by column, then by the value's bytes
so that a test can load it in memory, damage it and compare. Run with tiledb and tiledbsoma (PyPI) installed:

    python tests/golden/make_x_golden.py [only these cases ...]

The stores differ from run to run in their timestamps' uuids, never in their contents.
"""

import io
import pathlib
import shutil
import sys
import tarfile
import tempfile
import time
import zlib

import numpy as np
import pyarrow as pa
import tiledb
import tiledbsoma

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "x_golden"
TYPES = {
    "int32": 0, "int64": 1, "float32": 2, "float64": 3, "int8": 5, "uint8": 6,
    "int16": 7, "uint16": 8, "uint32": 9, "uint64": 10,
}  # fmt: skip
U64_MAX = 2**64 - 1

ZSTD = [tiledb.ZstdFilter(level=9)]
SHUFFLED = [tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=9)]


class Case:
    """One array under construction; every method is a step of its history."""

    def __init__(self, name, *, shape=(60, 300), extents=(16, 64), capacity=100, dtype="float32",
                 cell_order="row-major", tile_order="row-major", duplicates=False, row_filters=ZSTD,
                 column_filters=SHUFFLED, value_filters=SHUFFLED, coords_filters=ZSTD,
                 dense=False, fill=None):  # fmt: skip
        self.name = name
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.uri = str(self.folder / "array")
        self.duplicates = duplicates
        domain = tiledb.Domain(
            *(
                tiledb.Dim(
                    f"soma_dim_{i}",
                    domain=(0, shape[i] - 1),
                    tile=extents[i],
                    dtype="int64",
                    filters=tiledb.FilterList(filters),
                )
                for i, filters in enumerate((row_filters, column_filters))
            )
        )
        self.dense = dense
        attribute = tiledb.Attr(
            "soma_data", dtype=dtype, filters=tiledb.FilterList(value_filters), fill=fill
        )
        schema = tiledb.ArraySchema(
            domain, attrs=[attribute], sparse=not dense, capacity=capacity, cell_order=cell_order,
            tile_order=tile_order, allows_duplicates=duplicates,
            coords_filters=tiledb.FilterList(coords_filters),
        )  # fmt: skip
        tiledb.Array.create(self.uri, schema)
        self.range = (0, U64_MAX)

    def values(self, count, kind):
        if kind == "counts":
            values = self.rng.geometric(0.4, count)
            if self.dtype.itemsize > 1:
                large = self.rng.random(count) < 0.02
                values = np.where(large, self.rng.integers(250, 30000, count), values)
        elif kind == "normal":
            values = self.rng.normal(size=count)
        else:  # odd: everything that must survive bit for bit
            info = np.finfo(self.dtype) if self.dtype.kind == "f" else np.iinfo(self.dtype)
            odd = [0, 1, 254, info.max, info.min]
            odd += [255, 256, 300]
            if self.dtype.kind == "f":
                odd += [-0.0, np.nan, np.inf, -np.inf, 0.5, -1, 1e-30, 16777217, 2.0**40]
            odd = [v for v in odd if self.dtype.kind == "f" or info.min <= v <= info.max]
            return self.rng.choice(np.array(odd, dtype=self.dtype), count)
        if self.dtype.itemsize == 1:
            values = np.clip(values, 0, 100)
        return values.astype(self.dtype)

    def write(self, *, rows=None, columns=None, density=0.15, kind="counts", at=None, twice=0.0):
        """A fragment over some rows and columns; `twice`: share of its cells that come again."""
        row_range = rows or (0, self.shape[0])
        column_range = columns or (0, self.shape[1])
        cells = (row_range[1] - row_range[0]) * (column_range[1] - column_range[0])
        chosen = np.flatnonzero(self.rng.random(cells) < density)
        again = chosen[self.rng.random(len(chosen)) < twice]
        chosen = np.concatenate([chosen, again])
        width = column_range[1] - column_range[0]
        r = row_range[0] + chosen // width
        c = column_range[0] + chosen % width
        with tiledb.open(self.uri, "w", timestamp=at) as array:
            array[r, c] = self.values(len(chosen), kind)
        return self

    def write_block(self, rows, columns, *, density=0.2, kind="counts", at=None):
        """A fragment of a dense array."""
        shape = (rows[1] - rows[0], columns[1] - columns[0])
        values = self.values(shape[0] * shape[1], kind).reshape(shape)
        values[self.rng.random(shape) >= density] = 0
        with tiledb.open(self.uri, "w", timestamp=at) as array:
            array[rows[0] : rows[1], columns[0] : columns[1]] = values
        return self

    def write_dense_columns(self, at=None):
        """Rows of very uneven length: one full, many empty."""
        r = np.concatenate([np.full(self.shape[1], 7), np.full(3, self.shape[0] - 1)])
        c = np.concatenate([np.arange(self.shape[1]), np.array([0, 5, self.shape[1] - 1])])
        with tiledb.open(self.uri, "w", timestamp=at) as array:
            array[r, c] = self.values(len(r), "counts")
        return self

    def consolidate(self, *, timestamps=True, vacuum=True, purge=False):
        config = tiledb.Config(
            {
                "sm.consolidation.with_timestamps": str(timestamps).lower(),
                "sm.consolidation.purge_deleted_cells": str(purge).lower(),
            }
        )
        tiledb.consolidate(self.uri, config=config)
        if vacuum:
            tiledb.vacuum(self.uri)
        return self

    def delete(self, condition, at=None):
        with tiledb.open(self.uri, "d", timestamp=at) as array:
            array.query(cond=condition).submit()
        return self

    def until(self, end, start=0):
        self.range = (start, end)
        return self

    def expected(self):
        timestamp = None if self.range == (0, U64_MAX) else self.range
        with tiledb.open(self.uri, timestamp=timestamp) as array:
            data = array[:]
        if self.dense:
            values = data["soma_data"] if isinstance(data, dict) else np.asarray(data)
            rows, columns = np.nonzero(values.view(f"u{values.dtype.itemsize}"))
            return rows, columns, values[rows, columns]
        return data["soma_dim_0"], data["soma_dim_1"], data["soma_data"]

    def save(self):
        rows, columns, values = self.expected()
        bits = values.view(f"u{values.dtype.itemsize}")
        order = np.lexsort((bits, columns, rows))
        indptr = np.searchsorted(rows[order], np.arange(self.shape[0] + 1)).astype("<i8")
        head = np.array(
            [self.shape[0], self.shape[1], TYPES[self.dtype.name]], dtype="<i8"
        ).tobytes()
        head += np.array(self.range, dtype="<u8").tobytes()
        expected = head + indptr.tobytes() + columns[order].astype("<i8").tobytes()
        expected += values[order].tobytes()
        OUT.mkdir(parents=True, exist_ok=True)
        path = OUT / f"{self.name}.tar.gz"
        with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT, compresslevel=9) as tar:
            tar.add(self.uri, "array", filter=plain)
            member = tarfile.TarInfo("expected.bin")
            member.size = len(expected)
            tar.addfile(member, io.BytesIO(expected))
        shutil.rmtree(self.folder)
        print(f"{self.name}: {len(values)} cells, {path.stat().st_size} bytes")


def plain(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def layouts():
    yield Case("census", duplicates=True).write()
    yield Case("census_odd_values", duplicates=True).write(kind="odd")
    yield Case("default_soma", column_filters=[tiledb.ZstdFilter(level=3)],
               row_filters=[tiledb.ZstdFilter(level=3)], value_filters=[tiledb.ZstdFilter(level=-1)],
               extents=(60, 300), capacity=100000).write()  # fmt: skip
    yield Case("normalized", value_filters=[tiledb.ZstdFilter(level=-1)]).write(kind="normal")
    yield Case("one_row_extents", extents=(1, 300)).write()
    yield Case("narrow_extents", extents=(60, 7), capacity=50).write()
    yield Case("tall_extents", extents=(7, 300), capacity=37).write()
    yield Case("column_major_tiles", tile_order="col-major").write()
    yield Case("column_major_cells", cell_order="col-major").write()
    yield Case("column_major_both_duplicates", cell_order="col-major", tile_order="col-major",
               duplicates=True).write(twice=0.1)  # fmt: skip
    yield Case("hilbert", cell_order="hilbert").write()
    yield (
        Case("hilbert_duplicates", cell_order="hilbert", duplicates=True)
        .write(twice=0.2)
        .write(rows=(20, 40))
    )
    yield Case("capacity_1", shape=(12, 20), extents=(4, 8), capacity=1).write(density=0.3)
    yield Case("capacity_3", capacity=3, shape=(30, 40), extents=(8, 8)).write()
    yield Case("uneven_rows").write_dense_columns()
    yield Case("empty")
    yield Case("wide", shape=(40, 200000), extents=(16, 65536), capacity=500).write(density=0.001)
    yield (
        Case("very_wide", shape=(20, 2**40), extents=(16, 2**20), capacity=500)
        .write(columns=(2**33, 2**33 + 500))
        .write(columns=(70000, 71000))
    )
    yield (
        Case("tall", shape=(200000, 30), extents=(2048, 30), capacity=1000)
        .write(rows=(100000, 100200))
        .write(rows=(150000, 150100))
    )
    yield Case("large_chunks", shape=(300, 1000), extents=(128, 512), capacity=20000,
               duplicates=True).write(density=0.2)  # fmt: skip


def filters():
    chains = {
        "none": ([], [], []),
        "gzip": ([tiledb.GzipFilter(level=6)],) * 3,
        "lz4": ([tiledb.LZ4Filter()],) * 3,
        "bzip2_rle": ([tiledb.RleFilter()], [tiledb.Bzip2Filter(level=5)], [tiledb.RleFilter()]),
        "double_delta": ([tiledb.DoubleDeltaFilter()], [tiledb.DoubleDeltaFilter()], ZSTD),
        "delta_bit": (
            [tiledb.DeltaFilter(), tiledb.ZstdFilter()],
            [tiledb.BitShuffleFilter(), tiledb.LZ4Filter()],
            [tiledb.BitShuffleFilter(), tiledb.ZstdFilter()],
        ),
        "windows": (
            [tiledb.PositiveDeltaFilter(), tiledb.BitWidthReductionFilter(), tiledb.ZstdFilter()],
            [tiledb.BitWidthReductionFilter(), tiledb.ZstdFilter()],
            [tiledb.XORFilter(), tiledb.ZstdFilter()],
        ),
        "checksums": (
            [tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(), tiledb.ChecksumMD5Filter()],
            [tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(), tiledb.ChecksumSHA256Filter()],
            [tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(), tiledb.ChecksumSHA256Filter()],
        ),
        "shuffle_only": ([tiledb.ByteShuffleFilter()],) * 3,
    }
    for name, (row, column, value) in chains.items():
        extents = (1, 300) if name == "windows" else (16, 64)
        yield Case(f"filter_{name}", row_filters=row, column_filters=column, value_filters=value,
                   extents=extents).write()  # fmt: skip
    scale = [tiledb.FloatScaleFilter(factor=0.01, offset=0, bytewidth=4), tiledb.ZstdFilter()]
    yield Case("filter_float_scale", value_filters=scale).write(kind="normal")
    for dtype in TYPES:
        yield Case(f"type_{dtype}", dtype=dtype, capacity=300).write(kind="odd")
        yield Case(f"type_{dtype}_plain", dtype=dtype, value_filters=ZSTD, duplicates=True).write()


def fragments():
    for duplicates in (False, True):
        suffix = "_duplicates" if duplicates else ""

        def case(name, suffix=suffix, duplicates=duplicates, **options):
            return Case(name + suffix, duplicates=duplicates, **options)

        def three(name, case=case, **options):
            return (
                case(name, **options)
                .write(at=10)
                .write(rows=(10, 40), at=20, density=0.4)
                .write(columns=(100, 250), at=30, density=0.3)
            )

        yield (
            case("disjoint")
            .write(rows=(0, 20), at=1)
            .write(rows=(40, 60), at=2)
            .write(rows=(20, 40), at=3)
        )
        yield three("overlapping")
        yield three("same_time").write(at=30, density=0.3)
        yield three("time_travel").until(20)
        yield three("time_window").until(25, 15)
        yield three("consolidated").consolidate()
        yield three("consolidated_travel").consolidate().until(20)
        yield three("consolidated_window").consolidate().until(25, 15)
        yield three("consolidated_kept").consolidate(vacuum=False).until(15)
        yield three("consolidated_plain").consolidate(timestamps=False)
        yield three("consolidated_then_written").consolidate().write(at=40, rows=(5, 50))
        yield three("consolidated_twice").consolidate().write(at=40).consolidate()
        yield three("consolidated_and_older").consolidate().write(at=15, density=0.5)
        yield three("consolidated_hilbert", cell_order="hilbert").consolidate()
        yield three("consolidated_columns", cell_order="col-major").consolidate().until(20)
        yield three("consolidated_small", capacity=5).consolidate()
        yield three("deleted").delete("soma_data > 3", at=40)
        yield three("deleted_rows").delete("soma_dim_0 >= 15 and soma_dim_0 < 25", at=40)
        yield three("deleted_between").delete("soma_data < 3", at=25)
        yield three("deleted_later").delete("soma_data < 3", at=40).until(35)
        yield three("deleted_window").delete("soma_dim_1 < 150", at=25).until(26, 15)
        yield three("deleted_then_written").delete("soma_dim_1 < 150", at=40).write(at=50)
        yield three("deleted_consolidated").delete("soma_data > 3", at=40).consolidate()
        yield (
            three("deleted_consolidated_travel").delete("soma_data > 3", at=40).consolidate()
        ).until(35)
        yield three("consolidated_deleted").consolidate().delete("soma_dim_0 < 25", at=25)
        yield (
            three("deletes_of_all_kinds")
            .delete("soma_data == 1", at=25)
            .consolidate()
            .delete("soma_dim_1 > 200", at=40)
            .write(at=50, rows=(30, 35))
            .delete("soma_data == 2", at=60)
        )
        yield three("deleted_columns", cell_order="col-major").delete("soma_data > 3", at=40)
        yield three("deleted_purged").delete("soma_data > 3", at=40).consolidate(purge=True)
    yield Case("same_fragment_twice", duplicates=True).write(twice=0.3)
    yield many()
    yield grown("grown", travel=False)
    yield grown("grown_travel", travel=True)


def dense():
    def case(name, **options):
        return Case(f"dense_{name}", dense=True, fill=0, **options)

    yield case("whole").write_block((0, 60), (0, 300))
    yield case("odd_values", dtype="float64").write_block((0, 60), (0, 300), kind="odd", density=1)
    yield case("normal", value_filters=ZSTD).write_block(
        (0, 60), (0, 300), kind="normal", density=1
    )
    yield case("uneven_extents", extents=(7, 33)).write_block((0, 60), (0, 300))
    yield case("part").write_block((10, 37), (50, 211))
    yield case("column_major", cell_order="col-major", tile_order="col-major").write_block(
        (3, 50), (20, 290)
    )
    yield case("int8", dtype="int8", extents=(60, 300)).write_block((0, 60), (0, 300), kind="odd")

    def three(name, **options):
        return (
            case(name, **options)
            .write_block((0, 60), (0, 300), at=10)
            .write_block((10, 40), (100, 250), at=20)
            .write_block((17, 18), (0, 300), at=30)
        )

    yield three("overlapping")
    yield three("travel").until(20)
    yield three("consolidated").consolidate()
    yield Case("dense_fill", dense=True, fill=7, dtype="int32").write_block((10, 37), (50, 211))
    yield Case("dense_empty", dense=True, fill=0)
    yield case("large", shape=(200, 3000), extents=(64, 1024)).write_block((0, 200), (0, 3000))


def grown(name, *, travel):
    """An array that tiledbsoma grew between two writes, consolidated with timestamps."""
    case = Case(name, shape=(30, 200))
    shutil.rmtree(case.uri)
    tiledbsoma.SparseNDArray.create(case.uri, type=pa.float32(), shape=case.shape).close()
    case.write()
    time.sleep(0.02)
    before = int(time.time() * 1000)
    time.sleep(0.02)
    with tiledbsoma.open(case.uri, "w") as array:
        array.resize((60, 300))
    case.shape = (60, 300)
    case.write().consolidate()
    if travel:
        case.until(before).shape = (30, 200)
    return case


def many():
    case = Case("many", duplicates=False, shape=(64, 200))
    for i in range(24):
        begin = int(case.rng.integers(0, 56))
        case.write(rows=(begin, begin + 8), at=100 + i, density=0.2)
    return case


def main():
    only = set(sys.argv[1:])
    for group in (layouts, filters, fragments, dense):
        for case in group():
            if not only or case.name in only:
                case.save()
            else:
                shutil.rmtree(case.folder)


if __name__ == "__main__":
    main()
