"""Streamed statistics and highly variable genes, against numpy and scanpy in memory."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scanpy as sc
import scipy.sparse as sp
from conftest import Oracle
from hypothesis import example, given
from hypothesis import strategies as st
from penstock.genes.dispersion import _all_batches
from scanpy_before import adding_up_as_before


def of_axis(X: np.ndarray, axis: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "mean": X.mean(axis=axis),
            "variance": X.var(axis=axis, ddof=1),
            "nonzeros": (X != 0).sum(axis=axis),
            "total": X.sum(axis=axis),
        }
    )


def same(got: pd.DataFrame, expected: pd.DataFrame, exact: bool = True) -> None:
    assert list(got.columns) == list(expected.columns)
    tolerance = 1e-12 if exact else 1e-6
    for name in expected:
        want = expected[name].to_numpy()
        np.testing.assert_allclose(got[name].to_numpy(), want, rtol=tolerance, atol=1e-13)
    for name in ("nonzeros", "total") if exact else ("nonzeros",):
        np.testing.assert_array_equal(got[name].to_numpy(), expected[name].to_numpy())


# --- of genes and of cells


@pytest.mark.parametrize("name", ["pbmc3k", "soma_small", "census_like"])
def test_of_all_cells_as_numpy(request, name: str) -> None:
    oracle = request.getfixturevalue(name)
    X = oracle.X.toarray().astype(np.float64)
    ds = ps.Dataset(oracle.path)
    genes = ps.gene_statistics(ds)
    assert genes.index.tolist() == ds.var_names.tolist()
    same(genes, of_axis(X, 0))
    cells = ps.cell_statistics(ds)
    assert cells.index.equals(ds.obs.to_pandas().index)
    assert cells.pop("soma_joinid").tolist() == oracle.obs["soma_joinid"].tolist()
    same(cells, of_axis(X, 1))
    quality, by_gene = sc.pp.calculate_qc_metrics(
        anndata.AnnData(sp.csr_matrix(oracle.X.astype(np.float64))), percent_top=None, log1p=False
    )
    np.testing.assert_array_equal(cells["nonzeros"], quality["n_genes_by_counts"])
    np.testing.assert_array_equal(cells["total"], quality["total_counts"])
    np.testing.assert_array_equal(genes["nonzeros"], by_gene["n_cells_by_counts"])


def test_of_a_selection(census_like: Oracle) -> None:
    ds = ps.Dataset(
        census_like.path,
        obs_query="soma_joinid > 100 and raw_sum > 1500",
        var_query=ps.AxisQuery(coords=(slice(5, 700),)),
        shuffle=True,
        batch_size=3,
        drop_last=True,
        rank=1,  # they are of the cells of all ranks
        world_size=2,
    )
    rows = ds.obs.read(["soma_joinid"])["soma_joinid"].to_numpy()
    X = census_like.X[rows][:, 5:701].toarray().astype(np.float64)
    assert 100 < len(rows) < 5899
    same(ps.gene_statistics(ds), of_axis(X, 0))
    cells = ps.cell_statistics(ds)
    assert cells.index.equals(ds.obs.to_pandas().index)
    assert cells.pop("soma_joinid").tolist() == rows.tolist()
    same(cells, of_axis(X, 1))


def test_of_groups(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path)
    got = ps.gene_statistics(ds, group_by="dataset_id")
    X = census_like.X.toarray().astype(np.float64)
    names = census_like.obs["dataset_id"].astype(str)
    assert got.index.get_level_values(0).unique().tolist() == sorted(names.unique())
    for name in names.unique():
        same(got.loc[name], of_axis(X[names == name], 0))


def test_groups_leave_out_cells_without_a_value(tmp_path: Path) -> None:
    import tiledbsoma.io

    X = sp.random(40, 6, 0.5, "csr", np.float32, random_state=0)
    group = pd.array([0, None, 2, 1] * 10, dtype="Int64")
    obs = pd.DataFrame(
        {"number": group.astype("Float64"), "text": pd.Categorical(["b", None, "a", "b"] * 10)},
        index=[f"cell{i}" for i in range(40)],
    )
    obs["number"] = obs["number"].astype(float)
    tiledbsoma.io.from_anndata(
        str(tmp_path / "x"), anndata.AnnData(X, obs), "RNA", X_layer_name="raw"
    )
    ds = ps.Dataset(tmp_path / "x")
    dense = X.toarray().astype(np.float64)
    for column in ("number", "text"):
        got = ps.gene_statistics(ds, group_by=column)
        values = sorted(obs[column].dropna().unique().tolist())
        assert got.index.get_level_values(0).unique().tolist() == values
        for value in values:
            same(got.loc[value], of_axis(dense[(obs[column] == value).to_numpy()], 0), exact=False)
    with pytest.raises(ps.InvalidArgument, match="has no value for 10 cells"):
        ps.highly_variable_genes(ds, 3, flavor="seurat", batch_key="text")


def test_after_transforms_as_scanpy(pbmc3k: Oracle) -> None:
    scanpy = anndata.AnnData(sp.csr_matrix(pbmc3k.X.astype(np.float64)))
    sc.pp.normalize_total(scanpy, target_sum=1e4)
    sc.pp.log1p(scanpy)
    steps = [ps.NormalizeTotal(1e4), ps.Log1p()]
    expected = of_axis(scanpy.X.toarray(), 0)
    ds = ps.Dataset(pbmc3k.path, transforms=steps, dtype="float64")
    same(ps.gene_statistics(ds).round(15), expected.round(15), exact=False)
    single = ps.gene_statistics(ds.with_settings(dtype="float32"))
    np.testing.assert_allclose(single["variance"], expected["variance"], rtol=1e-5, atol=1e-8)
    chosen = [5, 3, 900]
    few = ps.gene_statistics(ds.with_settings(transforms=[*steps, ps.SelectGenes(chosen)]))
    np.testing.assert_array_equal(few["mean"], ps.gene_statistics(ds)["mean"].iloc[chosen])


def test_the_same_for_any_threads_and_budget(census_like: Oracle) -> None:
    steps = [ps.NormalizeTotal(), ps.Log1p()]
    first = None
    for threads, budget in ((1, "2GiB"), (2, "40MiB"), (8, "100MiB")):
        ds = ps.Dataset(census_like.path, transforms=steps, threads=threads, memory_budget=budget)
        both = ps.gene_statistics(ds, group_by="dataset_id"), ps.cell_statistics(ds)
        first = first or both
        for got, expected in zip(both, first, strict=True):
            pd.testing.assert_frame_equal(got, expected, check_exact=True)


@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 9),
    kind=st.sampled_from(["counts", "fractions", "both", "large", "shifted"]),
    seed=st.integers(0, 2**32 - 1),
)
@example(rows=35, columns=2, kind="shifted", seed=161)
def test_random_matrices(tmp_path_factory, rows: int, columns: int, kind: str, seed: int) -> None:
    import tiledbsoma.io

    random = np.random.default_rng(seed)
    values = {
        "counts": lambda n: random.integers(1, 400, n),
        "fractions": lambda n: random.normal(size=n),
        "both": lambda n: np.where(random.random(n) < 0.5, 3, random.normal(size=n)),
        "large": lambda n: random.integers(1, 2**53, n),
        "shifted": lambda n: 1e9 + random.random(n),
    }[kind]
    X = sp.random(rows, columns, 0.6, "csr", np.float64, random_state=seed, data_rvs=values)
    path = tmp_path_factory.mktemp("matrix") / "x"
    tiledbsoma.io.from_anndata(str(path), anndata.AnnData(X), "RNA", X_layer_name="raw")
    ds = ps.Dataset(path)
    dense = X.toarray()
    exact = np.array([[float(x) for x in row] for row in dense], np.longdouble)
    for got, axis in ((ps.gene_statistics(ds), 0), (ps.cell_statistics(ds), 1)):
        np.testing.assert_array_equal(got["nonzeros"], (dense != 0).sum(axis=axis))
        np.testing.assert_allclose(
            got["mean"].to_numpy(), exact.mean(axis=axis).astype(float), rtol=1e-12, atol=1e-13
        )
        if dense.shape[axis] == 1:
            assert got["variance"].isna().all()
            continue
        want = exact.var(axis=axis, ddof=1)
        # What any single pass may lose (Chan, Golub and LeVeque 1983): n times the rounding error
        # times how much larger the values are than their spread.
        n = dense.shape[axis]
        size = np.sqrt((exact**2).mean(axis=axis))
        lost = (n + 2) * np.finfo(float).eps * size * np.sqrt(want)
        wrong = np.abs(got["variance"].to_numpy() - want)
        assert (wrong <= 1e-13 + 1e-10 * want + lost).all(), (wrong / lost).max()


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_no_cells(pbmc3k: Oracle) -> None:
    ds = ps.Dataset(pbmc3k.path, obs_query="soma_joinid < 0")
    genes = ps.gene_statistics(ds)
    assert not genes["nonzeros"].any()
    assert genes["mean"].isna().all()
    assert len(ps.cell_statistics(ds)) == 0


def test_what_statistics_refuse(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    names = ds.var_names
    for step in (
        ps.RankTokens(dict.fromkeys(names, 1.0), dict.fromkeys(names, 1)),
        ps.Scale(np.ones(400), np.ones(400)),
        lambda X: X,
    ):
        for statistics in (ps.gene_statistics, ps.cell_statistics, ps.highly_variable_genes):
            with pytest.raises(ps.InvalidArgument, match="with_settings"):
                statistics(ds.with_settings(transforms=[step]))
    with pytest.raises(ps.NotFound, match="'nope'"):
        ps.gene_statistics(ds, group_by="nope")
    for call in (
        lambda: ps.gene_statistics(soma_small.X),
        lambda: ps.cell_statistics(None),
        lambda: ps.highly_variable_genes(5),
    ):
        with pytest.raises(ps.InvalidArgument, match="a Dataset is made from"):
            call()
    with pytest.raises(ps.ResourceExhausted, match="memory_budget"):
        ps.gene_statistics(ds.with_settings(memory_budget=10_000))


# --- highly variable genes


def compare(got: pd.DataFrame, expected: pd.DataFrame, tolerance: float) -> None:
    names = [name for name in expected if name != "gene_name"]
    assert set(got.columns) == {"soma_joinid", *names}
    assert got.index.tolist() == expected.index.tolist()
    for name in names:
        np.testing.assert_allclose(
            got[name].to_numpy(float), expected[name].to_numpy(float), tolerance, tolerance, name
        )
    np.testing.assert_array_equal(got["highly_variable"], expected["highly_variable"])


def scanpy_genes(oracle: Oracle, rows: np.ndarray, names: np.ndarray, **arguments) -> pd.DataFrame:
    # Squares of counts are not exact in single precision.
    dtype = np.float64 if arguments["flavor"].startswith("seurat_v3") else np.float32
    obs = oracle.obs.iloc[rows].reset_index(drop=True)
    data = anndata.AnnData(sp.csr_matrix(oracle.X[rows].astype(dtype)))
    data.var_names = names
    data.obs = obs.set_index(obs.index.astype(str))
    if arguments["batch_key"] is not None:
        batches = data.obs[arguments["batch_key"]].astype(str)
        data.obs[arguments["batch_key"]] = pd.Categorical(batches)
    if arguments["flavor"] in ("seurat", "cell_ranger"):
        sc.pp.normalize_total(data, target_sum=1e4)
        sc.pp.log1p(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = sc.pp.highly_variable_genes(data, inplace=False, **arguments)
        except (
            ValueError
        ) as error:  # of scanpy 1.12.4, for real cells in batches: loess ends on its sums
            if "reciprocal condition number" not in str(error) or arguments["batch_key"] is None:
                raise
            own = {}
        with adding_up_as_before():
            found = sc.pp.highly_variable_genes(data, inplace=False, **arguments)
    # Its loess fit cuts between means of genes that differ in their last bits: 0.3 % in a normalised variance.
    for name, tolerance in (("means", 1e-9), ("variances", 1e-9), ("variances_norm", 5e-3)):
        if name in own:
            np.testing.assert_allclose(found[name], own[name], tolerance, tolerance, name)
    return found


@pytest.mark.parametrize("n", [100, 2000])
@pytest.mark.parametrize("batch_key", [None, "cell_type"])
@pytest.mark.parametrize("flavor", ["seurat_v3", "seurat_v3_paper", "seurat", "cell_ranger"])
def test_genes_of_real_cells_as_scanpy(
    pbmc3k: Oracle, flavor: str, batch_key: str | None, n: int
) -> None:
    query = None
    if batch_key is not None:  # batches that are large enough for scanpy's own fits and bins
        query = "cell_type in ['CD4 T cells', 'CD14+ Monocytes', 'B cells']"
    steps = [ps.NormalizeTotal(), ps.Log1p()] if flavor in ("seurat", "cell_ranger") else []
    genes = None
    if flavor == "cell_ranger" and batch_key is not None:
        common = np.flatnonzero(np.asarray((pbmc3k.X != 0).sum(axis=0)).ravel() > 200)
        genes = ps.AxisQuery(coords=(common,))
    ds = ps.Dataset(pbmc3k.path, obs_query=query, var_query=genes, transforms=steps)
    rows = ds.obs.read(["soma_joinid"])["soma_joinid"].to_numpy()
    oracle = pbmc3k
    if genes is not None:
        oracle = pbmc3k._replace(X=pbmc3k.X[:, common])
    expected = scanpy_genes(
        oracle, rows, ds.var_names, flavor=flavor, batch_key=batch_key, n_top_genes=n
    )
    got = ps.highly_variable_genes(ds, n, flavor=flavor, batch_key=batch_key)
    if batch_key is None:
        expected = expected.drop(columns=["mean_bin"], errors="ignore")
    compare(got, expected, 1e-9 if flavor.startswith("seurat_v3") else 2e-4)
    assert got["highly_variable"].sum() == n or flavor != "seurat_v3"


@pytest.mark.parametrize("batch_key", [None, "dataset_id"])
@pytest.mark.parametrize("flavor", ["seurat_v3", "seurat"])
def test_genes_of_a_made_atlas_as_scanpy(
    census_like: Oracle, flavor: str, batch_key: str | None
) -> None:
    common = np.flatnonzero(np.asarray((census_like.X != 0).sum(axis=0)).ravel() > 60)
    sizes = census_like.obs["dataset_id"].value_counts()
    large = [str(name) for name in sizes.index[:3]]
    steps = [ps.NormalizeTotal(), ps.Log1p()] if flavor == "seurat" else []
    ds = ps.Dataset(
        census_like.path,
        obs_query=f"dataset_id in {large}",
        var_query=ps.AxisQuery(coords=(common,)),
        var_names="feature_id",
        transforms=steps,
    )
    rows = ds.obs.read(["soma_joinid"])["soma_joinid"].to_numpy()
    oracle = census_like._replace(X=census_like.X[:, common])
    expected = scanpy_genes(
        oracle, rows, ds.var_names, flavor=flavor, batch_key=batch_key, n_top_genes=300
    ).drop(columns=["mean_bin"], errors="ignore")
    got = ps.highly_variable_genes(ds, 300, flavor=flavor, batch_key=batch_key)
    compare(got, expected, 1e-9 if flavor == "seurat_v3" else 2e-4)
    chosen = ds.with_settings(
        transforms=[ps.SelectGenes(got["soma_joinid"][got["highly_variable"]])]
    )
    assert chosen.var_names.tolist() == got.index[got["highly_variable"]].tolist()


def test_several_columns_are_one_batch_key(census_like: Oracle) -> None:
    """Batches are the distinct values of both columns, whatever they are joined to."""
    common = np.flatnonzero(np.asarray((census_like.X != 0).sum(axis=0)).ravel() > 100)
    columns = ["sex", "is_primary_data"]
    joined = census_like.obs[columns].astype(str).agg("+".join, axis=1)
    large = joined.value_counts().index[:3]
    rows = np.flatnonzero(joined.isin(large))
    oracle = census_like._replace(
        X=census_like.X[:, common], obs=census_like.obs.assign(joined=joined)
    )
    ds = ps.Dataset(
        census_like.path,
        obs_query=ps.AxisQuery(coords=(rows,)),
        var_query=ps.AxisQuery(coords=(common,)),
    )
    expected = scanpy_genes(
        oracle, rows, ds.var_names, flavor="seurat_v3", batch_key="joined", n_top_genes=200
    )
    compare(ps.highly_variable_genes(ds, 200, batch_key=columns), expected, 1e-9)
    compare(ps.highly_variable_genes(ds, 200, batch_key=columns[::-1]), expected, 1e-9)
    with pytest.raises(ps.InvalidArgument, match="one column or more, got none"):
        ps.highly_variable_genes(ds, 200, batch_key=[])
    with pytest.raises(ps.NotFound, match="nope"):
        ps.highly_variable_genes(ds, 200, batch_key=["sex", "nope"])


def test_what_highly_variable_genes_refuse(pbmc3k: Oracle, monkeypatch) -> None:
    ds = ps.Dataset(pbmc3k.path)
    for arguments, says in (
        ({"n_top_genes": 0}, "n_top_genes must be 1 or more"),
        ({"flavor": "v4"}, "flavor must be one of 'seurat_v3'"),
        ({"batch_key": "nope"}, "'nope'"),
        ({"batch_key": "obs_id"}, "each batch needs 2 cells or more"),
        ({"span": 0}, "span must be more than 0"),
        ({"n_bins": 0, "flavor": "seurat"}, "n_bins must be 1 or more"),
        ({"flavor": "seurat"}, "logarithmised"),
        ({"batch_key": "cell_type"}, "the loess fit"),
    ):
        with pytest.raises(ps.PenstockError, match=says):
            ps.highly_variable_genes(ds, **arguments)
    with pytest.warns(UserWarning, match="expects counts"):
        ps.highly_variable_genes(ds.with_settings(transforms=[ps.Log1p()]))
    monkeypatch.setitem(sys.modules, "skmisc.loess", None)
    with pytest.raises(
        ps.MissingPackage, match=r"needs scikit-misc.*\[genes\].*; or use flavor='seurat'"
    ):
        ps.highly_variable_genes(ds)


def test_genes_alike_in_all_batches_go_by_their_names() -> None:
    """As in scanpy, which groups the batches' tables by name before it sorts them."""
    table = {
        "means": np.ones(4), "dispersions": np.ones(4), "dispersions_norm": np.array([2.0, 1, 1, 1]),
        "highly_variable": np.ones(4, bool),
    }  # fmt: skip
    columns = _all_batches([table, table], 3, np.array(["d", "c", "a", "b"], object))
    assert columns["highly_variable"].tolist() == [True, False, True, True]
