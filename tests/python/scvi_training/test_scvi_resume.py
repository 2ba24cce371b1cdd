"""Resuming of penstock.scvi.train: the learning rate, and checkpoints that are refused."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import penstock as ps
import pytest
import torch
from conftest import Oracle
from lightning.pytorch.callbacks import Callback

pytest.importorskip("scvi")

import penstock.scvi as pscvi
from penstock.scvi.run.epoch_callbacks import NoiseSeeds
from penstock.scvi.run.run_settings import checked_run

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SOME: dict[str, Any] = {"dataset": {"obs_query": "soma_joinid < 90"}}


class Fails(Callback):
    """Ends a run when a step of an epoch begins."""

    def __init__(self, epoch: int, step: int) -> None:
        self.at = epoch, step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, step: int) -> None:
        if (trainer.current_epoch, step) == self.at:
            raise ArithmeticError("on purpose")


class Rates(Callback):
    """The learning rate of each step's epoch."""

    def __init__(self) -> None:
        self.of_epoch: dict[int, float] = {}

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, step: int) -> None:
        self.of_epoch[trainer.current_epoch] = trainer.optimizers[0].param_groups[0]["lr"]


def made(cells: Oracle, n_latent: int = 3, **arguments: Any) -> tuple[pscvi.DataModule, Any]:
    data = pscvi.DataModule(
        cells.path, **{"batch_key": "donor", "batch_size": 20, **SOME, **arguments}
    )
    torch.manual_seed(0)
    return data, data.create_model(n_latent=n_latent, n_hidden=8)


def trained(pair: tuple[pscvi.DataModule, Any], **arguments: Any) -> Any:
    data, model = pair
    return pscvi.train(
        model, data, **{"accelerator": "cpu", "progress": False, "seed": 1, **arguments}
    )


def epochs_of(model: Any) -> int:
    return len(model.history["elbo_validation"])


def same_weights(model: Any, other: Any) -> bool:
    weights = other.module.state_dict()
    return all(torch.equal(each, weights[name]) for name, each in model.module.state_dict().items())


def test_a_run_that_starts_over_leaves_nothing_of_another(cells: Oracle, tmp_path: Path) -> None:
    first = trained(made(cells), max_epochs=2, checkpoint=tmp_path)
    with pytest.raises(ArithmeticError):
        trained(made(cells), max_epochs=2, checkpoint=tmp_path, seed=2, callbacks=[Fails(0, 1)])
    assert not (tmp_path / "last.ckpt").exists()
    assert not (tmp_path / "best").exists()
    assert not (tmp_path / "best.json").exists()
    again = trained(made(cells), max_epochs=2, checkpoint=tmp_path, seed=2, resume=True)
    assert epochs_of(again) == 2
    assert not same_weights(again, first)
    assert json.loads((tmp_path / "best.json").read_text())["epoch"] == again.best_["epoch"]


def test_no_best_model(cells: Oracle, tmp_path: Path) -> None:
    """Neither that of another run, nor a missing file."""
    trained(made(cells), max_epochs=1, checkpoint=tmp_path)
    best = {"max_epochs": 1, "checkpoint": tmp_path, "load_best": True}
    with pytest.raises(
        ps.InvalidArgument, match=r"none in 1 epoch with check_val_every_n_epoch=2: use at most 1$"
    ):
        trained(made(cells), check_val_every_n_epoch=2, **best)
    with pytest.raises(ps.InvalidArgument, match="elbo_validation was not a number in any epoch"):
        trained(made(cells), limit_val_batches=0, **best)


PLATEAU = {"reduce_lr_on_plateau": True, "lr": 1e-2, "lr_patience": 0, "lr_threshold": 1e9,
           "lr_factor": 0.5, "lr_min": 1e-9}  # fmt: skip


