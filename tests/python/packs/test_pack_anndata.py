"""Packs of AnnData: what the source has, byte-checked tables that anndata reads, keys of contents."""

from __future__ import annotations

import json
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import zarr
from amounts import seeds
from anndata_cases import VALUE_TYPES, random_anndata, write_zarr
from conftest import DATA
from packed_experiments import expect_same
from penstock import _core
from penstock.cli import main


def make(seed: int, **settings: Any) -> anndata.AnnData:
    return random_anndata(np.random.default_rng(seed), 300, 40, raw=True, **settings)


def key_of(pack: Path) -> str:
    return json.loads((pack / "pack.json").read_text())["key"]


def table_of_pack(path: Path) -> pd.DataFrame:
    return anndata.io.read_elem(zarr.open_group(str(path), mode="r"))


def expect_table(got: pd.DataFrame, wanted: pd.DataFrame) -> None:
    assert got.index.tolist() == wanted.index.tolist()
    assert list(got.columns) == list(wanted.columns)
    for name in wanted.columns:
        missing = wanted[name].isna().to_numpy()
        assert (got[name].isna().to_numpy() == missing).all()
        assert got[name][~missing].tolist() == wanted[name][~missing].tolist()
        if isinstance(wanted[name].dtype, pd.CategoricalDtype):
            assert got[name].cat.categories.tolist() == wanted[name].cat.categories.tolist()
            assert got[name].cat.ordered == wanted[name].cat.ordered


