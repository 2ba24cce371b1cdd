"""Selected cells and genes of a Dataset, against tiledbsoma."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import Oracle, collect, joinids_of, write_small_tiles
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
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
    if drop_last and 0 < len(joinids) < batch_size:
        for ask in (len, list):
            with pytest.raises(ps.InvalidArgument, match=r"the epoch has no batch: there (is|are)"):
                ask(ds)
        return
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


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
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
