"""penstock.scvi.train on real processes: metrics, early stopping, checkpoints, resuming."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import SCRIPTS, Oracle
from torchrun import finish, torchrun

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from penstock.scvi.run.launch import _cause, launch  # noqa: E402
from scvi_callbacks import (  # noqa: E402
    FixedNoise,
    Killed,
    KilledAtLoaders,
    SpoilsOnRank,
    Writes,
)
from scvi_experiments import as_anndata, elbo_of_each_cell_once  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SCRIPT = SCRIPTS / "scvi_script.py"
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
    return folder, *trained(cells, folder, 2, 20, [Writes(folder / "checkpoint", folder)])


@pytest.fixture(scope="module")
def alone(cells: Oracle, tmp_path_factory: pytest.TempPathFactory):
    """One process with the batches of two ranks, or four."""
    return trained(cells, tmp_path_factory.mktemp("one"), 1, 40)[1]


def in_line(model, alone) -> None:
    """Loss curves within 1 %: BatchNorm sees a rank's 20 or 10 cells, and the noise is another."""
    for name in ("elbo_validation", "elbo_train", "train_loss"):
        found, expected = (each.history[name][name].astype(float) for each in (model, alone))
        np.testing.assert_allclose(found, expected, rtol=0.01, err_msg=name)
    elbo = alone.history["elbo_train"]["elbo_train"].astype(float).tolist()
    assert elbo[-1] < 0.98 * elbo[0], "a curve that falls by more than that"


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
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
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


def test_two_ranks(cells: Oracle, two_ranks, alone) -> None:
    folder, data, model = two_ranks
    check(cells, folder, data, model)
    in_line(model, alone)
    # History as scvi-tools gives it to one process.
    assert alone.history.keys() == model.history.keys()
    for name, values in alone.history.items():
        found = model.history[name]
        assert found.columns.tolist() == values.columns.tolist() == [name]
        assert (found.index.name, found.index.tolist()) == (
            values.index.name,
            values.index.tolist(),
        )


def test_four_ranks(cells: Oracle, alone, tmp_path: Path) -> None:
    data, model = trained(cells, tmp_path, 4, 10)
    check(cells, tmp_path, data, model)
    in_line(model, alone)


def test_only_rank_0_writes(two_ranks) -> None:
    """The best model, what it is, and the checkpoint to resume from."""
    first, second = (
        (two_ranks[0] / f"writes-{rank}.txt").read_text().splitlines() for rank in range(2)
    )
    for name in ("best.json", "best.partial", "last.ckpt.partial"):
        assert any(name in line for line in first), (name, first)
    assert second == []


def test_a_killed_rank_and_resuming(cells: Oracle, two_ranks, tmp_path: Path) -> None:
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


def test_ranks_stop_by_the_sum(cells: Oracle, two_ranks, alone, tmp_path: Path) -> None:
    """From its third epoch on rank 1 alone is worse: rank 0, by itself, would never stop."""
    undisturbed = two_ranks[2].history["elbo_validation"]["elbo_validation"].astype(float)
    assert (np.diff(undisturbed) < 0).all()
    stopping = {"patience": 2, "min_delta": 0.0}
    _, model = trained(
        cells, tmp_path, 2, 20, [SpoilsOnRank(1, 2)], early_stopping=stopping, max_epochs=8,
        load_best=True,
    )  # fmt: skip
    monitored = model.history["elbo_validation"]["elbo_validation"].astype(float).to_numpy()
    np.testing.assert_allclose(monitored[:2], undisturbed[:2], rtol=1e-5)
    assert len(monitored) == 4
    assert (monitored[2:] > monitored[1]).all()
    assert model.best_ == {"epoch": 1, "score": pytest.approx(monitored[1])}
    best = scvi.model.SCVI.load(
        str(tmp_path / "checkpoint" / "best"), as_anndata(cells), accelerator="cpu"
    )
    for name, each in torch.load(tmp_path / "1.pt").items():
        torch.testing.assert_close(best.module.state_dict()[name], each, msg=name)
        torch.testing.assert_close(model.module.state_dict()[name], each, msg=name)


