"""Writes tests/data/codec_golden/format<N>.bin.gz: tiles as TileDB stored them, and their cells.

    python tests/golden/make_codec_golden.py OUTPUT_FOLDER              # formats 18 and 22
    python tests/golden/make_codec_golden.py OUTPUT_FOLDER --by-version # formats 19 and 20

The installed tiledb decides the format version N (0.21 writes 18, 0.22 19, 0.23 20, 0.36 22). Each
small array has one attribute with a filter pipeline; its file is one stored tile. What tiledb reads
back is the expected result. With --by-version only chains of which the bytes differ between versions:
dates through windowed filters, and what follows a float scale. Needs tiledb, numpy and pandas.

Layout of the file (little-endian, gzip around it):

    "PSCG0001" | uint32 blobs | (uint32 length | bytes) a blob
    uint32 entries | an entry:
        uint16 length | name
        uint8 kind: 0 cells, 1 strings with their offsets inside
        uint8 data type | uint32 format | uint64 bytes of a cell
        uint32 blobs: pipeline, stored tile, expected cells, expected offsets
"""

from __future__ import annotations

import gzip
import pathlib
import struct
import sys
import tempfile
import zlib

import numpy as np
import tiledb

NO_BLOB = 0xFFFFFFFF
CELLS, STRINGS = 0, 1
UINT8, UINT64 = 6, 10
CODES = {
    "none": 0,
    "gzip": 1,
    "zstd": 2,
    "lz4": 3,
    "rle": 4,
    "bzip2": 5,
    "double_delta": 6,
    "bwr": 7,
    "bitshuffle": 8,
    "byteshuffle": 9,
    "positive_delta": 10,
    "md5": 12,
    "sha256": 13,
    "dictionary": 14,
    "scale": 15,
    "xor": 16,
    "delta": 19,
}


def build(step: str) -> tiledb.Filter:
    name, *arguments = step.split(":")
    simple = {
        "none": "NoOpFilter",
        "bitshuffle": "BitShuffleFilter",
        "byteshuffle": "ByteShuffleFilter",
        "md5": "ChecksumMD5Filter",
        "sha256": "ChecksumSHA256Filter",
        "xor": "XORFilter",
    }
    if name == "dictionary":
        return tiledb.DictionaryFilter()
    leveled = {
        "gzip": "GzipFilter",
        "zstd": "ZstdFilter",
        "lz4": "LZ4Filter",
        "rle": "RleFilter",
        "bzip2": "Bzip2Filter",
    }
    if name in simple:
        return getattr(tiledb, simple[name])()
    if name in leveled:
        return getattr(tiledb, leveled[name])(level=5)
    if name == "double_delta":
        return tiledb.DoubleDeltaFilter(*[np.dtype(a) for a in arguments])
    if name == "delta":
        return tiledb.DeltaFilter(*[np.dtype(a) for a in arguments])
    if name == "bwr":
        return tiledb.BitWidthReductionFilter(*[int(a) for a in arguments])
    if name == "positive_delta":
        return tiledb.PositiveDeltaFilter(*[int(a) for a in arguments])
    if name == "scale":
        factor, offset, width = arguments
        return tiledb.FloatScaleFilter(float(factor), float(offset), int(width))
    raise ValueError(step)


