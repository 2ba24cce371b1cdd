"""The trace of training: losses beside those that scvi-tools logs, resumed runs, damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle
from penstock.cli import main

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from lightning.pytorch.callbacks import Callback  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def trained(cells: Oracle, path: Path, devices: int = 1, epochs: int = 3, **more):
    data = pscvi.DataModule(
        cells.path, batch_key="donor", batch_size=40 // devices, train_size=260 / 331
    )
    torch.manual_seed(0)
    model = data.create_model(n_latent=4, n_hidden=16)
    return pscvi.train(
        model, data, devices=devices, accelerator="cpu", max_epochs=epochs, seed=1, progress=False,
        callbacks=[pscvi.Trace(path)], **more,
    )  # fmt: skip


@pytest.mark.parametrize("devices", [1, 2])
def test_losses_are_those_that_are_logged(cells: Oracle, devices: int, tmp_path: Path) -> None:
    """Their mean over the cells of an epoch is scvi-tools' own; of two ranks, rank 0 has a half."""
    model = trained(cells, tmp_path / "trace.csv", devices)
    trace = pscvi.read_trace(tmp_path / "trace.csv")
    logged = model.history["train_loss"]["train_loss"].astype(float).to_numpy()
    sizes = np.array([40] * 6 + [20])  # 260 cells
    losses = trace["loss"].to_numpy().reshape(3, 7)
    found = (losses * sizes).sum(axis=1) / 260
    np.testing.assert_allclose(found, logged, rtol=1e-6 if devices == 1 else 0.05)
    assert len(np.unique(losses)) == 21
    assert trace["step"].tolist() == list(range(1, 22))
    assert trace["epoch"].tolist() == sorted(list(range(3)) * 7)
    assert trace["seconds"].is_monotonic_increasing
    assert trace["seconds"].min() > 0
    assert trace["rss"].between(50 << 20, 20 << 30).all()
    assert (trace["device_bytes"] == 0).all()


def test_a_resumed_run_continues_its_trace(cells: Oracle, tmp_path: Path) -> None:
    """Rows of steps after the checkpoint, which a kill leaves behind, come once."""
    path, run = tmp_path / "trace.csv", tmp_path / "run"
    trained(cells, path, epochs=1, checkpoint=run)
    first = pscvi.read_trace(path)
    with path.open("a") as file:
        file.write("8,1,99.5,1.0,1,0\n9,1,99.75,1.")  # the second was cut by the kill
    trained(cells, path, checkpoint=run, resume=True)
    trace = pscvi.read_trace(path)
    assert trace["step"].tolist() == list(range(1, 22))
    assert trace[:7].equals(first)
    assert trace["seconds"].is_monotonic_increasing
    assert (trace["loss"] != 1.0).all()
    trained(cells, path, epochs=1)  # a new run replaces it
    assert len(pscvi.read_trace(path)) == 7


class Fails(Callback):
    """Fails at a step."""

    def on_train_batch_start(self, trainer, pl_module, batch, step) -> None:
        if trainer.global_step == 4:
            raise KeyError("stop")


def test_a_training_that_fails_leaves_its_trace(cells: Oracle, tmp_path: Path) -> None:
    """The same callback then begins with the next training."""
    data = pscvi.DataModule(cells.path, batch_size=40, train_size=260 / 331)
    trace = pscvi.Trace(tmp_path / "trace.csv")
    settings = {"accelerator": "cpu", "max_epochs": 1, "seed": 1, "progress": False}
    with pytest.raises(KeyError, match="stop"):
        pscvi.train({"n_latent": 4}, data, callbacks=[trace, Fails()], **settings)
    assert pscvi.read_trace(trace.path)["step"].tolist() == [1, 2, 3, 4]
    pscvi.train({"n_latent": 4}, data, callbacks=[trace], **settings)
    assert pscvi.read_trace(trace.path)["step"].tolist() == list(range(1, 8))
    with pytest.raises(ps.NotFound, match="there is no folder"):
        pscvi.Trace(tmp_path / "none" / "trace.csv")


@pytest.mark.parametrize("text", ["", "step,loss\n1,2\n", "\0\xff"])
def test_what_is_no_trace(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ps.CorruptData, match="is no trace of training"):
        pscvi.read_trace(path)


