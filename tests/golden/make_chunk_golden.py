"""Writes tests/data/chunk_golden/chunks.bin.gz: chunks as zarr's codecs wrote them, and their cells.

    python tests/golden/make_chunk_golden.py OUTPUT_FOLDER [--random COUNT] [--seed SEED]

Needs numcodecs (0.16.6 wrote the file, with c-blosc 1.21.7), google-crc32c and numpy. Every chunk is
read back by numcodecs before it is kept. --random sets how many chunks have random settings; a large
number of them makes a file for one thorough run of the tests.

Layout of the file (little-endian, gzip around it):

    "PSCK0001" | uint32 blobs | (uint32 length | bytes) a blob
    uint32 entries | an entry:
        uint16 length | name
        uint8 kind: 0 cells, 1 strings (vlen-utf8)
        uint8 filters | (uint8 type, uint32 bytes of an element) a filter, as in codec/chunk/chunk_pipeline.h
        uint32 blobs: stored chunk, expected cells or characters, expected offsets (uint64 ends)
"""

from __future__ import annotations

import argparse
import gzip
import os
import pathlib
import struct

import numcodecs
import numpy as np
from numcodecs import blosc

NO_BLOB = 0xFFFFFFFF
CELLS, STRINGS = 0, 1
BLOSC, ZSTD, GZIP, ZLIB, LZ4, CRC32C, SHUFFLE = range(7)
COMPRESSORS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
SHUFFLES = {"plain": blosc.NOSHUFFLE, "bytes": blosc.SHUFFLE, "bits": blosc.BITSHUFFLE}
WIDTHS = [1, 2, 3, 4, 8, 16, 17]
# c-blosc reads the variable only where it compresses in its global state.
SPLIT_MODES = ["FORWARD_COMPAT", "ALWAYS", "NEVER", "AUTO"]


class Golden:
    def __init__(self) -> None:
        self.blobs: dict[bytes, int] = {}
        self.entries: list[bytes] = []

    def blob(self, data: bytes) -> int:
        return self.blobs.setdefault(data, len(self.blobs))

    def add(self, name, filters, stored, expected, kind=CELLS, offsets=None) -> None:
        text = name.encode()
        entry = struct.pack("<H", len(text)) + text + struct.pack("<BB", kind, len(filters))
        entry += b"".join(struct.pack("<BI", *filter) for filter in filters)
        ends = NO_BLOB if offsets is None else self.blob(offsets)
        entry += struct.pack("<3I", self.blob(bytes(stored)), self.blob(bytes(expected)), ends)
        self.entries.append(entry)

    def save(self, path: pathlib.Path) -> None:
        data = b"PSCK0001" + struct.pack("<I", len(self.blobs))
        data += b"".join(struct.pack("<I", len(blob)) + blob for blob in self.blobs)
        data += struct.pack("<I", len(self.entries)) + b"".join(self.entries)
        path.write_bytes(gzip.compress(data, 9, mtime=0))


