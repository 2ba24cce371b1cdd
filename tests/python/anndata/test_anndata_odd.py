"""Objects and stores that are unusual: read rightly, or refused with what to do."""

from __future__ import annotations

import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import zarr
from anndata_cases import random_anndata, write_collection, write_h5ad, write_zarr
from conftest import DATA


@pytest.fixture
def adata() -> anndata.AnnData:
    made = random_anndata(np.random.default_rng(61), 60, 12, raw=True)
    made.X.sum_duplicates()
    made.raw.X.sum_duplicates()
    return made


def whole(source: Any, **settings: Any) -> np.ndarray:
    dataset = ps.Dataset(source, shuffle=False, dtype="float64", **settings)
    return np.concatenate([np.asarray(X) for X, _ in dataset])


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_a_view_that_shows_a_gene_twice(adata: anndata.AnnData) -> None:
    adata.layers["dense"] = adata.X.toarray()
    names = ["gene-1", "gene-1", "gene-2"]
    adata.var_names = [f"gene-{i}" for i in range(12)]
    view = adata[:, names]
    with pytest.raises(ps.Unsupported, match=r"adata.X is a CSR matrix in a view .*view.copy\(\)"):
        ps.Dataset(view, layer="X")
    np.testing.assert_array_equal(whole(view, layer="dense"), view.layers["dense"])
    np.testing.assert_array_equal(whole(view.copy(), layer="X"), view.X.toarray())


@pytest.mark.filterwarnings("ignore:Observation names are not unique")
def test_names_that_repeat_are_kept(adata: anndata.AnnData, tmp_path: Path) -> None:
    """Also of files with the same barcodes, in the order of anndata.concat."""
    adata.obs_names = [str(i % 40) for i in range(60)]
    other = adata[30:].copy()
    write_h5ad(adata, tmp_path / "cells.h5ad")
    write_zarr(other, tmp_path / "cells.zarr")
    stored = [tmp_path / "cells.h5ad", tmp_path / "cells.zarr"]
    joined = ps.join(stored, layer="X")
    packs = [tmp_path / f"{path.name}.pack" for path in stored]
    for path, pack in zip(stored, packs, strict=True):
        ps.pack(path, pack, layers="X")
    both = anndata.concat([adata, other])
    for source, wanted, layer in (
        (adata, adata, "X"),
        (stored[0], adata, "X"),
        (stored[1], other, "X"),
        (joined, both, None),
        (ps.join(packs, layer="X"), both, None),
    ):
        dataset = ps.Dataset(source, layer=layer)
        assert dataset.to_anndata().obs_names.tolist() == wanted.obs_names.tolist()
        assert dataset.obs_names.tolist() == wanted.obs_names.tolist()
        some = dataset[5:25:5].obs.to_pandas(names=True)
        assert some.index.tolist() == wanted.obs_names[5:25:5].tolist()
        # A number is a name here, not a place.
        (place, *others) = np.flatnonzero(wanted.obs_names == "39")
        if others:
            with pytest.raises(ps.InvalidArgument, match="obs_names has '39' more than once"):
                dataset[["39"]]
        else:
            assert dataset[["39"]].obs["soma_joinid"].to_numpy().tolist() == [place]


@pytest.mark.parametrize("shuffle", [False, "scatter", True])
def test_changes_of_values_are_seen_in_every_order(adata: anndata.AnnData, shuffle: Any) -> None:
    dataset = ps.Dataset(adata, layer="X", shuffle=shuffle, batch_size=16, dtype="float64")
    before = sum(X.sum() for X, _ in dataset)
    adata.X.data *= 3
    after = sum(X.sum() for X, _ in dataset)
    np.testing.assert_allclose(after, 3 * before, rtol=1e-6)
    assert dataset.stats.kept_bytes == 0


def test_layers_that_cannot_be_read_do_not_block_others(adata: anndata.AnnData) -> None:
    adata.layers["big"] = adata.X.toarray().astype(">f8")
    adata.layers["objects"] = adata.X.toarray().astype(object)
    adata.layers["half"] = adata.X.toarray().astype("float16")
    falling = adata.X.copy()
    falling.indptr = falling.indptr[::-1].copy()
    adata.layers["falling"] = falling
    adata.layers["by genes"] = adata.X.tocsc()
    np.testing.assert_array_equal(whole(adata, layer="X"), adata.X.toarray())
    for layer, words in {
        "big": "'>f8'",
        "objects": "'|O'",
        "half": "'<f2'",
        "falling": "indptr must begin with 0",
        "by genes": r"convert it with adata.layers\['by genes'\].tocsr",
    }.items():
        with pytest.raises(ps.PenstockError, match=rf"{words}") as told:
            ps.Dataset(adata, layer=layer)
        assert f"adata.layers[{layer!r}]" in str(told.value)


