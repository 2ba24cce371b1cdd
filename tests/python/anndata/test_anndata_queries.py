"""Rows by filters, masks and names, layers, patterns of paths, and the errors that a user meets."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import random_anndata, write_zarr
from penstock.experiment import anndata_source


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    made = random_anndata(np.random.default_rng(11), 120, 25, raw=True)
    made.X.sum_duplicates()
    return made


@pytest.fixture(scope="module", params=["memory", "zarr"])
def source(
    request: pytest.FixtureRequest,
    adata: anndata.AnnData,
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    if request.param == "memory":
        return adata
    return write_zarr(adata, tmp_path_factory.mktemp("queries") / "cells.zarr", version=3)


def rows_of(dataset: ps.Dataset) -> list[int]:
    return [int(row) for _, obs in dataset for row in obs["soma_joinid"]]


@pytest.mark.parametrize("form", [np.array, list, pd.Series])
def test_a_mask_selects_its_rows(source: Any, adata: anndata.AnnData, form: Any) -> None:
    mask = (adata.obs["n_genes"] > 4000).to_numpy()
    dataset = ps.Dataset(source, obs_query=form(mask), shuffle=False)
    assert rows_of(dataset) == np.flatnonzero(mask).tolist()


def test_names_select_their_rows_and_genes(source: Any, adata: anndata.AnnData) -> None:
    cells, genes = ["cell-7", "cell-3"], ["g5", "g20"]
    dataset = ps.Dataset(source, obs_query=cells, var_query=genes, shuffle=False)
    ((X, obs),) = list(dataset)
    assert obs["soma_joinid"].tolist() == [3, 7]
    assert dataset.var_names.tolist() == genes
    np.testing.assert_array_equal(X, adata[["cell-3", "cell-7"], genes].X.toarray())


def test_a_series_must_be_of_these_rows(source: Any, adata: anndata.AnnData) -> None:
    mask = adata.obs["n_genes"] > 4000
    assert ps.Dataset(source, obs_query=mask).n_obs == mask.sum()
    assert ps.Dataset(source, obs_query=mask[::-1]).obs_names.tolist() == mask[mask].index.tolist()
    with pytest.raises(ps.InvalidArgument, match="the index of obs_query names other rows"):
        ps.Dataset(source, obs_query=mask.rename(index=str.upper))


def test_objects_are_joined_by_place(adata: anndata.AnnData) -> None:
    joined = ps.join([adata, adata.copy()], layer="raw")
    assert list(joined.experiments) == ["anndata-0", "anndata-1"]
    assert (joined.measurement, joined.layer) == ("raw", "X")
    assert ps.Dataset(joined).shape == (240, 27)


def test_without_x_a_layer_must_be_named(tmp_path: Path, adata: anndata.AnnData) -> None:
    made = anndata.AnnData(None, adata.obs.copy(), adata.var.copy())
    made.layers["a"] = made.layers["b"] = adata.layers["counts"]
    for source in (made, write_zarr(made, tmp_path / "layers.zarr")):
        with pytest.raises(ps.NotFound, match="there is no X; choose from a, b with layer="):
            ps.Dataset(source)
        assert ps.Dataset(source, layer="b").n_obs == 120


def test_of_a_backed_object_the_file_is_read(tmp_path: Path, adata: anndata.AnnData) -> None:
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    settings = {"shuffle": "global", "seed": 3, "batch_size": 16, "layer": "X"}
    for (X, obs), (wanted, rows) in zip(
        ps.Dataset(backed, **settings), ps.Dataset(adata, **settings), strict=True
    ):
        np.testing.assert_array_equal(X, wanted)
        assert obs["soma_joinid"].tolist() == rows["soma_joinid"].tolist()
    with pytest.raises(ps.Unsupported, match=r"a view of a backed AnnData .*to_memory\(\)"):
        ps.Dataset(backed[:50])
    assert ps.Dataset(backed[:50].to_memory()).n_obs == 50


def test_names_that_repeat_are_refused(adata: anndata.AnnData) -> None:
    same = adata.copy()
    same.obs_names = ["cell"] * 60 + [f"other-{i}" for i in range(60)]
    with pytest.raises(ps.InvalidArgument, match="obs_names has 'cell' more than once"):
        ps.Dataset(same, obs_query=["cell"])
    assert ps.Dataset(same, obs_query=["other-3"]).n_obs == 1
    mask = pd.array([True] * 60 + [False] * 60, dtype="boolean")
    assert ps.Dataset(same, obs_query=mask).n_obs == 60


def test_wrong_masks_and_names_are_errors(source: Any) -> None:
    for query, message in (
        (np.ones(119, bool), "a bool for each of the 120 rows, got 119"),
        (["cell-1", "cell-1"], "obs_query has the name 'cell-1' twice"),
        (np.zeros((2, 2)), "must be a filter, names, joinids, a bool for each row, or a selection"),
    ):
        with pytest.raises(ps.InvalidArgument, match=message):
            ps.Dataset(source, obs_query=query)
    with pytest.raises(ps.NotFound, match="obs_names has no 'cell-500', 'nobody', in"):
        ps.Dataset(source, obs_query=["cell-1", "nobody", "cell-500"])


def test_layer_raw_is_the_measurement_raw(source: Any, adata: anndata.AnnData) -> None:
    dataset = ps.Dataset(source, layer="raw", shuffle=False)
    assert dataset.var_names.tolist() == adata.raw.var_names.tolist()
    X = np.vstack([X for X, _ in dataset])
    np.testing.assert_array_equal(X, adata.raw.X.toarray())


def test_a_layer_that_is_not_there_lists_the_others(source: Any) -> None:
    with pytest.raises(
        ps.NotFound,
        match=r"there is no layer 'logcounts'; did you mean 'counts'\? Choose from X, counts",
    ):
        ps.Dataset(source, layer="logcounts")
    with pytest.raises(ps.NotFound, match="there is no measurement 'ATAC'; choose from RNA, raw"):
        ps.Dataset(source, measurement="ATAC")


def test_fractions_warn_once_and_name_the_counts(tmp_path: Path, adata: anndata.AnnData) -> None:
    normalized = adata.copy()
    normalized.X.data = np.log1p(normalized.X.data)
    path = write_zarr(normalized, tmp_path / "normalized.zarr")
    for source in (normalized, path):
        with pytest.warns(
            UserWarning, match=r"X has fractions, .*layer='counts' and layer='raw'"
        ) as told:
            ps.Dataset(source)
        assert len(told) == 1
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ps.Dataset(source, layer="X")
            ps.Dataset(source, layer="counts")
    normalized.layers["by genes"] = sp.csc_matrix(adata.X)
    by_genes = write_zarr(normalized, tmp_path / "by-genes.zarr")
    with pytest.warns(UserWarning, match="X has fractions"):
        ps.Dataset(by_genes)
    del normalized.layers["counts"], normalized.layers["by genes"], normalized.raw
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.Dataset(normalized)


def test_fractions_of_joined_stores_warn_once(tmp_path: Path, adata: anndata.AnnData) -> None:
    normalized = adata.copy()
    normalized.X.data = np.log1p(normalized.X.data)
    paths = [write_zarr(normalized, tmp_path / f"{name}.zarr") for name in "ab"]
    whole = adata.copy()
    whole.X.data = np.round(whole.X.data)
    counts = write_zarr(whole, tmp_path / "counts.zarr")
    joins: list[Any] = [paths, {"a": counts, "b": normalized}, str(tmp_path / "?.zarr")]
    for sources in joins:
        with pytest.warns(UserWarning, match="X has fractions") as told:
            ps.Dataset(sources)
        assert len(told) == 1
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.Dataset(paths, layer="X")
        ps.Dataset([counts, whole])


def test_of_many_joined_stores_some_are_looked_at_for_fractions(
    monkeypatch: pytest.MonkeyPatch, adata: anndata.AnnData
) -> None:
    looked: list[str] = []
    whole = anndata_source._counts_instead

    def counted(*part: Any) -> list[str]:
        looked.append(part[0].uri)
        return whole(*part)

    monkeypatch.setattr(anndata_source, "_counts_instead", counted)
    ps.join([adata[i : i + 2].copy() for i in range(0, 60, 2)])
    assert len(looked) == anndata_source.MOST_EXAMINED


def test_open_takes_an_anndata_as_a_dataset_does(adata: anndata.AnnData) -> None:
    opened = ps.open(adata)
    assert opened.n_obs == adata.n_obs
    assert opened.obs.to_pandas()["obs_names"].tolist() == adata.obs_names.tolist()
    ((X, _),) = list(ps.Dataset(opened, shuffle=False, batch_size=adata.n_obs))
    np.testing.assert_array_equal(X, adata.X.toarray())
    with pytest.raises(ps.InvalidArgument, match="no earlier states"):
        ps.open(adata, timestamp=1)
    with pytest.raises(ps.InvalidArgument, match="is opened already"):
        ps.open(adata, storage_options={"region": "us-east-1"})


def test_statistics_take_what_a_dataset_takes(tmp_path: Path, adata: anndata.AnnData) -> None:
    logged = anndata.AnnData(adata.X.log1p(), adata.obs, adata.var)
    path = write_zarr(logged, tmp_path / "cells.zarr")
    for call in (
        lambda source: ps.highly_variable_genes(source, 3, flavor="seurat"),
        ps.gene_statistics,
        ps.cell_statistics,
    ):
        wanted = call(ps.Dataset(path))
        for source in (path, logged, ps.open(path)):
            pd.testing.assert_frame_equal(call(source), wanted)


def test_a_pattern_joins_what_it_matches(tmp_path: Path, adata: anndata.AnnData) -> None:
    parts = [adata[:50].copy(), adata[50:].copy()]
    for number, part in enumerate(parts):
        write_zarr(part, tmp_path / f"part-{number}.zarr", version=2 + number)
    dataset = ps.Dataset(tmp_path / "part-*.zarr", shuffle=False, batch_size=200)
    assert dataset.n_obs == 120
    X = np.vstack([X for X, _ in dataset])
    np.testing.assert_array_equal(X, adata.X.toarray())
    mixed = ps.Dataset(
        {"a": parts[0], "b": tmp_path / "part-1.zarr"}, shuffle=False, batch_size=200
    )
    np.testing.assert_array_equal(np.vstack([X for X, _ in mixed]), adata.X.toarray())
    with pytest.raises(ps.NotFound, match="nothing matches"):
        ps.Dataset(tmp_path / "*.h5ad")


def test_a_pickle_reads_the_same(source: Any) -> None:
    dataset = ps.Dataset(source, obs_query="n_genes > 3000", seed=3, batch_size=16)
    copy = pickle.loads(pickle.dumps(dataset))
    for (a, obs_a), (b, obs_b) in zip(dataset, copy, strict=True):
        np.testing.assert_array_equal(a, b)
        assert obs_a["soma_joinid"].tolist() == obs_b["soma_joinid"].tolist()


def test_to_anndata_has_the_names(source: Any, adata: anndata.AnnData) -> None:
    made = ps.Dataset(source, obs_query="n_genes > 3000").to_anndata()
    wanted = adata[(adata.obs["n_genes"] > 3000).to_numpy()]
    assert made.obs_names.tolist() == wanted.obs_names.tolist()
    assert made.var_names.tolist() == wanted.var_names.tolist()
    assert (made.X != wanted.X).nnz == 0
    # No column that the AnnData does not have: not its index, not the numbers of rows.
    assert made.obs.columns.tolist() == wanted.obs.columns.tolist()
    assert made.var.columns.tolist() == wanted.var.columns.tolist()


def test_names_in_another_order_are_told(source: Any, adata: anndata.AnnData) -> None:
    genes = list(adata.var_names[::-1])
    with pytest.warns(UserWarning, match="in the order of the file") as told:
        dataset = ps.Dataset(source, var_query=genes)
    assert told[0].filename == __file__
    assert dataset.var_names.tolist() == genes[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.Dataset(source, var_query=genes[::-1])
        ps.Dataset(source, var_query=np.arange(3)[::-1])
        assert ps.Dataset(source)[:, genes].var_names.tolist() == genes


def test_matrices_by_genes_are_refused_with_the_way_out(
    tmp_path: Path, adata: anndata.AnnData
) -> None:
    by_genes = anndata.AnnData(sp.csc_matrix(adata.X), adata.obs, adata.var)
    with pytest.raises(ps.Unsupported, match=r"X is stored by genes \(CSC\).*tocsr"):
        ps.Dataset(by_genes)
    by_genes.layers["counts"] = sp.csr_matrix(adata.X)
    (X, _), *_ = list(ps.Dataset(by_genes, layer="counts", shuffle=False, batch_size=200))
    np.testing.assert_array_equal(X, adata.X.toarray())
    path = write_zarr(by_genes, tmp_path / "csc.zarr")
    with pytest.raises(ps.Unsupported, match=r"stored by genes \(CSC\).*`penstock pack SOURCE"):
        ps.Dataset(path)


def test_what_is_no_anndata_is_said(tmp_path: Path, adata: anndata.AnnData) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(tmp_path / "other.zarr"), mode="w").create_array(
        "x", shape=(3,), dtype="int32"
    )
    with pytest.raises(ps.InvalidArgument, match=r"neither an AnnData .*other\.zarr"):
        ps.open(tmp_path / "other.zarr")
    without_x = anndata.AnnData(None, adata.obs.copy(), adata.var.copy())
    with pytest.raises(ps.NotFound, match=r"no X|has no layer"):
        ps.Dataset(without_x)
    wide = write_zarr(adata, tmp_path / "shapes.zarr", version=3)
    group = zarr.open_group(str(wide), mode="a")
    group["X"].attrs["shape"] = [120, 26]
    zarr.consolidate_metadata(str(wide))
    with pytest.raises(ps.CorruptData, match=r"120 cells x 25 genes.*120 x 26, in .*shapes.zarr/X"):
        ps.Dataset(wide)
