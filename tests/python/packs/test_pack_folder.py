"""Creation of a pack's folder: replacing, kills, and changes at the same time."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import Oracle, write_small_tiles
from packed_experiments import (
    entries,
    expect_same,
    pack_in_pieces,
    put_cells,
    row_files,
    same_bits,
    write_growing,
    write_random,
)
from penstock import _core

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")


def test_what_is_not_replaced(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    source = ps.open(unpacked("pbmc-small"))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ps.InvalidArgument, match="a file"):
        ps.pack(source, tmp_path / "file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ps.InvalidArgument, match="no pack"):
            ps.pack(source, tmp_path / "folder", overwrite=overwrite)
    (tmp_path / "other.partial").mkdir()
    (tmp_path / "other.partial" / "notes").write_text("mine")
    with pytest.raises(ps.InvalidArgument, match="no pack begun"):
        ps.pack(source, tmp_path / "other")
    (tmp_path / "empty").mkdir()
    ps.pack(source, tmp_path / "empty")

    ps.pack(source, tmp_path / "pack", layers="counts")
    with pytest.raises(ps.InvalidArgument, match="other content"):
        ps.pack(source, tmp_path / "pack")
    seen: list[_core.PackProgress] = []
    ps.pack(source, tmp_path / "pack", layers="counts", progress=seen.append)
    assert seen[-1].rows_kept == seen[-1].rows_done == seen[-1].rows_total == 80
    packed = ps.pack(source, tmp_path / "pack", overwrite=True)
    expect_same(source, packed)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "empty", "file", "folder", "other.partial", "pack",
    ]  # fmt: skip
    with pytest.raises(ps.InvalidArgument, match="one by one"):
        ps.pack(ps.join({"a": source, "b": source}, layer="counts"), tmp_path / "joined")


def marks(folder: Path) -> dict[str, tuple[int, int]]:
    """What tells a file of rows from one that was written again."""
    found = ((path.name, path.stat()) for path in row_files(folder))
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found}


def test_killed_and_resumed(tmp_path: Path) -> None:
    """At any time, and when one file more is done."""
    source = write_small_tiles(tmp_path / "source", 6_000, 100, per_cell=30)
    rng = random.Random(3)
    path = tmp_path / "pack"
    kills, resumed, longest = 0, 0, 0.15
    tries = itertools.count()
    while kills < 10 or len(row_files(tmp_path)) < 2:
        assert next(tries) < 300
        before = marks(tmp_path)
        process = pack_in_pieces(source, path, 100)
        assert process.stdout is not None
        process.stdout.readline()
        if kills % 2 == 0 and kills < 10:
            time.sleep(rng.random() * longest)
        else:  # when one file more is done
            while process.poll() is None and len(row_files(tmp_path)) <= len(before):
                pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if path.exists():  # whole, or not there; start again, and kill earlier
            expect_same(ps.open(source), ps.open(path))
            shutil.rmtree(path)
            longest *= 0.7
        else:
            kills += 1
            longest *= 1 if row_files(tmp_path) else 1.5
            # What was done when it began is what it was.
            assert before.items() <= marks(tmp_path).items()
            resumed += bool(before)
    assert resumed > 0
    # Also with a file that a loss of power has cut off.
    file = row_files(tmp_path)[0]
    file.write_bytes(file.read_bytes()[:-100])
    done = marks(tmp_path)
    process = pack_in_pieces(source, path, 100)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert 0 < int(out.split()[-1]) < 6_000  # rows that were kept
    same = done.items() & marks(tmp_path).items()
    assert {name for name, _ in same} == set(done) - {file.name}
    expect_same(ps.open(source), ps.open(path))
    assert {each.name for each in tmp_path.iterdir()} == {"pack", "source"}
    assert not list(path.rglob("*.tmp"))


def test_one_packer_at_a_time(tmp_path: Path) -> None:
    source = ps.open(write_small_tiles(tmp_path / "source", 1200, 300, per_cell=40))
    first = _core.Packer(source.engine, str(tmp_path / "pack"), None, [], [], False, 1, 100)
    while len(row_files(tmp_path)) < 2:
        assert first.advance(0.0)
    with pytest.raises(ps.InvalidArgument, match="another process"):
        ps.pack(source, tmp_path / "pack")
    del first
    # The pack of another selection starts over, and nothing of the old one stays.
    packed = ps.pack(source, tmp_path / "pack", obs_query="soma_joinid < 500")
    assert packed.n_obs == 500
    assert len(row_files(tmp_path)) == 1


def test_what_killed_writers_left_goes_first(tmp_path: Path) -> None:
    """When the next packer begins, not when it is done; a layer may have such a name."""
    path = tmp_path / "source"
    _, ids = write_random(path, 1)
    with tiledbsoma.open(str(path), "w") as experiment:
        layers = experiment.ms["RNA"].X
        more = sp.coo_matrix(([2.5], ([int(ids[0])], [0])), shape=layers["raw"].shape)
        layers.add_new_sparse_ndarray("raw.tmp", type=pa.float64(), shape=more.shape).write(
            pa.SparseCOOTensor.from_scipy(more)
        )
    source = ps.open(path)
    first = _core.Packer(source.engine, str(tmp_path / "pack"), None, [], [], False, 1, 100)
    while not row_files(tmp_path):
        assert first.advance(0.0)
    del first
    (layer_folder,) = {each.parent for each in row_files(tmp_path)}
    half_written = layer_folder / "0-5-5.rows.1-1.tmp"
    half_written.write_bytes(b"half")
    gone: list[bool] = []
    packed = ps.pack(
        source, tmp_path / "pack", progress=lambda _: gone.append(not half_written.exists())
    )
    assert gone
    assert all(gone)
    assert "raw.tmp" in packed.layers("RNA")
    expect_same(source, packed)


def test_packers_that_begin_while_another_ends(tmp_path: Path) -> None:
    """Each has the whole pack in the end, or is told that another is at it."""
    source = ps.open(write_small_tiles(tmp_path / "source", 60, 30, per_cell=5))
    expected = entries(source)

    def pack(destination: Path) -> str:
        try:
            same_bits(entries(ps.pack(source, destination)), expected)
        except ps.InvalidArgument as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(4) as pool:
        for number in range(60):
            destination = tmp_path / f"pack{number}"
            said = list(pool.map(pack, [destination] * 4))
            assert "" in said
            assert all(not each or "another process is packing" in each for each in said)
            same_bits(entries(destination), expected)
    assert not list(tmp_path.glob("*.partial"))


def test_a_full_disk(census_like: Oracle, tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    process = pack_in_pieces(census_like.path, tmp_path / "pack", preexec_fn=limit)
    _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "ResourceExhausted: cannot write" in err
    assert not (tmp_path / "pack").exists()
    expect_same(ps.open(census_like.path), ps.pack(census_like.path, tmp_path / "pack"))


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    return write_growing(tmp_path / "growing")


def test_what_is_written_while_it_is_packed(growing: Path, tmp_path: Path) -> None:
    source = ps.open(growing)
    before = entries(source)
    packer = _core.Packer(source.engine, str(tmp_path / "pack"), None, [], [], False, 1, 500)
    assert packer.advance(0.0)
    put_cells(growing, np.arange(3_000, 4_000))
    while packer.advance(0.1):
        pass
    packed = ps.open(tmp_path / "pack")
    assert packed.n_obs == 3_000
    same_bits(entries(packed), before)
    assert ps.open(growing).n_obs == 4_000


def test_what_is_written_after_it_was_opened(growing: Path, tmp_path: Path) -> None:
    source = ps.open(growing)
    assert source.n_obs == 3_000
    time.sleep(0.01)
    then = int(time.time() * 1000)
    time.sleep(0.01)
    put_cells(growing, np.arange(3_000, 3_500))
    with pytest.raises(ps.IoError, match=r"written to after it was opened.*obs"):
        ps.pack(source, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()
    earlier = ps.open(growing, timestamp=then)
    same_bits(entries(ps.pack(earlier, tmp_path / "earlier")), entries(earlier))
    assert ps.open(tmp_path / "earlier").n_obs == 3_000
    again = ps.pack(ps.open(growing), tmp_path / "pack")
    assert again.n_obs == 3_500


def test_metadata_is_content(growing: Path, tmp_path: Path) -> None:
    ps.pack(growing, tmp_path / "pack")
    with tiledbsoma.open(str(growing), "w") as experiment:
        experiment.metadata["title"] = "another"
    with pytest.raises(ps.InvalidArgument, match="other content"):
        ps.pack(growing, tmp_path / "pack")
    assert ps.pack(growing, tmp_path / "pack", overwrite=True).metadata["title"] == "another"


def test_a_damaged_pack_is_made_again(growing: Path, tmp_path: Path) -> None:
    path = tmp_path / "pack"
    packed = ps.pack(growing, path)
    expected = entries(packed)
    (file,) = row_files(path)
    file.unlink()
    with pytest.raises(ps.CorruptData, match=rf"\(overwrite\).*{file.name}"):
        ps.pack(growing, path)
    same_bits(entries(ps.pack(growing, path, overwrite=True)), expected)
    contents = path / "pack.json"
    text = contents.read_text()
    for bad in ("", "{", text.replace('"version": 2', '"version": 1'), text.replace("RNA", "DNA")):
        contents.write_text(bad)
        with pytest.raises(ps.InvalidArgument, match="cannot be read as a pack"):
            ps.pack(growing, path)
        same_bits(entries(ps.pack(growing, path, overwrite=True)), expected)
    contents.write_text("{}")
    (path / "notes").write_text("mine")
    with pytest.raises(ps.InvalidArgument, match="cannot be read as a pack"):
        ps.pack(growing, path, overwrite=True)
    assert (path / "notes").read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("pack")] == ["pack"]


WATCH = """
import os, sys, time
print("ready", flush=True)
looks = missing = 0
while not os.path.exists(sys.argv[2]):
    for _ in range(1000):
        looks += 1
        missing += not os.path.exists(sys.argv[1])
