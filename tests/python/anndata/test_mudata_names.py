"""Names of modalities and of their columns that collide or cannot be told apart: an error that says what to do."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import mudata
import numpy as np
import penstock as ps
import pytest
from anndata_cases import expect_read, random_anndata


def write(parts: dict[str, tuple[int, list[str]]], path: Path) -> mudata.MuData:
    """A MuData of modalities, each with a number of genes and columns of obs."""
    made = {}
    for number, (name, (genes, columns)) in enumerate(parts.items()):
        made[name] = random_anndata(np.random.default_rng(number), 6, genes)
        made[name].var_names = [f"{number}-{i}" for i in range(genes)]
        made[name].obs = made[name].obs[[]]
        for column in columns:
            made[name].obs[column] = np.arange(6) + number
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = mudata.MuData(made)
        written.obs = written.obs[[]]
        written.write_zarr(path) if path.suffix == ".zarr" else written.write_h5mu(path)
    return written


@pytest.mark.parametrize("kind", ["h5mu", "zarr"])
def test_columns_of_one_name_are_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"x.{kind}"
    written = write({"a": (3, ["b:c", "d"]), "a:b": (4, ["c"])}, path)
    told = r"modalities 'a' and 'a:b' are both called 'a:b:c'; rename one.*open each alone"
    with pytest.raises(ps.InvalidArgument, match=told):
        ps.open(path)
    for name in ("a", "a:b"):
        expect_read(f"{path}/mod/{name}", written[name])


@pytest.mark.parametrize("kind", ["h5mu", "zarr"])
def test_a_modality_that_is_called_as_the_raw_of_another_is_an_error(
    tmp_path: Path, kind: str
) -> None:
    parts = {}
    for number, name in enumerate(("rna", "rna:raw")):
        parts[name] = random_anndata(np.random.default_rng(number), 6, 3 + number, raw=True)
        parts[name].var_names = [f"{name}-{i}" for i in range(3 + number)]
        parts[name].obs = parts[name].obs[[]]
    path = tmp_path / f"x.{kind}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mudata.MuData(parts)
        made.write_zarr(path) if kind == "zarr" else made.write_h5mu(path)
    told = r"modality 'rna:raw' is called as the raw of 'rna'; rename it.*open each alone"
    with pytest.raises(ps.InvalidArgument, match=told):
        ps.open(path)
    for name in parts:
        assert ps.open(f"{path}/mod/{name}").measurements == ["RNA", "raw"]


def test_columns_that_the_whole_object_has_are_no_error(tmp_path: Path) -> None:
    """mudata before 0.4 copied columns of modalities."""
    path = tmp_path / "x.h5mu"
    write({"a": (3, ["d"]), "b": (4, ["d"])}, path)
    with h5py.File(path, "r+") as file:
        for name in ("a:d", "b:d"):
            if name in file["obs"]:
                del file["obs"][name]
            file["obs"][name] = np.arange(6) + 50
            file["obs"][name].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        file["obs"].attrs["column-order"] = np.array(["a:d", "b:d"], h5py.string_dtype())
    obs = ps.open(path).obs.to_pandas()
    assert list(obs.columns) == ["soma_joinid", "obs_names", "a:d", "b:d"]
    assert obs["b:d"].tolist() == list(range(50, 56))


def test_a_modality_with_a_slash_says_what_to_do(tmp_path: Path) -> None:
    """mudata stores it as a group in a group, and later versions refuse to write it."""
    path = tmp_path / "x.h5mu"
    written = write({"rna": (3, ["d"]), "atac": (4, ["d"])}, path)
    with h5py.File(path, "r+") as file:
        file.move("mod/rna", "rna")
        file.move("rna", "mod/rna/counts")
        order = np.array(["rna/counts", "atac"], h5py.string_dtype())
        file["mod"].attrs["mod-order"] = order
    told = r"modality 'rna/counts' has a slash.*open it alone, .*mod/rna/counts.*rename"
    with pytest.raises(ps.Unsupported, match=told):
        ps.open(path)
    expect_read(f"{path}/mod/rna/counts", written["rna"])
