"""Packs hold what their source holds, exactly; tiledbsoma and the source are the oracles."""

from __future__ import annotations

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
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import Oracle, write_small_tiles
from penstock import _core
from penstock.cli import main

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")

ARCHIVES = [
    "pbmc3k-soma",
    "pbmc-small",
    "pbmc-small-pre-1.15",
    "soma-1.15.7-small",
    "soma-1.7.3-small",
]


def entries(source, measurement: str = "RNA", layer: str = "raw", dtype="float64", **settings):
    """(rows, columns, values) of X, every stored cell."""
    ds = ps.Dataset(
        source, measurement=measurement, layer=layer, sparse=True, dtype=dtype, shuffle=False,
        **settings,
    )  # fmt: skip
    joinids, columns, values = [], [], []
    for X, obs in ds:
        joinids.append(np.repeat(obs["soma_joinid"], np.diff(X.indptr)))
        columns.append(X.indices)
        values.append(X.data)
    return tuple(np.concatenate(each) for each in (joinids, columns, values))


def same_bits(a, b) -> None:
    """Also of NaN and -0.0."""
    for one, other in zip(a, b, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def expect_same(source: ps.Experiment, packed: ps.Experiment) -> None:
    assert packed.metadata == source.metadata
    assert packed.n_obs == source.n_obs
    assert [c.name for c in packed.obs.schema] == [c.name for c in source.obs.schema]
    pd.testing.assert_frame_equal(packed.obs.to_pandas(), source.obs.to_pandas())
    assert packed.measurements == [m for m in source.measurements if source.layers(m)]
    for measurement in packed.measurements:
        pd.testing.assert_frame_equal(
            packed.var(measurement).to_pandas(), source.var(measurement).to_pandas()
        )
        assert packed.layers(measurement) == source.layers(measurement)
        for layer in packed.layers(measurement):
            ours, theirs = packed.x(measurement, layer), source.x(measurement, layer)
            assert (ours.shape, ours.value_type) == (theirs.shape, theirs.value_type)
            same_bits(entries(packed, measurement, layer), entries(source, measurement, layer))


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_stored_experiment(
    unpacked: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    source = ps.open(unpacked(name))
    packed = ps.pack(source, tmp_path / "pack")
    expect_same(source, packed)
    assert not (tmp_path / "pack.partial").exists()


def test_filters_shuffles_and_genes(census_like: Oracle, tmp_path: Path) -> None:
    source = ps.open(census_like.path)
    packed = ps.pack(source, tmp_path / "pack")
    query = "cell_type == 'B cell' or tissue_general == 'blood'"
    some = source.obs.to_pandas(value_filter=query)["soma_joinid"]
    assert packed.obs.to_pandas(value_filter=query)["soma_joinid"].tolist() == some.tolist()
    genes = "soma_joinid >= 100 and soma_joinid < 1700"
    for budget, shuffle in (("64MiB", "scatter"), ("2GiB", "scatter"), ("64MiB", True)):
        seen = []
        ds = ps.Dataset(
            packed, obs_query=query, var_query=genes, sparse=True, batch_size=64,
            memory_budget=budget, shuffle=shuffle,
        )  # fmt: skip
        for X, obs in ds:
            assert (census_like.X[obs["soma_joinid"], 100:1700] != X).nnz == 0
            seen.append(obs["soma_joinid"])
        assert sorted(np.concatenate(seen)) == sorted(some)
        if shuffle == "scatter":  # else what lies between rows on a page of the disk is read, too
            assert ds.stats.read_amplification <= 1.01
    assert packed.x().stored_bytes < source.x().stored_bytes


DTYPES = [
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


def random_values(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    kind = rng.integers(4)
    if np.dtype(dtype).kind == "f":
        odd = np.array([np.nan, -0.0, np.inf, -1.5, 1e-40, 2.0**31, 254, 255, 256, -7, 0.1, 3e30])
        if kind == 0:
            return rng.choice(odd, count).astype(dtype)
        if kind == 1:
            return np.log1p(rng.integers(1, 90, count)).astype(dtype)
        values = rng.geometric(0.5, count).astype(dtype)
        return np.where(rng.random(count) < 0.05, rng.choice(odd, count).astype(dtype), values)
    info = np.iinfo(dtype)
    if kind == 0:
        return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    return np.minimum(rng.geometric(0.3, count), min(info.max, 2**62)).astype(dtype)


def write_random(path: Path, seed: int) -> tuple[sp.coo_matrix, np.ndarray]:
    """An experiment of odd shape, with gaps among the joinids, written by tiledbsoma."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    genes = [1, 300, 65_536, 70_001][seed % 4]
    ids = np.sort(rng.choice(700, 1 if seed % 5 == 0 else int(rng.integers(2, 400)), replace=False))
    per_row = rng.integers(0, min(genes, 300), ids.size, endpoint=True)
    rows = np.repeat(ids, per_row)
    columns = np.concatenate([np.sort(rng.choice(genes, n, replace=False)) for n in per_row])
    X = sp.coo_matrix((random_values(rng, dtype, rows.size), (rows, columns)), shape=(700, genes))
    schema = pa.schema([("soma_joinid", pa.int64())])
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        obs = experiment.add_new_dataframe(
            "obs", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 699]]
        )
        obs.write(pa.table({"soma_joinid": ids}))
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = rna.add_new_dataframe(
            "var", schema=schema, index_column_names=["soma_joinid"], domain=[[0, genes - 1]]
        )
        var.write(pa.table({"soma_joinid": np.arange(genes)}))
        layer = rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.from_numpy_dtype(np.dtype(dtype)), shape=(700, genes)
        )
        if rows.size:
            layer.write(pa.SparseCOOTensor.from_scipy(X))
    return X, ids


@pytest.mark.parametrize("seed", range(12))
def test_random_experiments(tmp_path: Path, seed: int) -> None:
    X, ids = write_random(tmp_path / "source", seed)
    source = ps.open(tmp_path / "source")
    packed = ps.pack(source, tmp_path / "pack")
    expect_same(source, packed)
    joinids, columns, values = entries(packed, dtype=str(X.dtype))
    assert packed.obs.to_pandas()["soma_joinid"].tolist() == ids.tolist()
    same_bits((joinids, columns, values), (X.row.astype(np.int64), X.col.astype(np.int32), X.data))


def test_some_cells_and_layers(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    source = ps.open(unpacked("pbmc-small"))
    some = source.obs.to_pandas()["soma_joinid"].to_numpy()[::3]
    packed = ps.pack(
        source, tmp_path / "pack", obs_query=ps.AxisQuery(coords=(some,)), layers=["counts"]
    )
    assert packed.layers("RNA") == ["counts"]
    assert packed.n_obs == some.size
    assert packed.obs.to_pandas()["soma_joinid"].tolist() == some.tolist()
    ds = ps.Dataset(packed, layer="counts")
    assert ds.n_obs == some.size
    same_bits(
        entries(packed, layer="counts"),
        entries(source, layer="counts", obs_query=ps.AxisQuery(coords=(some,))),
    )
    again = ps.pack(packed, tmp_path / "again")
    assert again.n_obs == some.size
    expect_same(packed, again)
    fewer = ps.pack(packed, tmp_path / "fewer", obs_query=ps.AxisQuery(coords=(some[:5],)))
    assert fewer.obs.to_pandas()["soma_joinid"].tolist() == some[:5].tolist()
    with pytest.raises(ps.NotFound, match="'nope'; there are counts"):
        ps.pack(source, tmp_path / "x", layers="nope")
    with pytest.raises(ps.NotFound, match="'nope'"):
        ps.pack(source, tmp_path / "x", measurements="nope")
    with pytest.raises(ps.InvalidArgument, match="no cell is selected"):
        ps.pack(source, tmp_path / "x", obs_query=ps.AxisQuery(coords=([],)))
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "x.partial").exists()


def test_the_time_of_the_source(tmp_path: Path) -> None:
    path = str(tmp_path / "source")
    X, ids = write_random(tmp_path / "source", 1)
    before = entries(ps.open(path))
    then = int(time.time() * 1000) + 1
    time.sleep(0.01)
    with tiledbsoma.open(path, "w") as experiment:
        more = sp.coo_matrix(([5], ([int(ids[0])], [0])), shape=X.shape, dtype=X.dtype)
        experiment.ms["RNA"].X["raw"].write(pa.SparseCOOTensor.from_scipy(more))
    old = ps.pack(ps.open(path, timestamp=then), tmp_path / "old")
    new = ps.pack(path, tmp_path / "new")
    same_bits(entries(old), before)
    assert entries(new)[2].size >= entries(old)[2].size
    assert not np.array_equal(entries(new)[2], entries(old)[2])
    assert ps.open(tmp_path / "old", timestamp=then).n_obs == old.n_obs
    with pytest.raises(ps.InvalidArgument, match="other content"):  # though it has the same cells
        ps.pack(ps.open(path, timestamp=then + 1), tmp_path / "old")
    with pytest.raises(ps.InvalidArgument, match="as of one time"):
        ps.open(tmp_path / "old", timestamp=then + 1)
    with pytest.raises(ps.InvalidArgument, match="as of one time"):
        ps.open(tmp_path / "new", timestamp=then)


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


def row_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.rows"))


def test_damage_is_named(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    packed = ps.pack(unpacked("pbmc-small"), tmp_path / "pack", layers="counts")
    (file,) = row_files(tmp_path / "pack")
    whole = file.read_bytes()
    rng = random.Random(1)
    for _ in range(60):
        at = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        file.unlink()  # a new file: descriptors of the old one stay what they are
        file.write_bytes(damaged)
        with pytest.raises(ps.PenstockError, match=r"\.rows|version") as raised:
            entries(tmp_path / "pack", layer="counts")
        assert isinstance(raised.value, (ps.CorruptData, ps.Unsupported))
    file.unlink()
    file.write_bytes(whole[:-10])
    with pytest.raises(ps.CorruptData):
        entries(tmp_path / "pack", layer="counts")
    file.unlink()
    with pytest.raises(ps.NotFound):
        entries(tmp_path / "pack", layer="counts")
    file.write_bytes(whole)
    same_bits(entries(tmp_path / "pack", layer="counts"), entries(packed, layer="counts"))

    contents = tmp_path / "pack" / "pack.json"
    text = contents.read_text()
    contents.write_text(text.replace('"version": 1', '"version": 7'))
    with pytest.raises(ps.Unsupported, match="version 7"):
        ps.open(tmp_path / "pack")
    for bad in ("", "{", "[]", text.replace('"shape"', '"form"'), text.replace("counts", "../x")):
        contents.write_text(bad)
        with pytest.raises(ps.CorruptData, match=r"pack\.json"):
            ps.open(tmp_path / "pack")


def test_row_files_of_other_layers_and_packs_are_refused(
    unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of the same cells, with checksums that fit: told by their keys alone."""
    source = ps.open(unpacked("pbmc-small"))
    layers = ["counts", "data"]
    ps.pack(source, tmp_path / "pack", layers=layers)
    counts, data = (tmp_path / "pack/ms/RNA/X" / layer for layer in layers)
    (mine,), (other,) = row_files(counts), row_files(data)
    assert mine.name == other.name
    whole = mine.read_bytes()
    ps.pack(source, tmp_path / "twice", layers="counts")
    (of_another_pack,) = row_files(tmp_path / "twice")
    for foreign in (other, of_another_pack):
        mine.unlink()
        mine.write_bytes(foreign.read_bytes())
        with pytest.raises(ps.CorruptData, match="a row file of another pack"):
            entries(tmp_path / "pack", layer="counts")
    mine.unlink()
    mine.write_bytes(whole)
    entries(tmp_path / "pack", layer="counts")


PACK_IN_PIECES = """
import sys
import penstock as ps
from penstock import _core
source = ps.open(sys.argv[1])
packer = _core.Packer(source._core, sys.argv[2], None, [], [], False, 2, 600)
print("ready", flush=True)
while packer.advance(0.001):
    pass
print(packer.progress().rows_kept)
"""


def pack_in_pieces(source: Path, destination: Path, **kwargs) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PACK_IN_PIECES, str(source), str(destination)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs,
    )  # fmt: skip


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


def test_command(pbmc3k: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "pack")
    assert main(["pack", str(pbmc3k.path), path, "--layer", "raw", "--threads", "2"]) == 0
    text = capsys.readouterr().out
    assert f"{path}: 2,638 cells, 1 layer" in text
    assert "2,638 rows packed in" in text
    assert main(["pack", str(pbmc3k.path), path]) == 0
    assert "2,638 rows had been packed before" in capsys.readouterr().out
    assert main(["info", path]) == 0
    text = capsys.readouterr().out
    for wanted in ("obs: 2,638 cells", "layer RNA/X/raw: float32", "packed rows", "a non-zero"):
        assert wanted in text
    assert main(["pack", str(pbmc3k.path), path, "--obs-query", "n_counts > 1000"]) == 1
    assert "other content" in capsys.readouterr().err
    assert main(["pack", str(pbmc3k.path), path, "--obs-query", "n_counts >", "--overwrite"]) == 1
    assert main(["pack", str(tmp_path / "nothing"), path]) == 1


def test_real_counts_take_little(pbmc3k: Oracle, tmp_path: Path) -> None:
    packed = ps.pack(pbmc3k.path, tmp_path / "pack")
    bytes_each = packed.x().stored_bytes / pbmc3k.X.nnz
    if np.all(pbmc3k.X.data == np.round(pbmc3k.X.data)):
        assert bytes_each < 1.35


def test_in_workers_and_pickled(census_like: Oracle, tmp_path: Path) -> None:
    import pickle

    packed = ps.pack(census_like.path, tmp_path / "pack")
    ds = pickle.loads(pickle.dumps(ps.Dataset(packed, batch_size=500, sparse=True, format="torch")))
    cells = 0
    for X, _ in ps.dataloader(ds, num_workers=2):
        cells += X.shape[0]
    assert cells == 6_000


def test_progress_and_interrupts(census_like: Oracle, tmp_path: Path) -> None:
    seen: list[int] = []

    def stop(progress: _core.PackProgress) -> None:
        seen.append(progress.rows_done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ps.pack(census_like.path, tmp_path / "pack", progress=stop)
    assert seen
    assert ps.pack(census_like.path, tmp_path / "pack").n_obs == 6_000
    assert os.path.isdir(tmp_path / "pack")  # noqa: PTH112
