"""What a Dataset hands over, against tiledbsoma and scipy."""

from __future__ import annotations

import copy
import os
import pickle
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import Oracle, collect, write_small_tiles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def joinids_of(dataset) -> list[int]:
    return collect(dataset)[0].tolist()


# --- every cell once, with its own values


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
    some = exp.obs.to_pandas("sex == 'female'", columns=["cell_type", "soma_joinid"])
    want = census_like.obs[census_like.obs["sex"] == "female"]
    assert some.columns.tolist() == ["cell_type", "soma_joinid"]
    assert some["soma_joinid"].tolist() == want["soma_joinid"].tolist()
    assert some["cell_type"].tolist() == want["cell_type"].tolist()


# --- order


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


# --- selections


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_selections(soma_small: Oracle, data: st.DataObject) -> None:
    n_obs, n_vars = soma_small.X.shape
    joinids = data.draw(st.lists(st.integers(0, n_obs - 1), unique=True, max_size=60))
    genes = data.draw(st.lists(st.integers(0, n_vars - 1), unique=True, min_size=1, max_size=60))
    batch_size = data.draw(st.integers(1, 70))
    drop_last = data.draw(st.booleans())
    ds = ps.Dataset(
        soma_small.path,
        obs_query=ps.AxisQuery(coords=(joinids,)),
        var_query=ps.AxisQuery(coords=(np.array(genes),)),
        batch_size=batch_size,
        drop_last=drop_last,
        shuffle=data.draw(st.booleans()),
        sparse=data.draw(st.booleans()),
        seed=data.draw(st.integers(0, 2**64 - 1)),
        threads=data.draw(st.sampled_from([1, 3])),
    )
    assert ds.shape == (len(joinids), len(genes))
    sizes = [X.shape for X, _ in ds]
    assert len(sizes) == len(ds)
    assert all(shape == (batch_size, len(genes)) for shape in sizes[:-1])
    seen, X = collect(ds)
    if drop_last:
        assert len(seen) == len(joinids) // batch_size * batch_size
        assert set(seen) <= set(joinids)
        assert len(set(seen)) == len(seen)
    else:
        assert sorted(seen) == sorted(joinids)
    if len(seen):
        np.testing.assert_array_equal(X, soma_small.X[seen][:, sorted(genes)].toarray())


def test_filter_and_coords_together(census_like: Oracle) -> None:
    query = ps.AxisQuery("sex == 'male'", coords=(slice(100, 900),))
    ds = ps.Dataset(census_like.path, obs_query=query)
    obs = census_like.obs
    want = obs[(obs["sex"] == "male") & obs["soma_joinid"].between(100, 900)]["soma_joinid"]
    assert sorted(joinids_of(ds)) == want.tolist()
    assert ds.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist() == want.tolist()


def test_var_of_the_chosen_genes(census_like: Oracle) -> None:
    names = census_like.var["feature_id"].iloc[[5, 17, 400]].tolist()
    ds = ps.Dataset(census_like.path, var_query=f"feature_id in {names}")
    assert ds.var_names.tolist() == names
    assert ds.var.to_pandas()["soma_joinid"].tolist() == [5, 17, 400]
    X, obs = ds.head(10)
    np.testing.assert_array_equal(X, census_like.X[:10][:, [5, 17, 400]].toarray())
    assert obs["soma_joinid"].tolist() == list(range(10))


def test_empty_selection(soma_small: Oracle) -> None:
    for sparse in (False, True):
        ds = ps.Dataset(soma_small.path, obs_query=ps.AxisQuery(coords=([],)), sparse=sparse)
        assert (len(ds), ds.n_obs) == (0, 0)
        assert list(ds) == []
        assert list(ds) == []
        assert repr(ds)
        assert len(ds.obs.to_pandas()) == 0
    with pytest.raises(ps.InvalidArgument, match="no cell"):
        ds.head()


