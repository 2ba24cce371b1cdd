"""Random zarr stores of AnnData: types, codecs, chunks, shards, holes, rows longer than a chunk. The oracle is zarr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import zarr
from amounts import seeds
from anndata_cases import rows_of
from numcodecs import LZ4, Blosc, GZip, Zlib, Zstd
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

INDEX_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
VALUE_TYPES = (*INDEX_TYPES, "float32", "float64")
VERSION_2 = (None, Blosc("lz4", 5, 1), Blosc("zstd", 3, 2), Blosc("blosclz", 9, 0),
             Blosc("zlib", 1, 1), Zstd(3), GZip(2), Zlib(3), LZ4())  # fmt: skip
VERSION_3 = (None, BloscCodec(cname="lz4", shuffle="bitshuffle"),
             BloscCodec(cname="zstd", shuffle="shuffle", clevel=3), ZstdCodec(level=1),
             ZstdCodec(level=1, checksum=True), GzipCodec(level=1),
             [ZstdCodec(), Crc32cCodec()])  # fmt: skip

Random = np.random.Generator


def chance(random: Random, share: float) -> bool:
    return bool(random.random() < share)


def one_of(random: Random, choices: Any) -> Any:
    return choices[random.integers(len(choices))]


def put(group: zarr.Group, name: str, values: np.ndarray, random: Random, fill: Any = 0) -> None:
    """Write an array in chunks of any shape, with any codec that is read."""
    version = group.metadata.zarr_format
    chunks = tuple(int(random.integers(1, max(2, length + 3))) for length in values.shape)
    settings: dict[str, Any] = {"chunks": chunks, "fill_value": values.dtype.type(fill)}
    wide = values.dtype.itemsize > 1
    if version == 2:
        settings["compressors"] = one_of(random, VERSION_2)
        if values.ndim == 1:
            settings["order"] = one_of(random, "CF")
        if wide and chance(random, 0.3):
            values = values.astype(values.dtype.newbyteorder(">"))
        if chance(random, 0.3):
            settings["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    else:
        settings["compressors"] = one_of(random, VERSION_3)
        if chance(random, 0.5):
            settings["shards"] = tuple(length * int(random.integers(1, 5)) for length in chunks)
        if wide and chance(random, 0.3):
            settings["serializer"] = BytesCodec(endian="big")
        if chance(random, 0.3):
            name_of_key = one_of(random, ("default", "v2"))
            separator = one_of(random, "/.")
            settings["chunk_key_encoding"] = {"name": name_of_key, "separator": separator}
    if chance(random, 0.3):
        settings["config"] = {"write_empty_chunks": True}
    array = group.create_array(name, shape=values.shape, dtype=values.dtype, **settings)
    array[...] = values


def take_some_away(array: Path, random: Random) -> None:
    """Remove some chunks or shards: what is not there is the fill value."""
    metadata = {".zarray", ".zattrs", "zarr.json"}
    chunks = sorted(
        path for path in array.rglob("*") if path.is_file() and path.name not in metadata
    )
    for path in chunks:
        if chance(random, 0.3):
            path.unlink()


def put_sparse(group: zarr.Group, random: Random, cells: int, genes: int, value_type: str) -> None:
    lengths = random.integers(0, genes + 1, cells) * (random.random(cells) < 0.7)
    if chance(random, 0.3):  # a giant row, which has genes twice
        lengths[random.integers(cells)] = genes * 3
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    count = int(indptr[-1])
    values = random.integers(0, 120, count) * (random.random(count) < 0.8)

    def fitting(most: int) -> str:
        return one_of(random, [name for name in INDEX_TYPES if np.iinfo(name).max >= most])

    x = group.create_group("X")
    x.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [cells, genes]}
    )
    put(x, "indptr", indptr.astype(fitting(count)), random)
    put(x, "indices", random.integers(0, genes, count).astype(fitting(genes - 1)), random)
    put(x, "data", values.astype(value_type), random)


def put_dense(group: zarr.Group, random: Random, cells: int, genes: int, value_type: str) -> None:
    values = random.integers(0, 120, (cells, genes)) * (random.random((cells, genes)) < 0.4)
    if chance(random, 0.5):
        values[random.integers(cells) :] = 7
    put(group, "X", values.astype(value_type), random, fill=one_of(random, (0, 7)))
    group["X"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


def write_random(path: Path, random: Random) -> None:
    version = int(random.integers(2, 4))
    cells, genes = int(one_of(random, (1, 3, 40, 200))), int(one_of(random, (1, 2, 9, 60)))
    with anndata.settings.override(zarr_write_format=version):
        anndata.AnnData(shape=(cells, genes)).write_zarr(path)
    group = zarr.open_group(str(path), mode="r+", use_consolidated=False, zarr_format=version)
    if "X" in group:
        del group["X"]
    dense = chance(random, 0.5)
    (put_dense if dense else put_sparse)(group, random, cells, genes, one_of(random, VALUE_TYPES))
    if chance(random, 0.3):
        take_some_away(path / "X" if dense else path / "X" / "data", random)
    if chance(random, 0.5):
        zarr.consolidate_metadata(str(path))
    elif version == 2:
        (path / ".zmetadata").unlink(missing_ok=True)
    else:
        document = json.loads((path / "zarr.json").read_text())
        document.pop("consolidated_metadata", None)
        (path / "zarr.json").write_text(json.dumps(document))


def read_by_zarr(path: Path) -> np.ndarray:
    x = zarr.open_group(str(path), mode="r", use_consolidated=False)["X"]
    if isinstance(x, zarr.Array):
        return x[...].astype("float64")
    rows, columns = x.attrs["shape"]
    counts = np.diff(x["indptr"][...].astype("int64"))
    dense = np.zeros((rows, columns))
    places = np.repeat(np.arange(rows), counts), x["indices"][...].astype("int64")
    np.add.at(dense, places, x["data"][...].astype("float64"))
    return dense


def as_dense(X: Any) -> np.ndarray:
    return X.astype("float64").toarray() if sp.issparse(X) else X.astype("float64")


@pytest.mark.parametrize("seed", seeds(24))
def test_random_stores(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    path = tmp_path / "x.zarr"
    write_random(path, random)
    wanted = read_by_zarr(path)
    cells, genes = wanted.shape
    np.testing.assert_array_equal(rows_of(path), wanted)
    chosen = sorted(random.choice(genes, random.integers(1, genes + 1), replace=False).tolist())
    names = [str(gene) for gene in chosen]
    np.testing.assert_array_equal(rows_of(path, var_query=names), wanted[:, chosen])
    batch_size = int(random.integers(1, cells + 5))
    for shuffle in (True, "global"):
        seen = []
        for sparse in (False, True):
            for X, obs in ps.Dataset(
                path, shuffle=shuffle, seed=seed, batch_size=batch_size, sparse=sparse
            ):
                rows = obs["soma_joinid"].tolist()
                np.testing.assert_array_equal(as_dense(X), wanted[rows])
                seen += rows
        assert sorted(seen) == sorted([*range(cells)] * 2)
    if seed % 4 == 0:
        np.testing.assert_array_equal(rows_of(ps.pack(path, tmp_path / "x.pack")), wanted)
