"""Checkpoints, early stopping and start of penstock.scvi.train on one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle
from lightning.pytorch.callbacks import Callback

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from penstock.inference import rows as rows_files  # noqa: E402
from penstock.scvi.run.run_settings import _epochs  # noqa: E402
from scvi_callbacks import FixedNoise  # noqa: E402
from scvi_experiments import as_anndata  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

HOW: dict[str, Any] = {"accelerator": "cpu", "progress": False, "seed": 1}


def made(cells: Oracle, **arguments: Any) -> tuple[pscvi.DataModule, Any]:
    data = pscvi.DataModule(cells.path, batch_key="donor", batch_size=64, **arguments)
    torch.manual_seed(0)
    return data, data.create_model(n_latent=3, n_hidden=8)


class Spoils(Callback):
    """The weights, before the validation of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch == self.epoch:
            with torch.no_grad():
                for each in pl_module.module.parameters():
                    each.mul_(3)


@pytest.mark.parametrize("load_best", [False, True])
def test_the_best_weights_or_the_last(cells: Oracle, tmp_path: Path, load_best: bool) -> None:
    data, model = made(cells)
    pscvi.train(
        model, data, max_epochs=3, checkpoint=tmp_path / "run", load_best=load_best,
        callbacks=[Spoils(2), FixedNoise(tmp_path)], **HOW,
    )  # fmt: skip
    assert model.best_["epoch"] == json.loads((tmp_path / "run" / "best.json").read_text())["epoch"]
    assert model.best_["epoch"] < 2
    expected = torch.load(tmp_path / f"{model.best_['epoch'] if load_best else 2}.pt")
    for name, each in model.module.state_dict().items():
        torch.testing.assert_close(each, expected[name], msg=name)


@pytest.mark.parametrize("killed", ["between the names", "before the old one is gone"])
def test_killed_while_the_best_is_replaced(cells: Oracle, tmp_path: Path, killed: str) -> None:
    """The model that was there, or the one that came; resuming has it, and no later one is better."""
    data, model = made(cells)
    pscvi.train(model, data, max_epochs=1, checkpoint=tmp_path, **HOW)
    kept = {name: each.clone() for name, each in model.module.state_dict().items()}
    if killed == "between the names":
        (tmp_path / "best").rename(tmp_path / "best.old")
        (tmp_path / "best.partial").mkdir()
    else:
        (tmp_path / "best.old").mkdir()
    _, model = made(cells)
    pscvi.train(
        model, data, max_epochs=2, checkpoint=tmp_path, resume=True, load_best=True,
        callbacks=[Spoils(1)], **HOW,
    )  # fmt: skip
    assert model.best_["epoch"] == 0
    for name, each in kept.items():
        torch.testing.assert_close(model.module.state_dict()[name], each, msg=name)
    saved = scvi.model.SCVI.load(str(tmp_path / "best"), as_anndata(cells), accelerator="cpu")
    torch.testing.assert_close(dict(saved.module.state_dict()), kept)


def test_warm_up_before_early_stopping(cells: Oracle) -> None:
    for warmup, epochs in ((0, 2), (2, 4)):
        data, model = made(cells)
        stopping = {"patience": 1, "min_delta": 1e9, "warmup_epochs": warmup}
        pscvi.train(model, data, max_epochs=6, early_stopping=stopping, **HOW)
        assert len(model.history["elbo_validation"]) == epochs


def test_without_validation_the_last_model_is_the_best(cells: Oracle, tmp_path: Path) -> None:
    data, model = made(cells, train_size=1.0)
    pscvi.train(model, data, max_epochs=1, checkpoint=tmp_path, **HOW)
    data, model = made(cells, train_size=1.0)
    pscvi.train(model, data, max_epochs=2, checkpoint=tmp_path, resume=True, **HOW)
    assert model.best_ == {"epoch": 1, "score": None}
    kept = scvi.model.SCVI.load(str(tmp_path / "best"), as_anndata(cells), accelerator="cpu")
    for name, each in kept.module.state_dict().items():
        torch.testing.assert_close(each, model.module.state_dict()[name], msg=name)
    _, whole = made(cells, train_size=1.0)
    pscvi.train(whole, data, max_epochs=2, checkpoint=tmp_path / "whole", **HOW)
    for name, each in whole.module.state_dict().items():
        torch.testing.assert_close(model.module.state_dict()[name], each, msg=name)


def test_the_number_of_epochs_is_that_of_scvi_tools(cells: Oracle) -> None:
    """400 for few cells; a third of it, 2 to 10, for a SCANVI made from a SCVI."""
    data, model = made(cells)
    assert _epochs(model, data, None) == 400
    assert _epochs(model, data, 7) == 7
    model.was_pretrained = True
    assert _epochs(model, data, None) == 10