def test_elbo_of_a_scanvi_is_that_of_all_ranks(cells: Oracle, tmp_path: Path) -> None:
    """Several batches of unlike sizes on each rank, with and without labels."""
    data = pscvi.DataModule(
        cells.path, "SCANVI", batch_key="donor", labels_key="kind", unlabeled_category="Unknown",
        batch_size=20, train_size=260 / 331,
    )  # fmt: skip
    torch.manual_seed(0)
    model = data.create_model(n_latent=4, n_hidden=16)
    pscvi.train(
        model, data, devices=2, accelerator="cpu", max_epochs=2, seed=0, progress=False,
        callbacks=[FixedNoise(tmp_path)], check_val_every_n_epoch=1,
    )  # fmt: skip
    monitored = model.history["elbo_validation"]["elbo_validation"].astype(float).tolist()
    again = data.create_model(n_latent=4, n_hidden=16)
    expected = [elbo_of_each_cell_once(data, again, tmp_path / f"{i}.pt") for i in range(2)]
    np.testing.assert_allclose(monitored, expected, rtol=1e-5)


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


def rank_whose_thread_runs_on(folder: Path) -> None:
    """As gloo's threads may: in C++ where Python ends, which aborts a process (pytorch issue 38228)."""
    import atexit
    import os
    import threading

    rank = os.environ["RANK"]
    ones = torch.ones(100)

    def run() -> None:
        while True:
            ones + ones

    threading.Thread(target=run, daemon=True).start()
    threading.Thread(target=lambda: (time.sleep(0.5), (folder / f"late{rank}").touch())).start()
    atexit.register((folder / f"exit{rank}").touch)


def test_a_rank_that_has_returned_does_not_fail(tmp_path: Path) -> None:
    """And what it left to do is done: threads that are waited for, functions for the exit."""
    assert launch(rank_whose_thread_runs_on, {"folder": tmp_path}, 2) == [None, None]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["exit0", "exit1", "late0", "late1"]


def test_a_rank_that_is_asked_to_end(cells: Oracle, tmp_path: Path) -> None:
    """By the system, or who runs it: Lightning would have the others abort or hang."""
    callbacks = [Killed(1, signal.SIGTERM)]
    with pytest.raises(pscvi.RankFailed, match="rank 1 of 2 was killed by SIGTERM; the others"):
        trained(cells, tmp_path, 2, 20, callbacks)


def test_a_rank_that_is_asked_to_end_before_its_first_step(cells: Oracle, tmp_path: Path) -> None:
    """While Lightning, which has taken signals over, asks for loaders: the other is not there yet."""
    data, model = made(cells, 20)
    data.__class__ = KilledAtLoaders
    with pytest.raises(pscvi.RankFailed, match="rank 1 of 2 was killed by SIGTERM; the others"):
        pscvi.train(model, data, devices=2, accelerator="cpu", max_epochs=1, progress=False)


def rank_that_stays(folder: Path) -> None:
    """Rank 0 does not end when it is asked to; a line for each tenth of a second."""
    import os
    import time

    if os.environ["RANK"] == "1":
        while not (folder / "beats").exists():
            time.sleep(0.1)
        raise ArithmeticError("the third donor has no cells")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(6000):
        with (folder / "beats").open("a") as file:
            print("here", file=file)
        time.sleep(0.1)


def test_a_rank_that_does_not_end_is_killed_soon(tmp_path: Path) -> None:
    """After five seconds; torch's agent would wait for thirty."""
    with pytest.raises(pscvi.RankFailed, match="rank 1 failed"):
        launch(rank_that_stays, {"folder": tmp_path}, 2)
    assert len((tmp_path / "beats").read_text().splitlines()) < 150


def test_launches_at_the_same_time_leave_torch_as_it_was() -> None:
    """Whichever ends first."""
    from penstock.scvi.run.launch import _soon_ended
    from torch.distributed.elastic.multiprocessing.api import SubprocessContext

    before = SubprocessContext.close
    first, second = _soon_ended(), _soon_ended()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert SubprocessContext.close is not before
    second.__exit__(None, None, None)
    assert SubprocessContext.close is before


def ended(exitcode: int, seconds: float) -> SimpleNamespace:
    """A rank that is gone, as torch's agent says: in whole seconds."""
    return SimpleNamespace(exitcode=exitcode, timestamp=int(seconds))


