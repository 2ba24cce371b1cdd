"""penstock.scvi.train on real processes: what it monitors, stops by, keeps, and goes on from."""

from __future__ import annotations

import json
import signal
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle
from torchrun import finish, torchrun

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from penstock.scvi.launch import _cause, launch  # noqa: E402
from scvi_callbacks import FixedNoise, Killed  # noqa: E402
from scvi_experiments import as_anndata, elbo_of_each_cell_once  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SCRIPT = Path(__file__).with_name("scvi_script.py")
#: Never better by so much: training stops two epochs after the first.
STOPPING = {"patience": 2, "min_delta": 1e9}


def made(cells: Oracle, batch_size: int) -> tuple[pscvi.DataModule, object]:
    # 71 validation cells: no multiple of what two or four ranks take at a time.
    data = pscvi.DataModule(
        cells.path, batch_key="donor", labels_key="kind", train_size=260 / 331,
        batch_size=batch_size,
    )  # fmt: skip
    assert data.n_val == 71
    torch.manual_seed(0)
    return data, data.create_model(n_latent=4, n_hidden=16)


def trained(cells: Oracle, folder: Path, devices: int, batch_size: int, callbacks=(), **others):
    data, model = made(cells, batch_size)
    arguments = {"early_stopping": STOPPING, "max_epochs": 6, "seed": 1, "progress": False}
    pscvi.train(
        model, data, devices=devices, accelerator="cpu", checkpoint=folder / "checkpoint",
        callbacks=[FixedNoise(folder), *callbacks], plan_kwargs={"reduce_lr_on_plateau": True},
        **{**arguments, **others},
    )  # fmt: skip
    return data, model