def test_tiledbsoma_sources(census_like: Oracle) -> None:
    import tiledbsoma

    with tiledbsoma.open(str(census_like.path)) as exp:
        whole = ps.Dataset(exp)
        query = tiledbsoma.AxisQuery(value_filter="sex == 'male'", coords=(slice(0, 2000),))
        ours = ps.Dataset(exp, obs_query=query)
        with exp.axis_query(
            "RNA", obs_query=query, var_query=tiledbsoma.AxisQuery(coords=([3, 1, 2],))
        ) as axis_query:
            theirs = ps.Dataset(axis_query)
            with pytest.raises(ps.InvalidArgument, match="already selects"):
                ps.Dataset(axis_query, obs_query="sex == 'male'")
            with pytest.raises(ps.InvalidArgument, match="'RNA'"):
                ps.Dataset(axis_query, measurement="protein")
    assert whole.shape == census_like.X.shape
    assert joinids_of(ours) == joinids_of(theirs)
    assert theirs.n_vars == 3
    assert 0 < ours.n_obs < 2000


def test_tiledbsoma_sources_are_read_at_their_time(tmp_path) -> None:
    import pyarrow as pa
    import tiledbsoma

    path = write_small_tiles(tmp_path / "experiment", n_obs=200, n_vars=64)
    with tiledbsoma.open(str(path)) as now:
        before = now.tiledb_timestamp_ms
        ds_now = ps.Dataset(now)
        with tiledbsoma.open(
            str(path / "ms" / "RNA" / "X" / "raw"), "w", tiledb_timestamp=before + 10_000
        ) as cells:
            one = pa.SparseCOOTensor.from_numpy(
                np.array([777.0], np.float32), np.array([[5, 7]]), shape=(200, 64)
            )
            cells.write(one)
        after = ps.Dataset(path, shuffle=False)
        assert ds_now.head(10)[0][5, 7] != 777
        assert ps.Dataset(now).head(10)[0][5, 7] != 777
        assert ps.Dataset(ps.open(path, timestamp=before)).head(10)[0][5, 7] != 777
        assert after.head(10)[0][5, 7] == 777


# --- encoders


def test_label_encoder(census_like: Oracle) -> None:
    encoder = ps.LabelEncoder("cell_type")
    ds = ps.Dataset(census_like.path, encoders=[encoder], obs_columns=["soma_joinid"])
    for _, obs in ds:
        assert obs["cell_type"].dtype == np.int64
        want = census_like.obs["cell_type"].iloc[obs["soma_joinid"]].tolist()
        assert encoder.inverse_transform(obs["cell_type"]).tolist() == want
    assert encoder.classes_.tolist() == sorted(census_like.obs["cell_type"].unique())


def test_an_encoder_serves_one_dataset(census_like: Oracle) -> None:
    encoder = ps.LabelEncoder("cell_type")
    first, second = (ps.Dataset(census_like.path, encoders=[encoder]) for _ in range(2))
    codes = first.head(50)[1]["cell_type"]
    with pytest.raises(ps.InvalidArgument, match="fitted on another Dataset"):
        second.head(50)
    assert (first.head(50)[1]["cell_type"] == codes).all()

    fixed = ps.LabelEncoder("cell_type", classes=encoder.classes_.tolist())
    for _ in range(2):
        again = ps.Dataset(census_like.path, encoders=[fixed]).head(50)
        assert (again[1]["cell_type"] == codes).all()


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


def test_encoders_are_shared_by_the_parts_of_a_split(census_like: Oracle) -> None:
    ds = ps.Dataset(
        census_like.path,
        encoders=[
            ps.LabelEncoder("cell_type"),
            ps.LabelEncoder(["sex", "assay"], name="both"),
            ps.LabelEncoder("tissue", classes=["lung"], name="lung", unseen=-1),
        ],
    )
    train, val = ds.random_split(0.999, 0.001)
    assert train.encoders["cell_type"] is val.encoders["cell_type"]
    for part in (train, val):
        for _, obs in part:
            rows = census_like.obs.iloc[obs["soma_joinid"]]
            both = part.encoders["both"].inverse_transform(obs["both"])
            assert both.tolist() == [
                f"{a}//{b}" for a, b in zip(rows["sex"], rows["assay"], strict=True)
            ]
            assert (obs["lung"] == np.where(rows["tissue"] == "lung", 0, -1)).all()


def test_label_encoder_of_missing_values() -> None:
    from penstock.column_values import ColumnValues

    for values, classes in (
        (np.array([True, None, False], object), [False, True]),
        (np.array([2.0, np.nan, 1.0]), [1.0, 2.0]),
        (np.array(["2020-01-02", "NaT", "2020-01-01"], "datetime64[D]"), None),
    ):
        column = ColumnValues("a", values, has_missing=True)
        encoder = ps.LabelEncoder("a")
        encoder.fit({"a": column.distinct()})
        if classes is not None:
            assert encoder.classes_.tolist() == classes
        assert encoder.transform({"a": values}).tolist() == [1, -1, 0]


