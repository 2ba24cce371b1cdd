"""Writes the small TileDB stores of tests/data/tiledb_golden, and what TileDB says of them.

    python make_tiledb_golden.py OUT             # tiledb-py 0.36 (TileDB 2.30): all but format18
    python make_tiledb_golden.py OUT --format18  # tiledb-py 0.21 (TileDB 2.15): only format18

Each store OUT/NAME gets OUT/NAME.facts: one fact a line, in the words of
src/format/tiledb/golden_test.cc, which prints the same facts as Penstock sees them and compares
the two texts. Facts come from tiledb-py alone.

Arrays are written below /tmp/penstock_golden first: format 18 stores absolute paths here and there.
Fragment names hold random UUIDs, so a new run gives other files with the same facts.
"""

import argparse
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import tiledb

SCRATCH = "/tmp/penstock_golden"
RNG = np.random.default_rng(1)


# ---- facts ----

FILTER_CODES = {
    "NoOpFilter": 0,
    "GzipFilter": 1,
    "ZstdFilter": 2,
    "LZ4Filter": 3,
    "RleFilter": 4,
    "Bzip2Filter": 5,
    "DoubleDeltaFilter": 6,
    "BitWidthReductionFilter": 7,
    "BitShuffleFilter": 8,
    "ByteShuffleFilter": 9,
    "PositiveDeltaFilter": 10,
    "ChecksumMD5Filter": 12,
    "ChecksumSHA256Filter": 13,
    "DictionaryFilter": 14,
    "FloatScaleFilter": 15,
    "XORFilter": 16,
    "DeltaFilter": 19,
}


def filters_text(filters):
    parts = []
    for f in filters or []:
        text = str(FILTER_CODES[type(f).__name__])
        if type(f).__name__ in ("GzipFilter", "ZstdFilter", "LZ4Filter", "Bzip2Filter"):
            text += f"/{f.level}"
        elif hasattr(f, "window"):
            text += f"/{f.window}"
        elif type(f).__name__ == "FloatScaleFilter":
            text += f"/{f.factor:g}/{f.offset:g}/{f.bytewidth}"
        parts.append(text)
    return "[" + " ".join(parts) + "]"


def type_text(dtype):
    """The name that penstock::name_of gives the type."""
    if isinstance(dtype, str):
        return {"ascii": "ascii", "blob": "bytes"}[dtype]
    dtype = np.dtype(dtype)
    if dtype.kind == "U":
        return "string"
    if dtype.kind == "S":
        return "char"
    if dtype.kind == "M":
        return dtype.name
    if dtype.names:
        return type_text(dtype[0])
    return dtype.name


def value_text(value):
    if isinstance(value, np.datetime64):
        return str(value.astype("int64"))
    if isinstance(value, (np.float32, np.float64, float)):
        return "x" + np.asarray(value).tobytes().hex()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return str(value)


def box_text(box):
    return " ".join(f"[{value_text(lo)} {value_text(hi)}]" for lo, hi in box)


def schema_facts(schema):
    domain = schema.domain
    yield (
        f"schema version={schema.version} sparse={int(schema.sparse)} "
        f"duplicates={int(schema.sparse and schema.allows_duplicates)} "
        f"cell_order={schema.cell_order} tile_order={schema.tile_order or 'row-major'} "
        f"capacity={schema.capacity}"
    )
    yield (
        f"filters coords={filters_text(schema.coords_filters)} "
        f"offsets={filters_text(schema.offsets_filters)} "
        f"validity={filters_text(schema.validity_filters)}"
    )
    for i in range(domain.ndim):
        dim = domain.dim(i)
        var = dim.isvar
        text = f"dim {dim.name} type={'ascii' if var else type_text(dim.dtype)} var={int(var)}"
        if not var:
            text += f" domain={box_text([dim.domain])}"
            if dim.tile is not None and not (dim.dtype.kind == "f" and dim.tile == 0):
                integer = dim.dtype.kind != "f"
                extent = np.asarray(dim.tile).astype("int64" if integer else dim.dtype)
                text += f" extent={value_text(extent)}"
        own = filters_text(dim.filters)
        yield text + f" filters={own if own != '[]' else filters_text(schema.coords_filters)}"
    for i in range(schema.nattr):
        attr = schema.attr(i)
        ascii_type = getattr(attr, "isascii", False)
        names = attr.dtype.names
        count = attr.dtype.itemsize if attr.dtype.kind == "S" else 1
        number = "var" if attr.isvar else str(len(names) if names else count)
        blob = attr.dtype.kind == "S" and "BLOB" in str(getattr(attr, "_tiledb_dtype", ""))
        kind = "ascii" if ascii_type else "bytes" if blob else type_text(attr.dtype)
        text = f"attr {attr.name} type={kind} number={number}"
        text += f" nullable={int(attr.isnullable)} enum={getattr(attr, 'enum_label', None) or '-'}"
        yield text + f" filters={filters_text(attr.filters)}"
    current = getattr(schema, "current_domain", None)
    if current is not None and not current.is_empty:
        rectangle = current.ndrectangle
        yield "current_domain " + box_text(rectangle.range(i) for i in range(domain.ndim))


