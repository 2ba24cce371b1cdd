"""Metadata that are sound outside and hostile within: each is an error of ours, in little memory."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest
from conftest import Oracle
from generic_tiles import read_tile, write_bomb, write_tile

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


def test_many_small_bombs(copy: Path) -> None:
    """Each of as many zeros as one may have: some megabytes, not gigabytes."""
    tiledb = pytest.importorskip("tiledb")
    with tiledb.Group(str(copy), "w") as group:
        group.meta["zeros"] = b"0"
    file = max(copy.glob("__meta/*"), key=lambda each: int(each.name.split("_")[2]))
    header, _ = read_tile(file)
    stem = file.name.rsplit("_", 1)[0]
    zeros = (1 << 20) - 1024
    for number in range(20):
        key = f"zeros{number}".encode()
        value = struct.pack("<I", len(key)) + key + struct.pack("<BBI", 0, 4, zeros) + bytes(zeros)
        write_tile(file.with_name(f"{stem}_{number:032x}"[: len(file.name)]), header, value)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, copy], capture_output=True, text=True, check=True
    )
    found, used = map(int, done.stdout.split())
    assert found == 20
    assert used < 256


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
