"""Stores in tests/data that old versions of anndata wrote: what anndata of today reads from them."""

from __future__ import annotations

import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import DATA

ARCHIVES = ("anndata-0.7.0", "anndata-0.7.8", "anndata-0.11.4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each store as a folder."""
    place = tmp_path_factory.mktemp("archives")
    for name in ARCHIVES:
        with warnings.catch_warnings(), zipfile.ZipFile(DATA / f"{name}.zarr.zip") as archive:
            warnings.simplefilter("ignore")
            archive.extractall(place / name)
    with tarfile.open(DATA / "scanpy-10x-subset-zarr.tar.gz") as archive:
        archive.extractall(place / "scanpy-10x-subset", filter="data")
    return place


def stored(folder: Path, name: str) -> Path:
    return folder / name / "cells.zarr" if name.startswith("scanpy") else folder / name


def read_by_anndata(path: Path) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.read_zarr(path)


def expect_table(got: pd.DataFrame, wanted: pd.DataFrame, names: str) -> None:
    assert got.pop("soma_joinid").tolist() == list(range(len(wanted)))
    assert got.pop(names).tolist() == wanted.index.tolist()
    assert list(got.columns) == list(wanted.columns)
    for name in wanted.columns:
        assert got[name].tolist() == wanted[name].tolist(), name
        if isinstance(wanted[name].dtype, pd.CategoricalDtype):
            assert got[name].cat.categories.tolist() == wanted[name].cat.categories.tolist()
            assert got[name].cat.ordered == wanted[name].cat.ordered


def rows_of(source: Any, **settings: Any) -> np.ndarray:
    dataset = ps.Dataset(source, shuffle=False, dtype="float64", batch_size=700, **settings)
    return np.vstack([X for X, _ in dataset])


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


@pytest.mark.parametrize("name", [*ARCHIVES, "scanpy-10x-subset"])
def test_a_store_is_read_as_anndata_reads_it(folder: Path, name: str) -> None:
    path = stored(folder, name)
    wanted = read_by_anndata(path)
    experiment = ps.open(path)
    assert experiment.n_obs == wanted.n_obs
    expect_table(experiment.obs.to_pandas(), wanted.obs, "obs_names")
    expect_table(experiment.var().to_pandas(), wanted.var, "var_names")
    layers = ["X"] if wanted.X is not None else []
    assert experiment.layers() == layers + sorted(wanted.layers)
    if wanted.X is not None:
        np.testing.assert_array_equal(rows_of(path, layer="X"), dense(wanted.X))
    for layer, matrix in wanted.layers.items():
        np.testing.assert_array_equal(rows_of(path, layer=layer), dense(matrix))
    assert ("raw" in experiment.measurements) == (wanted.raw is not None)
    if wanted.raw is not None:
        expect_table(experiment.var("raw").to_pandas(), wanted.raw.var, "var_names")
        np.testing.assert_array_equal(rows_of(path, measurement="raw"), dense(wanted.raw.X))


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_archive_reads_as_its_folder(folder: Path, name: str) -> None:
    """Names that an archive has twice, as zarr 2 wrote them, are the last of them."""
    archive, unpacked = ps.open(DATA / f"{name}.zarr.zip"), ps.open(folder / name)
    pd.testing.assert_frame_equal(archive.obs.to_pandas(), unpacked.obs.to_pandas())
    assert archive.layers() == unpacked.layers()
    for layer in archive.layers():
        np.testing.assert_array_equal(rows_of(archive, layer=layer), rows_of(unpacked, layer=layer))


def test_a_store_without_any_matrix_says_so(folder: Path) -> None:
    with pytest.raises(ps.NotFound, match="no X and no layer"):
        ps.Dataset(folder / "anndata-0.11.4")


def test_cells_of_a_store_from_before_07_train(folder: Path) -> None:
    """The usual calls work on it: a filter by names, a shuffle, a pack."""
    path = stored(folder, "scanpy-10x-subset")
    wanted = read_by_anndata(path)
    names = wanted.obs_names[[5, 77, 1234]].tolist()
    ((X, obs),) = list(ps.Dataset(path, obs_query=names, shuffle=False, batch_size=3))
    assert obs["soma_joinid"].tolist() == [5, 77, 1234]
    np.testing.assert_array_equal(X, wanted.X[[5, 77, 1234]])
    packed = ps.pack(path, folder / "subset.pack")
    got = [
        (X.tobytes(), obs["soma_joinid"].tolist())
        for source in (path, packed)
        for X, obs in ps.Dataset(source, shuffle="global", seed=1, batch_size=1000)
    ]
    assert got[:2] == got[2:]
