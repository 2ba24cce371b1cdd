"""Odd arrays written by tiledb-py, read with read_array as tiledb-py reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.errors import PenstockError

tiledb = pytest.importorskip("tiledb")


def values(column: _core.Column) -> list:
    """Values of a column, None for null."""
    if column.is_string:
        found = column.strings()
    elif column.is_coded:
        categories = list(column.categories())
        found = [categories[code] if code >= 0 else None for code in column.values().tolist()]
    else:
        found = column.values().tolist()
    validity = column.validity()
    if validity is not None:
        found = [v if ok else None for v, ok in zip(found, validity, strict=True)]
    return [text(v) for v in found]


def text(value: object) -> object:
    """Bytes as text, without the NUL that is the fill value of strings (numpy drops it)."""
    value = value.decode() if isinstance(value, bytes) else value
    return value.rstrip("\0") if isinstance(value, str) else value


def ours(uri: str, *, start: int | None = None, end: int | None = None) -> dict[str, list]:
    return {c.name: values(c) for c in _core.read_array(uri, [], start, end, 2)}


def plain(array: object) -> list:
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array).ravel()
        found = [None if m else v for v, m in zip(array.data.ravel().tolist(), mask, strict=True)]
    else:
        array = np.asarray(array)
        if array.dtype.kind == "M":
            array = array.astype("int64")
        found = array.ravel().tolist()
    return [text(v) for v in found]


def theirs(uri: str, timestamp: object = None) -> dict[str, list]:
    with tiledb.open(uri, timestamp=timestamp) as array:
        read = array[:] if array.ndim == 1 else array[(slice(None),) * array.ndim]
        if not isinstance(read, dict):
            read = {array.attr(0).name: read}
        return {name: plain(found) for name, found in read.items()}


def rows_of(columns: dict[str, list]) -> list[str]:
    return sorted(map(repr, zip(*(columns[name] for name in sorted(columns)), strict=True)))


def assert_same_cells(uri: str, **when: int) -> dict[str, list]:
    """The same cells in any order (a dense array: in row-major order, attributes only)."""
    timestamp = (when.get("start", 0), when["end"]) if "end" in when else None
    left, right = ours(uri, **when), theirs(uri, timestamp)
    if tiledb.ArraySchema.load(uri).sparse:
        assert sorted(left) == sorted(right)
        assert rows_of(left) == rows_of(right)
    else:
        for name, found in right.items():
            assert repr(left[name]) == repr(found), name
    return left


ORDERS = ["row-major", "col-major", "hilbert"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("duplicates", [False, True])
def test_overlapping_sparse_fragments(tmp_path: Path, order: str, duplicates: bool) -> None:
    uri = str(tmp_path / "a")
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            tiledb.Dim("x", domain=(-50, 50), tile=7, dtype=np.int32),
            tiledb.Dim("y", domain=(0, 99), tile=10, dtype=np.uint64),
        ),
        attrs=[
            tiledb.Attr("v", dtype=np.int16),
            tiledb.Attr("s", dtype="U0", var=True, filters=[tiledb.ZstdFilter()]),
        ],
        sparse=True,
        capacity=9,
        cell_order=order,
        tile_order="row-major" if order == "hilbert" else order,
        allows_duplicates=duplicates,
    )
    tiledb.Array.create(uri, schema)
    random = np.random.default_rng(1)
    for timestamp in (10, 20, 20, 30):
        cells = random.choice(40 * 40, 150, replace=duplicates)
        with tiledb.open(uri, "w", timestamp=timestamp) as array:
            array[cells // 40 - 20, cells % 40] = {
                "v": random.integers(0, 999, 150).astype(np.int16),
                "s": np.array([f"{timestamp}:{i}" for i in range(150)], dtype="U"),
            }
    times = [{}, {"start": 15, "end": 25}, *({"end": end} for end in (9, 10, 19, 20, 25))]
    before = [rows_of(assert_same_cells(uri, **when)) for when in times]
    # Where two cells have one time, what TileDB itself reads changes with consolidation when a tile
    # ends between them; what is read here does not.
    tiledb.consolidate(uri)
    assert [rows_of(ours(uri, **when)) for when in times] == before
    tiledb.vacuum(uri)
    assert [rows_of(ours(uri, **when)) for when in times] == before


def test_string_and_float_dimensions(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            tiledb.Dim("name", domain=(None, None), tile=None, dtype="ascii"),
            tiledb.Dim("f", domain=(-1e3, 1e3), tile=10.0, dtype=np.float64),
        ),
        attrs=[tiledb.Attr("v", dtype=np.float32)],
        sparse=True,
        capacity=5,
    )
    tiledb.Array.create(uri, schema)
    random = np.random.default_rng(2)
    for timestamp in (1, 2, 3):
        names = np.array([f"n{i}" for i in random.integers(0, 30, 40)], dtype="S")
        floats = np.round(random.standard_normal(40), 1)
        _, first = np.unique(
            [f"{n}{f}" for n, f in zip(names, floats, strict=True)], return_index=True
        )
        with tiledb.open(uri, "w", timestamp=timestamp) as array:
            array[names[first], floats[first]] = {
                "v": random.standard_normal(len(first)).astype(np.float32)
            }
    assert_same_cells(uri)
    assert_same_cells(uri, end=2)
    tiledb.consolidate(uri)
    assert_same_cells(uri)
    assert_same_cells(uri, end=2)


TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
         "float64", "datetime64[D]", "datetime64[ms]", "bool"]  # fmt: skip


def test_every_type_of_attribute(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    attrs = [tiledb.Attr(name, dtype=np.dtype(name)) for name in TYPES]
    attrs += [
        tiledb.Attr(f"null_{name}", dtype=np.dtype(name), nullable=True)
        for name in TYPES if name.startswith(("int", "uint", "float"))
    ]  # fmt: skip
    attrs += [
        tiledb.Attr("blob", dtype="blob", var=True),
        tiledb.Attr("bytes", dtype="S0", var=True),
    ]
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("d", domain=(0, 10**6), tile=100, dtype=np.int64)),
        attrs=attrs, sparse=True, capacity=11,
    )  # fmt: skip
    tiledb.Array.create(uri, schema)
    random = np.random.default_rng(3)
    rows = np.sort(random.choice(10**6, 90, replace=False))
    written: dict[str, np.ndarray] = {}
    for attr in attrs:
        bits = random.integers(0, 2**63, 90, dtype=np.uint64)
        if attr.name in ("blob", "bytes"):
            written[attr.name] = np.array([b"x" * (1 + int(b % 5)) for b in bits], dtype=object)
        elif attr.dtype.kind == "b":
            written[attr.name] = bits % 2 == 0
        else:
            written[attr.name] = (bits % 120).astype(attr.dtype)
    nullable = {
        name: (found, (random.random(90) < 0.7).astype(np.uint8))
        for name, found in written.items() if name.startswith("null_")
    }  # fmt: skip
    with tiledb.open(uri, "w") as array:
        import pyarrow as pa

        array[rows] = {
            **{n: v for n, v in written.items() if n not in nullable},
            **{n: pa.array(v, mask=ok == 0) for n, (v, ok) in nullable.items()},
        }
    read = ours(uri)
    for name, found in written.items():
        wanted = [v.decode() if isinstance(v, bytes) else v for v in found.tolist()]
        if found.dtype.kind == "M":
            wanted = found.astype("int64").tolist()
            read[name] = np.array(read[name]).astype("int64").tolist()
        if name in nullable:
            wanted = [v if ok else None for v, ok in zip(wanted, nullable[name][1], strict=True)]
        assert read[name] == wanted, name


@pytest.mark.parametrize("tile_order", ["row-major", "col-major"])
@pytest.mark.parametrize("cell_order", ["row-major", "col-major"])
def test_dense_arrays(tmp_path: Path, tile_order: str, cell_order: str) -> None:
    uri = str(tmp_path / "a")
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            tiledb.Dim("x", domain=(2, 20), tile=4, dtype=np.int32),
            tiledb.Dim("y", domain=(1, 13), tile=5, dtype=np.int32),
        ),
        attrs=[tiledb.Attr("v", dtype=np.float64), tiledb.Attr("i", dtype=np.int16)],
        tile_order=tile_order,
        cell_order=cell_order,
    )
    tiledb.Array.create(uri, schema)

    def write(x: tuple[int, int], y: tuple[int, int], timestamp: int) -> None:
        shape = (x[1] - x[0], y[1] - y[0])
        count = shape[0] * shape[1]
        with tiledb.open(uri, "w", timestamp=timestamp) as array:
            array[slice(*x), slice(*y)] = {
                "v": np.arange(count, dtype=np.float64).reshape(shape) + timestamp * 1000,
                "i": (np.arange(count, dtype=np.int16) * timestamp).reshape(shape),
            }

    assert_same_cells(uri)
    write((2, 21), (1, 14), 1)
    assert_same_cells(uri)
    write((5, 11), (3, 9), 2)
    write((10, 21), (7, 14), 3)
    write((4, 7), (13, 14), 4)
    assert_same_cells(uri)
    for end in (1, 2, 3):
        assert_same_cells(uri, end=end)
    tiledb.consolidate(uri)
    assert_same_cells(uri)
    tiledb.vacuum(uri)
    read = assert_same_cells(uri)
    assert read["x"][:14] == [2] * 13 + [3]
    assert read["y"][:14] == [*range(1, 14), 1]


@pytest.mark.parametrize("extent", [1, 3, 10])
def test_dense_vector_with_holes(tmp_path: Path, extent: int) -> None:
    uri = str(tmp_path / "a")
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("x", domain=(0, 29), tile=extent, dtype=np.int64)),
        attrs=[
            tiledb.Attr("v", dtype=np.int32),
            tiledb.Attr("n", dtype=np.int8, nullable=True),
            tiledb.Attr("s", dtype="U0", var=True),
        ],
    )
    tiledb.Array.create(uri, schema)
    import pyarrow as pa

    for begin, end in [(4, 9), (20, 21), (7, 12)]:
        with tiledb.open(uri, "w", timestamp=begin + 1) as array:
            array[begin:end] = {
                "v": np.arange(begin, end, dtype=np.int32),
                "n": pa.array([None] + [1] * (end - begin - 1), pa.int8()),
                "s": np.array(["x" * (1 + i) for i in range(end - begin)], dtype="U"),
            }
    assert_same_cells(uri)


def test_deletes_of_many_kinds(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    colours = tiledb.Enumeration("colours", True, np.array(["red", "green", "blue"], dtype="U"))
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("d", domain=(0, 999), tile=50, dtype=np.int64)),
        attrs=[
            tiledb.Attr("c", dtype=np.int8, enum_label="colours"),
            tiledb.Attr("f", dtype=np.float64),
            tiledb.Attr("n", dtype=np.int64, nullable=True),
            tiledb.Attr("s", dtype="ascii", var=True),
        ],
        sparse=True,
        capacity=16,
        enums=[colours],
    )
    random = np.random.default_rng(7)
    import pyarrow as pa

    def write(timestamp: int) -> None:
        rows = np.sort(random.choice(300, 120, replace=False))
        with tiledb.open(uri, "w", timestamp=timestamp) as array:
            array[rows] = {
                "c": random.integers(0, 3, 120).astype(np.int8),
                "f": random.standard_normal(120),
                "n": pa.array(random.integers(0, 5, 120), mask=random.random(120) < 0.3),
                "s": np.array([f"s{i}" for i in random.integers(0, 9, 120)], dtype="S"),
            }

    conditions = [
        "c == 'red'", "f > 1.0 and s == 's3'", "n == 2", "d < 20 or s in ['s1', 's2']", "c > 'red'",
        "s not in ['s4', 's5', 's6', 's7']", "f < -0.5 or n != 3",
    ]  # fmt: skip
    for consolidate in (False, True):
        for condition in conditions:
            if Path(uri).exists():
                tiledb.remove(uri)
            tiledb.Array.create(uri, schema)
            for timestamp in (10, 20):
                write(timestamp)
            with tiledb.open(uri, "d", timestamp=15) as array:
                array.query(cond=condition).submit()
            if consolidate:
                tiledb.consolidate(uri)
            with tiledb.open(uri, "d", timestamp=25) as array:
                array.query(cond="f > 1.5").submit()
            write(30)
            for end in (12, 15, 22, 25, 40):
                assert_same_cells(uri, end=end)
            assert_same_cells(uri)
            if consolidate:
                tiledb.consolidate(uri)
                tiledb.vacuum(uri)
                for end in (15, 22, 40):
                    assert_same_cells(uri, end=end)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("times", [(10, 10), (10, 11), (11, 10)])
def test_a_delete_at_the_time_of_a_write(
    tmp_path: Path, times: tuple[int, int], duplicates: bool, late: bool
) -> None:
    """It goes for cells of its own time too; `late`: it comes when they are consolidated."""
    uri = str(tmp_path / "a")
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("d", domain=(0, 99), tile=10, dtype=np.int64)),
        attrs=[tiledb.Attr("v", dtype=np.int32)],
        sparse=True,
        allows_duplicates=duplicates,
    )
    tiledb.Array.create(uri, schema)
    write, delete = times
    for when, first in ((write - 5, 5), (write, 0), (write + 5, 1)):
        with tiledb.open(uri, "w", timestamp=when) as array:
            array[np.arange(first, 50)] = np.arange(50 - first, dtype=np.int32)
    if late:
        tiledb.consolidate(uri)
    with tiledb.open(uri, "d", timestamp=delete) as array:
        array.query(cond="v >= 20").submit()
    for step in (None, tiledb.consolidate, tiledb.vacuum):
        if step is not None:
            step(uri)
        for end in range(write - 6, write + 7):
            assert_same_cells(uri, end=end)


def test_empty_and_missing(tmp_path: Path) -> None:
    uri = str(tmp_path / "a")
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("d", domain=(0, 99), tile=10, dtype=np.int64)),
        attrs=[tiledb.Attr("v", dtype=np.int32), tiledb.Attr("s", dtype="U0", var=True)],
        sparse=True,
    )
    tiledb.Array.create(uri, schema)
    assert ours(uri) == {"d": [], "v": [], "s": []}
    with pytest.raises(ps.NotFound, match="d, v, s"):
        _core.read_array(uri, ["w"])
    with pytest.raises(ps.NotFound):
        _core.read_array(str(tmp_path / "nothing"), [])


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    """Every file truncated and flipped: an error, or values; never a crash or a hang.

    Other values than were written come from a flipped bit that no checksum covers, and from nothing
    else.
    """
    uri = tmp_path / "a"
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(tiledb.Dim("d", domain=(0, 999), tile=100, dtype=np.int64)),
        attrs=[
            tiledb.Attr(
                "v", dtype=np.int32, filters=[tiledb.ByteShuffleFilter(), tiledb.ZstdFilter()]
            ),
            tiledb.Attr("s", dtype="U0", var=True, filters=[tiledb.ZstdFilter()]),
            tiledb.Attr(
                "n", dtype=np.uint8, nullable=True, filters=[tiledb.ChecksumSHA256Filter()]
            ),
        ],
        sparse=True,
        capacity=32,
    )
    tiledb.Array.create(str(uri), schema)
    random = np.random.default_rng(4)
    with tiledb.open(str(uri), "w") as array:
        array[np.arange(200)] = {
            "v": random.integers(0, 9, 200).astype(np.int32),
            "s": np.array([f"s{i}" for i in range(200)], dtype="U"),
            "n": np.ones(200, dtype=np.uint8),
        }
    whole = ours(str(uri))
    outcomes = {"error": 0, "same": 0, "other": 0}
    (summed,) = uri.glob("__fragments/*/a2.tdb")  # "n" with its SHA-256
    for path in sorted(p for p in uri.rglob("*") if p.is_file()):
        stored = path.read_bytes()
        places = {int(i) for i in random.integers(0, len(stored), 25)} if stored else set()
        for place in sorted(places):
            for damaged in (
                stored[:place],
                stored[:place] + bytes([stored[place] ^ (1 << int(random.integers(0, 8)))])
                + stored[place + 1 :],
            ):  # fmt: skip
                path.write_bytes(damaged)
                try:
                    outcome = "same" if ours(str(uri)) == whole else "other"
                except PenstockError:
                    outcome = "error"
                outcomes[outcome] += 1
                if len(damaged) < len(stored) or path == summed:
                    where = f"{path.relative_to(uri)} at {place}, {len(damaged)} bytes left"
                    assert outcome != "other", where
        path.write_bytes(stored)
    assert ours(str(uri)) == whole
    assert outcomes["error"] > 100
