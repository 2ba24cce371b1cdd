"""Effects of transforms on batches, against scanpy, scikit-learn and the published tokenizer."""

from __future__ import annotations

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scanpy as sc
import scipy.sparse as sp
import tiledbsoma.io
from conftest import Oracle, collect, write_small_tiles
from sklearn.preprocessing import binarize
from transform_cases import all_cells, annotated, close, gene_tokens, names_of, tokenize

LAYOUTS = [(False, "float32"), (True, "float32"), (False, "float64"), (True, "float64")]


# --- as scanpy


@pytest.mark.parametrize(("sparse", "dtype"), LAYOUTS)
@pytest.mark.parametrize("name", ["pbmc3k", "census_like"])
def test_normalize_and_log_as_scanpy(request, name: str, sparse: bool, dtype: str) -> None:
    oracle = request.getfixturevalue(name)
    scanpy = annotated(oracle, dtype)
    sc.pp.normalize_total(scanpy, target_sum=1e4)
    got = all_cells(oracle, [ps.NormalizeTotal(1e4)], sparse=sparse, dtype=dtype)
    np.testing.assert_array_equal(got, scanpy.X.toarray())
    sc.pp.log1p(scanpy)
    steps = [ps.NormalizeTotal(1e4), ps.Log1p()]
    close(all_cells(oracle, steps, sparse=sparse, dtype=dtype), scanpy.X.toarray(), dtype)


