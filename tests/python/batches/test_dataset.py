"""Batches of a Dataset, against tiledbsoma and scipy."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import Oracle, collect, joinids_of


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_cell_once_with_its_values(census_like: Oracle, sparse: bool, shuffle: bool) -> None:
    ds = ps.Dataset(census_like.path, sparse=sparse, shuffle=shuffle)
    joinids, X = collect(ds)
    assert sorted(joinids) == census_like.obs["soma_joinid"].tolist()
    assert (np.diff(joinids) > 0).all() != shuffle
    np.testing.assert_array_equal(X, census_like.X[joinids].toarray())


def test_stored_order_without_shuffle(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, shuffle=False)
    assert joinids_of(ds) == census_like.obs["soma_joinid"].tolist()


def test_shuffled_batches_are_mixed(census_like: Oracle) -> None:
    joinids = np.array(joinids_of(ps.Dataset(census_like.path)))
    assert (joinids[:-1] + 1 == joinids[1:]).mean() < 0.01
    assert np.ptp(joinids[:128]) > census_like.X.shape[0] // 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint16", "int64"])
@pytest.mark.parametrize("sparse", [False, True])
def test_dtypes(soma_small: Oracle, dtype: str, sparse: bool) -> None:
    ds = ps.Dataset(soma_small.path, dtype=dtype, sparse=sparse, batch_size=50)
    X, obs = next(iter(ds))
    assert X.dtype == np.dtype(dtype)
    dense = X.toarray() if sparse else X
    np.testing.assert_array_equal(dense, soma_small.X[obs["soma_joinid"]].toarray())


def test_csr_is_what_scipy_makes(pbmc3k: Oracle) -> None:
    X, obs = next(iter(ps.Dataset(pbmc3k.path, sparse=True)))
    expected = pbmc3k.X[obs["soma_joinid"]]
    assert isinstance(X, sp.csr_matrix)
    assert X.indptr.dtype == X.indices.dtype == np.int32
    X.check_format(full_check=True)
    assert X.has_sorted_indices
    assert X.shape == expected.shape
    assert (expected != X).nnz == 0
    np.testing.assert_array_equal((X @ X.T).toarray(), (expected @ expected.T).toarray())
    assert (X[3:7].toarray() == expected[3:7].toarray()).all()
    assert sp.vstack([X, X]).shape == (2 * X.shape[0], X.shape[1])


def test_obs_comes_with_its_cell(soma_small: Oracle) -> None:
    columns = soma_small.obs.columns.tolist()
    for _, obs in ps.Dataset(soma_small.path, obs_columns=columns, batch_size=37):
        expected = soma_small.obs.set_index("soma_joinid").loc[obs["soma_joinid"]]
        assert list(obs) == columns
        for name in columns:
            if name == "soma_joinid":
                continue
            want = expected[name].to_numpy()
            if not isinstance(want, np.ndarray) or want.dtype == object:
                assert obs[name].dtype == object
                assert obs[name].tolist() == list(want)
            else:
                assert obs[name].dtype == want.dtype, name
                np.testing.assert_array_equal(obs[name], want)


def test_obs_as_pandas(soma_small: Oracle) -> None:
    ds = ps.Dataset(
        soma_small.path, obs_columns=list(soma_small.obs.columns), obs_format="pandas", shuffle=False,
        batch_size=1000,
    )  # fmt: skip
    _, obs = next(iter(ds))
    assert isinstance(obs, pd.DataFrame)
    pd.testing.assert_frame_equal(
        obs.astype({c: object for c in obs if obs[c].dtype == "category"}),
        soma_small.obs.astype({c: object for c in obs if obs[c].dtype == "category"}),
        check_dtype=False,
    )
    for name in obs:
        assert (obs[name].dtype == "category") == (soma_small.obs[name].dtype == "category"), name


def test_to_pandas_equals_tiledbsoma(census_like: Oracle) -> None:
    exp = ps.open(census_like.path)
    pd.testing.assert_frame_equal(
        exp.obs.to_pandas(), census_like.obs, check_dtype=False, check_categorical=False
    )
    pd.testing.assert_frame_equal(
        exp.var("RNA").to_pandas(), census_like.var, check_dtype=False, check_categorical=False
    )
    some = exp.obs.to_pandas(["cell_type", "soma_joinid"], "sex == 'female'")
    want = census_like.obs[census_like.obs["sex"] == "female"]
    assert some.columns.tolist() == ["cell_type", "soma_joinid"]
    assert some["soma_joinid"].tolist() == want["soma_joinid"].tolist()
    assert some["cell_type"].tolist() == want["cell_type"].tolist()


def test_order_is_the_same_for_any_threads_and_another_each_epoch(census_like: Oracle) -> None:
    one = ps.Dataset(census_like.path, threads=1, seed=7)
    eight = ps.Dataset(census_like.path, threads=8, seed=7)
    first = joinids_of(one)
    assert joinids_of(eight) == first
    second = joinids_of(one)
    assert second != first
    assert sorted(second) == sorted(first)
    assert joinids_of(eight) == second
    assert joinids_of(ps.Dataset(census_like.path, seed=8)) != first
    one.set_epoch(0)
    assert one.epoch == 0
    assert joinids_of(one) == first
    assert one.epoch == 1


def test_an_epoch_begins_when_an_iterator_is_made(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=10)
    next(iter(ds))
    assert ds.epoch == 1
    later = joinids_of(ds)
    again = ps.Dataset(soma_small.path, batch_size=10)
    again.set_epoch(1)
    assert joinids_of(again) == later


def test_two_iterators_at_once(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=20)
    left, right = iter(ds), iter(ds)
    seen: tuple[list[int], list[int]] = ([], [])
    for (_, a), (_, b) in zip(left, right, strict=True):
        seen[0].extend(a["soma_joinid"])
        seen[1].extend(b["soma_joinid"])
    assert sorted(seen[0]) == sorted(seen[1]) == soma_small.obs["soma_joinid"].tolist()
    assert seen[0] != seen[1]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_tensors_of_64_bit_integers(census_like: Oracle, dtype: str, sparse: bool) -> None:
    torch = pytest.importorskip("torch")
    settings = {"shuffle": False, "batch_size": 20, "dtype": dtype, "sparse": sparse}
    want = census_like.X[:20].toarray()
    for batches in (
        ps.Dataset(census_like.path, format="torch", **settings),
        ps.dataloader(ps.Dataset(census_like.path, **settings)),
    ):
        X, _ = next(iter(batches))
        assert X.dtype == getattr(torch, dtype)
        assert X.layout == (torch.sparse_csr if sparse else torch.strided)
        if sparse:  # torch makes no dense uint64 of it
            parts = (X.values().numpy(), X.col_indices().numpy(), X.crow_indices().numpy())
            np.testing.assert_array_equal(sp.csr_matrix(parts, shape=X.shape).toarray(), want)
        else:
            np.testing.assert_array_equal(X.numpy(), want)


def test_arrays_outlive_the_loader(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, sparse=True, batch_size=500)
    kept = [(X, obs["soma_joinid"]) for X, obs in ds]
    del ds
    for X, joinids in kept:
        assert (census_like.X[joinids] != X).nnz == 0


def test_batches_are_writable_and_do_not_alias(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=500)
    for X, obs in ds:
        want = census_like.X[obs["soma_joinid"]].toarray()
        np.testing.assert_array_equal(X, want)
        X[:] = -1


def test_small_budget_gives_the_same_cells(census_like: Oracle) -> None:
    small = ps.Dataset(census_like.path, sparse=True, memory_budget="48MiB")
    joinids, X = collect(small)
    assert sorted(joinids) == census_like.obs["soma_joinid"].tolist()
    np.testing.assert_array_equal(X, census_like.X[joinids].toarray())
    assert small.stats.peak_buffered_bytes <= 48 << 20


def test_impossible_budget_says_what_works(census_like: Oracle) -> None:
    settings = {"sparse": True, "threads": 1}
    with pytest.raises(ps.ResourceExhausted) as error:
        list(ps.Dataset(census_like.path, memory_budget=10_000, **settings))
    least = int(re.search(r"needed at least ([0-9]+)", str(error.value))[1])
    with pytest.raises(ps.ResourceExhausted, match=f"needed at least {least}"):
        ps.Dataset(census_like.path, memory_budget=least - 1, **settings).plan()
    ds = ps.Dataset(census_like.path, memory_budget=least, **settings)
    seen = [joinid for _, obs in ds for joinid in obs["soma_joinid"].tolist()]  # keeps no batch
    assert sorted(seen) == census_like.obs["soma_joinid"].tolist()
    assert ds.stats.peak_buffered_bytes <= least


def test_stats(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, sparse=True)
    assert ds.stats == ps.LoaderStats()
    for number, _ in enumerate(ds, 1):
        assert ds.stats.batches == number
    stats = ds.stats
    assert stats.cells == ds.n_obs
    assert stats.batches == len(ds)
    assert stats.nonzeros == census_like.X.nnz
    assert stats.units > 0
    assert stats.bytes_needed > 0
    assert 1 <= stats.read_amplification < 1.5
    assert stats.peak_buffered_bytes > 0
    iterator = iter(ds)
    next(iterator)
    iterator.close()
    assert ds.stats.cells == 128
    assert list(iterator) == []


def test_pickles(soma_small: Oracle) -> None:
    exp = pickle.loads(pickle.dumps(ps.open(soma_small.path)))
    assert exp.n_obs == 300
    ds = ps.Dataset(
        exp, obs_query="soma_joinid < 200", encoders=[ps.LabelEncoder("cell_type")], seed=3
    )
    next(iter(ds))
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.epoch == ds.epoch == 1
    assert joinids_of(copy) == joinids_of(ds)
    for (_, a), (_, b) in zip(copy, ds, strict=True):
        assert a["cell_type"].tolist() == b["cell_type"].tolist()
    iterator = iter(ds)
    next(iterator)
    assert joinids_of(pickle.loads(pickle.dumps(ds)))
    with pytest.raises(TypeError, match=r"an iterator cannot be pickled.*pickle the Dataset"):
        pickle.dumps(iterator)


def test_reprs(soma_small: Oracle) -> None:
    exp = ps.open(soma_small.path)
    ds = ps.Dataset(exp, encoders=[ps.LabelEncoder("cell_type")])
    assert "300 × 400" in repr(exp.x("RNA", "raw"))
    assert repr(exp.obs.schema[0]).startswith("Column 'soma_joinid': int64, index, ")
    assert repr(exp.obs.select("soma_joinid < 7")) == "RowSelection of 7 joinids: 0 to 6"
    assert repr(exp.obs.select("soma_joinid == 7")) == "RowSelection of 1 joinid: 7"
    assert repr(exp.obs.select("soma_joinid < 0")) == "RowSelection of no joinid"
    for thing in (exp, exp.obs, exp.var("RNA"), ds):
        assert "400" in repr(thing) or "300" in repr(thing)
        assert thing._repr_html_().count("<table") == thing._repr_html_().count("</table>") > 0
    assert "300 cells × 400 genes" in repr(ds)


def test_threads_share_an_iterator(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=50, sparse=True)
    for _ in range(3):
        batches = iter(ds)
        with ThreadPoolExecutor(4) as pool:

            def take(_: int, batches=batches) -> list[int]:
                return [joinid for _, obs in batches for joinid in obs["soma_joinid"].tolist()]

            taken = [joinid for each in pool.map(take, range(4)) for joinid in each]
        assert sorted(taken) == list(range(6_000))
