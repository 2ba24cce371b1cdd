"""Writes tests/data/zarr_golden.tar.gz: zarr hierarchies of both versions, and what zarr-python reads from them.

    python3 -m venv venv && venv/bin/pip install 'zarr>=3' numcodecs
    venv/bin/python tests/golden/make_zarr_golden.py

The archive has
    v2, v3, v2_consolidated, v3_consolidated    hierarchies
    stored.zip, deflated.zip                    the same as zip archives
    expected.txt    a line an array: hierarchy, path, kind, shape ("3x4"; "-" for a scalar)
    expected/HIERARCHY/PATH                     values: cells in C order, little-endian
                                                strings: uint32 length and UTF-8 of each
                                                unsupported: what the error must name
Written with zarr 3.1.6, numcodecs 0.16.6. Some documents are changed afterwards, where zarr-python reads more than it
writes; it reads the values after that.
"""

import gzip
import io
import json
import pathlib
import shutil
import struct
import tarfile
import tempfile
import warnings
import zipfile

import numcodecs
import numpy as np
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)  # fmt: skip
from zarr.codecs.numcodecs import BZ2, LZ4, Delta, Shuffle, Zlib

warnings.simplefilter("ignore")
OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "zarr_golden.tar.gz"
NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
]
WORDS = ["", "a", "gène", "細胞", "🧬", "T cell", "x" * 40, "CD8+"]
rng = np.random.default_rng(13)


