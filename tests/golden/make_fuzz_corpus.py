"""Golden tiles and chunks as inputs for the codec fuzz targets.

    python tests/golden/make_fuzz_corpus.py OUTPUT_FOLDER

One folder for each target (src/codec/*_fuzz.cc), named after it. Tiles and chunks over 2 KiB are left out.
tools/run_fuzzers.sh calls it.
"""

import gzip
import pathlib
import struct
import sys
import tarfile

TARGETS = {
    1: "gzip",
    2: "zstd",
    3: "lz4",
    4: "rle",
    5: "bzip2",
    6: "double_delta",
    7: "bit_width_reduction",
    8: "bitshuffle",
    9: "byteshuffle",
    10: "positive_delta",
    12: "checksum_md5",
    13: "checksum_sha256",
    14: "dictionary",
    15: "scale_float",
    16: "xor",
    19: "delta",
}


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 8

    def read(self, form: str):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def take(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    source = pathlib.Path(__file__).parent.parent / "data" / "codec_golden"
    counter = 0
    for path in sorted(source.glob("*.bin.gz")):
        reader = Reader(gzip.decompress(path.read_bytes()))
        blobs = [reader.take(reader.read("I")) for _ in range(reader.read("I"))]
        for _ in range(reader.read("I")):
            reader.take(reader.read("H"))
            _, dtype, version, _ = reader.read("BBIQ")
            pipeline, stored, _, offsets = reader.read("4I")
            pipeline, stored = blobs[pipeline], blobs[stored]
            strings = len(blobs[offsets]) // 8 if offsets < len(blobs) else 0
            if len(stored) > 2048:
                continue
            counter += 1
            (filters,) = struct.unpack_from("<I", pipeline, 4)
            head = struct.pack("<BBH", dtype, version, strings)
            save(out / "filter_pipeline_fuzz", counter, head + pipeline + stored)
            if filters == 0:
                save(out / "none_fuzz", counter, struct.pack("<BBH", dtype, 0, 0) + stored)
            if filters != 1 or pipeline[8] not in TARGETS:
                continue
            flags = 4 if version < 20 else 0
            if pipeline[8] == 15:
                flags |= {1: 0, 2: 1, 4: 2, 8: 3}[pipeline[13 + 16]]
            name = f"{TARGETS[pipeline[8]]}_fuzz"
            save(out / name, counter, struct.pack("<BBH", dtype, flags, strings) + stored)
    save_chunks(out, source.parent / "chunk_golden" / "chunks.bin.gz")
    save_hdf5_parts(out, source.parent / "hdf5_golden.tar.gz")


#: Structures of HDF5 by signature: the targets, the numbers that they take, and bytes of each.
HDF5_PARTS = {
    b"\x89HDF": (["superblock"], [0], 128),
    b"OHDR": (["object", "attributes", "links"], [0], 512),
    b"TREE": (["btree_v1", "links", "chunk_index"], [0, 3, 5, 4, 9], 600),
    b"SNOD": (["links"], [0], 330),
    b"HEAP": (["links"], [0], 128),
    b"BTHD": (["btree_v2", "links", "attributes", "chunk_index"], [0, 1, 2, 3, 4, 8, 131], 64),
    b"BTLF": (["links", "attributes"], [0], 256),
    b"FRHP": (["fractal_heap", "links", "attributes"], [0], 160),
    b"FHDB": (["links", "attributes"], [0], 512),
    b"FHIB": (["links", "attributes"], [0], 256),
    b"GCOL": (["global_heap"], [3], 512),
    b"FAHD": (["chunk_index"], [1, 6, 129, 134], 32),
    b"EAHD": (["chunk_index"], [2, 7, 130, 135], 72),
}


def save_hdf5_parts(out: pathlib.Path, path: pathlib.Path) -> None:
    """Structures of HDF5 files as inputs of src/format/hdf5/testing/fuzz_file.h."""
    counter = 0
    with tarfile.open(path) as archive:
        files = sorted(name for name in archive.getnames() if name.endswith(".h5"))
        for number, name in enumerate(files):
            data = archive.extractfile(name).read()
            for signature, (targets, numbers, length) in HDF5_PARTS.items():
                at = data.find(signature)
                while at >= 0:
                    for target in targets:
                        for chosen in numbers:
                            counter += 1
                            head = struct.pack("<BIB", number, at, chosen)
                            shape = bytes([40, 0, 9, 1, 0, 0, counter % 3, 0])
                            tail = shape if target == "chunk_index" else b""
                            save(
                                out / f"hdf5_{target}_fuzz",
                                counter,
                                head + data[at : at + length] + tail,
                            )
                    at = data.find(signature, at + 1)


def save_chunks(out: pathlib.Path, path: pathlib.Path) -> None:
    """Chunks of zarr's codecs, with a part of each."""
    reader = Reader(gzip.decompress(path.read_bytes()))
    blobs = [reader.take(reader.read("I")) for _ in range(reader.read("I"))]
    for counter in range(reader.read("I")):
        reader.take(reader.read("H"))
        kind, filters = reader.read("BB")
        filters = [reader.read("BI") for _ in range(filters)]
        stored, cells, offsets = reader.read("3I")
        stored = blobs[stored]
        if len(stored) > 2048:
            continue
        begin, end = counter * 797 % 65536, counter * 7919 % 65536
        if kind == 1 and not filters:
            count = len(blobs[offsets]) // 8
            save(out / "vlen_utf8_fuzz", counter, struct.pack("<H", count) + stored)
        elif kind == 0 and filters == [(0, 0)]:
            save(out / "blosc_fuzz", counter, struct.pack("<HH", begin, end) + stored)
        # Of Blosc alone, which has a target of its own, a few.
        if kind == 0 and (filters != [(0, 0)] or counter % 16 == 0):
            width = max(1, filters[0][1])
            head = bytes([len(filters)]) + b"".join(
                struct.pack("BB", *filter) for filter in filters
            )
            head += struct.pack("<BBHHI", 0, width - 1, begin, end, len(blobs[cells]))
            save(out / "chunk_pipeline_fuzz", counter, head + stored)


def save(folder: pathlib.Path, number: int, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(number)).write_bytes(data)


if __name__ == "__main__":
    main()