def fragment_facts(uri):
    array = tiledb.open(uri)
    sparse = array.schema.sparse
    # tiledb.FragmentInfoList cannot give MBRs of arrays with string dimensions.
    fixed = not any(array.schema.domain.dim(i).isvar for i in range(array.schema.domain.ndim))
    infos = tiledb.FragmentInfoList(uri, include_mbrs=sparse and fixed)
    order = sorted(
        range(len(infos)), key=lambda i: (infos[i].timestamp_range[0], Path(infos[i].uri).name)
    )
    for place, i in enumerate(order):
        info = infos[i]
        yield (
            f"fragment {place} name={Path(info.uri).name} version={info.version} "
            f"dense={int(not info.sparse)} "
            f"time={info.timestamp_range[0]}-{info.timestamp_range[1]} "
            f"schema={info.array_schema_name} "
            f"cells={info.cell_num} consolidated_footer={int(info.has_consolidated_metadata)}"
        )
        yield f"fragment {place} domain={box_text(info.nonempty_domain)}"
        if sparse and fixed:
            for tile, mbr in enumerate(info.mbrs):
                yield f"fragment {place} mbr {tile} {box_text(mbr)}"


def metadata_facts(opened):
    for key in sorted(opened.meta.keys()):
        value = opened.meta[key]
        if isinstance(value, (tuple, list, np.ndarray)):
            array = np.asarray(value)
            yield f"meta {key} {array.dtype.name} {array.size} x{array.tobytes().hex()}"
        elif isinstance(value, float):
            yield f"meta {key} float {value_text(value)}"
        elif isinstance(value, (int, np.integer)):
            yield f"meta {key} int {value}"
        else:
            text = value.encode() if isinstance(value, str) else value
            yield f"meta {key} text {text.hex()}"


def enumeration_facts(array):
    for i in range(array.schema.nattr):
        label = getattr(array.schema.attr(i), "enum_label", None)
        if not label:
            continue
        enumeration = array.enum(label)
        values = " ".join(value_text(v) for v in enumeration.values())
        yield f"enumeration {label} ordered={int(enumeration.ordered)} values={values}"


def visible_facts(uri, start, end):
    """What depends on the time range, from an array that is opened in it."""
    with tiledb.open(uri, timestamp=(start, end)) as array:
        names = [array.schema.attr(i).name for i in range(array.schema.nattr)]
        domain = array.nonempty_domain()
        yield (
            f"at {start}-{end} attributes={','.join(names)} "
            f"domain={'-' if domain is None else box_text(domain)} "
            f"metadata={','.join(sorted(array.meta.keys()))}"
        )


def array_facts(uri, ranges=()):
    with tiledb.open(uri) as array:
        yield from schema_facts(array.schema)
        yield from enumeration_facts(array)
        yield from metadata_facts(array)
    yield from fragment_facts(uri)
    for start, end in ranges:
        yield from visible_facts(uri, start, end)


