"""Packs of AnnData with a matrix that is not read: an error with what to do, unless other layers are chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import rows_of, write_h5ad, write_zarr

COUNTS = sp.csr_matrix(np.arange(36).reshape(12, 3).astype("float32"))
HALF = COUNTS.toarray().astype("float16")


def with_unread(place: str, matrix: Any) -> anndata.AnnData:
    """X, layers["lognorm"] and raw, one of them `matrix`."""
    made = anndata.AnnData(COUNTS.copy())
    made.raw = anndata.AnnData(matrix if place == "raw" else COUNTS.copy())
    made.layers["lognorm"] = matrix if place == "lognorm" else np.log1p(COUNTS)
    if place == "X":
        made.X = matrix
    return made


@pytest.mark.parametrize("place", ["X", "lognorm", "raw"])
@pytest.mark.parametrize(
    ("matrix", "told"),
    [
        (COUNTS.tocsc(), r"stored by genes .*convert it with adata.*\.tocsr\(\)"),
        (HALF, r"values of type '<f2'; convert them"),
    ],
    ids=["csc", "float16"],
)
def test_of_memory(tmp_path: Path, place: str, matrix: Any, told: str) -> None:
    adata = with_unread(place, matrix)
    name = "X" if place == "raw" else place
    measurement = "raw" if place == "raw" else "RNA"
    chosen = {"measurements": measurement, "layers": name}
    for settings in ({}, {"layers": name}, {"measurements": measurement}, chosen):
        with pytest.raises(ps.Unsupported, match=f"{told}.*; or choose other") as error:
            ps.pack(adata, tmp_path / "x.pack", **settings)
        assert f"adata.{place}" in str(error.value) or "adata.layers['lognorm']" in str(error.value)
    assert not list(tmp_path.iterdir())
    other = "lognorm" if place == "X" else "X"
    packed = ps.pack(adata, tmp_path / "x.pack", measurements="RNA", layers=other)
    assert packed.measurements == ["RNA"]
    assert packed.layers() == [other]
    wanted = np.log1p(COUNTS) if other == "lognorm" else COUNTS
    np.testing.assert_array_equal(rows_of(packed, layer=other), wanted.toarray())


def test_of_memory_with_nothing_else(tmp_path: Path) -> None:
    adata = anndata.AnnData(COUNTS.tocsc())
    for settings in ({}, {"layers": ["X"]}):
        with pytest.raises(ps.Unsupported, match=r"adata\.X is stored by genes .*tocsr\(\)"):
            ps.pack(adata, tmp_path / "x.pack", **settings)
    with pytest.raises(ps.NotFound, match="no layer 'counts'"):
        ps.pack(adata, tmp_path / "x.pack", layers="counts")


@pytest.mark.parametrize("place", ["X", "lognorm", "raw"])
@pytest.mark.parametrize("kind", ["h5ad", "zarr 2", "zarr 3"])
def test_of_a_store(tmp_path: Path, kind: str, place: str) -> None:
    adata = with_unread(place, HALF)
    if kind == "h5ad":
        source = write_h5ad(adata, tmp_path / "x.h5ad")
    else:
        source = write_zarr(adata, tmp_path / "x.zarr", version=int(kind[-1]))
    with pytest.raises(ps.Unsupported, match=r"convert (it|them) to integers, float32"):
        ps.pack(source, tmp_path / "x.pack")
    assert not (tmp_path / "x.pack").exists()
    other = "lognorm" if place == "X" else "X"
    packed = ps.pack(source, tmp_path / "x.pack", measurements="RNA", layers=other)
    assert packed.layers() == [other]