def test_a_damaged_row(cells: Oracle, tmp_path: Path) -> None:
    head = "step,epoch,seconds,loss,rss,device_bytes\n"
    path = tmp_path / "trace.csv"
    path.write_text(f"{head}1,0,0.5,x,1,0\n2,0,0.6,1.5,1,0\n")
    with pytest.raises(ps.CorruptData, match="row 1 is not of 6 numbers"):
        pscvi.read_trace(path)
    for row in (
        "nan,0,0.5,1,1,0",
        "1.5,0,0.5,1,1,0",
        "1,0,nan,1,1,0",
        "1,0,0.5,1",
        f"{'9' * 30},0,0,1,1,0",
    ):
        path.write_text(f"{head}{row}\n2,0,0.6,1.5,1,0\n")
        with pytest.raises(ps.CorruptData, match="row 1 is not of 6 numbers"):
            pscvi.read_trace(path)
    path.write_text(f"{head}{'9' * 200_000},0\n")
    with pytest.raises(ps.CorruptData, match="is no trace of training"):
        pscvi.read_trace(path)
    path.write_text(f"{head}1,0,0.5,nan,1,0\n2,0,0.6,1.5")
    assert pscvi.read_trace(path)["step"].tolist() == [1]
    with pytest.raises(ps.InvalidArgument, match="path must be a file on this machine"):
        pscvi.Trace("s3://bucket/trace.csv")


def test_the_command(cells: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``penstock train --trace`` trains what the package trains with these settings."""
    out = tmp_path / "out"
    command = ["train", "scvi", str(cells.path), "--epochs", "1", "--cells", "200", "--latent", "4",
               "--accelerator", "cpu", "--trace", "--output", str(out)]  # fmt: skip
    losses = {}
    for shuffle, dense in (("none", []), ("true", ["--dense"]), ("true", [])):
        assert main([*command, "--shuffle", shuffle, *dense]) == 0
        shown = capsys.readouterr().out
        assert "trained in " in shown
        assert "trace.csv  loss, seconds and memory by step" in shown
        assert (out / "trace.png").read_bytes().startswith(b"\x89PNG")
        losses[shuffle, bool(dense)] = pscvi.read_trace(out / "trace.csv")["loss"].to_numpy()
    data = pscvi.DataModule(
        cells.path,
        dataset={"obs_query": ps.AxisQuery(coords=(slice(0, 199),)), "shuffle": False},
        batch_size=128,
    )
    torch.manual_seed(0)
    model = data.create_model(n_latent=4)
    trace = pscvi.Trace(tmp_path / "api.csv")
    pscvi.train(
        model, data, max_epochs=1, accelerator="cpu", seed=0, progress=False, callbacks=[trace]
    )
    expected = pscvi.read_trace(tmp_path / "api.csv")["loss"].to_numpy()
    np.testing.assert_array_equal(losses["none", False], expected)
    np.testing.assert_allclose(losses["true", True], losses["true", False], rtol=1e-5)
    assert not np.allclose(losses["true", False], expected, rtol=1e-4)
    assert main([*command, "--obs-query", "soma_joinid >= 100", "--cells", "231"]) == 0
    assert "231 cells of" in capsys.readouterr().out.replace("200 cells of", "")
    assert main([*command, "--cells", "332"]) == 1
    assert "--cells must be at most 331, the selected cells, got 332" in capsys.readouterr().err


def test_the_command_chooses_the_most_variable_genes(cells: Oracle, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert main(["train", "scvi", str(cells.path), "--epochs", "1", "--batch-key", "donor",
                 "--n-top-genes", "20", "--accelerator", "cpu", "--output", out]) == 0  # fmt: skip
    ds = ps.Dataset(cells.path)
    table = ps.highly_variable_genes(ds, 20, batch_key="donor")
    names = table.index[table["highly_variable"]].tolist()
    data = pscvi.DataModule.from_model(f"{out}/model", cells.path)
    assert data.n_vars == 20
    assert len(data.missing_genes) == 0
    assert sorted(scvi.model.SCVI.load(f"{out}/model", data.template).adata.var_names) == sorted(
        str(name) for name in names
    )