GENERAL = [
    "none",
    "gzip",
    "zstd",
    "lz4",
    "rle",
    "bzip2",
    "bitshuffle",
    "byteshuffle",
    "md5",
    "sha256",
]
INTEGER = ["double_delta", "bwr", "bwr:64", "positive_delta", "positive_delta:40", "delta"]
INTEGER_CHAINS = [
    "double_delta zstd",
    "delta gzip",
    "positive_delta bwr byteshuffle lz4 md5",
    "bwr zstd",
    "bwr:100 bitshuffle bzip2",
    "positive_delta:1024 double_delta zstd sha256",
    "delta bitshuffle lz4",
    "xor bwr zstd",
    "delta bwr zstd",
    "double_delta:int64 zstd",
]
GENERAL_CHAINS = [
    "byteshuffle zstd",
    "bitshuffle lz4",
    "bitshuffle zstd md5",
    "md5 zstd sha256",
    "zstd gzip",
    "byteshuffle rle",
    "none zstd none",
    "zstd md5 lz4",
    "byteshuffle bitshuffle zstd",
    "sha256 md5 byteshuffle gzip bzip2",
    "xor",
    "xor zstd",
    "xor bitshuffle gzip",
    "xor byteshuffle zstd",
    "delta:int64 zstd",
    "double_delta:int32 zstd",
    "delta:int32 zstd",
    "delta:uint8 byteshuffle zstd",
    "double_delta:int8 gzip",
]
FLOAT_CHAINS = [
    "scale:0.5:0:1",
    "scale:0.01:-3:2",
    "scale:0.001:10:4 zstd",
    "scale:0.25:1:8 byteshuffle zstd",
    "scale:0.5:0:2 delta zstd",
    "scale:0.5:0:4 bitshuffle lz4",
    "scale:0.5:0:4 positive_delta bwr zstd",
    "scale:1:0:2 xor byteshuffle zstd md5",
    "scale:0.5:1:4 double_delta bzip2",
]
STRING_CHAINS = [
    "none",
    "zstd",
    "gzip",
    "rle",
    "dictionary",
    "rle zstd",
    "dictionary zstd",
    "rle gzip md5",
    "dictionary bitshuffle lz4 sha256",
    "md5 zstd",
    "byteshuffle lz4",
    "bwr zstd",
    "delta zstd",
    "double_delta bzip2",
]
SMALL_CHAINS = [
    "byteshuffle zstd",
    "bitshuffle gzip",
    "bwr zstd",
    "positive_delta lz4",
    "double_delta zstd",
    "delta md5",
    "xor rle",
    "rle",
]


class Golden:
    def __init__(self) -> None:
        self.blobs: dict[bytes, int] = {}
        self.entries: list[bytes] = []
        self.names: list[str] = []

    def blob(self, data: bytes | None) -> int:
        return NO_BLOB if data is None else self.blobs.setdefault(data, len(self.blobs))

    def add(
        self, name, kind, dtype, version, cell_bytes, pipeline, stored, cells, offsets=None
    ) -> None:
        text = name.encode()
        self.names.append(name)
        self.entries.append(
            struct.pack("<H", len(text))
            + text
            + struct.pack(
                "<BBIQ4I",
                kind,
                dtype,
                version,
                cell_bytes,
                self.blob(pipeline),
                self.blob(stored),
                self.blob(cells),
                self.blob(offsets),
            )
        )

    def write(self, folder: pathlib.Path, version: int) -> None:
        data = b"PSCG0001" + struct.pack("<I", len(self.blobs))
        data += b"".join(struct.pack("<I", len(b)) + b for b in self.blobs)
        data += struct.pack("<I", len(self.entries)) + b"".join(self.entries)
        path = folder / f"format{version}.bin.gz"
        path.write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{path}: {len(self.entries)} tiles, {len(data)} bytes, {path.stat().st_size} stored")


class Schema:
    """The schema's bytes; pipelines are found by the names before them."""

    def __init__(self, uri: str) -> None:
        (path,) = [p for p in pathlib.Path(uri, "__schema").iterdir() if p.is_file()]
        raw = path.read_bytes()
        self.version, stored_bytes = struct.unpack_from("<IQ", raw)
        (pipeline_bytes,) = struct.unpack_from("<I", raw, 30)
        tile = raw[34 + pipeline_bytes :][:stored_bytes]
        # chunks of one gzip part each
        (chunks,) = struct.unpack_from("<Q", tile)
        at, self.bytes = 8, b""
        for _ in range(chunks):
            _, data, metadata = struct.unpack_from("<III", tile, at)
            at += 12 + metadata
            self.bytes += zlib.decompress(tile[at : at + data])
            at += data

    def pipeline(self, at: int) -> tuple[bytes, int]:
        (count,) = struct.unpack_from("<I", self.bytes, at + 4)
        end = at + 8
        for _ in range(count):
            end += 5 + struct.unpack_from("<I", self.bytes, end + 1)[0]
        return self.bytes[at:end], end

    def attribute(self, name: str) -> tuple[int, bytes]:
        key = struct.pack("<I", len(name)) + name.encode()
        at = self.bytes.index(key) + len(key)
        pipeline, _ = self.pipeline(at + 5)
        return self.bytes[at], pipeline

    def check(self, pipeline: bytes, chain: str) -> None:
        steps = chain.split()
        assert struct.unpack_from("<I", pipeline, 4)[0] == len(steps), chain
        at = 8
        for step in steps:
            assert pipeline[at] == CODES[step.split(":")[0]], chain
            at += 5 + struct.unpack_from("<I", pipeline, at + 1)[0]

    def shared(self) -> tuple[bytes, bytes]:
        """Pipelines of offset tiles and of validity tiles."""
        # version | allows duplicates | array type | tile order | cell order | capacity
        at = 4 + 1 + 1 + 1 + 1 + 8
        _, at = self.pipeline(at)  # coordinates
        offsets, at = self.pipeline(at)
        validity, at = self.pipeline(at)
        return offsets, validity