@pytest.mark.parametrize("seed", seeds(3))
def test_a_pack_has_what_the_store_has(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    made = random_anndata(
        random,
        int(random.integers(1, 400)),
        int(random.integers(1, 60)),
        value_type=str(random.choice(VALUE_TYPES)),
        dense=bool(random.random() < 0.3),
        raw=True,
    )
    path = write_zarr(made, tmp_path / "cells.zarr", version=int(random.choice([2, 3])), chunk=130)
    source = ps.open(path)
    packed = ps.pack(path, tmp_path / "cells.pack")
    expect_same(source, packed)
    expect_same(packed, ps.pack(packed, tmp_path / "again.pack"))
    from_memory = ps.pack(made, tmp_path / "memory.pack")
    pd.testing.assert_frame_equal(from_memory.obs.to_pandas(), source.obs.to_pandas())
    expect_same(from_memory, ps.pack(from_memory, tmp_path / "memory again.pack"))
    for pack in ("cells.pack", "memory.pack", "again.pack"):
        expect_table(table_of_pack(tmp_path / pack / "obs"), made.obs)
        expect_table(table_of_pack(tmp_path / pack / "ms" / "RNA" / "var"), made.var)
        expect_table(table_of_pack(tmp_path / pack / "ms" / "raw" / "var"), made.raw.var)


def test_a_collection_becomes_a_pack(tmp_path: Path) -> None:
    with tarfile.open(DATA / "anndata-annbatch-0.3.1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    source = ps.open(tmp_path / "collection.zarr")
    packed = ps.pack(source, tmp_path / "collection.pack")
    expect_same(source, packed)
    expect_same(packed, ps.pack(packed, tmp_path / "again.pack"))


def test_the_command_packs_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make(1)
    path = write_zarr(made, tmp_path / "cells.zarr", version=3)
    destination = tmp_path / "cells.pack"
    main(["pack", str(path), str(destination), "--layer", "counts", "--obs-query", "small < 0"])
    assert "1 layer" in capsys.readouterr().out
    rows = np.flatnonzero(made.obs["small"] < 0)
    batches = list(ps.Dataset(destination, shuffle=False, sparse=True, dtype="int32"))
    assert np.concatenate([obs["soma_joinid"] for _, obs in batches]).tolist() == rows.tolist()
    got = sp.vstack([X for X, _ in batches]).toarray()
    np.testing.assert_array_equal(got, made.layers["counts"].toarray()[rows])


def test_names_that_are_taken(tmp_path: Path) -> None:
    """A column obs_names, a column soma_joinid, and var with a column obs_names."""
    made = make(2)
    made.obs["obs_names"] = "other"
    made.obs["soma_joinid"] = -1
    made.obs.index.name = "barcode"
    made.var["obs_names"] = [f"not the index {i}" for i in range(made.n_vars)]
    path = write_zarr(made, tmp_path / "cells.zarr", version=3)
    for number, source in enumerate((path, made)):
        packed = ps.pack(source, tmp_path / f"{number}.pack")
        assert packed.obs.columns == ps.open(path).obs.columns
        obs, var = packed.obs.to_pandas(), packed.var().to_pandas()
        assert obs["barcode"].tolist() == made.obs_names.tolist()
        assert set(obs["obs_names"]) == {"other"}
        assert obs["soma_joinid"].tolist() == list(range(made.n_obs))
        assert var["var_names"].tolist() == made.var_names.tolist()
        assert var["obs_names"].tolist() == made.var["obs_names"].tolist()
        expect_same(packed, ps.pack(packed, tmp_path / f"{number} again.pack"))


def test_damage_of_a_table_is_an_error_with_the_file(tmp_path: Path) -> None:
    ps.pack(make(3), tmp_path / "cells.pack")
    files = sorted(p for p in (tmp_path / "cells.pack" / "obs").rglob("*") if p.is_file())
    assert any(p.name == "zarr.json" for p in files)
    for file in files:
        before = file.read_bytes()
        file.write_bytes(bytes([before[0] ^ 4]) + before[1:])
        if file.parent.name != "obs" and file.name == "zarr.json":
            pass  # read from the consolidated metadata, so the damage does no harm
        else:
            with pytest.raises(ps.PenstockError, match=str(file)):
                ps.open(tmp_path / "cells.pack").obs.to_pandas()
        file.unlink()
        with pytest.raises(ps.CorruptData, match=str(file)):
            ps.open(tmp_path / "cells.pack")
        file.write_bytes(before)
    ps.open(tmp_path / "cells.pack").obs.to_pandas()


def test_packing_the_same_store_again_does_nothing(tmp_path: Path) -> None:
    path = write_zarr(make(4), tmp_path / "cells.zarr", version=3, chunk=200)
    pack = tmp_path / "cells.pack"
    ps.pack(path, pack)
    before = (pack / "pack.json").stat().st_mtime_ns
    ps.pack(path, pack)
    assert (pack / "pack.json").stat().st_mtime_ns == before
    shutil.rmtree(path)
    write_zarr(make(5), path, version=3, chunk=200)
    with pytest.raises(ps.InvalidArgument, match="other content"):
        ps.pack(path, pack)


def packer_of(source: Any, destination: Path) -> Any:
    return _core.Packer(ps.open(source).engine, str(destination), None, [], [], False, 1, 100)


def test_an_interrupted_pack_resumes_if_its_content_is_known(tmp_path: Path) -> None:
    made = make(6)
    path = write_zarr(made, tmp_path / "cells.zarr", version=3, chunk=200)
    for name, source in (("store", path), ("memory", made)):
        first = packer_of(source, tmp_path / name)
        for _ in range(3):
            first.advance(0)
        assert first.progress().rows_done > 0
        del first
        second = packer_of(source, tmp_path / name)
        while second.advance(1):
            pass
        assert (second.progress().rows_kept > 0) == (name == "store")
    assert key_of(tmp_path / "store") != key_of(tmp_path / "memory")
    ps.pack(made, tmp_path / "second")
    assert key_of(tmp_path / "second") != key_of(tmp_path / "memory")


@pytest.mark.parametrize("written", ["X/data", "obs/n_genes"])
def test_a_store_that_is_written_to_meanwhile_is_an_error(tmp_path: Path, written: str) -> None:
    path = write_zarr(make(7), tmp_path / "cells.zarr", version=2, chunk=200)
    packer = packer_of(path, tmp_path / "cells.pack")
    time.sleep(0.02)
    chunk = path / written / "0"
    chunk.write_bytes(chunk.read_bytes())
    with pytest.raises(ps.IoError, match="written to while"):
        while packer.advance(0.1):
            pass
    assert not (tmp_path / "cells.pack").exists()


def test_a_destination_in_the_store_is_refused(tmp_path: Path) -> None:
    path = write_zarr(make(8), tmp_path / "cells.zarr")
    with pytest.raises(ps.InvalidArgument, match="within"):
        ps.pack(path, path / "X" / "cells.pack")
