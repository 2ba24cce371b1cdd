"""How a pack comes to its place: what is replaced, who is killed, what is written meanwhile."""

from __future__ import annotations

import itertools
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
from mounts import with_mount
from packed_experiments import (
    entries,
    expect_same,
    pack_in_pieces,
    row_files,
    same_bits,
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


def test_killed_and_gone_on_with(census_like: Oracle, tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "pack"
    kills, longest = 0, 0.15
    tries = itertools.count()
    while kills < 10 or not row_files(tmp_path):
        assert next(tries) < 300
        process = pack_in_pieces(census_like.path, path)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.random() * longest)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if path.exists():  # whole, or not there; begun anew, and killed earlier
            expect_same(ps.open(census_like.path), ps.open(path))
            shutil.rmtree(path)
            longest *= 0.7
        else:
            kills += 1
            longest *= 1 if row_files(tmp_path) else 1.5
    # Also with a file that a loss of power has cut off.
    file = row_files(tmp_path)[0]
    file.write_bytes(file.read_bytes()[:-100])
    process = pack_in_pieces(census_like.path, path)
    _out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    expect_same(ps.open(census_like.path), ps.open(path))
    assert {each.name for each in tmp_path.iterdir()} == {"pack"}
    assert not list(path.rglob("*.tmp"))


def test_one_packer_at_a_time(tmp_path: Path) -> None:
    source = ps.open(write_small_tiles(tmp_path / "source", 1200, 300, per_cell=40))
    first = _core.Packer(source._core, str(tmp_path / "pack"), None, [], [], False, 1, 100)
    while len(row_files(tmp_path)) < 2:
        assert first.advance(0.0)
    with pytest.raises(ps.InvalidArgument, match="another process"):
        ps.pack(source, tmp_path / "pack")
    del first
    # What another selection has begun is begun anew, and nothing of it stays.
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
    first = _core.Packer(source._core, str(tmp_path / "pack"), None, [], [], False, 1, 100)
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


def put_cells(path: Path, joinids: np.ndarray) -> None:
    """Cells with five ones each, in obs and X."""
    rows, columns = np.repeat(joinids, 5), np.tile(np.arange(5), len(joinids))
    X = sp.coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(9_000, 60))
    with tiledbsoma.open(f"{path}/obs", "w") as obs:
        obs.write(pa.table({"soma_joinid": joinids}))
    with tiledbsoma.open(f"{path}/ms/RNA/X/raw", "w") as layer:
        layer.write(pa.SparseCOOTensor.from_scipy(X))


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """3,000 cells, and room for more."""
    path = tmp_path / "growing"
    schema = pa.schema([("soma_joinid", pa.int64())])
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        experiment.add_new_dataframe(
            "obs", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 8_999]]
        )
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = rna.add_new_dataframe(
            "var", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 59]]
        )
        var.write(pa.table({"soma_joinid": np.arange(60)}))
        rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=(9_000, 60)
        )
    put_cells(path, np.arange(3_000))
    return path


def test_what_is_written_while_it_is_packed(growing: Path, tmp_path: Path) -> None:
    source = ps.open(growing)
    before = entries(source)
    packer = _core.Packer(source._core, str(tmp_path / "pack"), None, [], [], False, 1, 500)
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
    assert ps.pack(growing, path).n_obs == 3_000  # believed unread
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


def test_every_flipped_bit_of_the_contents_is_seen(growing: Path, tmp_path: Path) -> None:
    ps.pack(growing, tmp_path / "pack", obs_query=ps.AxisQuery(coords=([3, 70, 71, 900],)))
    contents = tmp_path / "pack" / "pack.json"
    whole = contents.read_bytes()
    rng = random.Random(2)
    for place in range(len(whole) - 1):  # but of the line's end
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        contents.write_bytes(damaged)
        with pytest.raises((ps.CorruptData, ps.Unsupported), match=r"pack\.json"):
            ps.open(tmp_path / "pack")
    contents.write_bytes(whole)
    assert ps.open(tmp_path / "pack").n_obs == 4


def test_places_that_cannot_be(growing: Path, tmp_path: Path) -> None:
    """Said before anything is packed."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "to-empty").symlink_to(tmp_path / "empty")
    (tmp_path / "to-nothing").symlink_to(tmp_path / "nothing")
    (tmp_path / "to-obs").symlink_to(growing / "obs")
    before = sorted(growing.rglob("*"))
    for place, message in [
        (tmp_path / "to-empty", "is a link"),
        (tmp_path / "to-nothing", "is a link"),
        (growing / "obs" / "pack", "within what is packed"),
        (growing / "ms" / "RNA" / "var" / "a" / "pack", "within what is packed"),
        (tmp_path / "to-obs" / "pack", "within what is packed"),
        ("s3://bucket/pack", "a folder on this machine"),
        ("file:///pack", "a folder on this machine"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            ps.pack(growing, place)
    assert sorted(growing.rglob("*")) == before
    assert not list(tmp_path.rglob("*.partial"))


def test_a_mounted_file_system_is_not_replaced(growing: Path, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    mounted = with_mount('mount -t tmpfs none "$0"', tmp_path / "volume")
    pack = "import sys, penstock as ps\nps.pack(sys.argv[1], sys.argv[2])"
    arguments = [sys.executable, "-c", pack, str(growing)]
    done = subprocess.run(
        [*mounted, *arguments, str(tmp_path / "volume")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "InvalidArgument: the destination is where a file system is mounted" in done.stderr
    within = [*mounted, *arguments, str(tmp_path / "volume" / "pack")]
    done = subprocess.run(within, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
