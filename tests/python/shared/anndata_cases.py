"""Random AnnData objects, and ways to store them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import penstock as ps
import scipy.sparse as sp

INDEX_TYPES = ("int32", "int64")
VALUE_TYPES = ("float32", "float64", "int32", "int64", "uint16", "int8")


def random_counts(
    random: np.random.Generator, cells: int, genes: int, value_type: str = "float32"
) -> sp.csr_matrix:
    """Counts with empty rows, values above 254, explicit zeros, unsorted rows and duplicates."""
    lengths = random.integers(0, max(1, genes) + 1, cells) * (random.random(cells) < 0.8)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    count = int(indptr[-1])
    if random.random() < 0.5:  # duplicates and no order
        indices = random.integers(0, max(1, genes), count)
    else:
        rows = [np.sort(random.choice(genes, length, replace=False)) for length in lengths]
        indices = np.concatenate([*rows, np.zeros(0, np.int64)])
    values = random.poisson(2, count).astype(value_type)
    large = random.random(count) < 0.05
    values[large] = random.integers(0, 127 if value_type == "int8" else 5000, int(large.sum()))
    if value_type.startswith("float") and random.random() < 0.3:
        values = np.log1p(values).astype(value_type)
    index_type = random.choice(INDEX_TYPES)
    matrix = sp.csr_matrix((cells, genes), dtype=value_type)
    matrix.data, matrix.indices, matrix.indptr = (
        values,
        indices.astype(index_type),
        indptr.astype(index_type),
    )
    return matrix


def random_obs(random: np.random.Generator, cells: int) -> pd.DataFrame:
    """A column of each kind that AnnData stores, some values missing."""
    labels = np.array(["B cell", "T cell", "", "naïve ☃"], object)
    missing = random.random(cells) < 0.2
    codes = random.integers(0, 4, cells)
    table = pd.DataFrame(
        {
            "category": pd.Categorical.from_codes(np.where(missing, -1, codes), labels),
            "ordered": pd.Categorical(random.integers(0, 3, cells), [0, 1, 2], ordered=True),
            "n_genes": random.integers(0, 9000, cells),
            "small": random.integers(-5, 5, cells).astype(np.int8),
            "score": random.normal(size=cells),
            "score32": random.normal(size=cells).astype(np.float32),
            "doublet": random.random(cells) < 0.3,
            "nullable": pd.array(random.integers(0, 99, cells), dtype="Int64"),
            "maybe": pd.array(random.random(cells) < 0.5, dtype="boolean"),
            "text": labels[random.integers(0, 4, cells)],
        },
        index=[f"cell-{i}" for i in range(cells)],
    )
    table.loc[missing, ["nullable", "maybe"]] = pd.NA
    return table


def random_anndata(
    random: np.random.Generator,
    cells: int,
    genes: int,
    *,
    value_type: str = "float32",
    dense: bool = False,
    raw: bool = False,
) -> anndata.AnnData:
    """AnnData with X, a layer `counts`, obs, var, and raw with two genes more."""
    counts = random_counts(random, cells, genes, value_type)
    var = pd.DataFrame(
        {"symbol": [f"gene {i % 5}" for i in range(genes)]}, index=[f"g{i}" for i in range(genes)]
    )
    x = counts.toarray() if dense else counts
    made = anndata.AnnData(x, random_obs(random, cells), var)
    made.layers["counts"] = random_counts(random, cells, genes, "int32")
    if raw:
        wider = pd.DataFrame(index=[*var.index, "more-1", "more-2"])
        made.raw = anndata.AnnData(random_counts(random, cells, genes + 2), made.obs, wider)
    return made


def write_h5ad(adata: anndata.AnnData, path: Path, compression: str | None = None) -> Path:
    """Write with anndata; returns the path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata.write_h5ad(path, compression=compression)
    return path


#: anndata 0.13 shards arrays of zarr version 3 by itself, and before it could not.
_FORMAT = {"auto_shard_zarr_v3": False} if hasattr(anndata.settings, "auto_shard_zarr_v3") else {}


def write_zarr(
    adata: anndata.AnnData,
    path: Path,
    *,
    version: int = 2,
    chunk: int | None = None,
    **settings: Any,
) -> Path:
    """Write with anndata, in chunks of `chunk` elements; returns the path."""
    storage: dict[str, Any] = {} if chunk is None else {"chunks": (chunk,)}
    with anndata.settings.override(**_FORMAT, zarr_write_format=version), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not storage and not settings:
            adata.write_zarr(path)
        else:
            import zarr

            group = zarr.open_group(str(path), mode="w", zarr_format=version)
            anndata.io.write_elem(group, "/", adata)
            for place in _sparse(adata):
                _write_matrix(group, place, adata, {**storage, **settings})
            zarr.consolidate_metadata(str(path))
    return path


def write_collection(
    path: Path, datasets: list[anndata.AnnData], *, version: int = 2, **settings: Any
) -> Path:
    """As annbatch stores it: a group for each dataset, by number. `settings` are of sparse arrays."""
    import zarr

    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    group.attrs.update({"encoding-type": "annbatch-preshuffled", "encoding-version": "0.1.0"})
    with anndata.settings.override(**_FORMAT, zarr_write_format=version), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, dataset in enumerate(datasets):
            name = f"dataset_{number}"
            anndata.io.write_elem(group, name, dataset)
            for place in _sparse(dataset) if settings else []:
                _write_matrix(group[name], place, dataset, settings)
        zarr.consolidate_metadata(str(path))
    return path