@pytest.mark.parametrize(("at", "every"), [((2, 0), None), ((2, 3), 2), ((3, 1), None)])
def test_the_learning_rate_of_a_plateau_resumes(
    cells: Oracle, tmp_path: Path, at: tuple[int, int], every: int | None
) -> None:
    """It is lowered after each epoch but the first, however the run was broken off."""
    how = {"max_epochs": 6, "plan_kwargs": PLATEAU, "check_val_every_n_epoch": 1}
    whole, rest = Rates(), Rates()
    expected = trained(made(cells), callbacks=[whole], **how)
    assert len(set(whole.of_epoch.values())) == 5
    kept = {"checkpoint": tmp_path, "checkpoint_every_n_steps": every}
    with pytest.raises(ArithmeticError):
        trained(made(cells), callbacks=[Fails(*at)], **kept, **how)
    found = trained(made(cells), callbacks=[rest], resume=True, **kept, **how)
    assert rest.of_epoch == {e: rate for e, rate in whole.of_epoch.items() if e >= at[0]}
    rates = [list(each.history["lr-Adam"]["lr-Adam"]) for each in (found, expected)]
    assert rates[0] == rates[1]


@pytest.mark.parametrize("at", [(1, 3), (2, 0)])
@pytest.mark.parametrize("workers", [0, 2])
def test_noise_resumes(cells: Oracle, tmp_path: Path, workers: int, at: tuple[int, int]) -> None:
    """A DataLoader with workers draws from torch's generator, too, for an epoch and what is left."""

    def one(**arguments: Any) -> Any:
        return trained(
            made(cells, num_workers=workers), max_epochs=3, check_val_every_n_epoch=1, **arguments
        )

    expected = one()
    kept = {"checkpoint": tmp_path, "checkpoint_every_n_steps": 2}
    with pytest.raises(ArithmeticError):
        one(callbacks=[Fails(*at)], **kept)
    found = one(resume=True, **kept)
    assert same_weights(found, expected)
    # Means of training over an epoch are of the batches that were left of it.
    names = [name for name in expected.history if "validation" in name]
    assert len(names) >= 4
    for name in names:
        assert list(found.history[name][name]) == list(expected.history[name][name]), name


def test_noise_is_of_seed_epoch_rank_and_step() -> None:
    """And another one of validation."""
    draws = set()
    for seed, epoch, rank, step in itertools.product(range(2), repeat=4):
        noise = NoiseSeeds(seed)
        trainer = SimpleNamespace(current_epoch=epoch, global_rank=rank)
        noise.on_train_batch_start(trainer, None, None, step)
        draws.add(float(torch.rand(())))
        noise.on_validation_epoch_start(trainer, None)
        draws.add(float(torch.rand(())))
    assert len(draws) == 2**4 + 2**3


def test_resuming_with_other_cells(cells: Oracle, tmp_path: Path) -> None:
    """At an epoch's end as within one."""
    for name, every, at in (("end", None, (1, 0)), ("within", 2, (1, 3))):
        with pytest.raises(ArithmeticError):
            trained(
                made(cells), max_epochs=3, checkpoint=tmp_path / name,
                checkpoint_every_n_steps=every, callbacks=[Fails(*at)],
            )  # fmt: skip
        for other in ({"split_seed": 5}, {"dataset": {"obs_query": "soma_joinid < 91"}}):
            with pytest.raises(ps.InvalidArgument, match=r"last\.ckpt is of other training cells"):
                trained(made(cells, **other), max_epochs=3, checkpoint=tmp_path / name, resume=True)
        model = trained(made(cells), max_epochs=3, checkpoint=tmp_path / name, resume=True)
        assert epochs_of(model) == 3


