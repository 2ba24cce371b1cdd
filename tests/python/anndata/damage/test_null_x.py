"""X that is null (None) as anndata and mudata write it: there is no X."""

from __future__ import annotations

import warnings
from pathlib import Path

import anndata
import mudata
import numpy as np
import penstock as ps
import pytest
import zarr
from anndata_cases import random_anndata, rows_of


@pytest.fixture(params=["h5mu", "zarr 2", "zarr 3"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[mudata.MuData, Path]:
    """Modalities rna, without an X but with layers["counts"]; bare, with neither; and protein."""
    rna, bare, protein = (random_anndata(np.random.default_rng(i), 12, 4 + i) for i in range(3))
    del rna.X, bare.X, bare.layers["counts"]
    parts = {"rna": rna, "bare": bare, "protein": protein}
    for name, part in parts.items():
        part.var_names = [f"{name}-{i}" for i in range(part.n_vars)]
    path = tmp_path / f"x.{request.param[:4]}"
    with warnings.catch_warnings(), anndata.settings.override(zarr_write_format=2):
        warnings.simplefilter("ignore")
        if request.param == "zarr 3":
            anndata.settings.zarr_write_format = 3
        made = mudata.MuData(parts)
        made.write_h5mu(path) if request.param == "h5mu" else made.write_zarr(path)
    return made, path


def is_null(path: Path) -> bool:
    if path.suffix != ".zarr":
        import h5py

        with h5py.File(path) as file:
            return file["mod/rna/X"].attrs["encoding-type"] == "null"
    return zarr.open_group(str(path), mode="r")["mod/rna/X"].attrs["encoding-type"] == "null"


def test_it_is_no_layer(stored: tuple[mudata.MuData, Path], tmp_path: Path) -> None:
    made, path = stored
    assert is_null(path)
    wanted = made["rna"].layers["counts"].toarray()
    for source, measurement in ((path, "rna"), (f"{path}/mod/rna", "RNA")):
        assert ps.open(source).layers(measurement) == ["counts"]
        np.testing.assert_array_equal(rows_of(source, measurement=measurement), wanted)
        with pytest.raises(ps.NotFound, match="no layer 'X'; choose from counts"):
            ps.Dataset(source, measurement=measurement, layer="X")
    packed = ps.pack(f"{path}/mod/rna", tmp_path / "x.pack")
    assert packed.layers() == ["counts"]
    np.testing.assert_array_equal(rows_of(packed), wanted)


def test_an_object_with_nothing_else_says_so(stored: tuple[mudata.MuData, Path]) -> None:
    _, path = stored
    with pytest.raises(ps.NotFound, match="no X and no layer"):
        ps.Dataset(path, measurement="bare")
    assert ps.Dataset(path, measurement="protein", layer="X").n_obs == 12
