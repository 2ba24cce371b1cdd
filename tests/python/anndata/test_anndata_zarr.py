"""AnnData in zarr and in memory: what a Dataset reads is what anndata and scipy read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import (
    VALUE_TYPES,
    csr_of,
    expect_same,
    random_anndata,
    write_h5ad,
    write_zarr,
)
from hypothesis import given
from hypothesis import strategies as st
from penstock.experiment.open_source import open_source

SOURCES = ("memory", "zarr 2", "zarr 3", "h5ad", "h5ad gzip", "h5ad lzf")


def source_of(adata: anndata.AnnData, kind: str, folder: Path, chunk: int | None) -> Any:
    if kind == "memory":
        return adata
    name = str(np.random.default_rng().integers(2**62))
    if kind.startswith("h5ad"):
        return str(write_h5ad(adata, folder / f"{name}.h5ad", kind[5:] or None))
    path = folder / f"{name}.zarr"
    return str(write_zarr(adata, path, version=int(kind[-1]), chunk=chunk))


@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(SOURCES),
    cells=st.integers(0, 60),
    genes=st.integers(1, 40),
    value_type=st.sampled_from(VALUE_TYPES),
    dense=st.booleans(),
    raw=st.booleans(),
    chunk=st.one_of(st.none(), st.integers(1, 300)),
)
def test_values_and_tables_are_those_of_anndata(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    kind: str,
    cells: int,
    genes: int,
    value_type: str,
    dense: bool,
    raw: bool,
    chunk: int | None,
) -> None:
    random = np.random.default_rng(seed)
    adata = random_anndata(random, cells, genes, value_type=value_type, dense=dense, raw=raw)
    source = source_of(adata, kind, tmp_path_factory.mktemp("zarr"), chunk)
    plain: dict[str, Any] = {"shuffle": False, "batch_size": 7, "sparse": True, "dtype": value_type}
    if cells:
        expect_same(csr_of(ps.Dataset(source, layer="X", **plain)), adata.X)
        counts = ps.Dataset(source, layer="counts", **{**plain, "dtype": "int32"})
        expect_same(csr_of(counts), adata.layers["counts"])
        if raw:
            expect_same(
                csr_of(
                    ps.Dataset(
                        source, measurement="raw", layer="X", **{**plain, "dtype": "float32"}
                    )
                ),
                adata.raw.X,
            )
    experiment = open_source(source, None)
    obs = experiment.obs.to_pandas()
    assert obs.pop("soma_joinid").tolist() == list(range(cells))
    assert obs.pop("obs_names").tolist() == adata.obs_names.tolist()
    assert list(obs.columns) == list(adata.obs.columns)
    for name in obs.columns:
        wanted = adata.obs[name]
        missing = wanted.isna().to_numpy()
        assert obs[name].isna().to_numpy().tolist() == missing.tolist(), name
        assert obs[name][~missing].tolist() == wanted[~missing].tolist(), name
        if isinstance(wanted.dtype, pd.CategoricalDtype):
            assert obs[name].cat.categories.tolist() == wanted.cat.categories.tolist()
            assert obs[name].cat.ordered == wanted.cat.ordered
    var = experiment.var().to_pandas()
    assert var["var_names"].tolist() == adata.var_names.tolist()


FILTERS = {
    "n_genes > 4000": lambda obs: obs["n_genes"] > 4000,
    "category == 'T cell'": lambda obs: obs["category"] == "T cell",
    "category in ['B cell', 'naïve ☃'] and not doublet == True": lambda obs: (
        obs["category"].isin(["B cell", "naïve ☃"]) & ~obs["doublet"]
    ),
    "text == ''": lambda obs: obs["text"] == "",
    "obs_names in ['cell-3', 'cell-7']": lambda obs: obs.index.isin(["cell-3", "cell-7"]),
    "nullable < 50": lambda obs: (obs["nullable"] < 50).fillna(False),
    "score32 > 0.5 or small == -5": lambda obs: (obs["score32"] > 0.5) | (obs["small"] == -5),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_filters_select_the_rows_of_pandas(kind: str, tmp_path: Path) -> None:
    adata = random_anndata(np.random.default_rng(3), 300, 20)
    source = source_of(adata, kind, tmp_path, 100)
    for text, rows_of in FILTERS.items():
        wanted = np.flatnonzero(np.asarray(rows_of(adata.obs), bool))
        dataset = ps.Dataset(source, layer="X", obs_query=text, shuffle=False, batch_size=16)
        assert 0 < len(wanted) < 300
        got = np.concatenate([np.asarray(obs["soma_joinid"]) for _, obs in dataset])
        assert got.tolist() == wanted.tolist(), text


@pytest.mark.parametrize("stored", ["memory", "h5ad", "zarr", "pack"])
def test_nullable_columns_are_written_again(tmp_path: Path, stored: str) -> None:
    obs = pd.DataFrame(
        {
            "flag": pd.array([True, None, False, True], "boolean"),
            "count": pd.array([1, None, 3, 2**60 + 1], "Int64"),
            "small": pd.array([None, 2, 3, 200], "UInt8"),
            "all": pd.array([1, 2, 3, 4], "Int32"),
        },
        index=list("abcd"),
    )
    adata = anndata.AnnData(sp.csr_matrix(np.eye(4, dtype="float32")), obs)
    source: Any = adata
    if stored == "h5ad":
        adata.write_h5ad(source := tmp_path / "x.h5ad")
    elif stored != "memory":
        adata.write_zarr(source := tmp_path / "x.zarr")
    if stored == "pack":
        source = ps.pack(source, tmp_path / "pack").uri
    made = ps.Dataset(source, layer="X").to_anndata()
    for name in ("flag", "count", "small"):
        pd.testing.assert_series_equal(made.obs[name], obs[name], check_index=False)
    assert made.obs["all"].tolist() == [1, 2, 3, 4]
    made.write_h5ad(tmp_path / "again.h5ad")
    again = anndata.read_h5ad(tmp_path / "again.h5ad").obs
    pd.testing.assert_frame_equal(
        again[["flag", "count", "small"]], made.obs[["flag", "count", "small"]]
    )


@given(seed=st.integers(0, 2**32), wide=st.booleans())
def test_views_are_read_as_anndata_shows_them(seed: int, wide: bool) -> None:
    random = np.random.default_rng(seed)
    adata = random_anndata(random, 50, 30, dense=wide, raw=True)
    rows = random.permutation(50)[: random.integers(1, 50)]
    genes = random.permutation(30)[: random.integers(1, 30)]
    view = adata[rows, genes]
    assert view.is_view
    got = csr_of(ps.Dataset(view, layer="X", shuffle=False, sparse=True, batch_size=8))
    wanted = adata.X[rows][:, genes]
    np.testing.assert_array_equal(got.toarray(), wanted if wide else wanted.toarray())
    raw = csr_of(ps.Dataset(view, measurement="raw", layer="X", shuffle=False, sparse=True))
    np.testing.assert_array_equal(raw.toarray(), adata.raw.X[rows].toarray())
    obs = open_source(view, None).obs.to_pandas()
    assert obs["obs_names"].tolist() == view.obs_names.tolist()


def test_a_global_shuffle_is_the_same_from_every_store(tmp_path: Path) -> None:
    adata = random_anndata(np.random.default_rng(8), 400, 30)
    adata.X.sum_duplicates()
    batches = {}
    for kind in SOURCES:
        source = source_of(adata, kind, tmp_path, 150)
        dataset = ps.Dataset(source, layer="X", shuffle="global", seed=5, batch_size=32)
        batches[kind] = [(X, obs["soma_joinid"].tolist()) for X, obs in dataset]
    first = batches["memory"]
    assert [row for _, rows in first for row in rows] != list(range(400))
    for kind in SOURCES[1:]:
        for (a, rows_a), (b, rows_b) in zip(first, batches[kind], strict=True):
            assert rows_a == rows_b
            np.testing.assert_array_equal(a, b)


def test_nothing_in_memory_is_copied() -> None:
    adata = random_anndata(np.random.default_rng(1), 20, 10)
    adata.X.sum_duplicates()
    dataset = ps.Dataset(adata, layer="X", shuffle=False, sparse=True, batch_size=20, keep=False)
    adata.X.data[:] = 7
    (X, _) = next(iter(dataset))
    assert set(X.data.tolist()) == {7.0}