def numbers(dtype: str, count: int) -> np.ndarray:
    """Small counts with the ends of the type among them."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    values = rng.poisson(2, count).astype(dtype)
    if dtype.kind in "iu" and count >= 2:
        values[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    if dtype.kind == "f" and count >= 3:
        values[:3] = np.nan, -np.inf, 1e-3
    return values


def words(count: int) -> list[str]:
    return [WORDS[i] for i in rng.integers(0, len(WORDS), count)]


class Hierarchy:
    def __init__(self, folder: pathlib.Path, version: int):
        self.folder, self.version = folder, version
        self.root = zarr.open_group(
            str(folder), mode="w", zarr_format=version, attributes={"root": True}
        )
        self.unsupported: dict[str, str] = {}

    def add(self, name: str, data, *, holes=(), **how) -> None:
        """An array with `data`; `holes` are slices that are set to the fill value, so that they are not stored."""
        how.setdefault("compressors", None)
        if "dtype" not in how:
            data = np.asarray(data)
            how["dtype"] = data.dtype
        if self.version == 3:
            how.setdefault("fill_value", None if np.dtype(how["dtype"]).kind in "OTUS" else 0)
        shape = how.pop("shape", np.shape(data))
        array = self.root.create_array(
            name, shape=shape, config={"write_empty_chunks": False}, overwrite=True, **how
        )
        if data is not None:
            array[...] = data
        for hole in holes:
            array[hole] = array.fill_value

    def refuse(self, name: str, what: str, data, **how) -> None:
        self.add(name, data, **how)
        self.unsupported[name] = what

    def change(self, name: str, document: str, **fields) -> None:
        path = self.folder / name / document
        changed = {**json.loads(path.read_text()), **fields}
        path.write_text(
            json.dumps({key: value for key, value in changed.items() if value != "drop"})
        )


def common(h: Hierarchy) -> None:
    """What both versions have."""
    for dtype in NUMBERS:
        h.add(f"types/{dtype}", numbers(dtype, 20), chunks=(7,))
    h.add("big/int32", numbers("int32", 11).astype(">i4"), chunks=(4,))
    h.add("big/float64", numbers("float64", 11).astype(">f8"), chunks=(4,))
    h.add("big/uint16", numbers("uint16", 11).astype(">u2"), chunks=(4,))
    h.add("big/text", np.array(words(9)).astype(">U6"), chunks=(4,))
    h.add("shapes/scalar", np.float32(2.5))
    h.add("shapes/empty", np.zeros(0, "int32"), chunks=(3,))
    h.add("shapes/one_chunk", numbers("int16", 5), chunks=(100,))
    h.add("shapes/plane", numbers("float32", 35).reshape(5, 7), chunks=(2, 3))
    h.add("shapes/cube", numbers("uint8", 60).reshape(3, 4, 5), chunks=(2, 4, 2))
    h.add("fill/zero", numbers("int32", 40), chunks=(5,), holes=[slice(10, 20), slice(35, 40)])
    h.add("fill/none_stored", None, shape=(1000,), chunks=(10,), dtype="int64", fill_value=-7)
    h.add("fill/nan", numbers("float32", 20), chunks=(5,), fill_value=np.nan, holes=[slice(5, 10)])
    h.add(
        "fill/infinity",
        numbers("float64", 20),
        chunks=(5,),
        fill_value=-np.inf,
        holes=[slice(5, 10)],
    )
    h.add("fill/number", numbers("float64", 20), chunks=(5,), fill_value=1.5, holes=[slice(15, 20)])
    h.add(
        "fill/large", numbers("uint64", 20), chunks=(5,), fill_value=2**64 - 1, holes=[slice(5, 10)]
    )
    h.add("fill/true", numbers("bool", 20), chunks=(5,), fill_value=True, holes=[slice(5, 10)])
    h.add("strings/wide", np.array(words(20)).astype("<U5"), chunks=(6,))
    h.add("strings/bytes", np.array(["ab", "", "abcde", "x"] * 4, "S5"), chunks=(6,))
    h.add("strings/absent", None, shape=(8,), dtype="U3", chunks=(3,), fill_value="né")
    h.add("strings/bytes_fill", None, shape=(8,), dtype="S4", chunks=(3,), fill_value=b"abc")
    h.root["types/bool"].attrs.update(
        {"encoding-type": "array", "not a number": float("nan"), "list": [1, {"a": None}]}
    )
    h.root["types"].attrs["infinite"] = float("inf")


def version_2() -> Hierarchy:
    h = Hierarchy(scratch / "v2", 2)
    common(h)
    for separator, name in ((".", "dots"), ("/", "slashes")):
        for data in (numbers("int32", 12), numbers("float32", 24).reshape(4, 6)):
            h.add(f"keys/{name}_{data.ndim}", data, chunks=(3, 2)[: data.ndim],
                  chunk_key_encoding={"name": "v2", "separator": separator})  # fmt: skip
    h.add("order/f_1d", numbers("int32", 12), chunks=(5,), order="F")
    h.add("order/f_column", numbers("int32", 12).reshape(12, 1), chunks=(5, 1), order="F")
    h.refuse("order/f_2d", "order F", numbers("int32", 12).reshape(3, 4), chunks=(3, 2), order="F")
    data = numbers("uint32", 500)
    for name, codec in {
        "zstd": numcodecs.Zstd(3), "zlib": numcodecs.Zlib(6), "gzip": numcodecs.GZip(6), "lz4": numcodecs.LZ4(),
        "blosc_lz4": numcodecs.Blosc("lz4", 5, 1), "blosc_zstd_bit": numcodecs.Blosc("zstd", 3, 2),
        "blosc_blosclz": numcodecs.Blosc("blosclz", 5, 0), "blosc_zlib": numcodecs.Blosc("zlib", 5, 1),
        "blosc_lz4hc": numcodecs.Blosc("lz4hc", 5, 1), "blosc_raw": numcodecs.Blosc("lz4", 0, 1),
    }.items():  # fmt: skip
        h.add(f"codecs/{name}", data, chunks=(130,), compressors=codec)
    h.add(
        "codecs/shuffle_zlib",
        data,
        chunks=(130,),
        filters=[numcodecs.Shuffle(4)],
        compressors=numcodecs.Zlib(5),
    )
    h.refuse("codecs/bz2", "bz2", data, chunks=(130,), compressors=numcodecs.BZ2())
    h.refuse("codecs/delta", "delta", data, chunks=(130,), filters=[numcodecs.Delta("<u4")])
    for name, codec in (("plain", None), ("zstd", numcodecs.Zstd(3)), ("blosc", numcodecs.Blosc())):
        h.add(
            f"strings/vlen_{name}",
            np.array(words(23), object),
            dtype="str",
            chunks=(9,),
            compressors=codec,
        )
    h.add("strings/vlen_absent", None, shape=(5,), dtype="str", chunks=(2,), fill_value="né")
    h.refuse("types/float16", "f2", np.zeros(3, "float16"), chunks=(2,))
    h.refuse("types/complex64", "c8", np.zeros(3, "complex64"), chunks=(2,))
    h.refuse("types/time", "M8", np.zeros(3, "M8[ns]"), chunks=(2,))
    records = np.zeros(11, [("index", "S5"), ("a", "<i4"), ("b", "<f4"), ("name", "<U3")])
    records["index"], records["name"] = (
        [f"c{i}" for i in range(11)],
        ["", "é", "☃☃☃"] * 3 + ["a", "b"],
    )
    records["a"], records["b"] = np.arange(11) ** 7, np.arange(11) / 7
    h.add("types/record", records, chunks=(3,), holes=[slice(3, 6)])
    h.change("fill/number", ".zarray", fill_value=1.5)
    h.change("fill/none_stored", ".zarray", dimension_separator="drop")
    # zarr 2 wrote 0 as the fill value of strings.
    h.change("strings/vlen_plain", ".zarray", fill_value=0)
    return h


def version_3() -> Hierarchy:
    h = Hierarchy(scratch / "v3", 3)
    common(h)
    for encoding, separator in (("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")):
        name = f"{encoding}_{'dot' if separator == '.' else 'slash'}"
        key = {"name": encoding, "separator": separator}
        h.add(
            f"keys/{name}",
            numbers("float32", 24).reshape(4, 6),
            chunks=(3, 2),
            chunk_key_encoding=key,
        )
        h.add(f"keys/{name}_scalar", np.int32(7), chunk_key_encoding=key)
    data = numbers("uint32", 500)
    for name, codecs in {
        "zstd": [ZstdCodec(level=3)], "zstd_checksum": [ZstdCodec(level=3, checksum=True)],
        "gzip": [GzipCodec(level=6)], "crc32c": [Crc32cCodec()], "zstd_crc32c": [ZstdCodec(), Crc32cCodec()],
        "blosc_lz4": [BloscCodec(cname="lz4", shuffle="shuffle", typesize=4)],
        "blosc_zstd_bit": [BloscCodec(cname="zstd", shuffle="bitshuffle", typesize=4)],
        "blosc_blosclz": [BloscCodec(cname="blosclz", shuffle="noshuffle", typesize=4)],
        "blosc_zlib": [BloscCodec(cname="zlib", shuffle="shuffle", typesize=4)],
        "numcodecs_zlib": [Zlib(level=5)], "numcodecs_lz4": [LZ4()],
        "numcodecs_shuffle_zlib": [Shuffle(elementsize=4), Zlib(level=5)],
    }.items():  # fmt: skip
        h.add(f"codecs/{name}", data, chunks=(130,), compressors=codecs)
    h.add("codecs/transpose_1d", data, chunks=(130,), filters=[TransposeCodec(order=(0,))])
    h.add(
        "codecs/transpose_identity",
        data.reshape(20, 25),
        chunks=(7, 10),
        filters=[TransposeCodec(order=(0, 1))],
    )
    h.refuse("codecs/transpose", "transpose", data.reshape(20, 25), chunks=(7, 10),
             filters=[TransposeCodec(order=(1, 0))])  # fmt: skip
    h.refuse("codecs/bz2", "bz2", data, chunks=(130,), compressors=[BZ2()])
    h.refuse("codecs/delta", "delta", data, chunks=(130,), filters=[Delta(dtype="<u4")])
    for name, codecs in (("plain", None), ("zstd", [ZstdCodec()]), ("gzip", [GzipCodec()])):
        h.add(
            f"strings/vlen_{name}",
            np.array(words(23), object),
            dtype="str",
            chunks=(9,),
            compressors=codecs,
        )
    h.add("strings/vlen_absent", None, shape=(5,), dtype="str", chunks=(2,), fill_value="né")
    h.add("strings/vlen_shards", np.array(words(50), object), dtype="str", chunks=(4,), shards=(12,),
          compressors=[ZstdCodec()])  # fmt: skip
    holes = [slice(40, 80), slice(100, 108), slice(20, 24)]
    for location in ("start", "end"):
        for name, index in (("crc", [BytesCodec(), Crc32cCodec()]), ("plain", [BytesCodec()])):
            codec = ShardingCodec(chunk_shape=(4,), codecs=[BytesCodec(), ZstdCodec()], index_codecs=index,
                                  index_location=location)  # fmt: skip
            h.add(f"shards/{location}_{name}", numbers("int32", 117), chunks=(20,), serializer=codec, holes=holes,
                  filters=None)  # fmt: skip
    h.add("shards/blosc", numbers("uint16", 117), chunks=(8,), shards=(32,),
          compressors=[BloscCodec(cname="lz4", shuffle="shuffle", typesize=2)])  # fmt: skip
    h.add("shards/plane", numbers("float32", 130).reshape(10, 13), chunks=(2, 3), shards=(4, 9),
          compressors=[ZstdCodec()])  # fmt: skip
    h.add(
        "shards/absent", None, shape=(100,), dtype="int32", chunks=(4,), shards=(20,), fill_value=3
    )
    h.add("shards/one", numbers("int32", 5), chunks=(10,), shards=(1000,))
    h.refuse("types/float16", "float16", np.zeros(3, "float16"), chunks=(2,))
    h.refuse("types/complex64", "complex64", np.zeros(3, "complex64"), chunks=(2,))
    h.refuse("types/time", "datetime64", np.zeros(3, "M8[ns]"), chunks=(2,))
    h.refuse("types/record", "struct", np.zeros(3, [("a", "i4"), ("b", "f4")]), chunks=(2,))
    # A NaN with its bits.
    h.change("fill/nan", "zarr.json", fill_value="0x7fc00001")
    return h


def small(name: str, version: int) -> Hierarchy:
    h = Hierarchy(scratch / name, version)
    h.add(
        "X/data",
        numbers("float32", 100),
        chunks=(30,),
        compressors=numcodecs.Blosc() if version == 2 else "auto",
    )
    h.add("X/indices", numbers("uint16", 100), chunks=(30,))
    h.add("obs/_index", np.array(words(12), object), dtype="str", chunks=(5,))
    h.root["obs"].attrs.update({"_index": "_index", "column-order": []})
    return h


def expected_of(array) -> tuple[str, bytes]:
    values = np.asarray(array[...])
    if values.dtype.kind in "OTUS":
        texts = [v if isinstance(v, bytes) else str(v).encode() for v in values.ravel().tolist()]
        return "strings", b"".join(struct.pack("<I", len(t)) + t for t in texts)
    return "values", np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"))).tobytes()


def arrays_in(group: zarr.Group, prefix: str = ""):
    for name in sorted(group.keys()):
        path = f"{prefix}{name}"
        member = group[name]
        if isinstance(member, zarr.Group):
            yield from arrays_in(member, path + "/")
        else:
            yield path, member


def zip_folder(folder: pathlib.Path, path: pathlib.Path, method: int) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.writestr(
                zipfile.ZipInfo(str(file.relative_to(folder))), file.read_bytes(), method
            )


scratch = pathlib.Path(tempfile.mkdtemp())


def main() -> None:
    hierarchies = [
        version_2(),
        version_3(),
        small("v2_consolidated", 2),
        small("v3_consolidated", 3),
    ]
    for h in hierarchies[2:]:
        zarr.consolidate_metadata(str(h.folder))
    zip_folder(scratch / "v3_consolidated", scratch / "stored.zip", zipfile.ZIP_STORED)
    zip_folder(scratch / "v2_consolidated", scratch / "deflated.zip", zipfile.ZIP_DEFLATED)
    lines = []
    for h in hierarchies:
        root = zarr.open_group(str(h.folder), mode="r", use_consolidated=False)
        for path, array in arrays_in(root):
            if path in h.unsupported:
                kind, contents = "unsupported", h.unsupported[path].encode()
            else:
                kind, contents = expected_of(array)
            shape = "x".join(map(str, array.shape)) or "-"
            lines.append(f"{h.folder.name} {path} {kind} {shape}\n")
            file = scratch / "expected" / h.folder.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(contents)
    (scratch / "expected.txt").write_text("".join(lines))
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(p for p in scratch.rglob("*") if p.is_file()):
            info = tarfile.TarInfo(str(file.relative_to(scratch)))
            info.size = file.stat().st_size
            tar.addfile(info, io.BytesIO(file.read_bytes()))
    OUT.write_bytes(gzip.compress(tar_bytes.getvalue(), 9, mtime=0))
    print(f"{len(lines)} arrays, {OUT.stat().st_size} bytes")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
