"""Rows and chunks that are larger than the memory budget: the error comes before anything of X is decoded."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import zarr

#: Elements of a row, and of a chunk; 36 MB and more when decoded.
MANY = 9_000_000


def empty_store(path: Path, cells: int, genes: int) -> zarr.Group:
    obs = pd.DataFrame(index=[f"c{i}" for i in range(cells)])
    var = pd.DataFrame(index=[f"g{i}" for i in range(genes)])
    anndata.AnnData(obs=obs, var=var).write_zarr(path)
    group = zarr.open_group(str(path), mode="r+", use_consolidated=False)
    if "X" in group:
        del group["X"]
    return group


def sparse_store(path: Path, chunk: int, indptr: list[int]) -> Path:
    """Chunks are not stored, which is the fill value, but the first of data is damaged."""
    group = empty_store(path, len(indptr) - 1, 4)
    x = group.create_group("X")
    x.attrs.update(
        {
            "encoding-type": "csr_matrix",
            "encoding-version": "0.1.0",
            "shape": [len(indptr) - 1, 4],
        }
    )
    x.create_array("indptr", data=np.array(indptr, np.int64))
    x.create_array("indices", shape=(indptr[-1],), dtype="int32", chunks=(chunk,), fill_value=0)
    x.create_array("data", shape=(indptr[-1],), dtype="float32", chunks=(chunk,), fill_value=1)
    zarr.consolidate_metadata(str(path))
    damage(path / "X" / "data")
    return path


def damage(array: Path) -> None:
    version_2 = (array / ".zarray").exists()
    name = "/".join("0" for _ in zarr.open_array(str(array), mode="r").shape)
    chunk = array / (name.replace("/", ".") if version_2 else f"c/{name}")
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_bytes(b"\x77" * 1_000_000)


def expect_not_decoded(path: Path, least: str) -> None:
    """Whoever decodes the damaged chunk gets CorruptData."""
    assert not ps.open(path).x().has_fractions()
    for dense in (False, True):
        with pytest.raises(ps.ResourceExhausted, match="memory_budget"):
            list(
                ps.Dataset(
                    path,
                    memory_budget="24MiB",
                    batch_size=2,
                    shuffle=False,
                    keep=False,
                    sparse=dense,
                )
            )
    with pytest.raises(ps.CorruptData):
        list(ps.Dataset(path, memory_budget=least, batch_size=2, shuffle=False, sparse=True))


def test_one_row_of_many_chunks(tmp_path: Path) -> None:
    path = sparse_store(tmp_path / "x.zarr", MANY // 9, [0, MANY, MANY, MANY])
    expect_not_decoded(path, "1GiB")


def test_small_rows_in_one_chunk(tmp_path: Path) -> None:
    path = sparse_store(tmp_path / "x.zarr", MANY, [*range(0, 400, 4), MANY])
    expect_not_decoded(path, "1GiB")


def test_dense_rows_in_one_chunk(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    group = empty_store(path, 3000, MANY // 3000)
    shape = (3000, MANY // 3000)
    x = group.create_array("X", shape=shape, dtype="float32", chunks=shape, fill_value=0)
    x.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    zarr.consolidate_metadata(str(path))
    damage(path / "X")
    expect_not_decoded(path, "1GiB")


def test_fractions_are_found_beside_a_large_row(tmp_path: Path) -> None:
    """Units of few rows are looked at, whatever the other rows are."""
    lengths = [0, *np.arange(3, 3_000_000, 3).tolist(), 3_000_000 + MANY]
    path = sparse_store(tmp_path / "x.zarr", 100_000, lengths)
    group = zarr.open_group(str(path), mode="r+", use_consolidated=False)
    group["X/data"][:3_000_000] = np.float32(0.5)
    assert ps.open(path).x().has_fractions()