class TwoColumns(ps.Encoder):
    """Row-wise, two outputs a cell."""

    def transform(self, obs):
        return np.stack([obs["n_measured_vars"] * 2, obs["soma_joinid"]], axis=1)


def test_encoder_of_ones_own(census_like: Oracle) -> None:
    encoder = TwoColumns(["n_measured_vars", "soma_joinid"], name="pair")
    ds = ps.Dataset(census_like.path, encoders=[encoder])
    for _, obs in ds:
        want = census_like.obs["n_measured_vars"].to_numpy()[obs["soma_joinid"]] * 2
        np.testing.assert_array_equal(obs["pair"], np.stack([want, obs["soma_joinid"]], axis=1))


# --- splits


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(weights=st.lists(st.integers(0, 20), min_size=2, max_size=6), seed=st.integers(0, 2**64 - 1))
def test_random_split_is_a_partition(soma_small: Oracle, weights: list[int], seed: int) -> None:
    if sum(weights) == 0:
        weights[0] = 1
    ds = ps.Dataset(soma_small.path)
    parts = ds.random_split(*[weight / sum(weights) for weight in weights], seed=seed)
    ids = [part.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist() for part in parts]
    assert sorted(sum(ids, [])) == soma_small.obs["soma_joinid"].tolist()
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part.n_obs - ds.n_obs * weight / sum(weights)) <= 1
    again = ds.random_split([weight / sum(weights) for weight in weights], seed=seed)
    assert [joinids_of(part) for part in again] == [joinids_of(part) for part in parts]


