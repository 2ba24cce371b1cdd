"""Layers that are not read, the layers beside them, and a layer that is called X."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import random_anndata, write_h5ad, write_zarr
from penstock.cli import main

HALF = np.arange(12).reshape(4, 3).astype("float16")


def with_half(place: str, sparse: bool) -> anndata.AnnData:
    """X and layers["half"], one of them in float16."""
    made = anndata.AnnData(HALF.astype("float32"))
    made.layers["half"] = made.X.copy()
    half: Any = HALF
    if sparse:
        half = sp.csr_matrix(made.X)
        half.data = half.data.astype("float16")
    if place == "X":
        made.X = half
    else:
        made.layers["half"] = half
    return made


def stored(made: anndata.AnnData, kind: str, folder: Path) -> Any:
    if kind == "memory":
        return made
    if kind == "h5ad":
        return write_h5ad(made, folder / "x.h5ad")
    return write_zarr(made, folder / "x.zarr", version=int(kind[-1]))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("place", ["X", "half"])
@pytest.mark.parametrize("kind", ["memory", "h5ad", "zarr 2", "zarr 3"])
def test_float16_says_what_to_do(tmp_path: Path, kind: str, place: str, sparse: bool) -> None:
    """Also of X, beside which layers are read."""
    source = stored(with_half(place, sparse), kind, tmp_path)
    where = "X" if place == "X" else r"layers(\['half'\]|/half)"
    if kind == "memory":
        told = rf"adata.{where} has values of type '<f2'; convert .*adata.{where} = adata.{where}.astype"
    else:
        told = rf"(floats of 2 bytes|float16|<f2).* convert (it|them) to integers, float32.*{where}"
    with pytest.raises(ps.Unsupported, match=told):
        ps.Dataset(source, layer=place)
    other = "half" if place == "X" else "X"
    ((X, _),) = list(ps.Dataset(source, layer=other, shuffle=False, batch_size=4))
    np.testing.assert_array_equal(X, HALF)


@pytest.mark.parametrize("kind", ["h5ad", "zarr 2", "zarr 3"])
def test_info_of_an_x_that_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = stored(with_half("X", False), kind, tmp_path)
    assert main(["info", str(path)]) == 0
    told = capsys.readouterr().out
    assert "layer RNA/X/X: cannot be read: " in told
    assert "layer RNA/X/half: float32" in told


@pytest.mark.parametrize("kind", ["memory", "h5ad", "zarr 2", "zarr 3"])
def test_a_layer_that_is_called_x(tmp_path: Path, kind: str) -> None:
    """Beside an X it is layers.X. Without, it is X."""
    made = random_anndata(np.random.default_rng(1), 20, 5, dense=True)
    made.layers["X"] = made.X * 2
    source = stored(made, kind, tmp_path)
    assert sorted(ps.open(source).layers()) == ["X", "counts", "layers.X"]
    for layer, values in (("X", made.X), ("layers.X", made.layers["X"])):
        ((X, _),) = list(ps.Dataset(source, layer=layer, shuffle=False, batch_size=20))
        np.testing.assert_array_equal(X, values)
    packed = ps.pack(source, tmp_path / "x.pack", layers=["layers.X"])
    ((X, _),) = list(ps.Dataset(packed, layer="layers.X", shuffle=False, batch_size=20))
    np.testing.assert_array_equal(X, made.layers["X"])
    with pytest.raises(ps.NotFound, match=r"choose from .*layers\.X"):
        ps.Dataset(source, layer="nothing")


@pytest.mark.parametrize("kind", ["memory", "h5ad", "zarr 2", "zarr 3"])
def test_a_layer_that_has_the_name_of_that(tmp_path: Path, kind: str) -> None:
    """Names stay unique."""
    made = anndata.AnnData(HALF.astype("float32"))
    made.layers["X"] = made.X * 2
    made.layers["layers.X"] = made.X * 3
    made.layers["layers.layers.X"] = made.X * 4
    source = stored(made, kind, tmp_path)
    wanted = {"X": 1, "layers.X": 3, "layers.layers.X": 4, "layers.layers.layers.X": 2}
    assert sorted(ps.open(source).layers()) == sorted(wanted)
    for layer, factor in wanted.items():
        ((X, _),) = list(ps.Dataset(source, layer=layer, shuffle=False, batch_size=4))
        np.testing.assert_array_equal(X, made.X * factor)


@pytest.mark.parametrize("kind", ["memory", "h5ad", "zarr 2"])
def test_a_layer_that_is_called_x_alone(tmp_path: Path, kind: str) -> None:
    made = random_anndata(np.random.default_rng(1), 20, 5, dense=True)
    made.layers["X"] = made.X * 2
    values = made.layers["X"]
    del made.X
    source = stored(made, kind, tmp_path)
    assert sorted(ps.open(source).layers()) == ["X", "counts"]
    ((X, _),) = list(ps.Dataset(source, layer="X", shuffle=False, batch_size=20))
    np.testing.assert_array_equal(X, values)


def test_an_unreadable_layer_that_is_called_x() -> None:
    made = anndata.AnnData(HALF.astype("float32"))
    made.layers["X"] = HALF
    with pytest.raises(ps.Unsupported, match=r"adata\.layers\['X'\] has values of type '<f2'"):
        ps.Dataset(made, layer="layers.X")
    assert ps.Dataset(made).n_obs == 4