@pytest.fixture(scope="module")
def two_ranks(cells: Oracle, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("two")
    return folder, *trained(cells, folder, 2, 20)


def check(cells: Oracle, folder: Path, data, model) -> list[float]:
    monitored = model.history["elbo_validation"]["elbo_validation"].astype(float).tolist()
    assert len(monitored) == 3, "stopped by what was monitored"
    again = data.create_model(n_latent=4, n_hidden=16)
    expected = [elbo_of_each_cell_once(data, again, folder / f"{i}.pt") for i in range(3)]
    np.testing.assert_allclose(monitored, expected, rtol=1e-5)

    best = json.loads((folder / "checkpoint" / "best.json").read_text())
    assert best["epoch"] == int(np.argmin(monitored))
    assert best["score"] == pytest.approx(min(monitored))
    assert (model.best_["epoch"], model.best_["score"]) == (best["epoch"], best["score"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = scvi.model.SCVI.load(
            str(folder / "checkpoint" / "best"), as_anndata(cells), accelerator="cpu"
        )
    for name, each in torch.load(folder / f"{best['epoch']}.pt").items():
        torch.testing.assert_close(kept.module.state_dict()[name], each, msg=name)

    assert model.is_trained_
    assert not model.module.training
    assert model.train_indices.tolist() == data.train_idx.tolist()
    assert sorted([*model.train_indices, *model.validation_indices]) == list(range(331))
    assert "lr-Adam" in model.history
    return monitored


def test_two_ranks(cells: Oracle, two_ranks, tmp_path: Path) -> None:
    folder, data, model = two_ranks
    two = check(cells, folder, data, model)
    # One process with the batches of both: BatchNorm sees 40 cells in place of 20, and the noise
    # is another.
    _, alone = trained(cells, tmp_path, 1, 40)
    one = alone.history["elbo_validation"]["elbo_validation"].astype(float)
    np.testing.assert_allclose(two, one, rtol=0.05)
    # History as scvi-tools gives it to one process.
    assert alone.history.keys() == model.history.keys()
    for name, values in alone.history.items():
        found = model.history[name]
        assert found.columns.tolist() == values.columns.tolist() == [name]
        assert (found.index.name, found.index.tolist()) == (
            values.index.name,
            values.index.tolist(),
        )


def test_four_ranks(cells: Oracle, tmp_path: Path) -> None:
    check(cells, tmp_path, *trained(cells, tmp_path, 4, 10))


def test_a_killed_rank_and_going_on(cells: Oracle, two_ranks, tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(pscvi.RankFailed, match="rank 1 of 2 was killed by SIGKILL"):
        trained(cells, tmp_path, 2, 20, [Killed(1)])
    assert signal.getsignal(signal.SIGINT) is handler
    _, model = trained(cells, tmp_path, 2, 20, resume=True)
    expected = two_ranks[2].history
    assert model.history.keys() == expected.keys()
    for name, values in expected.items():
        found = model.history[name].astype(float)
        assert found.index.tolist() == values.index.tolist(), name
        np.testing.assert_allclose(found, values.astype(float), rtol=1e-5, err_msg=name)
    for name, each in two_ranks[2].module.state_dict().items():
        torch.testing.assert_close(model.module.state_dict()[name], each, rtol=1e-5, atol=1e-6)


def test_accuracy_is_that_of_all_ranks(cells: Oracle, tmp_path: Path) -> None:
    """Of a SCANVI, whose metrics scvi-tools does not sum; the best model is chosen by it."""
    data = pscvi.DataModule(
        cells.path, "SCANVI", labels_key="kind", unlabeled_category="Unknown", batch_size=1_000,
        train_size=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    model = data.create_model(n_latent=4)
    pscvi.train(
        model, data, devices=2, accelerator="cpu", max_epochs=2, seed=0, progress=False,
        checkpoint=tmp_path, checkpoint_monitor="validation_accuracy", callbacks=[FixedNoise(tmp_path)],
    )  # fmt: skip
    best = json.loads((tmp_path / "best.json").read_text())
    found = model.history["validation_accuracy"]["validation_accuracy"].astype(float).tolist()
    assert (best["score"], best["epoch"]) == (pytest.approx(max(found)), int(np.argmax(found)))
    kinds = cells.obs["kind"].to_numpy()
    held_out = data.val_idx[kinds[data.val_idx] != "Unknown"]
    for epoch, accuracy in enumerate(found):
        model.module.load_state_dict(torch.load(tmp_path / f"{epoch}.pt"))
        said = pscvi.predict(model, data).values
        # A rank has its share of the labelled cells in one batch. scvi-tools weighs it by all cells of
        # the batch, 83 and 82.
        assert accuracy == pytest.approx((said == kinds)[held_out].mean(), abs=0.01)


def rank_that_fails(rank_to_fail: int) -> int:
    import os
    import time

    if int(os.environ["RANK"]) == rank_to_fail:
        raise ArithmeticError("the third donor has no cells")
    time.sleep(600)
    return 0


def rank_and_world(of: str) -> tuple[str, str, str]:
    import os

    print(f"rank {os.environ['RANK']} says {of}")
    return of, os.environ["RANK"], os.environ["WORLD_SIZE"]


def test_a_failing_rank_is_what_the_user_sees(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(pscvi.RankFailed, match="rank 1 failed") as error:
        launch(rank_that_fails, {"rank_to_fail": 1}, 2)
    assert "ArithmeticError: the third donor has no cells" in str(error.value)
    assert "rank_that_fails" in str(error.value)
    results = launch(rank_and_world, {"of": "hello"}, 2)
    assert results == [("hello", "0", "2"), ("hello", "1", "2")]
    assert "rank 0 says hello" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "is_memory"), [(signal.SIGKILL, True), (signal.SIGABRT, False)])
def test_want_of_memory_is_said_of_sigkill(
    tmp_path: Path, number: signal.Signals, is_memory: bool
) -> None:
    said = _cause(tmp_path, SimpleNamespace(failures={1: SimpleNamespace(exitcode=-number)}))
    assert f"rank 1 of 0 was killed by {number.name}; the others were ended." in said
    assert ("want of memory" in said) == is_memory


def test_under_torchrun(cells: Oracle, tmp_path: Path) -> None:
    out = finish(torchrun(2, SCRIPT, cells.path, tmp_path))
    (line,) = [line for line in out.splitlines() if line.startswith("RESULTS ")]
    first, second = json.loads(line.removeprefix("RESULTS "))
    assert len(first["first"]) == 2
    assert first["epochs"] == second["epochs"] == 2
    assert (tmp_path / "checkpoint" / "best" / "model.pt").exists()


def test_what_is_refused(cells: Oracle, tmp_path: Path) -> None:
    data, model = made(cells, 40)
    whole = pscvi.DataModule(cells.path, batch_key="donor", labels_key="kind", train_size=1.0)
    for arguments, said in [
        ({"sync_batchnorm": True, "accelerator": "cpu"}, "sync_batchnorm needs GPUs"),
        ({"resume": True}, "need checkpoint="),
        ({"strategy": "ddp"}, "strategy is chosen"),
        ({"devices": 0}, "devices must be 1 or more"),
        ({"accelerator": "tpu"}, "accelerator must be one of"),
        # What scvi-tools takes, and then does nothing with.
        ({"batch_size": 1024}, "batch_size is the data module's"),
        ({"early_stopping_patience": 3}, "early_stopping={'patience': …}"),
        ({"n_samples_per_label": 9}, "n_samples_per_label is the data module's"),
        ({"enable_checkpointing": True}, "use checkpoint="),
    ]:
        with pytest.raises(ps.InvalidArgument, match=said):
            pscvi.train(model, data, max_epochs=1, **arguments)
    with pytest.raises(ps.InvalidArgument, match="early_stopping looks at validation"):
        pscvi.train(model, whole, early_stopping=True)
    with pytest.raises(ps.InvalidArgument, match="batches"):
        pscvi.train(model, pscvi.DataModule(cells.path))
