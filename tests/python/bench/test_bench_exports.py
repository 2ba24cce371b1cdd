"""Exports of the same cells in other formats, read back by AnnData and annbatch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import Oracle
from penstock import Unsupported
from penstock.bench.exports import kept, zarr_store
from penstock.bench.exports.annbatch_collection import write_annbatch
from penstock.bench.exports.cells import Cells
from penstock.bench.exports.h5ad import write_h5ad
from penstock.bench.exports.zarr_store import write_zarr
from penstock.bench.methods import METHODS
from penstock.bench.peers import interpreter
from penstock.bench.sources import Sources
from penstock.bench.target import Target
from penstock.cli import main


def check(adata: anndata.AnnData, oracle: Oracle, rows: np.ndarray, n_vars: int) -> None:
    assert sp.issparse(adata.X)
    assert adata.X.format == "csr"
    assert (oracle.X[rows][:, :n_vars] != adata.X).nnz == 0
    assert adata.X.has_sorted_indices
    expected = oracle.obs.iloc[rows].reset_index(drop=True)
    assert adata.obs["soma_joinid"].tolist() == expected["soma_joinid"].tolist()
    assert adata.obs["cell_type"].astype(str).tolist() == expected["cell_type"].tolist()
    assert adata.obs_names.tolist() == expected["soma_joinid"].astype(str).tolist()
    assert adata.var_names.tolist() == oracle.var["feature_id"].tolist()[:n_vars]


@pytest.mark.parametrize("select", [False, True])
def test_anndata_reads_h5ad_and_zarr(
    select: bool, census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Shards and chunks so small that most calls write several, and the last one a part of one.
    monkeypatch.setattr(zarr_store, "_CHUNK", 1000)
    monkeypatch.setattr(zarr_store, "_CHUNKS_PER_SHARD", 37)
    rows, n_vars = np.arange(6_000), 3_000
    cells = Cells(str(census_like.path))
    if select:
        tongue = census_like.obs["tissue_general"] == "tongue"
        rows, n_vars = np.flatnonzero(tongue), 123
        cells = Cells(str(census_like.path), obs_filter="tissue_general == 'tongue'", n_vars=n_vars)
    write_h5ad(cells, tmp_path / "cells.h5ad")
    check(anndata.read_h5ad(tmp_path / "cells.h5ad"), census_like, rows, n_vars)
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert (backed.X[5:9].toarray() == census_like.X[rows[5:9]][:, :n_vars].toarray()).all()
    write_zarr(cells, tmp_path / "cells.zarr")
    check(anndata.read_zarr(tmp_path / "cells.zarr"), census_like, rows, n_vars)
    import zarr

    data = zarr.open_group(str(tmp_path / "cells.zarr"), mode="r")["X/data"]
    assert data.metadata.zarr_format == 3
    assert (data.chunks, data.shards) == ((1000,), (37_000,))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cells.h5ad", "cells.zarr"]


def test_annbatch_reads_its_collection(census_like: Oracle, tmp_path: Path) -> None:
    try:
        python = interpreter(METHODS["annbatch"])
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    import subprocess

    write_h5ad(Cells(str(census_like.path)), tmp_path / "cells.h5ad")
    write_annbatch(tmp_path / "cells.h5ad", tmp_path / "cells.zarr")
    code = (
        "import annbatch, sys, numpy as np\n"
        "c = annbatch.DatasetCollection(sys.argv[1], mode='r')\n"
        "l = annbatch.Loader(batch_size=64, shuffle=True, preload_to_gpu=False).use_collection(c)\n"
        "for b in l:\n"
        "    for i, n, s in zip(b['obs']['soma_joinid'], np.diff(b['X'].indptr), np.ravel(b['X'].sum(axis=1))):\n"
        "        print(int(i), int(n), float(s))\n"
    )
    done = subprocess.run(
        [python, "-c", code, str(tmp_path / "cells.zarr")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = {int(i): (int(n), float(s)) for i, n, s in map(str.split, done.stdout.splitlines())}
    counts, sums = np.diff(census_like.X.indptr), census_like.X.sum(axis=1)
    joinids = census_like.obs["soma_joinid"]
    assert rows == {i: (counts[i], sums[i]) for i in joinids}


def test_of_a_given_file_the_first_genes_are_taken(census_like: Oracle, tmp_path: Path) -> None:
    file, found = tmp_path / "cells.h5ad", tmp_path / "rows"
    write_h5ad(Cells(str(census_like.path)), file)
    arguments = ["bench", "compare", census_like.path, "-m", "penstock,AnnLoader", "--h5ad", file]
    arguments += ["-v", 50, "-R", 1, "-d", found]
    assert main([str(each) for each in arguments]) == 0
    rows = pd.read_parquet(found)
    assert rows["status"].tolist() == ["ok", "ok"]
    assert rows["n_cols"].tolist() == [50, 50]
    assert rows["n_nonzeros"].tolist() == [census_like.X[:, :50].nnz] * 2


def test_exports_are_made_once_and_again_when_the_source_changes(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "source"
    import shutil

    shutil.copytree(census_like.path, source)
    said: list[str] = []
    cells = Cells(str(source), n_vars=50)
    first = kept.kept_export(cells, "h5ad", said.append)
    assert kept.kept_export(cells, "h5ad", said.append) == first
    assert len(said) == 1
    other = kept.kept_export(Cells(str(source), n_vars=51), "h5ad", said.append)
    assert other != first
    (source / "another-file").write_text("written since")
    assert kept.kept_export(cells, "h5ad", said.append) not in (first, other)
    assert len(said) == 3


def test_sources_say_what_is_missing(census_like: Oracle) -> None:
    target = Target(str(census_like.path))
    given = Sources(target, {"h5ad": "cells.h5ad"}, make=False)
    assert given.path(METHODS["scDataset"]) == "cells.h5ad"
    assert given.path(METHODS["penstock"]) == str(census_like.path)
    with pytest.raises(Unsupported, match=r"annbatch is left out: .* --annbatch"):
        given.path(METHODS["annbatch"])
    with pytest.raises(Unsupported, match="AnnLoader is left out"):
        Sources(Target("s3://bucket/experiment")).path(METHODS["AnnLoader"])


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.bench import peers

    for name in list(os.environ):
        if name.startswith("PENSTOCK_BENCH_PYTHON_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", "/no/such/folder")
    monkeypatch.setattr(peers, "_can_import", lambda python, modules: False)
    with pytest.raises(ModuleNotFoundError, match="penstock bench peers install annbatch"):
        interpreter(METHODS["annbatch"])
    monkeypatch.setenv("PENSTOCK_BENCH_PYTHON_ANNBATCH", "/other/python")
    with pytest.raises(ModuleNotFoundError, match="/other/python, which cannot import annbatch"):
        interpreter(METHODS["annbatch"])


def test_peers_that_no_python_here_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.bench import peers

    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(peers, "_version", lambda python: (3, 9))
    monkeypatch.setattr(peers, "_unlisted", list)
    said: list[str] = []
    assert peers.install(peers.PEERS["annbatch"], said.append) is None
    assert said == [
        "annbatch: left out, it needs a Python from 3.12 to 3.13, on the PATH or of pyenv or uv"
    ]


def test_interpreters_of_pyenv_are_found_though_none_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.bench import peers

    versions = {"3.9.1": "python3.9", "3.12.1": "python3.12", "3.13.0": "python3.13"}
    for folder, name in versions.items():
        (tmp_path / "versions" / folder / "bin").mkdir(parents=True)
        (tmp_path / "versions" / folder / "bin" / name).touch()
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(peers.shutil, "which", lambda name: None)
    known = {"python3.12": (3, 12), "python3.13": (3, 13)}
    monkeypatch.setattr(peers, "_version", lambda python: known.get(Path(python).name, (3, 8)))
    found = peers._base_python(peers.PEERS["annbatch"])
    assert found == str(tmp_path / "versions/3.13.0/bin/python3.13")
    found = peers._base_python(peers.PEERS["cellxgene_census"])
    assert found == str(tmp_path / "versions/3.12.1/bin/python3.12")


def test_every_method_has_an_interpreter_or_a_line_that_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a package above the one that is needed is not there at all."""
    from penstock.bench import peers

    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path))
    for name in list(os.environ):
        if name.startswith("PENSTOCK_BENCH_PYTHON_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(peers.importlib.util, "find_spec", importlib_find_spec)
    for method in METHODS.values():
        if method.peer is None:
            assert interpreter(method) == sys.executable
            continue
        with pytest.raises(
            ModuleNotFoundError, match=f"'penstock bench peers install {method.peer}'"
        ):
            interpreter(method)


def importlib_find_spec(name: str) -> None:
    """Of a machine that has none of the peers; a name below another would be imported."""
    assert "." not in name
