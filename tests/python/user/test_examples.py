"""`penstock.example`: the cells that the package ships."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import tiledbsoma
from penstock.examples import made_once


@pytest.mark.parametrize(
    ("name", "shape"), [("pbmc3k", (2638, 13714)), ("census-like", (6000, 1500))]
)
def test_formats_hold_the_cells_that_tiledbsoma_reads(
    name: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    anndata = pytest.importorskip("anndata")
    path = ps.example(name, folder=tmp_path)
    with tiledbsoma.open(path) as experiment:
        stored = experiment.axis_query("RNA").to_anndata("raw")
    assert stored.shape == shape
    read = {"h5ad": anndata.read_h5ad, "zarr": anndata.read_zarr}
    for format, reader in read.items():
        place = ps.example(name, format=format, folder=tmp_path)
        adata = reader(place)
        assert (adata.X != stored.X).nnz == 0
        assert adata.obs["cell_type"].astype(str).tolist() == stored.obs["cell_type"].tolist()
        assert ps.Dataset(place).shape == shape
    X, _ = ps.Dataset(path).head(7)
    assert np.array_equal(X, stored.X[:7].toarray())


def test_is_in_the_cache_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = ps.example()
    assert Path(path).is_relative_to(tmp_path / "penstock")
    before = Path(path).stat().st_ino
    assert ps.example() == path
    assert Path(path).stat().st_ino == before
    assert len(list(Path(path).parent.iterdir())) == 1, "nothing is left beside it"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert ps.example().startswith(str(tmp_path / "home" / ".cache" / "penstock"))


def test_processes_make_it_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        paths = pool.starmap(_example, [(str(tmp_path),)] * 3)
    assert len(set(paths)) == 1
    assert ps.Dataset(paths[0]).n_obs == 6000
    assert os.listdir(tmp_path) == [Path(paths[0]).name]


def _example(folder: str) -> str:
    return ps.example("census-like", folder=folder)


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.mkdir()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        made_once.made_once(tmp_path / "cells", fail)
    assert not list(tmp_path.iterdir())

    def meanwhile(path: Path) -> None:
        path.mkdir()
        (path / "ours").touch()
        (tmp_path / "cells").mkdir()
        (tmp_path / "cells" / "theirs").touch()

    made = made_once.made_once(tmp_path / "cells", meanwhile)
    assert [each.name for each in made.iterdir()] == ["theirs"]
    assert [each.name for each in tmp_path.iterdir()] == ["cells"]


def test_unknown_names_are_told() -> None:
    with pytest.raises(ps.InvalidArgument, match="'pbmc3k', 'census-like'"):
        ps.example("pbmc")
    with pytest.raises(ps.InvalidArgument, match="'soma', 'h5ad', 'zarr'"):
        ps.example(format="loom")
