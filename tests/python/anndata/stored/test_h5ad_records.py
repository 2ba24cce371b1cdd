"""Random h5ad files in the form of anndata 0.5 and 0.6, written with h5py. The oracle is anndata of today.

Both wrote obs and var as arrays of records, codes of categories among them, categories in uns, sparse
matrices with the attributes of h5sparse, and raw as raw.X and raw.var. Source: anndata 0.5.10, base.py, and
0.6.22, core/anndata.py (`df_to_records_fixed_width`), and readwrite/write.py of both. test_h5ad_files.py has
files that they wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import dense, expect_read, random_counts, read_h5ad, rows_of
from hypothesis import given
from hypothesis import strategies as st

LABELS = ("B cell", "T cell", "a long label")


def texts(values: Any, version: str) -> np.ndarray:
    """Strings as a version writes them: of a fixed length, or of any."""
    if version == "0.5":
        return np.array([value.encode() for value in values], "S")
    return np.array(list(values), h5py.string_dtype())


def random_table(
    random: np.random.Generator, rows: int, prefix: str, version: str, uns: h5py.Group
) -> np.ndarray:
    labels = random.permutation(LABELS)
    numbers = np.array([10, 20, 40]) if random.random() < 0.5 else np.array([0.5, 2.0, 4.0])
    columns: dict[str, np.ndarray] = {
        "index": texts([f"{prefix}-{i}" for i in range(rows)], version),
        f"{prefix}_label": random.integers(-1, 3, rows).astype("i1"),
        f"{prefix}_number": random.integers(0, 3, rows).astype("i1"),
        f"{prefix}_one": np.zeros(rows, "i1"),
        "count": random.integers(0, 9000, rows),
        "score": random.normal(size=rows).astype(random.choice(["f4", "f8"])),
        "flag": random.random(rows) < 0.5,
        "text": texts([f"{prefix} text {i}" for i in range(rows)], version),
    }
    uns[f"{prefix}_label_categories"] = texts(labels, version)
    uns[f"{prefix}_number_categories"] = numbers
    uns[f"{prefix}_one_categories"] = texts(["only"], version)
    kept = ["index", *random.permutation(list(columns)[1:])[: random.integers(0, 8)]]
    records = np.empty(rows, [(name, columns[name].dtype) for name in kept])
    for name in kept:
        records[name] = columns[name]
    return records


def put_matrix(
    file: h5py.File, place: str, matrix: sp.csr_matrix, form: str, **settings: Any
) -> None:
    if form == "dense":
        file.create_dataset(place, data=matrix.toarray(), **settings)
        return
    stored = matrix if form == "csr" else matrix.tocsc()
    group = file.create_group(place)
    group.attrs["h5sparse_format"] = form
    group.attrs["h5sparse_shape"] = stored.shape
    for name in ("data", "indices", "indptr"):
        group.create_dataset(name, data=getattr(stored, name), maxshape=(None,), **settings)


def write_old(
    path: Path, random: np.random.Generator, version: str, rows: int, columns: int
) -> None:
    settings = {"compression": "gzip"} if random.random() < 0.3 else {}
    form = str(random.choice(["dense", "csr"]))
    with h5py.File(path, "w") as file:
        uns = file.create_group("uns")
        put_matrix(file, "X", random_counts(random, rows, columns), form, **settings)
        for place, count, prefix in (("obs", rows, "cell"), ("var", columns, "gene")):
            table = random_table(random, count, prefix, version, uns)
            file.create_dataset(place, data=table, **settings)
        # Of the columns of both tables: categories are kept once, and do not fit the numbers of the other.
        uns["count_categories"] = texts(["few"], version)
        obsm = np.zeros(rows, [("X_pca", "f4", (5,)), ("X_umap", "f8", (2,))])
        file["obsm"] = obsm
        uns["neighbors/params/n_neighbors"] = np.array([15])
        if version == "0.6" and random.random() < 0.7:
            layer = random_counts(random, rows, columns, "int32")
            put_matrix(file, "layers/counts", layer, str(random.choice(["dense", "csr"])))
        if random.random() < 0.7:
            put_matrix(file, "raw.X", random_counts(random, rows, columns + 2), "csr", **settings)
            raw = random_table(random, columns + 2, "raw", version, file.create_group("raw.cat"))
            file["raw.var"] = raw


@given(
    seed=st.integers(0, 2**32),
    version=st.sampled_from(["0.5", "0.6"]),
    rows=st.integers(2, 40),
    columns=st.integers(2, 20),
)
def test_files_are_read_as_anndata_reads_them(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: str, rows: int, columns: int
) -> None:
    path = tmp_path_factory.mktemp("old") / "cells.h5ad"
    write_old(path, np.random.default_rng(seed), version, rows, columns)
    expect_read(path, read_h5ad(path))


def simple(path: Path, index: np.ndarray, form: str = "dense", **more: np.ndarray) -> Path:
    rows = len(index)
    columns = {"index": index, "n": np.arange(rows), **more}
    table = np.empty(rows, [(name, values.dtype) for name, values in columns.items()])
    for name, values in columns.items():
        table[name] = values
    with h5py.File(path, "w") as file:
        put_matrix(file, "X", random_counts(np.random.default_rng(0), rows, rows), form)
        file["obs"] = file["var"] = table
        file.create_group("uns")["n_colors"] = texts(["#ff0000"], "0.6")
    return path


def test_texts_that_are_not_ascii_or_empty(tmp_path: Path) -> None:
    names = ["naïve", "☃", "", "T"]
    for version in ("0.5", "0.6"):
        text = texts(names, "0.6") if version == "0.6" else np.array([n.encode() for n in names])
        index = texts("abcd", version)
        path = simple(tmp_path / f"{version}.h5ad", index, text=text)
        assert ps.open(path).obs.to_pandas()["text"].tolist() == names


def test_a_matrix_by_genes_says_what_to_do(tmp_path: Path) -> None:
    path = simple(tmp_path / "x.h5ad", texts("abcd", "0.6"), "csc")
    with pytest.raises(ps.Unsupported, match=r"stored by genes.*penstock pack"):
        ps.Dataset(path)
    packed = ps.pack(path, tmp_path / "x.pack")
    np.testing.assert_array_equal(rows_of(packed), dense(read_h5ad(path).X))


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_cells_train(tmp_path: Path, version: str) -> None:
    """A filter by a category of uns, a shuffle, and a pack."""
    path = tmp_path / "cells.h5ad"
    random = np.random.default_rng(3)
    names = texts([f"c{i}" for i in range(200)], version)
    codes = random.integers(0, 2, 200).astype("i1")
    simple(path, names, "csr", label=codes)
    with h5py.File(path, "r+") as file:
        file["uns/label_categories"] = texts(["B cell", "T cell"], version)
    wanted = read_h5ad(path)
    chosen = np.flatnonzero(wanted.obs["label"] == "T cell")
    assert chosen.tolist() == np.flatnonzero(codes == 1).tolist()
    ps.pack(path, tmp_path / "cells.pack")
    found = []
    for source in (path, tmp_path / "cells.pack"):
        settings: dict[str, Any] = {"obs_query": "label == 'T cell'", "dtype": "float64"}
        dataset = ps.Dataset(source, shuffle="global", seed=1, batch_size=32, **settings)
        for X, obs in dataset:
            np.testing.assert_array_equal(X, dense(wanted.X)[obs["soma_joinid"]])
            found.append(obs["soma_joinid"].tolist())
    rows = sum(found, [])
    assert sorted(rows[: len(chosen)]) == chosen.tolist()
    assert rows[: len(chosen)] == rows[len(chosen) :]