def values(dtype: np.dtype, count: int) -> np.ndarray:
    rng = np.random.default_rng(count * 31 + dtype.num)
    if dtype.kind == "f":
        data = (rng.integers(-100, 100, count) / 2).astype(dtype)
        data[rng.random(count) < 0.5] = 1.5
        return data
    if dtype.kind == "b":
        return rng.random(count) < 0.3
    if dtype.kind == "M":
        return (
            np.datetime64("2020-01-01", "ns") + np.cumsum(rng.integers(0, 10**9, count))
        ).astype(dtype)
    steps = rng.integers(0, 3, count)  # ascending: positive delta asks for it
    low = 100 if dtype.itemsize > 1 else 0
    wrapped = (low + np.cumsum(steps)) % (250 if dtype == np.uint8 else 10**9)
    return wrapped.clip(0, np.iinfo(dtype).max).astype(dtype)


def usable(chains, dtype, var=None):
    """Chains that this TileDB accepts for the type, alone in a schema."""
    for chain in chains:
        try:
            filters = tiledb.FilterList([build(step) for step in chain.split()])
            attribute = make_attribute("a", dtype, filters, var)
            domain = tiledb.Domain(tiledb.Dim("d", domain=(0, 1), tile=2, dtype=np.int32))
            schema = tiledb.ArraySchema(domain=domain, attrs=[attribute], sparse=False)
            with tempfile.TemporaryDirectory() as folder:
                tiledb.Array.create(folder + "/a", schema)
        except (tiledb.TileDBError, TypeError, ValueError, AttributeError):
            continue
        yield chain, filters


def make_attribute(name, dtype, filters, var):
    if var is None:
        return tiledb.Attr(name, dtype=dtype, filters=filters)
    return tiledb.Attr(name, dtype=dtype, var=True, filters=filters)


def dense(golden: Golden, label: str, dtype, chains, data: np.ndarray, var=None) -> None:
    count = len(data)
    accepted = list(usable(dict.fromkeys(chains), dtype, var=var))
    # Some chains pass the schema and fail when written: each gets an array of its own.
    for index, (chain, filters) in enumerate(accepted):
        name = "attribute"
        with tempfile.TemporaryDirectory() as folder:
            uri = folder + "/a"
            domain = tiledb.Domain(
                tiledb.Dim("d", domain=(0, count - 1), tile=count, dtype=np.int64)
            )
            tiledb.Array.create(
                uri,
                tiledb.ArraySchema(
                    domain=domain,
                    attrs=[make_attribute(name, dtype, filters, var)],
                    offsets_filters=[build("positive_delta"), build("bwr"), build("zstd")],
                ),
            )
            try:
                with tiledb.open(uri, "w") as array:
                    array[:] = data
                with tiledb.open(uri) as array:
                    result = array[:]
                    result = result[name] if isinstance(result, dict) else result
            except tiledb.TileDBError as error:
                print("  not written:", label, chain, str(error).strip().splitlines()[-1][:100])
                continue
            schema = Schema(uri)
            code, pipeline = schema.attribute(name)
            schema.check(pipeline, chain)
            (fragment,) = pathlib.Path(uri, "__fragments").iterdir()
            title = f"{label} x {count}: {chain}"
            if var is None:
                golden.add(
                    title,
                    CELLS,
                    code,
                    schema.version,
                    data.dtype.itemsize,
                    pipeline,
                    (fragment / "a0.tdb").read_bytes(),
                    np.ascontiguousarray(result).tobytes(),
                )
                if "scale" not in chain:
                    assert np.array_equal(result, data), title
                continue
            texts = [t.encode() if isinstance(t, str) else bytes(t) for t in result]
            offsets = np.cumsum([0] + [len(t) for t in texts])[:-1].astype("<u8").tobytes()
            characters = b"".join(texts)
            stored = (fragment / "a0_var.tdb").read_bytes()
            if code in (11, 12) and ("rle" in chain or "dictionary" in chain):
                golden.add(
                    title, STRINGS, code, schema.version, 1, pipeline, stored, characters, offsets
                )
                continue
            golden.add(title, CELLS, code, schema.version, 1, pipeline, stored, characters)
            if index == 0:
                offsets_pipeline, _ = schema.shared()
                schema.check(offsets_pipeline, "positive_delta bwr zstd")
                golden.add(
                    f"offsets of {title}",
                    CELLS,
                    UINT64,
                    schema.version,
                    8,
                    offsets_pipeline,
                    (fragment / "a0.tdb").read_bytes(),
                    offsets,
                )