print(looks, missing)
"""


def need_exchange(folder: Path) -> None:
    """Of names, which some file systems cannot."""
    for name in ("one", "other"):
        (folder / name).mkdir()
    names = [os.fsencode(folder / name) for name in ("one", "other")]
    if ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2) != 0:
        pytest.skip("a file system that cannot exchange names")
    for name in ("one", "other"):
        (folder / name).rmdir()


def test_there_is_a_pack_while_it_is_overwritten(growing: Path, tmp_path: Path) -> None:
    need_exchange(tmp_path)
    path, done = tmp_path / "pack", tmp_path / "done"
    expected = entries(ps.pack(growing, path))
    watch = subprocess.Popen(
        [sys.executable, "-c", WATCH, str(path / "pack.json"), str(done)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watch.stdout is not None
    watch.stdout.readline()
    for _ in range(60):
        ps.pack(growing, path, overwrite=True)
    done.touch()
    looks, missing = map(int, watch.communicate(timeout=60)[0].split())
    assert looks > 1000
    assert missing == 0
    same_bits(entries(path), expected)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["done", "growing", "pack"]


OVERWRITE = """
import itertools, sys
import penstock as ps
source = ps.open(sys.argv[1])
print("ready", flush=True)
for number in itertools.count():
    query = f"soma_joinid < {1_000 + number % 2}"
    ps.pack(source, sys.argv[2], obs_query=query, overwrite=True, threads=1)