@pytest.mark.parametrize(
    ("told", "failures", "said"),
    [
        # Rank 1 raised; what rank 0 waited for aborted it, or it did not end until it was killed.
        ({1: (100.9, "traceback")}, {0: (-6, 101.1), 1: (1, 101.0)}, "rank 1 failed"),
        ({1: (100.9, "traceback")}, {1: (1, 101.0), 0: (-9, 106.1)}, "rank 1 failed"),
        # Rank 1 was gone first; rank 0 says that its peer is, or the agent ended it.
        ({0: (100.9, "traceback")}, {0: (1, 101.0), 1: (-9, 101.0)}, "rank 1 of 0 was killed by SIGKILL"),
        ({0: (100.9, "traceback")}, {0: (1, 101.0), 1: (-11, 101.0)}, "by SIGSEGV"),
        ({0: (100.9, "signal")}, {1: (3, 100.8), 0: (-15, 100.9)}, "rank 1 ended with 3"),
        ({1: (100.8, "signal"), 0: (100.9, "traceback")}, {0: (1, 101), 1: (-15, 101)},
         "rank 1 of 0 was killed by SIGTERM"),
        ({1: (100.8, "signal")}, {0: (-6, 101), 1: (-15, 101)}, "rank 1 of 0 was killed by SIGTERM"),
        ({0: (100.9, "traceback")}, {0: (1, 101.0), 1: (-15, 101.1)}, "rank 0 failed"),
    ],
)  # fmt: skip
def test_who_failed_first(tmp_path: Path, told: dict, failures: dict, said: str) -> None:
    for rank, (seconds, what) in told.items():
        text = {"rank": rank, "time": seconds, what: "SIGTERM"}
        (tmp_path / f"error-{rank}.json").write_text(json.dumps(text))
    for rank, (exitcode, _) in failures.items():
        if exitcode == -signal.SIGABRT:
            (tmp_path / f"output-{rank}.txt").write_text("terminate called")
            os.utime(tmp_path / f"output-{rank}.txt", (101.0, 101.0))
    ends = {rank: ended(*each) for rank, each in failures.items()}
    found = _cause(tmp_path, SimpleNamespace(failures=ends))
    assert said.replace(" of 0", f" of {len(list(tmp_path.glob('output-*')))}") in found


def test_a_silent_end_hides_no_traceback(tmp_path: Path) -> None:
    """Which was first is not known to the second: rank 0 may have died of what rank 1 says."""
    told = {"rank": 1, "time": 100.9, "traceback": "ArithmeticError: no cells"}
    (tmp_path / "error-1.json").write_text(json.dumps(told))
    failures = {0: ended(-signal.SIGSEGV, 101), 1: ended(1, 101)}
    said = _cause(tmp_path, SimpleNamespace(failures=failures))
    assert "rank 0 of 0 was killed by SIGSEGV" in said
    assert "rank 1 failed at about that time:\n\nArithmeticError: no cells" in said


@pytest.mark.parametrize(("number", "is_memory"), [(signal.SIGKILL, True), (signal.SIGABRT, False)])
def test_want_of_memory_is_said_of_sigkill(
    tmp_path: Path, number: signal.Signals, is_memory: bool
) -> None:
    said = _cause(tmp_path, SimpleNamespace(failures={1: ended(-number, 100)}))
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
    with pytest.raises(ps.InvalidArgument, match=r"the model comes first: .*train\(model, data\)"):
        pscvi.train(data)
    whole = pscvi.DataModule(cells.path, batch_key="donor", labels_key="kind", train_size=1.0)
    for arguments, said in [
        ({"sync_batchnorm": True, "accelerator": "cpu"}, "sync_batchnorm needs GPUs"),
        ({"resume": True}, "need checkpoint="),
        ({"checkpoint": "s3://bucket/run"}, "checkpoint must be a folder on this machine"),
        ({"strategy": "ddp"}, "strategy is chosen"),
        ({"devices": 0}, "devices must be 1 or more"),
        ({"accelerator": "tpu"}, "accelerator must be one of"),
        # What scvi-tools takes, and then does nothing with.
        ({"batch_size": 1024}, "batch_size is the data module's"),
        (
            {"early_stopping_patience": 3, "early_stopping": False},
            "early_stopping_patience needs early_stopping=True, got False",
        ),
        (
            {"early_stopping": True, "early_stopping_patienc": 3},
            "takes .*patience.*, got 'patienc'",
        ),
        ({"epochs": 3}, "epochs is max_epochs="),
        ({"n_samples_per_label": 9}, "n_samples_per_label is the data module's"),
        ({"enable_checkpointing": True}, "use checkpoint="),
    ]:
        with pytest.raises(ps.InvalidArgument, match=said):
            pscvi.train(model, data, max_epochs=1, **arguments)
    with pytest.raises(ps.InvalidArgument, match="early_stopping needs validation cells"):
        pscvi.train(model, whole, early_stopping=True)
    with pytest.raises(ps.InvalidArgument, match="batches"):
        pscvi.train(model, pscvi.DataModule(cells.path))