def nullable(golden: Golden) -> None:
    count = 300
    with tempfile.TemporaryDirectory() as folder:
        uri = folder + "/a"
        domain = tiledb.Domain(tiledb.Dim("d", domain=(0, count - 1), tile=count, dtype=np.int64))
        attribute = tiledb.Attr("attribute", dtype=np.int32, nullable=True, filters=[build("zstd")])
        tiledb.Array.create(
            uri,
            tiledb.ArraySchema(
                domain=domain,
                attrs=[attribute],
                sparse=True,
                validity_filters=[build("rle"), build("zstd")],
            ),
        )
        valid = (np.arange(count) % 7 != 0).astype(np.uint8)
        import pandas as pd

        series = pd.array(np.arange(count, dtype=np.int32), dtype="Int32")
        series[valid == 0] = pd.NA
        try:
            with tiledb.open(uri, "w") as array:
                array[np.arange(count)] = {"attribute": series}
        except ValueError:  # tiledb 0.21
            print("  not written: validity")
            return
        schema = Schema(uri)
        _, validity_pipeline = schema.shared()
        schema.check(validity_pipeline, "rle zstd")
        (fragment,) = pathlib.Path(uri, "__fragments").iterdir()
        golden.add(
            "validity",
            CELLS,
            UINT8,
            schema.version,
            1,
            validity_pipeline,
            (fragment / "a0_validity.tdb").read_bytes(),
            valid.tobytes(),
        )


DATE_CHAINS = [
    "bwr",
    "bwr:64",
    "positive_delta",
    "bwr zstd",
    "positive_delta:40 bwr:100 byteshuffle lz4 md5",
    "positive_delta gzip",
]
SCALE_CHAINS = [chain for chain in FLOAT_CHAINS if " " in chain] + [
    "scale:0.5:0:2 byteshuffle zstd",
    "scale:0.5:0:2 bwr zstd",
    "scale:0.5:0:1 bitshuffle gzip",
    "scale:0.5:0:4 delta bzip2",
    "scale:0.5:0:8 xor bitshuffle zstd",
]


def by_version(golden: Golden) -> None:
    """Dates through windowed filters, and floats that another filter takes as integers."""
    dates = values(np.dtype("datetime64[ns]"), 150)
    for unit in ("ns", "s", "D"):
        dtype = np.dtype(f"datetime64[{unit}]")
        ascending = np.datetime64("2020-01-01", unit) + np.arange(150) ** 2 // 7
        data = dates if unit == "ns" else ascending.astype(dtype)
        dense(golden, str(dtype), dtype, DATE_CHAINS, data)
    for name in ("float32", "float64"):
        random = values(np.dtype(name), 205)
        dense(golden, name, random.dtype, SCALE_CHAINS, random)
        ascending = ["scale:0.5:0:4 positive_delta bwr zstd", "scale:0.25:0:8 positive_delta lz4"]
        dense(golden, f"{name} ascending", random.dtype, ascending, np.sort(random))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    golden = Golden()
    if "--by-version" in sys.argv[2:]:
        by_version(golden)
    else:
        everything_of(golden)
    version = struct.unpack_from("<I", golden.entries[0], 2 + len(golden.names[0]) + 2)[0]
    golden.write(folder, version)