"""


def on_their_way(folder: Path) -> list[str]:
    """Names that a pack has for a moment while it is exchanged."""
    names = (each.name for each in os.scandir(folder))
    return [name for name in names if name.startswith(("pack.new-", "pack.replaced-"))]


def test_killed_while_it_is_exchanged(growing: Path, tmp_path: Path) -> None:
    """The old pack or the new one is there, and whole."""
    need_exchange(tmp_path)
    path = tmp_path / "pack"
    rng = random.Random(5)
    whole = {
        cells: entries(ps.pack(growing, path, obs_query=f"soma_joinid < {cells}", overwrite=True))
        for cells in (1_000, 1_001)
    }
    left = 0
    for round in range(16):
        command = [sys.executable, "-c", OVERWRITE, str(growing), str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.random() * 0.1)
        end = time.monotonic() + 60
        while round % 4 and not on_their_way(tmp_path):
            assert time.monotonic() < end
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        left += bool(on_their_way(tmp_path))
        packed = ps.open(path)
        same_bits(entries(packed), whole[packed.n_obs])
        for name in on_their_way(tmp_path):
            shutil.rmtree(tmp_path / name)
    assert left > 0
    assert ps.pack(growing, path, overwrite=True).n_obs == 3_000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["growing", "pack"]


def test_a_link_to_a_pack_is_replaced_not_what_it_leads_to(growing: Path, tmp_path: Path) -> None:
    expected = entries(ps.pack(growing, tmp_path / "target"))
    (tmp_path / "pack").symlink_to(tmp_path / "target")
    same_bits(entries(ps.pack(growing, tmp_path / "pack", overwrite=True)), expected)
    assert not (tmp_path / "pack").is_symlink()
    same_bits(entries(tmp_path / "target"), expected)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["growing", "pack", "target"]


def test_what_changes_at_the_destination_meanwhile(growing: Path, tmp_path: Path) -> None:
    path = tmp_path / "pack"
    source = ps.open(growing)

    def overwritten_after(change: Callable[[], object]) -> None:
        packer = _core.Packer(source.engine, str(path), None, [], [], True, 1, 500)
        assert packer.advance(0.0)
        change()
        while packer.advance(0.1):
            pass

    expected = entries(ps.pack(growing, path))
    overwritten_after(lambda: shutil.rmtree(path))
    same_bits(entries(path), expected)

    def put_notes() -> None:
        shutil.rmtree(path)
        path.mkdir()
        (path / "notes").write_text("mine")

    def put_file() -> None:
        shutil.rmtree(path)
        path.write_text("mine")

    def put_contents() -> None:
        put_notes()
        (path / "pack.json").write_text("mine")

    for put, kept, message in [
        (put_file, path, "no pack came to the destination meanwhile"),
        (put_notes, path / "notes", "no pack came to the destination meanwhile"),
        (put_contents, path / "notes", "no pack came to the destination meanwhile"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            overwritten_after(put)
        assert kept.read_text() == "mine"
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        ps.pack(growing, path)

    # Another pack that came there is replaced as the one that was.
    def put_pack() -> None:
        shutil.rmtree(path)
        ps.pack(growing, tmp_path / "elsewhere")
        (tmp_path / "elsewhere").rename(path)

    overwritten_after(put_pack)
    same_bits(entries(path), expected)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["growing", "pack"]
    with pytest.raises(ps.InvalidArgument, match="meanwhile"):
        overwritten_after(put_notes)
    shutil.rmtree(path)
    packer = _core.Packer(source.engine, str(path), None, [], [], False, 1, 500)
    while packer.advance(0.1):
        pass
    assert packer.progress().rows_kept == 3_000  # what was packed was there still
    same_bits(entries(path), expected)
    # Names that are taken: a process number comes again, in a container soon.
    (tmp_path / f"pack.replaced-{os.getpid()}").mkdir()
    (tmp_path / f"pack.replaced-{os.getpid()}" / "old").touch()
    same_bits(entries(ps.pack(growing, path, overwrite=True)), expected)
