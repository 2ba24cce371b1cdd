"""Packs equal their source exactly; tiledbsoma and the source are the oracles."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from amounts import seeds
from conftest import STORED, Oracle, write_small_tiles
from packed_experiments import (
    entries,
    expect_same,
    row_files,
    same_bits,
    write_random,
)
from penstock import _core
from penstock.cli import main

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", STORED)
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


@pytest.mark.parametrize("seed", seeds(12))
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
    with pytest.raises(ps.NotFound, match="'nope'; choose from counts"):
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
    with pytest.raises(ps.CorruptData, match=rf"is missing.*{file.name}"):
        entries(tmp_path / "pack", layer="counts")
    file.write_bytes(whole)
    same_bits(entries(tmp_path / "pack", layer="counts"), entries(packed, layer="counts"))

    contents = tmp_path / "pack" / "pack.json"
    text = contents.read_text()
    contents.write_text(text.replace('"version": 2', '"version": 7'))
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


def test_command_shows_how_far_it_is(pbmc3k: Oracle, tmp_path: Path) -> None:
    """On a terminal, up to the last row; elsewhere not."""
    pytest.importorskip("rich")
    arguments = [sys.executable, "-m", "penstock", "pack", str(pbmc3k.path), "--layer", "raw"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    ours, terminal = os.openpty()
    process = subprocess.Popen(
        [*arguments, str(tmp_path / "seen")],
        stdout=subprocess.PIPE, stderr=terminal, env=environment, text=True,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # once nobody else has the terminal
        while piece := os.read(ours, 65_536):
            shown += piece
    os.close(ours)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "2,638 rows packed in" in out
    text = shown.decode()
    assert "RNA/X/raw" in text
    assert "cells/s" in text
    steps = [(int(done), int(of)) for done, of in re.findall(r"(\d+)/(\d+)", text)]
    assert steps[-1] == (2_638, 2_638)
    assert steps == sorted(steps)

    arguments.append(str(tmp_path / "unseen"))
    done = subprocess.run(arguments, capture_output=True, env=environment, text=True, timeout=300)
    assert done.returncode == 0
    assert done.stderr.strip() == ""  # rich before 15 ends a line
    assert "/2638" not in done.stdout
    assert "2,638 rows packed in" in done.stdout


def test_threads_do_not_change_a_byte(tmp_path: Path) -> None:
    def files(path: Path) -> dict[str, bytes]:
        found = (each for each in path.rglob("*") if each.is_file())
        return {str(each.relative_to(path)): each.read_bytes() for each in found}

    source = ps.open(write_small_tiles(tmp_path / "source", 1_600, 600, per_cell=96))
    packs = []
    for threads in (1, 2, 7):
        path = tmp_path / f"pack{threads}"
        packer = _core.Packer(source.engine, str(path), None, [], [], False, threads, 100)
        while packer.advance(0.1):
            pass
        packs.append(files(path))
    assert sum(name.endswith(".rows") for name in packs[0]) > 8
    assert packs[0].keys() == packs[1].keys() == packs[2].keys()
    for name, content in packs[0].items():
        assert content == packs[1][name] == packs[2][name], name


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
