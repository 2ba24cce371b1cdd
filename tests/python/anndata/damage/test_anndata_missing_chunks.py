"""Objects that are not there: fill values, as zarr-python reads them, or an error where they contradict the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import zarr
from amounts import seeds
from anndata_cases import random_anndata, write_zarr

CELLS, GENES = 120, 30


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("missing")
    made = random_anndata(np.random.default_rng(61), CELLS, GENES)
    dense = random_anndata(np.random.default_rng(62), CELLS, GENES, dense=True)
    return {
        "two": write_zarr(made, folder / "two.zarr", version=2, chunk=50),
        "three": write_zarr(made, folder / "three.zarr", version=3, chunk=70),
        "shards": write_zarr(made, folder / "shards.zarr", version=3, chunk=50, shards=(200,)),
        "dense": write_zarr(dense, folder / "dense.zarr", version=3),
    }


def chunks_of(array: Path) -> list[Path]:
    return sorted(p for p in array.rglob("*") if p.is_file() and p.name[0] not in ".z")


def without_one(store: Path, copy: Path, array: str, random: np.random.Generator) -> Path:
    """A copy of the store from which a chunk, or a shard, of the array is deleted."""
    shutil.copytree(store, copy)
    chunks = chunks_of(copy / array)
    chunks[random.integers(len(chunks))].unlink()
    return copy


def rows_of(store: Path) -> np.ndarray:
    dataset = ps.Dataset(store, layer="X", shuffle=False, dtype="float64", batch_size=37)
    return np.vstack([X for X, _ in dataset])


def by_zarr(store: Path) -> np.ndarray | None:
    """X as zarr-python reads the arrays; None if they are no matrix."""
    group: Any = zarr.open_group(str(store), mode="r")["X"]
    if isinstance(group, zarr.Array):
        return np.asarray(group[...], "float64")
    data, indices, indptr = (np.asarray(group[name][...]) for name in ("data", "indices", "indptr"))
    if (np.diff(indptr) < 0).any() or indptr[0] != 0 or indptr[-1] != len(data):
        return None
    # In double precision: genes that come twice in a row are summed, in order.
    matrix = sp.csr_matrix((data.astype("float64"), indices, indptr), (CELLS, GENES))
    return matrix.toarray()


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("kind", ["two", "three", "shards"])
@pytest.mark.parametrize("array", ["data", "indices", "indptr"])
def test_a_missing_chunk_of_a_sparse_matrix_reads_as_in_zarr(
    stores: dict[str, Path], tmp_path: Path, seed: int, kind: str, array: str
) -> None:
    random = np.random.default_rng(seed)
    store = without_one(stores[kind], tmp_path / "cells.zarr", f"X/{array}", random)
    wanted = by_zarr(store)
    if wanted is None:
        with pytest.raises(ps.CorruptData, match="indptr"):
            rows_of(store)
        return
    np.testing.assert_allclose(rows_of(store), wanted, rtol=1e-6)
    assert not np.array_equal(wanted, rows_of(stores[kind])) or array == "data"


@pytest.mark.parametrize("seed", seeds(3))
def test_a_missing_chunk_of_a_dense_matrix_is_zeros(
    stores: dict[str, Path], tmp_path: Path, seed: int
) -> None:
    random = np.random.default_rng(seed)
    store = without_one(stores["dense"], tmp_path / "cells.zarr", "X", random)
    np.testing.assert_array_equal(rows_of(store), by_zarr(store))


@pytest.mark.parametrize("kind", ["two", "three"])
@pytest.mark.parametrize("column", ["n_genes", "score", "text", "category/codes"])
def test_a_missing_chunk_of_a_column_is_the_fill_value(
    stores: dict[str, Path], tmp_path: Path, kind: str, column: str
) -> None:
    store = without_one(
        stores[kind], tmp_path / "cells.zarr", f"obs/{column}", np.random.default_rng(1)
    )
    name = column.split("/")[0]
    got = ps.open(store).obs.to_pandas(columns=[name])[name]
    wanted: Any = zarr.open_group(str(store), mode="r")[f"obs/{column}"][...]
    values = got.cat.codes if name == "category" else got
    assert values.tolist() == np.asarray(wanted).tolist()
    assert len(set(values.tolist())) == 1


@pytest.mark.parametrize(
    "document", ["X/data/.zarray", "X/.zattrs", "X/.zgroup", "obs/.zattrs", "obs/n_genes/.zarray"]
)
def test_a_missing_document_is_an_error_with_its_place(
    stores: dict[str, Path], tmp_path: Path, document: str
) -> None:
    """Without consolidated metadata, which would say what is missing."""
    store = tmp_path / "cells.zarr"
    shutil.copytree(stores["two"], store)
    (store / ".zmetadata").unlink()
    rows_of(store)
    (store / document).unlink()
    with pytest.raises(ps.PenstockError, match=str(store)):
        ps.open(store).obs.to_pandas()
        rows_of(store)