def test_means_of_a_logistic_normal(cells: Oracle) -> None:
    data = pscvi.DataModule(cells.path, train_size=1.0)
    torch.manual_seed(0)
    model = data.create_model(n_latent=3, latent_distribution="ln")
    model.module.eval()
    model.is_trained_ = True
    found = pscvi.latent(model, data).values
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-4)
    expected = model.get_latent_representation(
        dataloader=data.predict_dataloader(), mc_samples=5_000
    )
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_priors_of_cells_without_counts(tmp_path: Path) -> None:
    """scvi-tools takes their logarithm for 0."""
    import anndata
    import pandas as pd
    import scipy.sparse as sp
    import tiledbsoma.io

    X = sp.random(40, 6, 0.6, "csr", np.float32, random_state=0)
    X.data = np.ceil(X.data * 9)
    X = sp.vstack([X, sp.csr_matrix((4, 6), dtype=np.float32)], format="csr")
    obs = pd.DataFrame({"lot": ["a", "b"] * 22}, index=[f"c{i}" for i in range(44)])
    adata = anndata.AnnData(X, obs, pd.DataFrame(index=[f"g{i}" for i in range(6)]))
    tiledbsoma.io.from_anndata(str(tmp_path / "e"), adata.copy(), "RNA", X_layer_name="raw")
    data = pscvi.DataModule(tmp_path / "e", batch_key="lot")
    with pytest.warns(UserWarning, match=r"cells? without a count might fail"):
        ours = data.create_model(use_observed_lib_size=False)
    scvi.model.SCVI.setup_anndata(adata, batch_key="lot")
    theirs = scvi.model.SCVI(adata, use_observed_lib_size=False)
    for name in ("library_log_means", "library_log_vars"):
        torch.testing.assert_close(
            getattr(ours.module, name), getattr(theirs.module, name), rtol=1e-5, atol=1e-6
        )


def test_rows_in_several_chunks_of_zarr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_files, "_CHUNK_BYTES", 100)
    rows = np.random.default_rng(0).random((53, 7)).astype(np.float32)
    joinids = np.arange(53, dtype=np.int64)[::-1].copy()
    file = tmp_path / "own" / "rows.npy"
    file.parent.mkdir()
    np.save(file, rows)
    values = rows_files.finished(file, joinids, tmp_path / "rows.zarr")
    assert values.chunks == (3, 7)
    np.testing.assert_array_equal(values[:], rows)


@pytest.mark.parametrize("rank", [0, 1])
def test_inference_within_a_run(
    cells: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    """The rank that calls has all cells; several processes, and files of others, are refused."""
    data, model = made(cells)
    model.is_trained_ = True
    expected = pscvi.elbo(model, data, seed=3)
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    rows = pscvi.elbo(model, data, seed=3)
    np.testing.assert_array_equal(rows.values, expected.values)
    np.testing.assert_array_equal(rows.joinids, expected.joinids)
    with pytest.raises(ps.InvalidArgument, match="devices must be 1 or 'auto', got 2"):
        pscvi.latent(model, data, devices=2)
    if rank == 0:
        written = pscvi.elbo(model, data, seed=3, out=tmp_path / "elbo.npy")
        np.testing.assert_array_equal(written.values, expected.values)
        return
    with pytest.raises(ps.InvalidArgument, match=r"only rank 0 can write elbo\.npy.* rank 1 of 2"):
        pscvi.elbo(model, data, out=tmp_path / "elbo.npy")
    assert not list(tmp_path.iterdir())


WITHOUT_PENSTOCK = """\
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "penstock":
            raise ModuleNotFoundError("no penstock here")

sys.meta_path.insert(0, Refuses())
import warnings
import anndata, numpy, scvi
adata = anndata.read_h5ad(sys.argv[1])
for folder, latent in zip(sys.argv[2::2], sys.argv[3::2]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        model = scvi.model.SCVI.load(folder, adata, accelerator="cpu")
    numpy.testing.assert_allclose(
        model.get_latent_representation(), numpy.load(latent), rtol=1e-4, atol=1e-6
    )
assert not any(name.partition(".")[0] == "penstock" for name in sys.modules)
"""


def test_models_load_where_penstock_is_not(cells: Oracle, tmp_path: Path) -> None:
    """What is saved after training and the best of it: files of scvi-tools, nothing of ours."""
    data, model = made(cells)
    pscvi.train(model, data, max_epochs=2, checkpoint=tmp_path / "run", load_best=True, **HOW)
    model.save(str(tmp_path / "model"))
    pscvi.latent(model, data, out=tmp_path / "latent.npy")
    as_anndata(cells).write_h5ad(tmp_path / "cells.h5ad")
    latent = tmp_path / "latent.npy"
    folders = [tmp_path / "model", latent, tmp_path / "run" / "best", latent]
    command = [sys.executable, "-c", WITHOUT_PENSTOCK, tmp_path / "cells.h5ad", *folders]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