@pytest.mark.parametrize(("sparse", "dtype"), LAYOUTS)
def test_base_of_the_logarithm(soma_small: Oracle, sparse: bool, dtype: str) -> None:
    scanpy = annotated(soma_small, dtype)
    sc.pp.log1p(scanpy, base=2)
    steps = [ps.Log1p(base=2)]
    close(all_cells(soma_small, steps, sparse=sparse, dtype=dtype), scanpy.X.toarray(), dtype)
    back = all_cells(soma_small, [*steps, ps.Expm1(base=2)], sparse=sparse, dtype=dtype)
    np.testing.assert_allclose(back, soma_small.X.toarray(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("name", ["pbmc3k", "census_like"])
def test_scale_as_scanpy(request, name: str, centre: bool) -> None:
    oracle = request.getfixturevalue(name)
    scanpy = annotated(oracle)
    sc.pp.log1p(scanpy)
    logged = scanpy.X.toarray()
    sc.pp.scale(scanpy, zero_center=centre, max_value=3)
    expected = scanpy.X if centre else scanpy.X.toarray()
    std = logged.std(axis=0, ddof=1)
    std[std == 0] = 1  # as scanpy has genes without counts
    scale = ps.Scale(std, mean=logged.mean(axis=0) if centre else None)
    steps = [ps.Log1p(), scale, ps.Clip(-3 if centre else None, 3)]
    got = all_cells(oracle, steps, dtype="float64")
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    if not centre:
        sparse = all_cells(oracle, steps, dtype="float64", sparse=True)
        np.testing.assert_array_equal(sparse, got)
    # By name, and in the batch's own type.
    series = pd.Series(std, index=names_of(oracle)).sample(frac=1, random_state=0)
    by_name = all_cells(oracle, [ps.Log1p(), ps.Scale(series), ps.Clip(high=3)])
    if not centre:
        np.testing.assert_allclose(by_name, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["soma_small", "pbmc3k", "census_like"])
def test_binarize_as_sklearn(request, name: str) -> None:
    oracle = request.getfixturevalue(name)
    for threshold in (0, 1.5, 3):
        expected = binarize(oracle.X, threshold=threshold)
        ds = ps.Dataset(
            oracle.path,
            shuffle=False,
            sparse=True,
            batch_size=oracle.X.shape[0],
            transforms=[ps.Binarize(threshold)],
        )
        X, _ = next(iter(ds))
        assert X.nnz == expected.nnz
        np.testing.assert_array_equal(X.toarray(), expected.toarray())
        assert X.has_canonical_format
        got = all_cells(oracle, [ps.Binarize(threshold)])
        np.testing.assert_array_equal(got, expected.toarray())


@pytest.mark.parametrize("name", ["soma_small", "pbmc3k", "census_like"])
def test_clip_as_numpy(request, name: str) -> None:
    oracle = request.getfixturevalue(name)
    for low, high in ((None, 2), (0, 1.5), (-1, 0)):
        expected = np.clip(oracle.X.toarray(), low, high)
        for sparse in (False, True):
            got = all_cells(oracle, [ps.Clip(low, high)], sparse=sparse)
            np.testing.assert_array_equal(got, expected)


# --- genes


@pytest.mark.parametrize("sparse", [False, True, "coo"])
def test_genes_in_the_order_given(pbmc3k: Oracle, sparse) -> None:
    chosen = np.random.default_rng(0).permutation(pbmc3k.X.shape[1])[:700]
    names = names_of(pbmc3k)[chosen].tolist()
    for genes in (names, chosen, chosen.tolist()):
        ds = ps.Dataset(
            pbmc3k.path,
            shuffle=False,
            sparse=sparse,
            batch_size=1000,
            dtype="uint16",
            transforms=[ps.SelectGenes(genes)],
        )
        assert ds.shape == (pbmc3k.X.shape[0], 700)
        assert ds.var_names.tolist() == names
        X, obs = next(iter(ds))
        expected = pbmc3k.X[obs["soma_joinid"]][:, chosen].toarray()
        np.testing.assert_array_equal(X.toarray() if sparse else X, expected)
        if sparse is True:
            assert X.has_sorted_indices
            assert (np.diff(X.indptr) == (expected != 0).sum(axis=1)).all()
    assert ds.var.read(["soma_joinid"])["soma_joinid"].to_numpy().tolist() == chosen.tolist()
    frame = ds.var.to_pandas(value_filter=f"soma_joinid in {chosen[:9].tolist()}")
    assert frame["soma_joinid"].tolist() == chosen[:9].tolist()
    assert frame["var_id"].tolist() == names[:9]
    pd.testing.assert_frame_equal(
        ds.var.to_pandas().rename_axis(None), pbmc3k.var.set_index("soma_joinid").loc[chosen].reset_index(),
        check_dtype=False, check_categorical=False, check_like=True,
    )  # fmt: skip


def test_totals_are_of_the_genes_at_their_step(pbmc3k: Oracle) -> None:
    chosen = [5000, 3, 77, 9999, 200]
    whole = annotated(pbmc3k)
    sc.pp.normalize_total(whole, target_sum=100)
    got = all_cells(pbmc3k, [ps.NormalizeTotal(100), ps.SelectGenes(chosen)], dtype="float64")
    np.testing.assert_array_equal(got, whole.X[:, chosen].toarray())
    part = annotated(pbmc3k)[:, chosen].copy()
    sc.pp.normalize_total(part, target_sum=100)
    got = all_cells(pbmc3k, [ps.SelectGenes(chosen), ps.NormalizeTotal(100)], dtype="float64")
    np.testing.assert_array_equal(got, part.X.toarray())


def test_totals_of_an_obs_column(census_like: Oracle) -> None:
    totals = census_like.obs["raw_sum"].to_numpy()
    np.testing.assert_array_equal(totals, np.asarray(census_like.X.sum(axis=1)).ravel())
    steps = [ps.SelectGenes([7, 3, 900]), ps.NormalizeTotal(1e4, totals="raw_sum")]
    whole = annotated(census_like)
    sc.pp.normalize_total(whole, target_sum=1e4)
    expected = whole.X[:, [7, 3, 900]].toarray()
    np.testing.assert_array_equal(all_cells(census_like, steps, dtype="float64"), expected)
    # The totals follow the cells: a split, a shuffle, a part of an epoch.
    for part in ps.Dataset(census_like.path, transforms=steps, dtype="float64").random_split(
        0.3, 0.7
    ):
        joinids, X = collect(part)
        np.testing.assert_array_equal(X, expected[joinids])


def test_missing_genes(pbmc3k: Oracle) -> None:
    names = names_of(pbmc3k)
    wanted = ["not there", names[500], names[3], "neither"]
    for step in (ps.SelectGenes(wanted, missing="zero"),):
        for sparse in (False, True):
            for before in ([], [ps.Log1p()]):
                got = all_cells(pbmc3k, [*before, step], sparse=sparse)
                expected = pbmc3k.X[:, [500, 3]].toarray()
                expected = np.log1p(expected) if before else expected
                np.testing.assert_allclose(got[:, [1, 2]], expected, rtol=1e-6)
                assert not got[:, [0, 3]].any()
    ds = ps.Dataset(pbmc3k.path, transforms=[step])
    assert ds.var_names.tolist() == wanted
    assert len(ds.var) == 2
    with pytest.raises(ps.NotFound, match=r"2 of 4 genes not found.*'not there'.*missing="):
        ps.Dataset(pbmc3k.path, transforms=[ps.SelectGenes(wanted)])


def test_only_the_chosen_genes_are_read_when_they_come_first(census_like: Oracle) -> None:
    first = ps.Dataset(census_like.path, transforms=[ps.SelectGenes([1, 5])]).plan()
    after = ps.Dataset(census_like.path, transforms=[ps.Log1p(), ps.SelectGenes([1, 5])]).plan()
    query = ps.Dataset(census_like.path, var_query=ps.AxisQuery(coords=([1, 5],))).plan()
    assert first.planned_bytes == query.planned_bytes < after.planned_bytes


# --- tokens


@pytest.mark.parametrize("name", ["pbmc3k", "census_like"])
@pytest.mark.parametrize("most", [64, 2048])
def test_tokens_as_the_published_rule(request, name: str, most: int) -> None:
    oracle = request.getfixturevalue(name)
    medians, tokens, named_medians, named_tokens = gene_tokens(oracle)
    expected = tokenize(oracle.X, medians, tokens, most)
    step = ps.RankTokens(named_medians, named_tokens, max_tokens=most)
    ds = ps.Dataset(oracle.path, transforms=[step], obs_columns=["soma_joinid"])
    seen = 0
    for X, obs in ds:
        assert isinstance(X, ps.Tokens)
        assert X.ids.shape == (len(obs["soma_joinid"]), most)
        assert X.ids.dtype == np.int64
        assert X.lengths.dtype == np.int32
        for ids, length, cell in zip(X.ids, X.lengths, obs["soma_joinid"], strict=True):
            assert ids[:length].tolist() == expected[cell].tolist()
            assert not ids[length:].any()
            seen += 1
    assert seen == oracle.X.shape[0]


def test_ends_padding_and_type_of_tokens(pbmc3k: Oracle) -> None:
    medians, tokens, named_medians, named_tokens = gene_tokens(pbmc3k)
    expected = tokenize(pbmc3k.X, medians, tokens, 98)
    step = ps.RankTokens(
        pd.Series(named_medians), named_tokens, max_tokens=100, cls_token=2, eos_token=3,
        pad_token=1, dtype="int32",
    )  # fmt: skip
    ds = ps.Dataset(pbmc3k.path, transforms=[step], format="torch", shuffle=False, batch_size=500)
    for loader in (ds, ps.dataloader(ds), ps.dataloader(ds, num_workers=1)):
        X, obs = next(iter(loader))
        ids, lengths = X.ids.numpy(), X.lengths.numpy()
        assert ids.dtype == np.int32
        for row, length, cell in zip(ids, lengths, np.asarray(obs["soma_joinid"]), strict=True):
            assert row[:length].tolist() == [2, *expected[cell], 3]
            assert (row[length:] == 1).all()


# --- bad input


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (5, "transforms must be a list of steps"),
        ("log1p", "transforms must be a list of steps"),
        ([ps.Log1p], r"not Log1p\(\)"),
        ([3], "a step such as ps.Log1p"),
        ([ps.NormalizeTotal(0)], "target_sum must be more than 0"),
        ([ps.NormalizeTotal(float("nan"))], "target_sum must be a number"),
        ([ps.NormalizeTotal("all")], "target_sum must be a number"),
        ([ps.NormalizeTotal(totals="nope")], "obs has no column 'nope'"),
        ([ps.NormalizeTotal(totals="donor_id")], "an obs column of numbers"),
        ([ps.Log1p(1)], "base must be more than 1"),
        ([ps.Clip(1, 3)], "a range without 0"),
        ([ps.Clip(3, 1)], "low <= high"),
        ([ps.Binarize(-1)], "threshold must be 0 or more"),
        ([ps.Scale([1, 2])], r"shape \(2,\) for 400 genes"),
        ([ps.Scale({"a": 1})], "std has no number for 400 of 400 genes"),
        ([ps.Scale(np.full(400, np.nan))], "std must be finite"),
        ([ps.Scale("x")], "std must be numbers"),
        ([ps.Scale(np.ones(400), np.ones(400)), ps.NormalizeTotal()], "centring"),
        ([ps.Scale(np.ones(400), np.ones(400)), ps.SelectGenes([1])], "before a Scale with mean"),
        (
            [ps.Scale(np.ones(400), np.ones(400)), ps.Scale(np.ones(400)), ps.NormalizeTotal()],
            "centring",
        ),
        ([ps.SelectGenes("abc")], "a list of names or joinids"),
        ([ps.SelectGenes([1, 1])], "joinid 1 twice"),
        ([ps.SelectGenes([1, 4000])], "1 of 2 genes not found, the first is 4000"),
        ([ps.SelectGenes([True, False])], "a bool for each of the .* columns of X, got 2"),
        ([ps.SelectGenes(["a"], column="nope")], "has no column 'nope'"),
        ([ps.SelectGenes([1], missing="drop")], "missing must be one of"),
        ([ps.RankTokens([1.0], {})], "medians and tokens as mappings"),
        ([ps.RankTokens({"a": 1.0}, {"a": 1})], "no gene has a median and a token"),
        ([ps.RankTokens({}, {}, max_tokens=1, cls_token=1)], "max_tokens must be 2 or more"),
    ],
)
def test_bad_steps_are_refused(soma_small: Oracle, steps, says: str) -> None:
    with pytest.raises(ps.PenstockError, match=says):
        ps.Dataset(soma_small.path, transforms=steps)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_totals_that_are_none(tmp_path, bad: float) -> None:
    totals = pd.DataFrame({"total": np.arange(40.0)}, index=[f"cell{i}" for i in range(40)])
    totals.iloc[7] = bad
    path = write_small_tiles(tmp_path / "experiment", 40, 20, obs=totals)
    ds = ps.Dataset(path, transforms=[ps.NormalizeTotal(totals="total")])
    with pytest.raises(ps.InvalidArgument, match=f"0 or more, got {bad}, of cell 7 in .*'total'"):
        next(iter(ds))
    others = ps.Dataset(path, obs_query="soma_joinid != 7", transforms=ds.transforms)
    assert sum(len(X) for X, _ in others) == 39


