"""h5ad whose chunks have zstd's and blosc's filters, which HDF5 loads from plugins: h5py reads them with hdf5plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp

numcodecs = pytest.importorskip("numcodecs")

# Numbers of the filters: https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md
BLOSC, ZSTD = 32001, 32015
CODECS = ("blosclz", "lz4", "zlib", "zstd")


def encoded(random: np.random.Generator, chunk: np.ndarray, kind: str, shuffled: bool) -> bytes:
    """Return the bytes of a chunk as the filters of the pipeline leave them."""
    data = chunk.tobytes()
    if shuffled:  # HDF5's own filter: bytes of the same place in each value lie together
        data = np.frombuffer(data, np.uint8).reshape(-1, chunk.itemsize).T.tobytes()
    if kind == "zstd":
        return bytes(numcodecs.Zstd(int(random.integers(1, 10))).encode(data))
    codec = str(random.choice(CODECS))
    mode = int(random.integers(0, 3))
    blosc = numcodecs.Blosc(codec, int(random.integers(1, 10)), mode)
    return bytes(blosc.encode(np.frombuffer(data, chunk.dtype)))


def write_filtered(
    random: np.random.Generator, group: h5py.Group, name: str, values: np.ndarray, kind: str
) -> None:
    """Write an array in chunks that are encoded here; a mask says which chunks left the filter out."""
    attributes = dict(group[name].attrs)
    del group[name]
    chunk = tuple(int(random.integers(max(1, n // 5), n + 1)) if n else 1 for n in values.shape)
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk(chunk)
    shuffled = bool(random.integers(2))
    if shuffled:
        creation.set_shuffle()
    filter_, settings = (ZSTD, (3,)) if kind == "zstd" else (BLOSC, (2, 2, 4, 4096, 5, 1, 1))
    creation.set_filter(filter_, h5py.h5z.FLAG_OPTIONAL, settings)
    space = h5py.h5s.create_simple(values.shape)
    type_ = h5py.h5t.py_create(values.dtype)
    array = h5py.h5d.create(group.id, name.encode(), type_, space, creation)
    for at in np.ndindex(
        *(-(-length // part) for length, part in zip(values.shape, chunk, strict=True))
    ):
        first = tuple(i * part for i, part in zip(at, chunk, strict=True))
        padded = np.zeros(chunk, values.dtype)
        inside = values[tuple(slice(i, i + part) for i, part in zip(first, chunk, strict=True))]
        padded[tuple(slice(length) for length in inside.shape)] = inside
        left_out = random.random() < 0.2
        if left_out:
            data, mask = padded.tobytes(), 0b11 if shuffled else 0b1
        else:
            data, mask = encoded(random, padded, kind, shuffled), 0
        array.write_direct_chunk(first, data, filter_mask=mask)
    for key, value in attributes.items():
        group[name].attrs[key] = value


def cells(path: Path, **arguments: Any) -> Any:
    ((X, _),) = ps.Dataset(path, shuffle=False, batch_size=1000, **arguments)
    return X


@pytest.mark.parametrize("kind", ["zstd", "blosc"])
@pytest.mark.parametrize("seed", range(8))
def test_arrays_are_what_was_encoded(kind: str, seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    n_obs, n_vars = int(random.integers(1, 200)), int(random.integers(1, 30))
    dtype = random.choice([np.float32, np.float64, np.int32, np.uint16, np.uint8])
    dense = random.poisson(1, (n_obs, n_vars)).astype(dtype)
    X: Any = sp.csr_matrix(dense) if seed % 2 else dense
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(X, obs={"depth": random.random(n_obs)}).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        depth = file["obs/depth"][:]
        write_filtered(random, file["obs"], "depth", depth, kind)
        if seed % 2:
            for name in ("data", "indices", "indptr"):
                write_filtered(random, file["X"], name, file["X"][name][:], kind)
        else:
            write_filtered(random, file, "X", dense, kind)
    found = cells(path, dtype=str(np.dtype(dtype)) if np.dtype(dtype).kind == "f" else "float32")
    np.testing.assert_array_equal(found, dense)
    np.testing.assert_array_equal(ps.open(path).obs["depth"], depth)


@pytest.mark.parametrize("kind", ["zstd", "blosc"])
def test_a_damaged_chunk_is_an_error(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    dense = random.poisson(1, (64, 20)).astype(np.float32)
    path = tmp_path / "cells.h5ad"
    anndata.AnnData(dense).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        write_filtered(np.random.default_rng(3), file, "X", dense, kind)
        info = file["X"].id.get_chunk_info(0)
    whole = path.read_bytes()
    np.testing.assert_array_equal(cells(path), dense)
    for length in (1, info.size // 2):  # what the frame says of itself, and its first bytes
        cut = bytearray(whole)
        cut[info.byte_offset : info.byte_offset + length] = bytes(length)
        path.write_bytes(cut)
        with pytest.raises(ps.CorruptData, match="X"):
            cells(path)
