"""Well-formed metadata with hostile contents raise Penstock errors, in little memory."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle
from generic_tiles import read_tile, write_bomb, write_tile
from penstock import _core

#: One file of each kind of metadata.
KINDS = [
    "__group/*",
    "__meta/*",
    "ms/__group/*",
    "obs/__schema/__*_*",
    "obs/__schema/__enumerations/*",
    "ms/RNA/var/__schema/__*_*",
    "ms/RNA/X/raw/__schema/__*_*",
]


def read_all(path: Path) -> None:
    experiment = ps.open(path)
    repr(experiment), repr(experiment.metadata), experiment.obs.to_pandas()
    experiment.var("RNA").to_pandas()
    for X, obs in ps.Dataset(experiment, sparse=True, shuffle=False):
        X.sum(), len(obs["soma_joinid"])


@pytest.fixture
def copy(tmp_path: Path, soma_small: Oracle) -> Path:
    path = tmp_path / "experiment"
    shutil.copytree(soma_small.path, path)
    return path


def file_of(path: Path, pattern: str) -> Path:
    """The newest: older ones may be of no use to anybody."""
    return max(file for file in path.glob(pattern) if file.is_file())


READ = """
import resource, sys
import numpy as np
import penstock as ps

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
try:
    experiment = ps.open(sys.argv[1])
    repr(experiment.metadata), experiment.obs.to_pandas(), experiment.var("RNA").to_pandas()
    list(ps.Dataset(experiment))
except ps.PenstockError as error:
    print((peak() - before) >> 10, type(error).__name__, error)
"""


OPEN = """
import resource, sys
import numpy as np
import penstock as ps

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
metadata = ps.open(sys.argv[1]).metadata
print(sum(name.startswith("zeros") for name in metadata) - 1, (peak() - before) >> 10)
"""


@pytest.mark.parametrize("pattern", KINDS)
@pytest.mark.parametrize(("mebibytes", "chunks"), [(256, 1), (256, 12)])
def test_bombs_are_not_inflated(copy: Path, pattern: str, mebibytes: int, chunks: int) -> None:
    file = file_of(copy, pattern)
    header, _ = read_tile(file)
    write_bomb(file, header, mebibytes << 20, chunks)
    assert file.stat().st_size < 4 << 20
    done = subprocess.run(
        [sys.executable, "-c", READ, copy], capture_output=True, text=True, check=True
    )
    used, error, text = done.stdout.split(" ", 2)
    assert error == "CorruptData"
    assert "metadata must not exceed" in text
    assert file.name in text
    assert int(used) < 128


def add_zeros(copy: Path, files: int, zeros: int, key: str) -> None:
    """Files of metadata, each with so many zeros under its key, which may have the file's number."""
    tiledb = pytest.importorskip("tiledb")
    with tiledb.Group(str(copy), "w") as group:
        group.meta["zeros"] = b"0"
    file = max(copy.glob("__meta/*"), key=lambda each: int(each.name.split("_")[2]))
    header, _ = read_tile(file)
    stem = file.name.rsplit("_", 1)[0]
    for number in range(files):
        name = key.format(number).encode()
        value = struct.pack("<I", len(name)) + name
        value += struct.pack("<BBI", 0, 4, zeros) + bytes(zeros)
        write_tile(file.with_name(f"{stem}_{number:032x}"[: len(file.name)]), header, value)


def test_long_metadata_of_few_letters_are_read(copy: Path) -> None:
    add_zeros(copy, 1, 1_500_000, "mask")
    assert len(ps.open(copy).metadata["mask"]) == 1_500_000


def test_long_metadata_written_many_times_are_read(copy: Path) -> None:
    add_zeros(copy, 8, (16 << 20) - 1024, "mask")
    assert len(ps.open(copy).metadata["mask"]) == (16 << 20) - 1024


def test_many_bombs_of_metadata_are_too_many(copy: Path) -> None:
    """Each as long as one may be: all that an object has is bound, too."""
    add_zeros(copy, 8, (16 << 20) - 1024, "zeros{}")
    with pytest.raises(ps.CorruptData, match=r"metadata come to \d+ bytes.*__meta"):
        ps.open(copy)


def test_many_small_bombs(copy: Path) -> None:
    """Each of as many zeros as one may have: some megabytes, not gigabytes."""
    add_zeros(copy, 20, (1 << 20) - 1024, "zeros{}")
    done = subprocess.run(
        [sys.executable, "-c", OPEN, copy], capture_output=True, text=True, check=True
    )
    found, used = map(int, done.stdout.split())
    assert found == 20
    assert used < 256


