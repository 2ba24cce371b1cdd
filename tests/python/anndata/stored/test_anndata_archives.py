"""Stores in tests/data that old versions of anndata wrote: what anndata of today reads from them."""

from __future__ import annotations

import tarfile
import warnings
import zipfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from anndata_cases import expect_read, rows_of
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


@pytest.mark.parametrize("name", [*ARCHIVES, "scanpy-10x-subset"])
def test_a_store_is_read_as_anndata_reads_it(folder: Path, name: str) -> None:
    path = stored(folder, name)
    wanted = read_by_anndata(path)
    expect_read(path, wanted)


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
