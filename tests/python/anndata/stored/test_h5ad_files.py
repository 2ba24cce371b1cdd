"""Real files: h5ad of old versions of anndata, and what Cell Ranger wrote."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import penstock as ps
import pytest
import scanpy
import scipy.sparse as sp
from anndata_cases import dense, expect_read, read_h5ad, rows_of
from conftest import DATA

WRITTEN_BY = ("0.5.10", "0.6.22", "0.7.0", "0.7.8", "0.11.4")
#: The file of scanpy is one of anndata 0.6.6, and anndata's own example of the form of 0.5.
ARCHIVES = (*(f"anndata-{version}" for version in WRITTEN_BY), "10x_pbmc68k_reduced", "pbmc3k")
CELL_RANGER = ("cell-ranger-1.2.0", "cell-ranger-3.0.0", "space-ranger-2.1.0-probes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("h5ad")
    for name in ARCHIVES[: len(WRITTEN_BY)]:
        (place / f"{name}.h5ad").write_bytes(
            gzip.decompress((DATA / f"{name}.h5ad.gz").read_bytes())
        )
    of_scanpy = Path(scanpy.__file__).parent / "datasets" / "10x_pbmc68k_reduced.h5ad"
    (place / of_scanpy.name).symlink_to(of_scanpy)
    (place / "pbmc3k.h5ad").symlink_to(DATA / "pbmc3k.h5ad")
    return place


def read(reader: Any, path: Path, **settings: Any) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return reader(path, **settings)


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_file_is_read_as_anndata_reads_it(folder: Path, name: str) -> None:
    path = folder / f"{name}.h5ad"
    expect_read(path, read_h5ad(path))


@pytest.mark.parametrize("name", CELL_RANGER)
def test_a_file_of_cell_ranger_is_read_as_scanpy_reads_it(name: str) -> None:
    path = DATA / "tenx" / f"{name}.h5"
    wanted = read(scanpy.read_10x_h5, path, gex_only=False)
    experiment = ps.open(path)
    obs, var = experiment.obs.to_pandas(), experiment.var().to_pandas()
    assert obs["obs_names"].tolist() == wanted.obs_names.tolist()
    assert var["var_names"].tolist() == wanted.var_names.tolist()
    for column in wanted.var.columns:
        assert var[column].tolist() == wanted.var[column].tolist(), column
    for column in wanted.obs.columns:
        assert obs[column].tolist() == wanted.obs[column].tolist(), column
    np.testing.assert_array_equal(rows_of(path), dense(wanted.X))
    dataset = ps.Dataset(path, sparse=True, seed=1, batch_size=64)
    X = sp.vstack([X for X, _ in dataset])
    assert X.sum() == wanted.X.sum()


def test_one_of_several_genomes_is_named_by_the_path() -> None:
    path = DATA / "tenx" / "cell-ranger-1.2.0-two-genomes.h5"
    with pytest.raises(ps.InvalidArgument, match=r"several genomes.*two-genomes\.h5/") as error:
        ps.open(path)
    with h5py.File(path) as file:
        genomes = list(file)
        assert len(genomes) == 2
        for genome in genomes:
            assert f"{path}/{genome}" in str(error.value)
            stored = file[genome]
            wanted = sp.csc_matrix(
                (stored["data"][:], stored["indices"][:], stored["indptr"][:]), stored["shape"][:]
            )
            inside = f"{path}/{genome}"
            np.testing.assert_array_equal(rows_of(inside), wanted.T.toarray())
            var = ps.open(inside).var().to_pandas()
            assert var["var_names"].tolist() == [text.decode() for text in stored["gene_names"]]
            assert var["gene_ids"].tolist() == [text.decode() for text in stored["genes"]]
            obs = ps.open(inside).obs.to_pandas()
            assert obs["obs_names"].tolist() == [text.decode() for text in stored["barcodes"]]
    with pytest.raises(ps.NotFound, match="there is no group 'mm8'"):
        ps.open(f"{path}/mm8")


def test_an_array_that_is_called_as_a_made_column_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    source = next((DATA / "tenx").glob("*3.0.0*.h5"))
    path.write_bytes(source.read_bytes())
    wanted = ps.open(source).var().to_pandas()
    with h5py.File(path, "r+") as file:
        features = file["matrix/features"]
        features["gene_ids"] = np.array([b"zz"] * len(features["id"]))
    got = ps.open(path).var().to_pandas()
    assert list(got.columns) == list(wanted.columns)
    assert got["gene_ids"].tolist() == wanted["gene_ids"].tolist()


def test_other_hdf5_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["numbers"] = np.arange(3)
    with pytest.raises(ps.InvalidArgument, match=r"neither an AnnData .* 10x Cell Ranger .*x\.h5"):
        ps.open(tmp_path / "x.h5")


def test_a_file_that_is_open_for_writing_can_be_read(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "x.h5ad"
    path.write_bytes((DATA / "pbmc3k.h5ad").read_bytes())
    wanted = rows_of(path)
    with h5py.File(path, "r+") as file:
        np.testing.assert_array_equal(rows_of(path), wanted)
        file.attrs["more"] = 1
    np.testing.assert_array_equal(rows_of(path), wanted)


@pytest.mark.parametrize("kind", ["virtual", "external", "szip or other"])
def test_what_is_not_read_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.h5ad"
    anndata.AnnData(np.ones((4, 3), "float32")).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["X"]
        if kind == "virtual":
            layout = h5py.VirtualLayout(
                (4, 3), "float32"
            )  # h5py 3.10 writes one without sources as an array
            layout[:] = h5py.VirtualSource(str(tmp_path / "values.h5"), "X", (4, 3))
            file.create_virtual_dataset("X", layout)
        elif kind == "external":
            external = [(str(tmp_path / "values.bin"), 0, 48)]
            file.create_dataset("X", (4, 3), "float32", external=external)
        else:
            file.create_dataset("X", (4, 3), "int32", chunks=(2, 3), scaleoffset=4)
    words = {
        "virtual": "virtual dataset",
        "external": "other files",
        "szip or other": "filter scale-offset",
    }
    with pytest.raises(ps.Unsupported, match=rf"{words[kind]}.*anndata.*x\.h5ad/X"):
        ps.Dataset(path)
