"""Every form in which HDF5 stores an array is read as h5py reads it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from anndata_cases import random_anndata, write_h5ad
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


@pytest.mark.parametrize("padding", ["STR_NULLTERM", "STR_NULLPAD", "STR_SPACEPAD"])
def test_strings_of_fixed_size(tmp_path: Path, padding: str) -> None:
    random = np.random.default_rng(5)
    letters = np.array(["", "a", "ab", "ab c", " ab", "abcdef", "a  "], object)
    words = [word.encode() for word in random.choice(letters, 40)]
    pad = b" " if padding == "STR_SPACEPAD" else b"\0"
    cells = b"".join(word.ljust(8, pad) for word in words)
    if padding == "STR_NULLTERM":
        cells = b"".join((word + b"\0").ljust(8, b"x") for word in words)
    path = write_h5ad(random_anndata(random, 40, 5), tmp_path / "x.h5ad")
    with h5py.File(path, "r+") as file:
        stored = h5py.h5t.C_S1.copy()
        stored.set_size(8)
        stored.set_strpad(getattr(h5py.h5t, padding))
        space = h5py.h5s.create_simple((40,))
        array = h5py.h5d.create(file["obs"].id, b"words", stored, space)
        array.write(space, space, np.frombuffer(cells, "V8"), stored)
        file["obs"].attrs["column-order"] = [*file["obs"].attrs["column-order"], "words"]
        wanted = [word.decode() for word in file["obs/words"][()].tolist()]
    assert ps.open(path).obs.to_pandas()["words"].tolist() == wanted
    assert len(set(wanted)) > 4


@pytest.mark.parametrize("names", [("FALSE", "TRUE"), ("TRUE", "FALSE")])
def test_booleans_declared_in_either_order(tmp_path: Path, names: tuple[str, str]) -> None:
    values = np.random.default_rng(6).integers(0, 2, 30).astype("i1")
    path = write_h5ad(random_anndata(np.random.default_rng(6), 30, 5), tmp_path / "x.h5ad")
    with h5py.File(path, "r+") as file:
        stored = h5py.h5t.enum_create(h5py.h5t.NATIVE_INT8)
        for name in names:
            stored.enum_insert(name.encode(), int(name == "TRUE"))
        space = h5py.h5s.create_simple((30,))
        array = h5py.h5d.create(file["obs"].id, b"flags", stored, space)
        array.write(space, space, values, stored)
        file["obs"].attrs["column-order"] = [*file["obs"].attrs["column-order"], "flags"]
        assert file["obs/flags"].dtype == bool
    flags = ps.open(path).obs.to_pandas()["flags"]
    assert flags.dtype == bool
    assert flags.tolist() == values.astype(bool).tolist()


def test_an_order_of_categories_that_is_a_number(tmp_path: Path) -> None:
    adata = random_anndata(np.random.default_rng(7), 30, 5)
    adata.obs["grade"] = pd.Categorical(["lo", "hi", "mid"] * 10, ["lo", "mid", "hi"], ordered=True)
    path = write_h5ad(adata, tmp_path / "x.h5ad")
    with h5py.File(path, "r+") as file:
        del file["obs/grade"].attrs["ordered"]
        file["obs/grade"].attrs["ordered"] = 1
    assert anndata.read_h5ad(path).obs["grade"].dtype.ordered
    obs = ps.open(path).obs
    assert obs.to_pandas()["grade"].dtype.ordered
    assert len(obs.select("grade > 'lo'")) == 20


def test_strings_that_were_written_far_out_of_order(tmp_path: Path) -> None:
    """Each collection of the global heap has strings from all over the array."""
    count, stride = 300_000, 3_000
    path = tmp_path / "x.h5ad"
    with h5py.File(path, "w") as file:
        obs = file.create_group("obs")
        obs.attrs.update(_index="names", **{"encoding-type": "dataframe"})
        obs.attrs["encoding-version"] = "0.2.0"
        obs.attrs["column-order"] = np.empty(0, h5py.string_dtype())
        names = obs.create_dataset("names", (count,), h5py.string_dtype())
        for begin in range(stride):
            part = [f"cell {i}" for i in range(begin, count, stride)]
            names[begin::stride] = np.array(part, object)
        var = file.create_group("var")
        for name, value in obs.attrs.items():
            var.attrs[name] = value
        var.create_dataset("names", data=["g"], dtype=h5py.string_dtype())
        file.create_dataset("X", (count, 1), "f4", chunks=(count, 1), compression="gzip")
        for name, value in (("encoding-type", "array"), ("encoding-version", "0.2.0")):
            file["X"].attrs[name] = value
    stored = ps.open(path).obs.read(["obs_names"])["obs_names"].to_numpy()
    assert stored.tolist() == [f"cell {i}" for i in range(count)]


def test_chunks_of_the_old_tree_that_lie_elsewhere(tmp_path: Path) -> None:
    """Its nodes have no checksum: a chunk outside of the array, or out of order, is damage."""
    path = tmp_path / "x.h5ad"
    write_h5ad(random_anndata(np.random.default_rng(8), 40, 5), path)
    values = np.arange(40.0)
    with h5py.File(path, "r+", libver="earliest") as file:
        file["obs"].create_dataset("numbers", data=values, chunks=(8,))
        file["obs"].attrs["column-order"] = [*file["obs"].attrs["column-order"], "numbers"]
    whole = path.read_bytes()
    assert ps.open(path).obs.to_pandas()["numbers"].tolist() == values.tolist()
    # A key: bytes of the chunk, filter mask, place in the array, place in the cell.
    keys = [struct.pack("<IIQQ", 64, 0, at, 0) for at in range(0, 40, 8)]
    # After each key of the node comes the address of its chunk.
    (start,) = (
        at
        for at in range(len(whole))
        if all(whole[at + 32 * i :].startswith(key) for i, key in enumerate(keys))
    )
    changed = 0
    for i, key in enumerate(keys):
        for at in (8, 24, 40, 64, 2**40):
            place = start + 32 * i
            moved = struct.pack("<IIQQ", 64, 0, at, 0)
            if moved == key:
                continue
            path.write_bytes(whole[:place] + moved + whole[place + len(key) :])
            with pytest.raises(ps.CorruptData, match=r"outside of its array|not in order"):
                ps.open(path).obs.to_pandas()
            changed += 1
    assert changed > 20