def test_raw_by_genes_says_so(adata: anndata.AnnData) -> None:
    made = anndata.AnnData(adata.X.tocsc(), adata.obs.copy(), adata.var.copy())
    adata.raw = made
    with pytest.raises(ps.Unsupported, match=r"adata.raw.X is stored by genes"):
        ps.Dataset(adata, layer="raw")


def test_columns_of_other_objects_are_left_out(adata: anndata.AnnData) -> None:
    count = adata.n_obs
    adata.obs["lists"] = [[1, 2]] * count
    adata.obs["dicts"] = [{"a": 1}] * count
    adata.obs["sparse"] = pd.arrays.SparseArray(np.arange(count) % 3)
    adata.obs["not unicode"] = ["\ud800"] * count
    obs = ps.open(adata).obs.to_pandas()
    assert not {"lists", "dicts", "not unicode"} & set(obs.columns)
    assert obs["sparse"].tolist() == (np.arange(count) % 3).tolist()
    adata.obs["half"] = np.zeros(count, np.float16)
    opened = ps.open(adata)
    assert {"lists", "dicts", "not unicode", "half"} <= set(opened.obs.unread_columns)
    with pytest.raises(
        ps.Unsupported, match=r"adata.obs\['half'\] has values of type float16, .*astype"
    ):
        ps.Dataset(adata, layer="X", obs_columns=["half"])
    adata.var["dates"] = pd.date_range("2020-01-01", periods=adata.n_vars)
    assert "datetime64" in ps.open(adata).var().unread_columns["dates"]
    adata.obs_names = pd.Index(["\ud800", *adata.obs_names[1:]], dtype=object)
    with pytest.raises(ps.InvalidArgument, match="obs_names must be text"):
        ps.open(adata)


def test_a_bad_gene_id_in_memory_is_told_with_its_layer(adata: anndata.AnnData) -> None:
    other = adata.copy()
    other.layers["counts"] = other.X.copy()
    adata.layers["counts"] = adata.X.copy()
    other.layers["counts"].indices[-1] = 99
    joined = ps.Dataset({"one": adata, "two": other}, layer="counts", shuffle=False)
    with pytest.raises(ps.InvalidArgument, match=r"column ids must be .*, in .*/RNA/counts"):
        list(joined)


def test_x_that_is_not_in_memory_says_how_to_load_it(
    adata: anndata.AnnData, tmp_path: Path
) -> None:
    path = write_zarr(adata, tmp_path / "x.zarr", version=3)
    adata.X = anndata.io.sparse_dataset(zarr.open_group(str(path), mode="r")["X"])
    with pytest.raises(ps.Unsupported, match=r"adata.X must be .*adata = adata.to_memory\(\)"):
        ps.Dataset(adata, layer="X")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda store: shutil.rmtree(store / "dataset_1"), "has dataset_2, but no dataset_1"),
        (
            lambda store: shutil.copytree(store / "dataset_2", store / "dataset_02"),
            "has dataset_0?2, but not only one of that number",
        ),
        (lambda store: shutil.rmtree(store / "dataset_0"), "has dataset_1, but no dataset_0"),
    ],
)
def test_a_collection_that_was_copied_in_part(tmp_path: Path, change: Any, says: str) -> None:
    from collection_cases import collection_of

    path, _ = collection_of(tmp_path / "c.zarr", *({"n": [1, 2]} for _ in range(4)))
    assert ps.open(path).n_obs == 8
    (path / ".zmetadata").unlink()  # it lists what was there before
    change(path)
    with pytest.raises(ps.CorruptData, match=says):
        ps.open(path)