@pytest.mark.filterwarnings("ignore::penstock.NoGenesWarning")
@pytest.mark.parametrize("pattern", KINDS)
def test_any_byte_may_be_any_other(copy: Path, pattern: str) -> None:
    """Bytes that are in no text most of all: names become text, in Python and in messages."""
    rng = random.Random(pattern)
    file = file_of(copy, pattern)
    whole = file.read_bytes()
    header, contents = read_tile(file)
    refused = 0
    for _ in range(60):
        changed = bytearray(contents)
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(len(changed))] = rng.choice(
                (0, 0x80, 0xC3, 0xFF, rng.randrange(256))
            )
        write_tile(file, header, bytes(changed))
        try:
            read_all(copy)
        except ps.PenstockError:
            refused += 1
    assert refused > 0
    file.write_bytes(whole)
    write_tile(file, header, contents)
    read_all(copy)


def test_names_that_are_no_text(copy: Path) -> None:
    for pattern, name in [
        ("__group/*", b"obs"),
        ("__meta/*", b"soma_object_type"),
        ("obs/__schema/__*_*", b"soma_joinid"),
        ("ms/RNA/X/raw/__schema/__*_*", b"soma_data"),
    ]:
        file = file_of(copy, pattern)
        whole = file.read_bytes()
        header, contents = read_tile(file)
        assert name in contents
        write_tile(file, header, contents.replace(name, b"\xff" * len(name)))
        with pytest.raises(ps.CorruptData, match=r"is not UTF-8: (\\xff)+") as error:
            read_all(copy)
        assert file.name in str(error.value)
        file.write_bytes(whole)


def test_values_that_are_no_text(copy: Path) -> None:
    """They are told as other values that are no text are."""
    with pytest.importorskip("tiledb").Group(str(copy), "w") as group:
        group.meta["origin"] = "a laboratory"
    assert ps.open(copy).metadata["origin"] == "a laboratory"
    file = max(copy.glob("__meta/*"), key=lambda each: int(each.name.split("_")[2]))
    header, contents = read_tile(file)
    write_tile(file, header, contents.replace(b"laboratory", b"laborator\xff"))
    assert ps.open(copy).metadata["origin"] == "<12 of string>"


READ_ARRAY = """
import resource, sys
from penstock import PenstockError, _core

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
try:
    _core.read_array(sys.argv[1], [sys.argv[2]])
except PenstockError as error:
    print((peak() - before) >> 10, type(error).__name__, error)
"""


@pytest.mark.parametrize("column", ["d", "a"])
def test_noise_that_claims_a_gibibyte(tmp_path: Path, column: str) -> None:
    """Metadata, chunk and part agree that there are 2^27 cells, and their bytes are noise."""
    tiledb = pytest.importorskip("tiledb")
    cells, claimed = 8192, 1 << 27
    zstd = tiledb.FilterList([tiledb.ZstdFilter()])
    schema = tiledb.ArraySchema(
        tiledb.Domain(
            tiledb.Dim(name="d", domain=(0, 1 << 40), tile=1, dtype="int64", filters=zstd)
        ),
        [tiledb.Attr("a", dtype="int64", filters=zstd)],
        sparse=True,
        capacity=claimed,
    )
    uri = str(tmp_path / "array")
    tiledb.Array.create(uri, schema)
    rng = random.Random(3)
    places = sorted(rng.sample(range(1 << 40), cells))
    with tiledb.open(uri, "w") as array:
        array[places] = np.array([rng.getrandbits(63) for _ in range(cells)])
    assert len(_core.read_array(uri, [])[0].values()) == cells

    [fragment] = (tmp_path / "array" / "__fragments").iterdir()
    footer = fragment / "__fragment_metadata.tdb"
    footer.write_bytes(
        footer.read_bytes().replace(struct.pack("<Q", cells), struct.pack("<Q", claimed))
    )
    for file in fragment.glob("[ad][0-9]*.tdb"):
        stored = bytearray(file.read_bytes())
        # The number of chunks, lengths of the one there is (original, stored, metadata), then its
        # part table: https://github.com/TileDB-Inc/TileDB/blob/main/format_spec/tile.md
        chunks, original, length, metadata = struct.unpack_from("<QIII", stored)
        assert (chunks, original) == (1, cells * 8), file.name
        struct.pack_into("<I", stored, 8, claimed * 8 % (1 << 32))
        if metadata:
            struct.pack_into("<I", stored, 20 + 8, claimed * 8)
        stored[20 + metadata :] = rng.randbytes(length)
        file.write_bytes(stored)
    done = subprocess.run(
        [sys.executable, "-c", READ_ARRAY, uri, column], capture_output=True, text=True, check=True
    )
    used, error, text = done.stdout.split(" ", 2)
    assert error == "CorruptData"
    assert "zstd: bad stream" in text
    assert int(used) < 64