def _write_matrix(group: Any, place: str, adata: anndata.AnnData, settings: dict[str, Any]) -> None:
    parent, _, name = place.rpartition("/")
    below = group[parent] if parent else group
    anndata.io.write_elem(below, name, _matrix(adata, place), dataset_kwargs=settings)


def _matrix(adata: anndata.AnnData, place: str) -> Any:
    """Of an element such as "raw/X" or "layers/counts"."""
    if place == "raw/X":
        return adata.raw.X
    return adata.X if place == "X" else adata.layers[place.removeprefix("layers/")]


def named_layers(adata: anndata.AnnData) -> dict[str, Any]:
    """The layers. X is one of them in anndata 0.13, whose name is None."""
    return {name: layer for name, layer in adata.layers.items() if name is not None}


def _sparse(adata: anndata.AnnData) -> list[str]:
    places = ["X"] if sp.issparse(adata.X) else []
    places += [
        f"layers/{name}" for name, layer in named_layers(adata).items() if sp.issparse(layer)
    ]
    return [*places, "raw/X"] if adata.raw is not None else places


def read_h5ad(path: Path) -> anndata.AnnData:
    """What anndata reads. It leaves the codes of raw.var as they are; anndata 0.6 took raw.cat, as we do."""
    with warnings.catch_warnings(), h5py.File(path) as file:
        warnings.simplefilter("ignore")
        read = anndata.read_h5ad(path)
        if "raw.cat" not in file:
            return read
        for name in read.raw.var.columns:
            stored = file["raw.cat"].get(f"{name}_categories")
            if stored is not None:
                values = stored.asstr()[:] if h5py.check_string_dtype(stored.dtype) else stored[:]
                codes = read.raw.var[name].to_numpy()
                read.raw.var[name] = pd.Categorical.from_codes(codes, values)
        return read


def csr_of(dataset: ps.Dataset) -> sp.csr_matrix:
    """All cells in stored order."""
    parts = [X for X, _ in dataset]
    return sp.vstack(parts, format="csr") if parts else sp.csr_matrix(dataset.shape)


def expect_same(ours: sp.csr_matrix, theirs: Any) -> None:
    """Rows as sets of entries with their number, since ours are sorted, and duplicates stay."""
    theirs = sp.csr_matrix(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    for row in range(theirs.shape[0]):
        a, b = ours[row], theirs[row]
        order = np.argsort(b.indices, kind="stable")
        np.testing.assert_array_equal(a.indices, b.indices[order])
        np.testing.assert_array_equal(a.data, b.data[order])


Read = Callable[[anndata.AnnData, Path], Any]


def values_of(column: pd.Series[Any]) -> list[Any]:
    """Values, with None for what is missing."""
    missing = column.isna().tolist()
    return [None if gone else value for value, gone in zip(column.tolist(), missing, strict=True)]


def expect_table(got: pd.DataFrame, wanted: pd.DataFrame, names: str) -> None:
    assert got.pop("soma_joinid").tolist() == list(range(len(wanted)))
    assert got.pop(names).tolist() == wanted.index.tolist()
    assert list(got.columns) == list(wanted.columns)
    for name in wanted.columns:
        assert values_of(got[name]) == values_of(wanted[name]), name
        if isinstance(wanted[name].dtype, pd.CategoricalDtype):
            assert got[name].cat.categories.tolist() == wanted[name].cat.categories.tolist()
            assert got[name].cat.ordered == wanted[name].cat.ordered


def rows_of(source: Any, **settings: Any) -> np.ndarray:
    dataset = ps.Dataset(source, shuffle=False, dtype="float64", batch_size=700, **settings)
    return np.vstack([X for X, _ in dataset])


def dense(matrix: Any) -> np.ndarray:
    """As float64, in which values of a gene that a row has twice are summed, as rows_of() does."""
    return matrix.astype("float64").toarray() if sp.issparse(matrix) else np.asarray(matrix)


def expect_read(path: Path, wanted: anndata.AnnData) -> None:
    """Tables, X, layers and raw of a store or file are those of an object."""
    experiment = ps.open(path)
    assert experiment.n_obs == wanted.n_obs
    expect_table(experiment.obs.to_pandas(), wanted.obs, "obs_names")
    expect_table(experiment.var().to_pandas(), wanted.var, "var_names")
    layers = ["X"] if wanted.X is not None else []
    assert experiment.layers() == layers + sorted(named_layers(wanted))
    if wanted.X is not None:
        np.testing.assert_array_equal(rows_of(path, layer="X"), dense(wanted.X))
    for layer, matrix in named_layers(wanted).items():
        np.testing.assert_array_equal(rows_of(path, layer=layer), dense(matrix))
    assert ("raw" in experiment.measurements) == (wanted.raw is not None)
    if wanted.raw is not None:
        expect_table(experiment.var("raw").to_pandas(), wanted.raw.var, "var_names")
        np.testing.assert_array_equal(rows_of(path, measurement="raw"), dense(wanted.raw.X))


_PACK = """
import sys
import penstock as ps
from penstock.bench.worker.process_facts import peak_rss, reset_peak_rss, rss

source, small, pack, budget = sys.argv[1:]
ps.pack(small, pack + "-before", threads=2)  # what the first pack of a process takes
assert reset_peak_rss()
before = rss()
ps.pack(source, pack, layers="X", threads=2, memory_budget=budget)
print(peak_rss() - before)
"""


def memory_of_pack(source: Path, small: Path, pack: Path, budget: str) -> int:
    """Return the bytes that packing X takes at most, in a process that has packed `small` before."""
    ran = subprocess.run(
        [sys.executable, "-c", _PACK, source, small, pack, budget],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(ran.stdout)
