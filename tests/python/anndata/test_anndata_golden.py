"""Stores that anndata 0.13 and annbatch wrote: what their own readers gave (tests/data/README.md)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import DATA

NAMES = ("anndata-annbatch-0.3.1", "anndata-0.13.4-zarr2", "anndata-0.13.4-zarr3")


@pytest.fixture(scope="module", params=NAMES)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """A store, and its contents."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(DATA / f"{request.param}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (store,) = folder.glob("*.zarr")
    return store, np.load(folder / "contents.npz")


def test_cells_are_those_that_were_written(stored: tuple) -> None:
    store, wanted = stored
    X = sp.csr_matrix((wanted["data"], wanted["indices"], wanted["indptr"]), wanted["shape"])
    dataset = ps.Dataset(store, shuffle=False, sparse=True, batch_size=50)
    assert dataset.shape == X.shape
    got = sp.vstack([batch for batch, _ in dataset], format="csr")
    assert (got != X).nnz == 0
    assert list(dataset.var_names) == wanted["var_names"].tolist()


def test_tables_are_those_that_were_written(stored: tuple) -> None:
    store, wanted = stored
    obs = ps.open(store).obs.to_pandas()
    assert obs["obs_names"].tolist() == wanted["obs_names"].tolist()
    assert obs["cell_type"].tolist() == wanted["cell_type"].tolist()
    assert obs["nullable"].isna().sum() > 0
    assert {"n_genes", "score", "text"} <= set(obs.columns)


def test_filters_and_shuffles(stored: tuple) -> None:
    store, wanted = stored
    dataset = ps.Dataset(store, obs_query="cell_type == 'NK'", sparse=True, seed=1, batch_size=16)
    rows = np.concatenate([obs["soma_joinid"] for _, obs in dataset])
    assert sorted(rows) == np.flatnonzero(wanted["cell_type"] == "NK").tolist()
    assert list(rows) != sorted(rows)


def test_layers_and_raw(stored: tuple) -> None:
    store, _ = stored
    experiment = ps.open(store)
    if "cells" not in store.name:
        assert experiment.layers()[0] == "X"
        return
    assert experiment.measurements == ["RNA", "raw"]
    assert experiment.layers() == ["X", "counts"]
    assert experiment.layers("raw") == ["X"]
    main = np.vstack([X for X, _ in ps.Dataset(store, shuffle=False)])
    raw = np.vstack([X for X, _ in ps.Dataset(store, measurement="raw", shuffle=False)])
    np.testing.assert_array_equal(main, raw)


def test_datasets_of_a_collection_are_in_the_order_of_their_numbers(stored: tuple) -> None:
    store, wanted = stored
    datasets = sorted(Path(store).glob("dataset_*"))
    if "collection" not in store.name:
        assert not datasets
        return
    assert len(datasets) == 11
    last = ps.open(store / "dataset_10").obs.to_pandas()["obs_names"].tolist()
    assert wanted["obs_names"].tolist()[-len(last) :] == last
