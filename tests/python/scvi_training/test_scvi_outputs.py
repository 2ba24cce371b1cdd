"""Files of an inference are complete or absent, and other files are not replaced."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

pytest.importorskip("scvi")

import penstock.scvi as pscvi
from penstock.inference import rows as rows_files
from penstock.scvi.outputs.row_writers import Latent

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


def test_arrays_of_others_are_left(some: tuple[Any, Any], tmp_path: Path) -> None:
    """A .npy file is of an inference where the joinids are beside it."""
    pscvi.latent(*some, out=tmp_path / "ours.npy")
    counts = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "alone.npy", counts)
    np.save(tmp_path / "other.npy", counts)
    np.save(tmp_path / "other.joinids.npy", counts)
    np.save(tmp_path / "beside.joinids.npy", counts)
    (tmp_path / "text.npy").write_text("precious")
    np.save(tmp_path / "text.joinids.npy", np.arange(2))
    for name in ("archive.npy", "names.joinids.npy"):
        with (tmp_path / name).open("wb") as file:
            np.savez(file, counts=counts)
    np.save(tmp_path / "archive.joinids.npy", np.arange(2))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, said in [
        ("archive.npy", "archive.npy is a file"),
        ("names.npy", "names.joinids.npy is a file"),
        ("alone.npy", "alone.npy is a file that holds something else than rows"),
        ("other.npy", "other.joinids.npy is a file"),
        ("beside.npy", "beside.joinids.npy is a file"),
        ("text.npy", "text.npy is a file"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=said):
            pscvi.latent(*some, out=tmp_path / name)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "ours.npy").unlink()
    rows = pscvi.latent(*some, out=tmp_path / "ours.npy")
    assert rows.values.shape == (60, 3)


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
    assert rows_files.checked_out(path) == path


class Killed(BaseException):
    """The process is gone at this point."""


def killed_at(patch: pytest.MonkeyPatch, folder: Path, step: int) -> None:
    """At so many changes of names in a folder; of a tree that is removed, one file is gone."""
    done = []
    remove_tree = shutil.rmtree

    def dying(function: Any) -> Any:
        def changed(path: Any, *arguments: Any, **others: Any) -> Any:
            is_ours = threading.current_thread() is threading.main_thread()  # and not zarr's
            if is_ours and Path(path).parent == folder:
                if len(done) == step:
                    if function is remove_tree and Path(path).exists():
                        next(
                            each for each in Path(path).glob("*/c/**/*") if each.is_file()
                        ).unlink()
                    raise Killed
                done.append(path)
            return function(path, *arguments, **others)

        return changed

    for owner, name in ((Path, "unlink"), (Path, "replace"), (Path, "rename"), (shutil, "rmtree")):
        patch.setattr(owner, name, dying(getattr(owner, name)))


def rows_that_say_whose(folder: Path, name: str, joinids: np.ndarray) -> tuple[Path, np.ndarray]:
    file = folder / (name + ".filled.npy")
    rows = rows_files.create(file, (len(joinids), 2), "float32")
    rows[:] = joinids[:, None]
    rows.flush()
    return file, joinids


def stored(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if rows_files.is_zarr(path):
        import zarr

        group = zarr.open_group(str(path), mode="r")
        return group["values"][:], group["joinids"][:]
    return np.load(path), np.load(path.with_suffix(".joinids.npy"))


@pytest.mark.parametrize("name", ["rows.zarr", "rows.npy"])
def test_a_kill_leaves_no_rows_beside_joinids_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Rows of some cells, that those of others replace: whichever there are, they go together."""
    first, second = np.arange(1, 8, dtype=np.int64), np.arange(9, 2, -1, dtype=np.int64)
    path = tmp_path / name
    rows_files.finished(*rows_that_say_whose(tmp_path, name, first), path)
    begun, found = rows_that_say_whose(tmp_path, name, second), []
    for step in range(20):
        with monkeypatch.context() as patch:
            killed_at(patch, tmp_path, step)
            try:
                rows_files.finished(*begun, path)
                break
            except Killed:
                pass
        if path.exists():
            values, joinids = stored(path)
            assert values[:, 0].tolist() == joinids.tolist(), f"killed at step {step}"
            found.append(joinids[0])
        rows_files.checked_out(path)
        # As after the kill: what comes next begins from what is there.
        for each in tmp_path.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        rows_files.finished(*rows_that_say_whose(tmp_path, name, first), path)
        begun = rows_that_say_whose(tmp_path, name, second)
    assert step >= 2
    assert 1 in found, "there are steps before anything is gone"
    assert stored(path)[1].tolist() == second.tolist()


def test_rows_of_the_same_cells_are_never_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joinids = np.arange(5, dtype=np.int64)
    path = tmp_path / "rows.npy"
    rows_files.finished(*rows_that_say_whose(tmp_path, "rows.npy", joinids), path)
    begun = rows_that_say_whose(tmp_path, "rows.npy", joinids)
    with monkeypatch.context() as patch:
        killed_at(patch, tmp_path, 0)
        with pytest.raises(Killed):
            rows_files.finished(*begun, path)
    assert stored(path)[1].tolist() == joinids.tolist()