def group_facts(uri):
    with tiledb.Group(uri) as group:
        members = []
        for member in group:
            kind = {tiledb.Group: "group", tiledb.Array: "array"}[member.type]
            path = member.uri.removeprefix("file://")
            relative = os.path.relpath(path, uri) if path.startswith(uri + "/") else path
            members.append(f"member {member.name or '-'} type={kind} path={relative}")
        yield from sorted(members)
        yield from metadata_facts(group)


# ---- stores ----


def put(uri, timestamp, coords, **attributes):
    with tiledb.open(uri, "w", timestamp=timestamp) as array:
        coords = coords if isinstance(coords, tuple) else (coords,)
        array[coords] = attributes if len(attributes) > 1 else next(iter(attributes.values()))


def put_metadata(uri, timestamp, **entries):
    with tiledb.open(uri, "w", timestamp=timestamp) as array:
        for key, value in entries.items():
            if value is None:
                del array.meta[key]
            else:
                array.meta[key] = value


def consolidate(uri, mode="fragments", **options):
    tiledb.consolidate(uri, config=tiledb.Config({"sm.consolidation.mode": mode, **options}))


def vacuum(uri, mode="fragments"):
    tiledb.vacuum(uri, config=tiledb.Config({"sm.vacuum.mode": mode}))


def backdate_schema(uri, timestamp):
    """Renames the first schema, which TileDB dates now, while no fragment refers to it yet."""
    (path,) = [p for p in Path(uri, "__schema").iterdir() if p.is_file()]
    path.rename(path.with_name(f"__{timestamp}_{timestamp}_{path.name.split('_')[-1]}"))


def delete(uri, timestamp, condition):
    with tiledb.open(uri, "d", timestamp=timestamp) as array:
        array.query(cond=condition).submit()


def sparse_int64(uri, extra=(), extent=10, capacity=4, **options):
    dims = [
        tiledb.Dim("row", domain=(0, 999), tile=extent, dtype="int64"),
        tiledb.Dim("column", domain=(0, 999), tile=extent, dtype="int64"),
    ]
    attrs = [tiledb.Attr("value", dtype="float32"), *extra]
    tiledb.Array.create(
        uri,
        tiledb.ArraySchema(tiledb.Domain(*dims), attrs, sparse=True, capacity=capacity, **options),
    )