def everything_of(golden: Golden) -> None:
    everything = GENERAL + INTEGER + INTEGER_CHAINS + GENERAL_CHAINS
    for name in ("int32", "int64", "uint16"):
        dense(golden, name, np.dtype(name), everything, values(np.dtype(name), 333))
    for name in ("int8", "uint8", "int16", "uint32", "uint64", "datetime64[ns]", "bool"):
        dense(golden, name, np.dtype(name), INTEGER + SMALL_CHAINS, values(np.dtype(name), 150))
    for name in ("float32", "float64"):
        dense(
            golden,
            name,
            np.dtype(name),
            GENERAL + GENERAL_CHAINS + FLOAT_CHAINS,
            values(np.dtype(name), 205),
        )
    for count in (1, 2, 3):
        for name in ("int64", "uint16", "float32"):
            dense(
                golden,
                name,
                np.dtype(name),
                [*SMALL_CHAINS, "scale:0.5:0:2"],
                values(np.dtype(name), count),
            )
    dense(
        golden,
        "bool ascending",
        np.dtype("bool"),
        ["positive_delta", "positive_delta:40 zstd"],
        np.arange(130) > 61,
    )
    # signed values that are not ascending; full range
    rng = np.random.default_rng(5)
    dense(
        golden,
        "int64 wide",
        np.dtype("int64"),
        ["double_delta", "bwr", "delta", "xor", "byteshuffle zstd"],
        rng.integers(-(2**60), 2**60, 40),
    )
    dense(
        golden,
        "int32 signed",
        np.dtype("int32"),
        ["double_delta", "bwr", "bwr:32", "delta", "xor", "bitshuffle"],
        rng.integers(-500, 500, 260, dtype=np.int32),
    )
    # several chunks of 64 KiB
    long = [
        (np.arange(20_000) // 9 % 50).astype("int64"),
        (np.arange(40_000) // 7 % 80).astype("float32"),
    ]
    dense(
        golden,
        "int64 chunks",
        np.dtype("int64"),
        [
            "byteshuffle zstd",
            "bitshuffle lz4",
            "bwr gzip",
            "rle",
            "delta zstd",
            "double_delta zstd",
            "xor md5 zstd",
        ],
        long[0],
    )
    dense(
        golden,
        "float32 chunks",
        np.dtype("float32"),
        ["byteshuffle zstd", "bitshuffle zstd", "scale:1:0:2 delta lz4"],
        long[1],
    )
    words = [
        "neuron",
        "",
        "T cell",
        "T cell",
        "T cell",
        "B cell",
        "macrophage, alveolar",
        "\u03b2 cell",
        "fibroblast",
    ]
    texts = [words[i * i // 3 % len(words)] for i in range(120)]
    ascii_texts = [t.encode("ascii", "replace").decode() for t in texts]
    many = [f"cell type {i // 40 % 300}" for i in range(9000)]
    dense(golden, "utf8", np.dtype("U"), STRING_CHAINS, np.array(texts, dtype="O"), var=True)
    dense(golden, "ascii", "ascii", STRING_CHAINS, np.array(ascii_texts, dtype="O"), var=True)
    dense(
        golden,
        "utf8 chunks",
        np.dtype("U"),
        ["zstd", "rle", "dictionary zstd", "rle zstd"],
        np.array(many, dtype="O"),
        var=True,
    )
    dense(
        golden,
        "utf8 one word",
        np.dtype("U"),
        ["rle", "dictionary", "zstd"],
        np.array(["x" * 300] * 300, dtype="O"),
        var=True,
    )
    dense(
        golden,
        "utf8 empty",
        np.dtype("U"),
        ["rle", "dictionary", "zstd", "dictionary gzip", "byteshuffle lz4"],
        np.array([""] * 5, dtype="O"),
        var=True,
    )
    nullable(golden)


if __name__ == "__main__":
    main()
