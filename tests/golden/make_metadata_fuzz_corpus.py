"""Golden TileDB and zarr metadata as inputs for the fuzz targets of src/format/tiledb, src/format/zarr and src/io/zip.

    python tests/golden/make_metadata_fuzz_corpus.py            # writes tests/fuzz/<target>/

The first byte says what the rest is (see the targets). TileDB's are inflated, because a fuzzer cannot get
through a deflate stream; a few whole files keep that path busy too.
"""

import hashlib
import io
import json
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

TESTS = Path(__file__).parent.parent
GOLDEN = TESTS / "data" / "tiledb_golden"
MAX_BYTES = 4096
HEADER = struct.Struct("<IQQBQBI")


def inflate(data: bytes, offset: int = 0) -> bytes:
    """Contents of the generic tile at `offset`; TileDB deflates them in chunks."""
    _, body, _, _, _, _, pipeline = HEADER.unpack_from(data, offset)
    at = offset + HEADER.size + pipeline
    end = at + body
    (chunks,) = struct.unpack_from("<Q", data, at)
    at += 8
    out = b""
    for _ in range(chunks):
        _, filtered, metadata = struct.unpack_from("<III", data, at)
        at += 12
        parts = struct.unpack_from("<II", data, at)
        lengths = [
            struct.unpack_from("<II", data, at + 8 + 8 * i)[1] for i in range(parts[0] + parts[1])
        ]
        at += metadata
        part = at
        for length in lengths:
            out += zlib.decompress(data[part : part + length])
            part += length
        at += filtered
    assert at == end
    return out


def save(target: str, *parts: bytes) -> None:
    data = b"".join(parts)
    if len(data) > MAX_BYTES:
        return
    folder = TESTS / "fuzz" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha1(data).hexdigest()[:16]).write_bytes(data)


def save_fragment(path: Path, array: int) -> None:
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data, len(data) - 8)
    footer = data[len(data) - 8 - length : -8]
    save("fragment_metadata_fuzz", bytes([array | 0 << 2]), footer)
    save("fragment_metadata_fuzz", bytes([array | 2 << 2]), data)
    if array == 2:  # dense: no R-tree
        return
    tree = inflate(data, 0)  # always the first tile
    _, levels = struct.unpack_from("<II", tree, 0)
    if levels == 1:
        (tiles,) = struct.unpack_from("<Q", tree, 8)
        save("fragment_metadata_fuzz", bytes([array | 1 << 2, tiles]), tree)


def compact(document: bytes) -> bytes:
    return json.dumps(json.loads(document), separators=(",", ":")).encode()


def save_zarr() -> None:
    with tarfile.open(TESTS / "data" / "zarr_golden.tar.gz") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    for name, data in files.items():
        hierarchy, _, path = name.partition("/")
        if path in (".zmetadata", "zarr.json") and hierarchy.endswith("_consolidated"):
            version = "zarr_v2_metadata_fuzz" if path == ".zmetadata" else "zarr_v3_metadata_fuzz"
            save(version, b"\1", compact(data))
        elif path.startswith(("types/", "big/")) and "float64" not in path:
            continue
        elif path.endswith(".zarray"):
            save("zarr_v2_metadata_fuzz", b"\0", compact(data))
        elif path.endswith("/zarr.json") and b'"array"' in data:
            save("zarr_v3_metadata_fuzz", b"\0", compact(data))
        elif path.startswith("shards/end_crc/c/"):
            save("shard_index_fuzz", bytes([5, 2 | 8]), data[-84:])
        elif path.startswith("shards/start_plain/c/"):
            save("shard_index_fuzz", bytes([5, 1]), data[:80])


def save_zips() -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for zip64 in (False, True):
            archive = io.BytesIO()
            with zipfile.ZipFile(archive, "w", method) as out:
                for name in ("zarr.json", "X/data/c/0", "a/b/"):
                    info = zipfile.ZipInfo(name)
                    info.compress_type = method
                    with out.open(info, "w", force_zip64=zip64) as entry:
                        entry.write(b"0123456789" * 3)
                out.comment = b"comment" if zip64 else b""
            save("zip_store_fuzz", archive.getvalue())
    large = zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = (
        10,
        1,
    )  # so that all zip64 records are written
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name in ("a", "b"):
            out.writestr(zipfile.ZipInfo(name), b"0123456789" * 3)
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = large
    save("zip_store_fuzz", archive.getvalue())


def main() -> None:
    save_zarr()
    save_zips()
    for path in sorted(p for p in GOLDEN.rglob("*") if p.is_file() and p.stat().st_size):
        data, parent = path.read_bytes(), path.parent.name
        if "encrypted" in path.parts or path.parent == GOLDEN:
            continue
        if parent == "__schema":
            save("schema_fuzz", b"\0", inflate(data))
            save("schema_fuzz", b"\2", data)
        elif parent == "__enumerations":
            save("schema_fuzz", b"\1", inflate(data))
        elif parent == "__group":
            save("group_fuzz", b"\0", inflate(data))
        elif parent == "__meta" and path.suffix == "":
            save("group_fuzz", b"\1", inflate(data))
        elif path.suffix == ".con":
            save("group_fuzz", b"\2", data)
            offset = data.find(b".del\n")
            while offset >= 0:
                save("delete_condition_fuzz", inflate(data, offset + 5 + 8))
                offset = data.find(b".del\n", offset + 1)
        elif path.suffix == ".del":
            save("delete_condition_fuzz", inflate(data))
        elif path.suffix == ".meta":
            save("fragment_metadata_fuzz", bytes([3 << 2]), inflate(data))
        elif path.name == "__fragment_metadata.tdb":
            arrays = {"deletes": 0, "strings": 1, "dense": 2}
            store = path.relative_to(GOLDEN).parts[0]
            if store in arrays:
                save_fragment(path, arrays[store])
    save("group_fuzz", b"\3", b"__1700000000000_1700000000001_0123456789abcdef_22.wrt")


if __name__ == "__main__":
    main()