def make_types(uri):
    f = tiledb
    attrs = [
        f.Attr("i1", dtype="int8", filters=[f.RleFilter()]),
        f.Attr("u1", dtype="uint8", filters=[f.BitShuffleFilter(), f.LZ4Filter(5)]),
        f.Attr("i2", dtype="int16", filters=[f.BitWidthReductionFilter(128)]),
        f.Attr("u2", dtype="uint16", filters=[f.PositiveDeltaFilter(64), f.GzipFilter(3)]),
        f.Attr("i4", dtype="int32", filters=[f.DoubleDeltaFilter()]),
        f.Attr("u4", dtype="uint32", filters=[f.Bzip2Filter(2), f.ChecksumMD5Filter()]),
        f.Attr("i8", dtype="int64", filters=[f.DeltaFilter(), f.ZstdFilter(1)]),
        f.Attr("u8", dtype="uint64", filters=[f.ChecksumSHA256Filter()]),
        f.Attr("f4", dtype="float32", filters=[f.XORFilter(), f.ZstdFilter()]),
        f.Attr(
            "f8", dtype="float64", filters=[f.FloatScaleFilter(factor=0.5, offset=2.0, bytewidth=4)]
        ),
        f.Attr("b", dtype="bool"),
        f.Attr("t", dtype="datetime64[ns]", nullable=True),
        f.Attr("ascii", dtype="ascii", var=True, filters=[f.DictionaryFilter()]),
        f.Attr("utf8", dtype=np.dtype("U"), var=True, nullable=True, filters=[f.ZstdFilter(5)]),
        f.Attr("raw", dtype="blob", var=True),
        f.Attr("numbers", dtype="int32", var=True),
        f.Attr("pair", dtype=[("", "i4"), ("", "i4")]),
        f.Attr("code", dtype="S3"),
        f.Attr("maybe", dtype="int32", nullable=True, filters=[f.ZstdFilter(9)]),
    ]
    dims = [
        f.Dim("x", domain=(-100, 100), tile=25, dtype="int32"),
        f.Dim(
            "when",
            domain=(np.datetime64("2000-01-01", "D"), np.datetime64("2049-01-01", "D")),
            tile=np.timedelta64(100, "D"),
            dtype="datetime64[D]",
        ),
    ]
    f.Array.create(
        uri,
        f.ArraySchema(
            f.Domain(*dims),
            attrs,
            sparse=True,
            capacity=4,
            allows_duplicates=True,
            cell_order="col-major",
            coords_filters=[f.ZstdFilter(3)],
            offsets_filters=[f.PositiveDeltaFilter(1024), f.ZstdFilter(2)],
            validity_filters=[f.RleFilter()],
        ),
    )
    n = 11
    values = {
        name: np.arange(n).astype(dtype)
        for name, dtype in [
            ("i1", "i1"),
            ("u1", "u1"),
            ("i2", "i2"),
            ("u2", "u2"),
            ("i4", "i4"),
            ("u4", "u4"),
            ("i8", "i8"),
            ("u8", "u8"),
            ("f4", "f4"),
            ("f8", "f8"),
            ("b", "?"),
            ("t", "datetime64[ns]"),
        ]
    }
    words = np.array(["", "a", "bb", "gene", "cell", "ccc", "a", "", "x", "yy", "zzz"], dtype="O")
    values["ascii"] = words
    values["utf8"] = np.array([w + "é" for w in words], dtype="O")
    values["raw"] = np.array([w.encode() for w in words], dtype="O")
    values["numbers"] = np.array([np.arange(1 + i % 3, dtype="i4") for i in range(n)], dtype="O")
    values["pair"] = np.array([(i, -i) for i in range(n)], dtype=[("", "i4"), ("", "i4")])
    values["code"] = np.array([b"abc"] * n, dtype="S3")
    values["maybe"] = np.arange(n, dtype="i4")
    with f.open(uri, "w", timestamp=1700000000000) as array:
        array[
            np.arange(n, dtype="i4") * 7 - 40, np.datetime64("2010-01-01", "D") + np.arange(n)
        ] = values
    put_metadata(
        uri,
        1700000000001,
        text="hello é",
        empty="",
        blob=b"\x00\x01",
        one=7,
        real=1.5,
        several=(1, 2, 3),
        floats=(0.5, 0.25),
    )
    yield from array_facts(uri)


def make_strings(uri):
    f = tiledb
    dims = [
        f.Dim("name", domain=(None, None), tile=None, dtype="ascii", filters=[f.RleFilter()]),
        f.Dim("n", domain=(0, 10**6), tile=1000, dtype="uint32"),
    ]
    attrs = [
        f.Attr("kind", dtype="ascii", var=True, filters=[f.RleFilter(), f.ZstdFilter(3)]),
        f.Attr("text", dtype=np.dtype("U"), var=True, filters=[f.DictionaryFilter()]),
    ]
    f.Array.create(uri, f.ArraySchema(f.Domain(*dims), attrs, sparse=True, capacity=3))
    words = np.array(["ant", "bee", "cat", "dog", "elephant", "fox", "gnu"], dtype="O")
    put(uri, 10, (words, np.arange(7, dtype="u4")), kind=words, text=words)
    put(uri, 20, (words[::-1][:2], np.arange(2, dtype="u4")), kind=words[:2], text=words[:2])
    yield from array_facts(uri, [(0, 10), (11, 20), (0, 25)])


def make_hilbert(uri):
    f = tiledb
    dims = [
        f.Dim("x", domain=(-10.0, 10.0), tile=None, dtype="float64"),
        f.Dim("y", domain=(0.0, 1.0), tile=None, dtype="float64"),
    ]
    f.Array.create(
        uri,
        f.ArraySchema(
            f.Domain(*dims),
            [f.Attr("v", dtype="int64")],
            sparse=True,
            cell_order="hilbert",
            capacity=5,
        ),
    )
    put(uri, 5, (RNG.uniform(-10, 10, 23), RNG.uniform(0, 1, 23)), v=np.arange(23))
    yield from array_facts(uri)