def test_a_layer_that_a_dataset_lacks(adata: anndata.AnnData, tmp_path: Path) -> None:
    first, second = adata.copy(), adata.copy()
    first.layers["mine"] = first.X.copy()
    for each in (first, second):
        del each.raw
    write_collection(tmp_path / "c.zarr", [first, second])
    ps.Dataset(tmp_path / "c.zarr", layer="X")
    with pytest.raises(
        ps.NotFound, match=r"no layer 'mine' .*dataset_1, but in .*dataset_0; every dataset"
    ):
        ps.Dataset(tmp_path / "c.zarr", layer="mine")


def test_raw_of_several_sources(adata: anndata.AnnData, tmp_path: Path) -> None:
    wanted = np.concatenate([adata.raw.X.toarray()] * 2)
    path = write_zarr(adata, tmp_path / "a.zarr")
    for sources in ([adata, adata.copy()], {"a": adata, "b": path}, [path, adata]):
        np.testing.assert_array_equal(whole(sources, layer="raw"), wanted)
    with pytest.raises(ps.InvalidArgument, match="the layer of joined experiments is chosen"):
        ps.Dataset(ps.join([adata, adata.copy()], layer="X"), layer="raw")


def test_an_object_that_lost_cells_is_not_pickled(adata: anndata.AnnData) -> None:
    dataset = ps.Dataset(adata, layer="X")
    assert pickle.loads(pickle.dumps(dataset)).n_obs == 60
    adata._inplace_subset_obs(np.arange(30))
    with pytest.raises(ps.InvalidArgument, match="it had 60 x 12 when it was opened"):
        pickle.dumps(dataset)


@pytest.mark.parametrize("kind", ["zarr", "h5ad"])
@pytest.mark.parametrize("change", ["rewritten", "removed"])
def test_a_store_that_is_written_during_an_epoch(
    adata: anndata.AnnData, tmp_path: Path, kind: str, change: str
) -> None:
    big = random_anndata(np.random.default_rng(5), 4000, 12)
    path = tmp_path / f"x.{kind}"
    write = write_zarr if kind == "zarr" else write_h5ad
    write(big, path)
    dataset = ps.Dataset(path, layer="X", batch_size=16, memory_budget="2MiB", keep=False)

    def epoch() -> None:
        for number, _ in enumerate(dataset):
            if number == 0:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                if change == "rewritten":
                    big.X.data += 1
                    write(big, path)

    with pytest.raises(ps.PenstockError, match=r"since it was opened|x\.h5ad"):
        for _ in range(2):  # the first units were read before
            epoch()


def test_datasets_of_a_collection_have_the_same_genes(tmp_path: Path) -> None:
    with tarfile.open(DATA / "anndata-annbatch-0.3.1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (store,) = tmp_path.glob("*.zarr")
    ps.Dataset(store)
    group = zarr.open_group(str(store / "dataset_1"), mode="a")
    reversed_ = anndata.io.read_elem(group["var"]).iloc[::-1][[]]
    reversed_.index = np.array(reversed_.index, dtype=object)
    with anndata.settings.override(zarr_write_format=3):
        anndata.io.write_elem(group, "var", reversed_)
    with pytest.raises(ps.InvalidArgument, match=r"genes of a dataset .*penstock.join.*dataset_1"):
        ps.Dataset(store)


@pytest.mark.parametrize("link", ["soft", "chain", "external"])
def test_links_are_followed_or_named(adata: anndata.AnnData, tmp_path: Path, link: str) -> None:
    path = tmp_path / "x.h5ad"
    adata.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file.move("X", "elsewhere")
        file["other"] = h5py.SoftLink("/elsewhere")
        file["X"] = {
            "soft": h5py.SoftLink("/elsewhere"),
            "chain": h5py.SoftLink("other"),
            "external": h5py.ExternalLink("y.h5ad", "/X"),
        }[link]
    if link == "external":
        with pytest.raises(ps.Unsupported, match="link 'X' leads to another file"):
            ps.Dataset(path)
    else:
        np.testing.assert_array_equal(whole(path, layer="X"), adata.X.toarray())


def test_groups_within_themselves_end(adata: anndata.AnnData, tmp_path: Path) -> None:
    path = tmp_path / "x.h5ad"
    adata.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["obs/a"] = file["obs"]
        file["obs"].attrs["column-order"] = np.array(["a/" * 20_000 + "x"], h5py.string_dtype())
    with pytest.raises(ps.PenstockError):
        ps.open(path).obs.to_pandas()
    assert sp.issparse(adata.X)