def test_random_split_by_sizes(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    a, b = ds.random_split(299, 1)
    assert (a.n_obs, b.n_obs) == (299, 1)
    other, _ = ds.random_split(299, 1, seed=1)
    assert joinids_of(a) != joinids_of(other)
    for parts in ((1.0,), (0.5, 0.6), (100, 100), (-1, 301), (0.5, "x"), (0.5, float("nan"))):
        with pytest.raises(ps.InvalidArgument):
            ds.random_split(*parts)


def test_random_split_is_the_same_everywhere(soma_small: Oracle) -> None:
    """Golden: a checkpoint's validation cells must stay validation cells."""
    _, val = ps.Dataset(soma_small.path).random_split(290, 10, seed=0)
    ids = val.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist()
    assert ids == GOLDEN_SPLIT


GOLDEN_SPLIT = [21, 29, 55, 97, 125, 195, 201, 243, 262, 280]


# --- ranks


@pytest.mark.parametrize("uneven", ["drop", "pad", "exact"])
@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_ranks_share_the_cells(soma_small: Oracle, uneven: str, world_size: int) -> None:
    n = 299
    parts = [
        ps.Dataset(
            soma_small.path,
            obs_query=ps.AxisQuery(coords=(slice(0, n - 1),)),
            batch_size=16,
            uneven=uneven,
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]
    batches = [list(part) for part in parts]
    assert {len(b) for b in batches} == {len(part) for part in parts} == {len(batches[0])}
    ids = [joinid for b in batches for _, obs in b for joinid in obs["soma_joinid"].tolist()]
    if uneven == "drop":
        assert len(ids) == len(set(ids)) == n // world_size * world_size
    elif uneven == "exact":
        assert sorted(ids) == list(range(n))
    else:
        assert set(ids) == set(range(n))
        assert len(ids) == -(-n // world_size) * world_size


@pytest.mark.parametrize(("cells", "world_size"), [(5, 2), (299, 8), (7, 7), (8, 7), (20, 3)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_exact_batches_of_one_cell_are_not_empty(
    soma_small: Oracle, cells: int, world_size: int, shuffle: bool
) -> None:
    ranks = [
        ps.Dataset(
            soma_small.path,
            obs_query=ps.AxisQuery(coords=(slice(0, cells - 1),)),
            batch_size=1,
            shuffle=shuffle,
            uneven="exact",
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]
    read: list[int] = []
    for ds in ranks:
        sizes = []
        for X, obs in ds:
            want = soma_small.X[obs["soma_joinid"]].toarray()
            np.testing.assert_array_equal(X, want)
            sizes.append(len(X))
            read += obs["soma_joinid"].tolist()
        assert len(sizes) == len(ds) == cells // world_size
        assert sorted(sizes) in ([1] * len(sizes), [1] * (len(sizes) - 1) + [2])
    assert sorted(read) == list(range(cells))


def test_fewer_cells_than_ranks_is_the_same_error_everywhere(soma_small: Oracle) -> None:
    few = ps.AxisQuery(coords=(slice(0, 2),))
    ds = ps.Dataset(soma_small.path, obs_query=few, uneven="exact", rank=3, world_size=4)
    for use in (iter, len, lambda each: each.plan()):
        with pytest.raises(
            ps.InvalidArgument, match=r"3 cells are too few for 4 ranks.*uneven=.pad"
        ):
            use(ds)
    assert "none: 3 cells are too few for 4 ranks" in repr(ds)
    assert "none: 3 cells are too few for 4 ranks" in ds._repr_html_()
    assert len(ds.with_settings(uneven="pad")) == 1


def test_min_batch_with_exact_says_what_to_do(soma_small: Oracle) -> None:
    query = ps.AxisQuery(coords=(slice(0, 6),))
    ds = ps.Dataset(soma_small.path, obs_query=query, uneven="exact", min_batch=2, batch_size=2)
    with pytest.raises(ps.InvalidArgument, match=r"7 rows .* at most 2: use min_batch=1, another"):
        next(iter(ds))
    assert [len(X) for X, _ in ds.with_settings(min_batch=1)] == [1, 2, 2, 2]
    assert [len(X) for X, _ in ds.with_settings(uneven="drop")] == [2, 2, 3]


def test_a_rank_without_a_world(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "0")
    ds = ps.Dataset(soma_small.path)
    for use in (iter, len):
        with pytest.raises(ps.InvalidArgument, match=r"RANK='0' without WORLD_SIZE.*shard=False"):
            use(ds)
    assert len(ps.Dataset(soma_small.path, shard=False)) == 3
    assert len(ps.Dataset(soma_small.path, rank=0, world_size=1)) == 3


def test_rank_from_the_environment(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        ds = ps.Dataset(soma_small.path)
        seen += joinids_of(ds)
        assert joinids_of(ps.Dataset(soma_small.path, shard=False)) != seen
        assert ps.Dataset(soma_small.path, shard=False).n_obs == 300
        assert len(joinids_of(ps.Dataset(soma_small.path, shard=False))) == 300
    assert sorted(seen) == list(range(300))
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(ps.InvalidArgument, match="RANK='2'"):
        next(iter(ds))


def test_slurm_needs_a_step_of_several_tasks(
    soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")  # a batch script without srun: one process
    assert len(joinids_of(ps.Dataset(soma_small.path))) == 300
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert len(joinids_of(ps.Dataset(soma_small.path))) == 75


# --- memory, lifetime, copies


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
        list(ps.Dataset(census_like.path, memory_budget=1000, **settings))
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


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ps.InvalidArgument, "batch_size must be 1 or more, got 0"),
        ({"batch_size": -5}, ps.InvalidArgument, "got -5"),
        ({"batch_size": 2.5}, ps.InvalidArgument, "integer, got 2.5"),
        ({"batch_size": True}, ps.InvalidArgument, "integer, got True"),
        ({"shuffle": "yes"}, ps.InvalidArgument, "True, False or 'chunks', got 'yes'"),
        ({"seed": -1}, ps.InvalidArgument, "seed must be 0 or more, got -1"),
        ({"seed": None}, ps.InvalidArgument, "seed must be an integer, got None"),
        (
            {"memory_budget": "lots"},
            ps.InvalidArgument,
            "memory_budget must be .*'2GiB', got 'lots'",
        ),
        ({"memory_budget": 0}, ps.InvalidArgument, "memory_budget must be 1 or more"),
        ({"threads": 0}, ps.InvalidArgument, "threads must be 1 or more"),
        ({"dtype": "complex64"}, ps.InvalidArgument, "float32, .*complex64"),
        ({"dtype": "no such"}, ps.InvalidArgument, "no such"),
        ({"format": "jax"}, ps.InvalidArgument, "'numpy', 'torch', got 'jax'"),
        ({"obs_format": "polars"}, ps.InvalidArgument, "got 'polars'"),
        ({"uneven": "maybe"}, ps.InvalidArgument, "'drop', 'pad', 'exact'"),
        ({"rank": 1}, ps.InvalidArgument, "come together"),
        ({"rank": 2, "world_size": 2}, ps.InvalidArgument, "rank must be 1 or less"),
        ({"measurement": "protein"}, ps.NotFound, "no measurement 'protein'; there are RNA, in "),
        ({"layer": "normalized"}, ps.NotFound, "no layer 'normalized'; there are raw, in "),
        ({"obs_columns": ["celltype"]}, ps.NotFound, "no column 'celltype'; it has .*cell_type"),
        ({"obs_columns": "cell_type"}, ps.InvalidArgument, "list of names"),
        ({"obs_columns": ["soma_joinid", "soma_joinid"]}, ps.InvalidArgument, "twice"),
        ({"obs_columns": ["cell_type"], "obs_format": "torch"}, ps.InvalidArgument, "LabelEncoder"),
        (
            {"encoders": ["cell_type"]},
            ps.InvalidArgument,
            "encoders must be penstock Encoders, got 'cell_type'",
        ),
        ({"encoders": [ps.LabelEncoder("nope")]}, ps.NotFound, "obs has no column 'nope'; it has "),
        (
            {"encoders": [ps.LabelEncoder("cell_type")], "obs_columns": ["cell_type"]},
            ps.InvalidArgument,
            "'cell_type' twice",
        ),
        (
            {"obs_query": "cell_type = 'B'"},
            ps.InvalidArgument,
            r"^obs_query: .* found '='.*, in \S*/obs\n  cell_type = 'B'\n {12}\^$",
        ),
        (
            {"obs_query": "cell_type == "},
            ps.InvalidArgument,
            "^obs_query: .* the end of the filter",
        ),
        ({"obs_query": "nope == 1"}, ps.NotFound, r"^obs_query: .*'nope'.*cell_type.*, in \S*/obs"),
        ({"obs_query": "a\0b"}, ps.InvalidArgument, "obs_query must hold no NUL"),
        ({"obs_query": "a\udc80b"}, ps.InvalidArgument, "obs_query must be valid Unicode"),
        ({"obs_query": 5}, ps.InvalidArgument, r"obs_query must be a filter .*, got 5 \(int\)"),
        ({"obs_query": ps.AxisQuery(5)}, ps.InvalidArgument, "obs_query must be a string, got 5"),
        ({"obs_query": ps.AxisQuery(coords=5)}, ps.InvalidArgument, "tuple .*, got 5 .*obs_query"),
        ({"obs_query": ps.AxisQuery(coords=(1.5,))}, ps.InvalidArgument, "integers or .* got 1.5"),
        (
            {"obs_query": ps.AxisQuery(coords=([[1], [2, 3]],))},
            ps.InvalidArgument,
            r"list of integers .* got \[\[1\], \[2, 3\]\]",
        ),
        (
            {"var_query": ps.AxisQuery(coords=(slice("a", "b"),))},
            ps.InvalidArgument,
            "integers as ends, got slice.*, in var_query",
        ),
        ({"obs_query": ps.AxisQuery(coords=(slice(0, 1.5),))}, ps.InvalidArgument, "1.5"),
        ({"obs_query": ps.AxisQuery(coords=(slice(5, 2),))}, ps.InvalidArgument, "slice"),
        ({"obs_query": ps.AxisQuery(coords=(slice(0, 9, 2),))}, ps.InvalidArgument, "step"),
        (
            {"obs_query": ps.AxisQuery(coords=([-1],))},
            ps.InvalidArgument,
            "coords must be 0 or more",
        ),
        ({"obs_query": ps.AxisQuery(coords=(["a"],))}, ps.InvalidArgument, "integers"),
        ({"obs_query": ps.AxisQuery(coords=(1, 2))}, ps.InvalidArgument, "2 entries"),
        ({"obs_query": ps.AxisQuery(coords="ab")}, ps.InvalidArgument, "tuple"),
        (
            {"var_query": "nope == 1"},
            ps.NotFound,
            r"^var_query: .*'nope'.*feature_id.*, in \S*/ms/RNA/var\n",
        ),
        ({"layer": 5}, ps.InvalidArgument, r"layer must be a string, got 5 \(int\)"),
        ({"layer": "a\udc80"}, ps.InvalidArgument, "layer must be valid Unicode"),
        ({"measurement": 5}, ps.InvalidArgument, "measurement must be a string, got 5"),
        ({"obs_columns": 5}, ps.InvalidArgument, "obs_columns must be a list of names, got 5"),
        ({"obs_columns": [5]}, ps.InvalidArgument, "name in obs_columns must be a string, got 5"),
        ({"encoders": 5}, ps.InvalidArgument, "list of penstock Encoders, got 5"),
        ({"seed": "x"}, ps.InvalidArgument, r"seed must be an integer, got 'x' \(str\)"),
        ({"threads": -1}, ps.InvalidArgument, "threads must be 1 or more, got -1"),
        ({"dtype": None}, ps.InvalidArgument, "dtype must be one of .*, got None"),
        ({"dtype": 5}, ps.InvalidArgument, "dtype must be one of .*, got 5"),
        ({"memory_budget": 1.5}, ps.InvalidArgument, "memory_budget must be a whole number"),
        ({"memory_budget": "9" * 400 + "GiB"}, ps.InvalidArgument, r"less than 2\*\*63 bytes"),
    ],
)
def test_bad_arguments(soma_small: Oracle, arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        ps.Dataset(soma_small.path, **arguments)


def test_a_filter_error_points_at_the_place(soma_small: Oracle) -> None:
    text = "cell_type == 'B cell' and and n_genes > 3"
    with pytest.raises(ps.InvalidArgument) as error:
        ps.Dataset(soma_small.path, obs_query=text)
    _, shown, pointer = str(error.value).split("\n")
    assert shown == f"  {text}"
    assert pointer == " " * (2 + text.index("and", text.index("and") + 1)) + "^^^"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.LabelEncoder(5), "columns of an encoder must be a list of names, got 5"),
        (lambda: ps.LabelEncoder([]), "needs the names of obs columns"),
        (lambda: ps.LabelEncoder("a", name=5), "name of an encoder must be a string, got 5"),
        (
            lambda: ps.LabelEncoder("a", classes=5),
            "classes must be a list of values or a dict of value to code, got 5",
        ),
        (
            lambda: ps.LabelEncoder("a", classes="ab"),
            "classes must be a list of values or a dict of value to code, got 'ab'",
        ),
        (lambda: ps.LabelEncoder("a", classes=[[1]]), "classes must be numbers, strings"),
        (lambda: ps.LabelEncoder("a", classes=[1, 1]), "twice"),
    ],
)
def test_bad_encoders(make, message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        make()


class WrongLength(ps.Encoder):
    def transform(self, obs):
        return next(iter(obs.values()))[:-1]


@pytest.mark.parametrize("is_elementwise", [False, True])
@pytest.mark.parametrize("column", ["cell_type", "soma_joinid"])
def test_an_encoder_must_give_one_entry_a_row(
    soma_small: Oracle, column: str, is_elementwise: bool
) -> None:
    encoder = WrongLength(column, name="short")
    encoder.is_elementwise = is_elementwise
    ds = ps.Dataset(soma_small.path, encoders=[encoder])
    with pytest.raises(ps.InvalidArgument, match=r"one entry a row, 'short' gave shape \(\d+,\)"):
        next(iter(ds))


def test_bad_arguments_of_methods(soma_small: Oracle) -> None:
    exp = ps.open(soma_small.path)
    ds = ps.Dataset(exp)
    for call, message in [
        (lambda: exp.var(5), "measurement must be a string, got 5"),
        (lambda: exp.layers(None), "measurement must be a string, got None"),
        (lambda: exp.x("RNA", 5), "layer must be a string, got 5"),
        (lambda: exp.obs.read(5), "columns must be a list of names, got 5"),
        (lambda: exp.obs.to_pandas(5), "value_filter must be a string, got 5"),
        (lambda: exp.obs.to_pandas(columns="soma_joinid"), "the string 'soma_joinid'"),
        (lambda: exp.obs.to_pandas("a ="), r"^value_filter: .*, in \S*/obs\n  a =\n"),
        (lambda: ds.set_epoch(1.5), "epoch must be an integer, got 1.5"),
        (lambda: ds.set_epoch(-1), "epoch must be 0 or more, got -1"),
        (lambda: ds.head("a"), "n must be an integer, got 'a'"),
        (lambda: ds.random_split(0.5, 0.5, seed="x"), "seed must be an integer, got 'x'"),
        (lambda: ds.random_split(np.array([[0.5, 0.5]])), "two parts or more"),
        (lambda: ds.random_split("ab"), "two parts or more"),
        (lambda: ds.random_split(np.array([0.8]), 0.2), r"a fraction .*, got array\(\[0.8\]\)"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            call()
    whole, fractions = (ds.random_split(np.array(parts)) for parts in ([240, 60], [0.8, 0.2]))
    assert [part.n_obs for part in whole] == [part.n_obs for part in fractions] == [240, 60]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("a\0b", r"uri must hold no NUL character, got 'a\\x00b'"),
        (os.fsdecode(b"a\xff"), r"uri must be valid Unicode \(UTF-8\), got 'a\\udcff'"),
        (b"a", "uri must be a path or URI, got b'a'"),
        (5, "uri must be a path or URI, got 5"),
        ("", "an empty string"),
    ],
)
def test_bad_paths(uri, message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        ps.open(uri)
    if isinstance(uri, str):
        with pytest.raises(ps.InvalidArgument, match=message):
            ps.Dataset(uri)


def test_bad_timestamps(soma_small: Oracle) -> None:
    with pytest.raises(ps.NotFound, match=r"not there yet at timestamp 1 .milliseconds since 1970"):
        ps.open(soma_small.path, timestamp=1)
    for timestamp in ("2020", 1.5, True):
        with pytest.raises(ps.InvalidArgument, match="a datetime or an integer, milliseconds"):
            ps.open(soma_small.path, timestamp=timestamp)
    with pytest.raises(ps.InvalidArgument, match="timestamp must be 0 or more, got -1"):
        ps.open(soma_small.path, timestamp=-1)


def test_bad_sources(tmp_path, soma_small: Oracle) -> None:
    with pytest.raises(ps.NotFound, match="no-such"):
        ps.open(tmp_path / "no-such")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path, what in [
        (tmp_path / "empty", "the folder holds no TileDB group"),
        (tmp_path / "file", "it is a file"),
        (soma_small.path / "ms", "it is a SOMACollection"),
        (soma_small.path / "obs", "it is a SOMADataFrame"),
    ]:
        with pytest.raises(ps.InvalidArgument) as error:
            ps.open(path)
        assert str(error.value) == f"not a SOMA experiment: {what}, {path}"
    with pytest.raises(ps.Unsupported, match="s3"):
        ps.open("s3://bucket/experiment")
    with pytest.raises(ps.InvalidArgument, match=r"made from a path or URI, .*, got 5"):
        ps.Dataset(5)


def x_files(path) -> list:
    return [file for file in path.glob("ms/RNA/X/raw/__fragments/*/*") if file.stat().st_size]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_x_is_an_error(tmp_path, census_like: Oracle, share: float) -> None:
    for number, name in enumerate(sorted({file.name for file in x_files(census_like.path)})):
        path = tmp_path / f"copy{number}"
        shutil.copytree(census_like.path, path)
        file = next(file for file in x_files(path) if file.name == name)
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        with pytest.raises((ps.CorruptData, ps.IoError)) as error:
            list(ps.Dataset(path))
        assert file.parent.name in str(error.value) or name in str(error.value)
        shutil.rmtree(path)


def test_files_that_vanish_before_the_first_batch(tmp_path, soma_small: Oracle) -> None:
    path = tmp_path / "copy"
    shutil.copytree(soma_small.path, path)
    ds = ps.Dataset(path)
    iterator = iter(ds)
    shutil.rmtree(path / "ms")
    with pytest.raises((ps.IoError, ps.NotFound), match="copy"):
        next(iterator)
    assert list(iterator) == []
    with pytest.raises(ps.PenstockError):
        list(ds)


def test_files_that_vanish_while_reading(tmp_path) -> None:
    path = write_small_tiles(tmp_path / "experiment", n_obs=20_000, n_vars=64)
    ds = ps.Dataset(path, shuffle=False, memory_budget="8MiB", sparse=True, batch_size=16)
    iterator = iter(ds)
    next(iterator)
    shutil.rmtree(path / "ms")
    seen = 16
    with pytest.raises((ps.IoError, ps.NotFound)):
        for X, _ in iterator:
            seen += X.shape[0]
    assert seen < ds.n_obs
    assert list(iterator) == []


def test_flipped_bytes_never_crash(tmp_path, soma_small: Oracle) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "copy"
    shutil.copytree(soma_small.path, path)
    files = x_files(path)
    failures = 0
    before, X_before = collect(ps.Dataset(path, sparse=True))
    for _ in range(60):
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        position = rng.integers(len(content))
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            for X, obs in ps.Dataset(path, sparse=True):
                X.check_format(full_check=True)
                assert X.shape == (len(obs["soma_joinid"]), 400)
        except ps.PenstockError:
            failures += 1
        file.write_bytes(content)
    assert failures > 20
    after, X_after = collect(ps.Dataset(path, sparse=True))
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(X_before, X_after)


@pytest.mark.parametrize("checksum", ["ChecksumMD5Filter", "ChecksumSHA256Filter"])
def test_flipped_bytes_under_a_checksum_are_seen(tmp_path, checksum: str) -> None:
    """No cell that is handed over differs from what was stored."""
    path = write_small_tiles(tmp_path / "experiment", 200, 64, ["ZstdFilter", checksum])
    _, whole = collect(ps.Dataset(path, shuffle=False))
    assert np.count_nonzero(whole) > 1000
    rng = np.random.default_rng(0)
    failures = 0
    files = [file for file in x_files(path) if not file.name.startswith("__")]
    assert len(files) == 3
    for _ in range(40):
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            _, X = collect(ps.Dataset(path, shuffle=False))
            np.testing.assert_array_equal(X, whole)
        except ps.CorruptData:
            failures += 1
        file.write_bytes(content)
    assert failures > 35


def test_threads_share_an_iterator(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=50, sparse=True)
    for _ in range(3):
        batches = iter(ds)
        with ThreadPoolExecutor(4) as pool:

            def take(_: int, batches=batches) -> list[int]:
                return [joinid for _, obs in batches for joinid in obs["soma_joinid"].tolist()]

            taken = [joinid for each in pool.map(take, range(4)) for joinid in each]
        assert sorted(taken) == list(range(6_000))


def test_a_pickle_takes_no_rank_along(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    ds = ps.Dataset(soma_small.path, batch_size=10)
    copies = [pickle.loads(pickle.dumps(ds)), copy.deepcopy(ds)]
    monkeypatch.setenv("RANK", "1")
    mine = set(collect(ps.Dataset(soma_small.path, batch_size=10))[0].tolist())
    assert len(mine) == 75
    for other in copies:
        assert set(collect(other)[0].tolist()) == mine
    monkeypatch.delenv("RANK")
    assert len(copies[0]) == 30


def test_a_relative_path_is_of_the_folder_where_it_was_opened(
    tmp_path, soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(soma_small.path.parent)
    ds = ps.Dataset(soma_small.path.name, batch_size=10)
    monkeypatch.chdir(tmp_path)
    assert len(collect(ds)[0]) == 300
    assert len(collect(pickle.loads(pickle.dumps(ds)))[0]) == 300


def test_cells_without_a_row_in_x_are_refused_at_once(tmp_path) -> None:
    import anndata
    import pyarrow as pa
    import tiledbsoma
    import tiledbsoma.io

    def part(names: list[str]) -> anndata.AnnData:
        X = sp.random(len(names), 5, 0.5, "csr", np.float32, random_state=0)
        return anndata.AnnData(X, pd.DataFrame(index=names), pd.DataFrame(index=list("abcde")))

    path = str(tmp_path / "experiment")
    tiledbsoma.io.from_anndata(path, part(["c0", "c1"]), "RNA", X_layer_name="raw")
    with tiledbsoma.Experiment.open(path, "w") as experiment:
        experiment.obs.tiledbsoma_resize_soma_joinid_shape(10)
    with tiledbsoma.Experiment.open(path, "w") as experiment:
        more = pd.DataFrame({"soma_joinid": [2, 3, 4], "obs_id": ["c2", "c3", "c4"]})
        experiment.obs.write(pa.Table.from_pandas(more, preserve_index=False))
    with pytest.raises(ps.InvalidArgument, match="X ends at 2, the last joinid is 4"):
        ps.Dataset(path)
    assert ps.Dataset(path, obs_query=ps.AxisQuery(coords=([0, 1],))).n_obs == 2