def test_a_name_of_several_genes(tmp_path) -> None:
    names = pd.DataFrame({"symbol": ["A", "B", "A", "C"]}, index=["g0", "g1", "g2", "g3"])
    data = anndata.AnnData(sp.csr_matrix(np.ones((3, 4), np.float32)), var=names)
    tiledbsoma.io.from_anndata(str(tmp_path / "experiment"), data, "RNA", X_layer_name="raw")

    def dataset(*genes: str) -> ps.Dataset:
        step = ps.SelectGenes(list(genes), column="symbol")
        return ps.Dataset(tmp_path / "experiment", transforms=[step])

    with pytest.raises(ps.InvalidArgument, match="several genes have the name 'A'; choose"):
        dataset("C", "A")
    assert dataset("C", "B").var_names.tolist() == ["g3", "g1"]


def test_layouts_that_cannot_hold_the_result(soma_small: Oracle) -> None:
    names = names_of(soma_small)
    tokens = ps.RankTokens(dict.fromkeys(names, 1.0), dict.fromkeys(names, 1))
    centring = ps.Scale(np.ones(400), np.ones(400))
    with pytest.raises(ps.InvalidArgument, match="sparse must be False"):
        ps.Dataset(soma_small.path, transforms=[tokens], sparse=True)
    with pytest.raises(ps.InvalidArgument, match="sparse must be False"):
        ps.Dataset(soma_small.path, transforms=[centring], sparse="coo")
    with pytest.raises(ps.InvalidArgument, match="need dtype='float32'"):
        ps.Dataset(soma_small.path, transforms=[ps.Log1p()], dtype="int32")
    ds = ps.Dataset(soma_small.path, transforms=[ps.Log1p()])
    with pytest.raises(ps.InvalidArgument, match="need dtype='float32'"):
        ds.with_settings(dtype="uint8")
    with pytest.raises(ps.InvalidArgument, match="must be the last"):
        ps.Dataset(soma_small.path, transforms=[tokens, ps.Log1p()])


def test_names_of_a_chosen_column(census_like: Oracle) -> None:
    for column in ("feature_id", "feature_name"):
        ds = ps.Dataset(census_like.path, var_names=column)
        assert ds.var_names.tolist() == census_like.var[column].tolist()
        names = census_like.var[column].tolist()[:20:-1]
        chosen = ds.with_settings(transforms=[ps.SelectGenes(names)])
        assert chosen.var_names.tolist() == names
    with pytest.raises(ps.NotFound, match="'nope'"):
        ps.Dataset(census_like.path, var_names="nope")