def cells(width: int, size: int, noise: float, seed: int) -> bytes:
    """Counts, of which a share of `noise` has random bytes, in cells of `width` bytes."""
    rng = np.random.default_rng(seed)
    count = -(-size // width)
    pattern = np.minimum(rng.geometric(0.45, 211), 255)
    counts = np.resize(pattern, count)
    table = np.zeros((count, width), np.uint8)
    table[:, min(width, 4) - 1] = counts  # a float's upper byte varies, the lower ones are zero
    table[:, min(width, 3) - 1] = counts * 64 % 256
    noisy = rng.random(count) < noise
    table[noisy] = rng.integers(0, 256, (int(noisy.sum()), width))
    return table.tobytes()[:size]


def compress(data, compressor, shuffle, width, block, split, level=5) -> bytes:
    if split == "ALWAYS" and (width > 16 or len(data) < 128 * width):
        split = "NEVER"  # c-blosc would write what it cannot read
    os.environ["BLOSC_SPLITMODE"] = split
    numcodecs.blosc.use_threads = True
    source = np.frombuffer(data, np.uint8)
    stored = blosc.compress(source, compressor.encode(), level, shuffle, block, typesize=width)
    # numcodecs refuses to read an empty chunk.
    assert not data or bytes(blosc.decompress(stored)) == data
    return stored


def add_blosc(golden, data, compressor, shuffle, width, block, split, level=5) -> None:
    stored = compress(data, compressor, SHUFFLES[shuffle], width, block, split, level)
    name = f"blosc {compressor} {shuffle} width {width} block {block} {split} {len(data)} bytes"
    golden.add(name, [(BLOSC, 0)], stored, data)


class GZip(numcodecs.GZip):
    """The codec with the time of writing, bytes 4 to 7 of a member, set to 0: always the same file."""

    def encode(self, buf):
        stored = bytearray(super().encode(buf))
        stored[4:8] = bytes(4)
        return bytes(stored)


def every_blosc(golden: Golden) -> None:
    for compressor in COMPRESSORS:
        for shuffle in SHUFFLES:
            for width in WIDTHS:
                for size in [0, 1, 130 * width + width // 2]:
                    data = cells(width, size, 0.01, 1)
                    add_blosc(golden, data, compressor, shuffle, width, 0, "FORWARD_COMPAT")
                # Many blocks, and a last one that is shorter and ends with a part of a cell.
                data = cells(width, 3 * 257 * 4 + 5, 0.004, 2)
                add_blosc(golden, data, compressor, shuffle, width, 257, "NEVER")
                # Blocks that are split have 64 KiB at least.
                if compressor != "lz4hc" and width in (1, 2, 4, 8):
                    data = cells(width, 2 * 65536 + 4096 + width // 2, 0.0001, 3)
                    add_blosc(golden, data, compressor, shuffle, width, 4096, "ALWAYS")


def odd_blosc(golden: Golden) -> None:
    noise = cells(4, 600, 1.0, 4)
    for shuffle in SHUFFLES:
        add_blosc(golden, noise, "lz4", shuffle, 4, 0, "FORWARD_COMPAT")  # not compressible
        add_blosc(golden, noise, "lz4", shuffle, 4, 0, "FORWARD_COMPAT", level=0)
    # One plane is random and stored as it is, the others are not.
    table = np.zeros((700, 4), np.uint8)
    table[:, 0] = np.random.default_rng(5).integers(0, 256, 700)
    for compressor in COMPRESSORS:
        for split in ["ALWAYS", "NEVER"]:
            add_blosc(golden, table.tobytes(), compressor, "bytes", 4, 0, split)
    # BloscLZ: distances over 8191, long lengths.
    far = np.random.default_rng(6).integers(0, 256, 1500, np.uint8).tobytes()
    data = far + bytes(9000) + far + b"ab" * 3000 + far[:700] + bytes(70000) + far
    for width in [1, 4]:
        add_blosc(golden, data, "blosclz", "plain", width, 0, "NEVER", level=9)
        add_blosc(golden, data, "blosclz", "bytes", width, 0, "NEVER", level=9)


def random_blosc(golden: Golden, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        width = int(rng.choice([1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 40, 255]))
        size = int(rng.choice([rng.integers(0, 3000), rng.integers(0, 400)]))
        if rng.random() < 0.02:
            size = int(rng.integers(60_000, 140_000))
        noise = float(rng.choice([0, 0.001, 0.01, 0.1])) if size < 3000 else 0.0
        add_blosc(
            golden,
            cells(width, size, noise, int(rng.integers(8))),
            str(rng.choice(COMPRESSORS)),
            str(rng.choice(list(SHUFFLES))),
            width,
            int(rng.choice([0, 0, 128, 200, 1000, 4096] if size < 3000 else [0, 20_000])),
            str(rng.choice(SPLIT_MODES)),
            int(rng.integers(0 if size < 3000 else 1, 10)),
        )


def other_codecs(golden: Golden) -> None:
    codecs = {
        "zstd": (numcodecs.Zstd(level=3), ZSTD),
        "zstd with checksum": (numcodecs.Zstd(level=1, checksum=True), ZSTD),
        "gzip": (GZip(level=6), GZIP),
        "gzip level 0": (GZip(level=0), GZIP),
        "zlib": (numcodecs.Zlib(level=1), ZLIB),
        "lz4": (numcodecs.LZ4(), LZ4),
        "crc32c": (numcodecs.CRC32C(), CRC32C),
    }
    sizes = [1, 37, 1000, 4097, 150_000]
    for size in [0, *sizes]:
        data = cells(4, size, 0.01 if size < 5000 else 0.0002, 7)
        for name, (codec, code) in codecs.items():
            if size > 5000 and (code == CRC32C or "level 0" in name):
                continue  # stored uncompressed
            stored = bytes(codec.encode(np.frombuffer(data, np.uint8)))
            # numcodecs refuses to read an empty lz4 or zstd chunk.
            assert not data or bytes(codec.decode(stored)) == data
            golden.add(f"{name} {size} bytes", [(code, 0)], stored, data)
    for width in WIDTHS:
        for cells_in in [0, 1, 100, 9000]:
            data = cells(width, cells_in * width, 0.001, 8)
            shuffled = numcodecs.Shuffle(width).encode(np.frombuffer(data, np.uint8))
            name = f"shuffle {width} x {cells_in}"
            if cells_in < 9000:
                golden.add(name, [(SHUFFLE, width)], shuffled.tobytes(), data)
            for codec, code in codecs.values():
                if code in (ZLIB, ZSTD):
                    stored = codec.encode(shuffled)
                    golden.add(f"{name} {code}", [(SHUFFLE, width), (code, 0)], stored, data)
    chains(golden, codecs)


def chains(golden: Golden, codecs) -> None:
    data = cells(4, 20_000, 0.001, 9)
    crc = codecs["crc32c"][0]
    packed = compress(data, "lz4", blosc.SHUFFLE, 4, 4096, "NEVER")
    golden.add("blosc, crc32c", [(BLOSC, 0), (CRC32C, 0)], crc.encode(packed), data)
    zstd = codecs["zstd"][0].encode(data)
    golden.add("zstd, crc32c", [(ZSTD, 0), (CRC32C, 0)], crc.encode(zstd), data)
    zlib = codecs["zlib"][0].encode(zstd)
    golden.add("zstd, zlib", [(ZSTD, 0), (ZLIB, 0)], zlib, data)
    summed = bytes(crc.encode(np.frombuffer(data, np.uint8)))
    stored = codecs["zstd"][0].encode(summed)
    golden.add("crc32c, zstd", [(CRC32C, 0), (ZSTD, 0)], stored, data)
    stored = codecs["lz4"][0].encode(packed)
    golden.add("blosc, lz4", [(BLOSC, 0), (LZ4, 0)], stored, data)
    members = b"".join(
        codecs["gzip"][0].encode(data[at : at + 7000]) for at in range(0, 20_000, 7000)
    )
    golden.add("gzip members", [(GZIP, 0)], members, data)
    frames = b"".join(
        codecs["zstd"][0].encode(data[at : at + 7000]) for at in range(0, 20_000, 7000)
    )
    golden.add("zstd frames", [(ZSTD, 0)], frames, data)


def strings(golden: Golden) -> None:
    words = ["neuron", "", "T cell", "\u03b2 cell", "\U0001f9ec", "macrophage, alveolar", "x" * 300]
    texts = {
        "none": [],
        "one empty": [""],
        "words": [words[i * i // 3 % len(words)] for i in range(40)],
        "barcodes": [f"AAACCTGAG{i:05d}-1" for i in range(300)],
    }
    for name, values in texts.items():
        stored = bytes(numcodecs.VLenUTF8().encode(np.array(values, dtype=object)))
        encoded = [value.encode() for value in values]
        ends = np.cumsum([len(value) for value in encoded], dtype=np.uint64).tobytes()
        golden.add(f"vlen-utf8 {name}", [], stored, b"".join(encoded), STRINGS, ends)
        packed = numcodecs.Zstd().encode(stored)
        golden.add(f"vlen-utf8 {name}, zstd", [(ZSTD, 0)], packed, b"".join(encoded), STRINGS, ends)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    blosc.set_nthreads(1)  # more would write blocks in the order in which they are done
    golden = Golden()
    every_blosc(golden)
    odd_blosc(golden)
    random_blosc(golden, arguments.random, arguments.seed)
    other_codecs(golden)
    strings(golden)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    golden.save(arguments.folder / "chunks.bin.gz")
    print(f"{len(golden.entries)} chunks, {len(golden.blobs)} blobs")


if __name__ == "__main__":
    main()
