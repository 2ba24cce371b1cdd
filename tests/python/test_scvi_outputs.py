"""Files of an inference: whole or not there, and nobody else's files are replaced."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

pytest.importorskip("scvi")

import penstock.scvi as pscvi
from penstock.scvi import outputs
from penstock.scvi.row_functions import Latent

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def some(cells: Oracle) -> tuple[Any, pscvi.DataModule]:
    data = pscvi.DataModule(cells.path, dataset={"obs_query": "soma_joinid < 60"})
    torch.manual_seed(0)
    model = data.create_model(n_latent=3, n_hidden=8)
    model.is_trained_ = True
    return model, data


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_not_ours_is_left(some: tuple[Any, Any], tmp_path: Path) -> None:
    precious = tmp_path / "precious.zarr"
    precious.mkdir()
    (precious / "counts").mkdir()
    (tmp_path / "file.zarr").write_text("precious")
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "folder.npy" / "precious").write_text("precious")
    for path in (precious, tmp_path / "file.zarr", tmp_path / "folder.npy"):
        with pytest.raises(ps.InvalidArgument, match="holds something else than rows"):
            pscvi.latent(*some, out=path)
    (tmp_path / "link.zarr").symlink_to(precious.rename(tmp_path / "precious"))
    with pytest.raises(ps.InvalidArgument, match=r"link.zarr' is a link to .*precious: give that"):
        pscvi.latent(*some, out=tmp_path / "link.zarr")
    assert names_in(tmp_path / "precious") == ["counts"]
    assert (tmp_path / "file.zarr").read_text() == "precious"
    assert names_in(tmp_path / "folder.npy") == ["precious"]


@pytest.mark.parametrize("name", ["rows.zarr", "rows.npy"])
def test_rows_are_replaced(
    some: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Those of an inference before; and dense rows are put beside them, not elsewhere."""
    expected = pscvi.latent(*some).values
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    path = tmp_path / "new" / name
    if name.endswith(".zarr"):
        path.mkdir(parents=True)
    for return_dist in (True, False):
        rows = pscvi.latent(*some, out=path, return_dist=return_dist)
    np.testing.assert_array_equal(np.asarray(rows.values[:]), expected)
    assert names_in(path.parent) == ([name] if name == "rows.zarr" else ["rows.joinids.npy", name])


@pytest.mark.parametrize("name", ["rows.zarr", "rows.npy"])
def test_an_inference_that_fails_leaves_what_was_there(
    some: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    infer = Latent.__call__
    calls = []

    def fails(self: Any, *arguments: Any) -> Any:
        calls.append(self)
        if len(calls) == 2:
            raise ArithmeticError("on purpose")
        return infer(self, *arguments)

    def failed(folder: Path) -> None:
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Latent, "__call__", fails)
            with pytest.raises(ArithmeticError):
                pscvi.latent(*some, out=folder / name, batch_size=20)

    failed(tmp_path)
    assert names_in(tmp_path) == []
    expected = np.asarray(pscvi.latent(*some, out=tmp_path / name).values[:])
    before = names_in(tmp_path)
    failed(tmp_path)
    assert names_in(tmp_path) == before
    if name == "rows.npy":
        np.testing.assert_array_equal(np.load(tmp_path / name), expected)


def test_zarr_that_fails_leaves_what_was_there(
    some: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zarr

    path = tmp_path / "rows.zarr"
    expected = np.asarray(pscvi.latent(*some, out=path).values[:])

    def fails(*arguments: Any, **others: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr(zarr.Group, "create_array", fails)
    with pytest.raises(OSError, match="no space"):
        pscvi.latent(*some, out=path)
    assert names_in(tmp_path) == ["rows.zarr"]
    np.testing.assert_array_equal(zarr.open_group(str(path), mode="r")["values"][:], expected)
    assert outputs.checked_out(path) == path
