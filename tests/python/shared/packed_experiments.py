"""Experiments to pack, with the expected contents of the pack."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from conftest import write_small_tiles

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")


def entries(source, measurement: str = "RNA", layer: str = "raw", dtype="float64", **settings):
    """(rows, columns, values) of X, every stored cell."""
    ds = ps.Dataset(
        source, measurement=measurement, layer=layer, sparse=True, dtype=dtype, shuffle=False,
        **settings,
    )  # fmt: skip
    joinids, columns, values = [], [], []
    for X, obs in ds:
        joinids.append(np.repeat(obs["soma_joinid"], np.diff(X.indptr)))
        columns.append(X.indices)
        values.append(X.data)
    return tuple(np.concatenate(each) for each in (joinids, columns, values))


def same_bits(a, b) -> None:
    """Also of NaN and -0.0."""
    for one, other in zip(a, b, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def expect_same(source: ps.Experiment, packed: ps.Experiment) -> None:
    assert packed.metadata == source.metadata
    assert packed.n_obs == source.n_obs
    assert [c.name for c in packed.obs.schema] == [c.name for c in source.obs.schema]
    pd.testing.assert_frame_equal(packed.obs.to_pandas(), source.obs.to_pandas())
    assert packed.measurements == [m for m in source.measurements if source.layers(m)]
    for measurement in packed.measurements:
        pd.testing.assert_frame_equal(
            packed.var(measurement).to_pandas(), source.var(measurement).to_pandas()
        )
        assert packed.layers(measurement) == source.layers(measurement)
        for layer in packed.layers(measurement):
            ours, theirs = packed.x(measurement, layer), source.x(measurement, layer)
            assert (ours.shape, ours.value_type) == (theirs.shape, theirs.value_type)
            same_bits(entries(packed, measurement, layer), entries(source, measurement, layer))


DTYPES = [
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


def random_values(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    kind = rng.integers(4)
    if np.dtype(dtype).kind == "f":
        odd = np.array([np.nan, -0.0, np.inf, -1.5, 1e-40, 2.0**31, 254, 255, 256, -7, 0.1, 3e30])
        if kind == 0:
            return rng.choice(odd, count).astype(dtype)
        if kind == 1:
            return np.log1p(rng.integers(1, 90, count)).astype(dtype)
        values = rng.geometric(0.5, count).astype(dtype)
        return np.where(rng.random(count) < 0.05, rng.choice(odd, count).astype(dtype), values)
    info = np.iinfo(dtype)
    if kind == 0:
        return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    return np.minimum(rng.geometric(0.3, count), min(info.max, 2**62)).astype(dtype)


def write_random(path: Path, seed: int) -> tuple[sp.coo_matrix, np.ndarray]:
    """An experiment of odd shape, with gaps among the joinids, written by tiledbsoma."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    genes = [1, 300, 65_536, 70_001][seed % 4]
    ids = np.sort(rng.choice(700, 1 if seed % 5 == 0 else int(rng.integers(2, 400)), replace=False))
    per_row = rng.integers(0, min(genes, 300), ids.size, endpoint=True)
    rows = np.repeat(ids, per_row)
    columns = np.concatenate([np.sort(rng.choice(genes, n, replace=False)) for n in per_row])
    X = sp.coo_matrix((random_values(rng, dtype, rows.size), (rows, columns)), shape=(700, genes))
    schema = pa.schema([("soma_joinid", pa.int64())])
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        obs = experiment.add_new_dataframe(
            "obs", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 699]]
        )
        obs.write(pa.table({"soma_joinid": ids}))
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = rna.add_new_dataframe(
            "var", schema=schema, index_column_names=["soma_joinid"], domain=[[0, genes - 1]]
        )
        var.write(pa.table({"soma_joinid": np.arange(genes)}))
        layer = rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.from_numpy_dtype(np.dtype(dtype)), shape=(700, genes)
        )
        if rows.size:
            layer.write(pa.SparseCOOTensor.from_scipy(X))
    return X, ids


def contents(pack: Path) -> dict[str, str]:
    """SHA-256 of each file."""
    return {
        str(path.relative_to(pack)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(pack.rglob("*"))
        if path.is_file()
    }


def row_files(path: Path) -> list[Path]:
    """Also while folders there get other names."""
    found = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sorted(each for each in found if each.suffix == ".rows")


PACK_IN_PIECES = """
import sys
import penstock as ps
from penstock import _core
source = ps.open(sys.argv[1])
packer = _core.Packer(source.engine, sys.argv[2], None, [], [], False, 2, int(sys.argv[3]))
print("ready", flush=True)
while packer.advance(0.001):
    pass
print(packer.progress().rows_kept)
"""


def pack_in_pieces(
    source: Path, destination: Path, rows: int = 600, **kwargs
) -> subprocess.Popen[str]:
    """Files of so many rows."""
    return subprocess.Popen(
        [sys.executable, "-c", PACK_IN_PIECES, str(source), str(destination), str(rows)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs,
    )  # fmt: skip


def put_cells(path: Path, joinids: np.ndarray) -> None:
    """Cells with five ones each, in obs and X."""
    rows, columns = np.repeat(joinids, 5), np.tile(np.arange(5), len(joinids))
    X = sp.coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(9_000, 60))
    with tiledbsoma.open(f"{path}/obs", "w") as obs:
        obs.write(pa.table({"soma_joinid": joinids}))
    with tiledbsoma.open(f"{path}/ms/RNA/X/raw", "w") as layer:
        layer.write(pa.SparseCOOTensor.from_scipy(X))


def write_growing(path: Path) -> Path:
    """3,000 cells, and room for more."""
    schema = pa.schema([("soma_joinid", pa.int64())])
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        experiment.add_new_dataframe(
            "obs", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 8_999]]
        )
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = rna.add_new_dataframe(
            "var", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 59]]
        )
        var.write(pa.table({"soma_joinid": np.arange(60)}))
        rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=(9_000, 60)
        )
    put_cells(path, np.arange(3_000))
    return path


def write_many_units(folder: Path) -> Path:
    """3,000 cells in 31 fetch units, in five groups."""
    index = [f"cell{i}" for i in range(3_000)]
    obs = pd.DataFrame({"group": np.arange(3_000) % 5}, index=index)
    return write_small_tiles(folder / "cells", 3_000, 200, obs=obs, per_cell=40)