def make_dense(uri):
    f = tiledb
    dims = [
        f.Dim("r", domain=(-5, 14), tile=4, dtype="int32"),
        f.Dim("c", domain=(1, 12), tile=5, dtype="int32"),
    ]
    attrs = [f.Attr("a", dtype="int32", filters=[f.ZstdFilter()]), f.Attr("s", dtype="float64")]
    f.Array.create(
        uri, f.ArraySchema(f.Domain(*dims), attrs, cell_order="col-major", tile_order="col-major")
    )
    for timestamp, (r0, r1, c0, c1) in {
        100: (-5, 14, 1, 12),
        200: (0, 1, 3, 7),
        300: (6, 6, 12, 12),
    }.items():
        shape = (r1 - r0 + 1, c1 - c0 + 1)
        numbers = np.arange(np.prod(shape), dtype="i4").reshape(shape)
        with f.open(uri, "w", timestamp=timestamp) as array:
            where = (slice(None), slice(None)) if r0 < 0 else (slice(r0, r1 + 1), slice(c0, c1 + 1))
            array[where] = {"a": numbers, "s": numbers.astype("f8")}
    consolidate(uri)
    yield from array_facts(uri, [(0, 100), (0, 250), (150, 299), (0, 300), (0, 50)])


def make_consolidated(uri):
    sparse_int64(uri)
    for timestamp in (1000, 2000, 3000):
        put(
            uri,
            timestamp,
            (np.arange(6) + timestamp // 100, np.arange(6) * 3),
            value=np.arange(6, dtype="f4"),
        )
    consolidate(uri)
    put(uri, 4000, (np.array([1, 2]), np.array([990, 991])), value=np.arange(2, dtype="f4"))
    yield from array_facts(
        uri,
        [
            (0, 999),
            (0, 1000),
            (0, 2500),
            (1500, 2500),
            (0, 3000),
            (2500, 5000),
            (3500, 5000),
            (5000, 6000),
        ],
    )


def make_vacuumed(uri):
    sparse_int64(uri, allows_duplicates=True)
    for timestamp in (1000, 2000, 3000):
        put(
            uri,
            timestamp,
            (np.arange(6) + timestamp // 100, np.arange(6) * 3),
            value=np.arange(6, dtype="f4"),
        )
    consolidate(uri)
    consolidate(uri, "commits")
    vacuum(uri)  # leaves an ignore file for the commits that the .con file still lists
    put(uri, 4000, (np.array([1, 2]), np.array([990, 991])), value=np.arange(2, dtype="f4"))
    consolidate(uri, "fragment_meta")
    put(uri, 5000, (np.array([1, 2]), np.array([5, 6])), value=np.arange(2, dtype="f4"))
    for timestamp in (10, 20, 30):
        put_metadata(uri, timestamp, **{f"at{timestamp}": timestamp, "last": timestamp})
    consolidate(uri, "array_meta")
    vacuum(uri, "array_meta")
    put_metadata(uri, 40, last=None, at40="x")
    yield from array_facts(uri, [(0, 2500), (0, 3000), (3500, 4500), (0, 9000)])


def make_deletes(uri):
    f = tiledb
    sparse_int64(
        uri,
        [f.Attr("kind", dtype="ascii", var=True), f.Attr("maybe", dtype="int64", nullable=True)],
        allows_duplicates=True,
    )
    kinds = np.array(["a", "b", "c", "d", "e", "f"], dtype="O")
    for timestamp in (1000, 2000):
        put(
            uri,
            timestamp,
            (np.arange(6) + timestamp // 100, np.arange(6) * 3),
            value=np.arange(6, dtype="f4"),
            kind=kinds,
            maybe=np.arange(6),
        )
    delete(uri, 1500, "value > 4.0")
    delete(uri, 2500, "row == 11 or (kind == 'b' and not column < 3)")
    consolidate(uri)
    delete(uri, 3000, "kind in ['c', 'longer', ''] and column not in [30, 31]")
    consolidate(uri, "commits")
    vacuum(uri, "commits")
    delete(uri, 4000, "maybe > 4 and kind != ''")
    yield from array_facts(uri, [(0, 1400), (0, 2000), (0, 5000)])
    number = lambda kind, value: struct.pack("<" + kind, value).hex()  # noqa: E731
    # TileDB stores the negation: what is true for the cells that stay.
    yield f"delete 1500 (value 1 {number('f', 4.0)})"
    yield (
        f"delete 2500 (and (row 5 {number('q', 11)}) "
        f"(or (kind 5 {b'b'.hex()}) (column 0 {number('q', 3)})))"
    )
    yield (
        f"delete 3000 (or (kind 7 {b'c'.hex()} {b'longer'.hex()} -) "
        f"(column 6 {number('q', 30)} {number('q', 31)}))"
    )
    yield f"delete 4000 (or (maybe 1 {number('q', 4)}) (kind 4 -))"
    for start, end in [(0, 1400), (0, 1500), (0, 2600), (2000, 3000), (0, 5000)]:
        visible = [t for t in (1500, 2500, 3000, 4000) if start <= t <= end]
        yield f"deletes at {start}-{end}: {' '.join(map(str, visible))}"
    yield "processed " + " ".join(["1500", "2500"])


def make_enumerated(uri):
    f = tiledb
    schema_enums = [
        f.Enumeration("cell_type", False, ["B", "T", "NK cell"]),
        f.Enumeration("stage", True, ["early", "mid", "late"]),
        f.Enumeration("number", False, np.array([10, 20, 30], dtype="int64")),
        f.Enumeration("real", True, np.array([0.5, 1.5], dtype="float64")),
        f.Enumeration("empty", False, dtype=np.dtype("U")),
    ]
    attrs = [
        f.Attr(e.name, dtype="int8", enum_label=e.name, nullable=e.name == "stage")
        for e in schema_enums
    ]
    dims = [f.Dim("soma_joinid", domain=(0, 99), tile=10, dtype="int64")]
    f.Array.create(uri, f.ArraySchema(f.Domain(*dims), attrs, sparse=True, enums=schema_enums))
    backdate_schema(uri, 10)
    zeros = {e.name: np.zeros(4, dtype="i1") for e in schema_enums}
    put(uri, 10, np.arange(4), **zeros)
    with f.open(uri) as array:
        extended = array.enum("cell_type").extend(["monocyte", "é"])
    evolution = f.ArraySchemaEvolution()
    evolution.timestamp(20)
    evolution.extend_enumeration(extended)
    evolution.array_evolve(uri)
    yield from array_facts(uri)


def evolve(uri, timestamp, add=None, drop=None):
    evolution = tiledb.ArraySchemaEvolution()
    evolution.timestamp(timestamp)
    if add:
        evolution.add_attribute(tiledb.Attr(add, dtype="int32"))
    if drop:
        evolution.drop_attribute(drop)
    evolution.array_evolve(uri)


def make_evolved(uri):
    sparse_int64(uri)
    backdate_schema(uri, 100)
    put(uri, 110, (np.arange(3), np.arange(3)), value=np.arange(3, dtype="f4"))
    evolve(uri, 200, add="added")
    evolve(uri, 300, add="later")
    evolve(uri, 400, drop="value")
    put(
        uri,
        500,
        (np.arange(3), np.arange(3) + 5),
        added=np.arange(3, dtype="i4"),
        later=np.arange(3, dtype="i4"),
    )
    yield from array_facts(
        uri, [(0, 99), (0, 110), (0, 200), (0, 299), (0, 300), (0, 450), (250, 600)]
    )


def make_evolved_digits(uri):
    """Timestamps of different lengths, whose names sort otherwise than the numbers do."""
    sparse_int64(uri)
    backdate_schema(uri, 10)
    evolve(uri, 9, add="nine")
    evolve(uri, 100, add="hundred")
    put(
        uri,
        7,
        (np.arange(3), np.arange(3)),
        value=np.arange(3, dtype="f4"),
        nine=np.arange(3, dtype="i4"),
    )
    put(
        uri,
        11,
        (np.arange(3), np.arange(3) + 5),
        value=np.arange(3, dtype="f4"),
        nine=np.arange(3, dtype="i4"),
    )
    yield from array_facts(uri, [(0, 5), (0, 9), (0, 10), (0, 99), (0, 100), (0, 1000)])


def make_current_domain(uri):
    f = tiledb
    Path(uri).mkdir()
    dims = [
        f.Dim("name", domain=(None, None), tile=None, dtype="ascii"),
        f.Dim("id", domain=(0, 2**62), tile=2048, dtype="int64"),
    ]
    schema = f.ArraySchema(f.Domain(*dims), [f.Attr("a", dtype="int32")], sparse=True)
    rectangle = f.NDRectangle(f.default_ctx(), schema.domain)
    rectangle.set_range(0, "aa", "zzz")
    rectangle.set_range(1, 0, 99)
    current = f.CurrentDomain(f.default_ctx())
    current.set_ndrectangle(rectangle)
    schema.set_current_domain(current)
    f.Array.create(uri + "/sparse", schema)
    put(
        uri + "/sparse",
        7,
        (np.array(["bb", "cc"], dtype="O"), np.arange(2)),
        a=np.arange(2, dtype="i4"),
    )

    dims = [f.Dim("x", domain=(0, 2**62), tile=16, dtype="int64")]
    schema = f.ArraySchema(f.Domain(*dims), [f.Attr("a", dtype="int32")])
    rectangle = f.NDRectangle(f.default_ctx(), schema.domain)
    rectangle.set_range(0, 0, 40)
    current = f.CurrentDomain(f.default_ctx())
    current.set_ndrectangle(rectangle)
    schema.set_current_domain(current)
    f.Array.create(uri + "/dense", schema)
    with f.open(uri + "/dense", "w", timestamp=7) as array:
        array[3:41] = np.arange(38, dtype="i4")
    for name in ("sparse", "dense"):
        yield f"array {name}"
        yield from array_facts(uri + "/" + name)


def make_labelled(uri):
    f = tiledb
    dims = [f.Dim("x", domain=(1, 10), tile=5, dtype="int64")]
    labels = {
        0: {
            "place": dims[0].create_label_schema("increasing", np.float64),
            "word": dims[0].create_label_schema("decreasing", "ascii"),
        }
    }
    f.Array.create(
        uri,
        f.ArraySchema(f.Domain(*dims), [f.Attr("a", dtype="ascii", var=True)], dim_labels=labels),
    )
    with f.open(uri, "w", timestamp=3) as array:
        array[:] = np.array(["gene"] * 10, dtype="O")
    yield from array_facts(uri)


def make_deleted_fragments(uri):
    sparse_int64(uri)
    for timestamp in (1000, 2000, 3000):
        put(
            uri,
            timestamp,
            (np.arange(6) + timestamp // 100, np.arange(6) * 3),
            value=np.arange(6, dtype="f4"),
        )
    consolidate(uri, "commits")
    vacuum(uri, "commits")
    tiledb.Array.delete_fragments(
        uri, 2000, 2000
    )  # its commit stays in the .con file; a .ign file hides it
    yield from array_facts(uri, [(0, 1000), (1500, 2500), (0, 3000)])


def make_encrypted(uri):
    config = tiledb.Config(
        {
            "sm.encryption_type": "AES_256_GCM",
            "sm.encryption_key": "0123456789abcdeF0123456789abcdeF",
        }
    )
    dims = [tiledb.Dim("x", domain=(1, 10), tile=5, dtype="int64")]
    schema = tiledb.ArraySchema(tiledb.Domain(*dims), [tiledb.Attr("a", dtype="int32")])
    tiledb.Array.create(uri, schema, ctx=tiledb.Ctx(config))
    yield "encrypted"


def make_groups(uri):
    f = tiledb
    Path(uri).mkdir()
    root = uri + "/root"
    f.Group.create(root)
    for name in ("child", "other"):
        f.Group.create(f"{root}/{name}")
    sparse_int64(root + "/array")
    f.Group.create(uri + "/outside")

    def change(timestamp, action):
        config = f.Config({"sm.group.timestamp_end": timestamp})
        with f.Group(root, "w", config=config) as group:
            action(group)

    change(
        100, lambda g: [g.add("child", name="first", relative=True), g.add("array", relative=True)]
    )
    change(
        200,
        lambda g: [g.add("other", name="second", relative=True), g.meta.__setitem__("key", "one")],
    )
    change(300, lambda g: g.remove("first"))
    change(400, lambda g: g.meta.__setitem__("key", "two"))
    change(
        500,
        lambda g: [
            g.add(uri + "/outside", name="outside", relative=False),
            g.add("child", name="again", relative=True),
        ],
    )
    change(600, lambda g: [g.meta.__delitem__("key"), g.meta.__setitem__("number", 42)])
    yield from group_facts(root)
    for timestamp in (100, 200, 300, 400, 500):
        config = f.Config({"sm.group.timestamp_end": timestamp})
        with f.Group(root, "r", config=config) as group:
            names = sorted(m.name or "array" for m in group)
            keys = ",".join(sorted(group.meta.keys()))
            yield f"at 0-{timestamp} members={','.join(names)} metadata={keys}"


def make_format18(uri):
    """What tiledbsoma 1.2 (TileDB 2.15) wrote, and how that version consolidates."""
    Path(uri).mkdir()
    array = uri + "/array"
    sparse_int64(
        array,
        [
            tiledb.Attr("kind", dtype="ascii", var=True, filters=[tiledb.DictionaryFilter()]),
            tiledb.Attr("maybe", dtype="int32", nullable=True),
        ],
    )
    kinds = np.array(["a", "b", "c", "d", "e", "f"], dtype="O")
    for timestamp in (1000, 2000, 3000):
        put(
            array,
            timestamp,
            (np.arange(6) + timestamp // 100, np.arange(6) * 3),
            value=np.arange(6, dtype="f4"),
            kind=kinds,
            maybe=np.arange(6, dtype="i4"),
        )
    consolidate(array)
    put(
        array,
        4000,
        (np.array([1, 2]), np.array([990, 991])),
        value=np.arange(2, dtype="f4"),
        kind=kinds[:2],
        maybe=np.arange(2, dtype="i4"),
    )
    consolidate(array, "fragment_meta")
    for timestamp in (10, 20):
        put_metadata(array, timestamp, soma_object_type="SOMASparseNDArray", count=timestamp)
    consolidate(array, "array_meta")
    dense = uri + "/dense"
    dims = [tiledb.Dim("r", domain=(0, 9), tile=4, dtype="int64")]
    tiledb.Array.create(
        dense, tiledb.ArraySchema(tiledb.Domain(*dims), [tiledb.Attr("a", dtype="int32")])
    )
    with tiledb.open(dense, "w", timestamp=50) as opened:
        opened[2:9] = np.arange(7, dtype="i4")
    for name in ("array", "dense"):
        yield f"array {name}"
        yield from array_facts(
            uri + "/" + name, [(0, 1500), (0, 3000), (2500, 5000)] if name == "array" else []
        )
    group = uri + "/group"
    tiledb.Group.create(group)
    tiledb.Group.create(group + "/child")
    with tiledb.Group(group, "w") as opened:
        opened.add("child", name="c", relative=True)
        opened.meta["a"] = "b"
    yield "group group"
    yield from group_facts(group)


STORES = {
    name.removeprefix("make_"): make
    for name, make in list(globals().items())
    if name.startswith("make_")
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out")
    parser.add_argument("--format18", action="store_true")
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    for name, make in STORES.items():
        if (name == "format18") != args.format18:
            continue
        uri = f"{SCRATCH}/{name}"
        Path(SCRATCH).mkdir(exist_ok=True)
        facts = list(make(uri))
        shutil.rmtree(out / name, ignore_errors=True)
        shutil.copytree(uri, out / name)
        text = "\n".join(facts) + "\n"
        (out / f"{name}.facts").write_bytes(text.encode("utf-8", "surrogateescape"))
        print(name, len(facts), "facts")
    shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    main()
