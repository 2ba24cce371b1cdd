"""Every form in which HDF5 stores an array is read as h5py reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import penstock as ps
import pytest
from hdf5_cases import Form, library_versions, write_array, write_file
from hypothesis import given
from hypothesis import strategies as st


def read(path: Path, rows: int) -> tuple[Any, np.ndarray]:
    obs = ps.open(path).obs.to_pandas()
    batches = [X for X, _ in ps.Dataset(path, shuffle=False, batch_size=16)] if rows else []
    return obs, np.concatenate([np.asarray(X) for X in batches]) if batches else np.empty((0, 0))


def expect_columns(obs: Any, stored: dict[str, np.ndarray]) -> None:
    for name, values in stored.items():
        wanted = [v.decode() if isinstance(v, bytes) else v for v in values.tolist()]
        assert obs["obs_names" if name in ("index", "_index") else name].tolist() == wanted, name


@given(
    seed=st.integers(0, 2**32),
    version=st.sampled_from(library_versions()),
    rows=st.integers(0, 200),
    genes=st.integers(1, 60),
    dense=st.booleans(),
)
def test_random_files(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    version: Any,
    rows: int,
    genes: int,
    dense: bool,
) -> None:
    path = tmp_path_factory.mktemp("hdf5") / "x.h5ad"
    stored = write_file(path, np.random.default_rng(seed), version, rows, genes, dense)
    obs, X = read(path, rows)
    expect_columns(obs, stored["obs"])
    if rows:
        np.testing.assert_array_equal(X, stored["X"])


def one_column(path: Path, version: Any, values: np.ndarray, form: Form) -> np.ndarray:
    with h5py.File(path, "w", libver=version) as file:
        file.attrs["encoding-type"] = "anndata"
        for name in ("obs", "var"):
            group = file.create_group(name)
            group.attrs.update({"encoding-type": "dataframe", "_index": "_index"})
            group.attrs["column-order"] = np.array(
                ["column"] if name == "obs" else [], h5py.string_dtype()
            )
            group["_index"] = np.arange(len(values)) if name == "obs" else np.arange(3)
        return write_array(file["obs"], "column", values, form)


@pytest.mark.parametrize("version", library_versions(), ids=str)
@pytest.mark.parametrize("kind", ["fixed", "growing", "growing twice"])
@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}], ids=("plain", "gzip"))
def test_indexes_of_many_chunks(
    tmp_path: Path, version: Any, kind: str, filters: dict[str, Any]
) -> None:
    """B-trees of several levels, and arrays of chunks that are divided into blocks and pages."""
    values = np.random.default_rng(5).integers(0, 1000, 9_001).astype("int16")
    path = tmp_path / "x.h5ad"
    one_column(path, version, values, Form(kind, (2,), filters))
    assert ps.open(path).obs.to_pandas()["column"].tolist() == values.tolist()


def test_an_index_with_pages_in_blocks(tmp_path: Path) -> None:
    values = np.arange(140_000, dtype="int32")
    path = tmp_path / "x.h5ad"
    one_column(path, "latest", values, Form("growing", (1,), {}))
    assert (ps.open(path).obs.to_pandas()["column"] == values).all()


@pytest.mark.parametrize("version", library_versions(), ids=str)
@pytest.mark.parametrize("columns", [3, 9, 40, 700])
def test_tables_of_many_columns(tmp_path: Path, version: Any, columns: int) -> None:
    """Names in a heap, links and attributes in a heap of their own."""
    path = tmp_path / "x.h5ad"
    names = [f"column {i} {'x' * (i % 50)}" for i in range(columns)]
    with h5py.File(path, "w", libver=version) as file:
        file.attrs["encoding-type"] = "anndata"
        for name in ("obs", "var"):
            group = file.create_group(name)
            group.attrs.update({"encoding-type": "dataframe", "_index": "_index"})
            group.attrs["column-order"] = np.array(
                names if name == "obs" else [], h5py.string_dtype()
            )
            group["_index"] = np.arange(4)
        for i, name in enumerate(names):
            file["obs"][name] = np.full(4, i)
            file.attrs[f"attribute {i}"] = f"text {i}" * (i + 1)
    experiment = ps.open(path)
    obs = experiment.obs.to_pandas()
    assert [c for c in obs.columns if c not in ("soma_joinid", "obs_names")] == names
    assert [obs[name][0] for name in names] == list(range(columns))
    assert all(
        experiment.metadata[f"attribute {i}"] == f"text {i}" * (i + 1) for i in range(columns)
    )