def test_resuming_with_other_processes_or_batches(cells: Oracle, tmp_path: Path) -> None:
    """Within an epoch its validation would be left out; from its end it is well."""
    run = {"max_epochs": 2, "checkpoint": tmp_path}
    with pytest.raises(ArithmeticError):
        trained(made(cells), checkpoint_every_n_steps=2, callbacks=[Fails(1, 3)], **run)
    data, model = made(cells)
    given = dict.fromkeys(("load_best", "every_n_steps", "sync_batchnorm", "check_val"))
    given |= {"checkpoint": tmp_path, "resume": True, "seed": 1, "monitor": "elbo_validation",
              "progress": False, "plan": {}, "callbacks": (), "trainer": {}}  # fmt: skip
    with pytest.raises(
        ps.InvalidArgument,
        match=r"1 process with batch_size=20.* has 2 processes with batch_size=20",
    ):
        checked_run(model, data, "cpu", 2, False, 2, **given)
    with pytest.raises(ps.InvalidArgument, match="this run has 1 process with batch_size=30"):
        trained(made(cells, batch_size=30), resume=True, **run)
    trained(made(cells), resume=True, **run)
    model = trained(made(cells, batch_size=30), resume=True, checkpoint=tmp_path, max_epochs=3)
    assert epochs_of(model) == 3


def test_a_run_that_stopped_early_trains_no_more(cells: Oracle, tmp_path: Path) -> None:
    stopping = {"patience": 1, "min_delta": 1e9}
    how = {"max_epochs": 9, "checkpoint": tmp_path, "early_stopping": stopping}
    first = trained(made(cells), **how)
    assert epochs_of(first) == 2
    for _ in range(2):
        again = trained(made(cells), resume=True, **how)
        assert epochs_of(again) == 2
        assert same_weights(again, first)
    more = trained(
        made(cells), resume=True, **{**how, "early_stopping": {**stopping, "patience": 3}}
    )
    assert epochs_of(more) == 4


def test_a_patience_of_none(cells: Oracle) -> None:
    model = trained(made(cells), max_epochs=9, early_stopping={"patience": 0, "min_delta": 1e9})
    assert epochs_of(model) == 2


def test_higher_is_better_by_the_name_of_a_metric(cells: Oracle) -> None:
    data, model = made(
        cells, model="SCANVI", labels_key="kind", unlabeled_category="Unknown", batch_size=60
    )
    given = dict.fromkeys(
        ("load_best", "every_n_steps", "sync_batchnorm", "check_val", "checkpoint")
    )
    given |= {"resume": False, "seed": 1, "monitor": "elbo_validation", "progress": False,
              "plan": {}, "callbacks": (), "trainer": {}}  # fmt: skip

    def mode(**stopping: Any) -> Any:
        return checked_run(model, data, "cpu", 1, stopping, 2, **given).early_stopping["mode"]

    assert mode(monitor="validation_accuracy") == "max"
    assert mode(monitor="validation_f1_score") == "max"
    assert mode(monitor="elbo_validation") == mode(patience=3) == "min"
    assert mode(monitor="validation_accuracy", mode="min") == "min"


def test_what_is_refused(cells: Oracle, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    trained(made(cells), max_epochs=2, checkpoint=folder)
    for pair, epochs, said in [
        (made(cells, n_latent=4), 3, "of another model: its .* has the shape"),
        (made(cells, model="LinearSCVI"), 3, "of another model"),
        (made(cells), 1, "of epoch 2, but max_epochs=1: use max_epochs=2 or more"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=said):
            trained(pair, max_epochs=epochs, checkpoint=folder, resume=True)
    whole = (folder / "last.ckpt").read_bytes()
    for size in (0, len(whole) // 2):
        (folder / "last.ckpt").write_bytes(whole[:size])
        with pytest.raises(ps.CorruptData, match=r"last\.ckpt cannot be read.*remove it"):
            trained(made(cells), max_epochs=3, checkpoint=folder, resume=True)
    shutil.rmtree(folder)
    for arguments, said in [
        ({"early_stopping": {"foo": 1}}, "early_stopping takes monitor.*got 'foo'"),
        ({"early_stopping": {"patience": -2}}, "patience.* must be 0 or more"),
        ({"checkpoint_every_n_steps": "x", "checkpoint": folder}, "checkpoint_every_n_steps"),
        ({"checkpoint_every_n_steps": -1, "checkpoint": folder}, "checkpoint_every_n_steps"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=said):
            trained(made(cells), max_epochs=1, **arguments)
