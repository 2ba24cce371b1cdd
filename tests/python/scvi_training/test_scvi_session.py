"""Several models in one session, also in a Jupyter kernel, and jobs that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SCRIPTS, Oracle
from torchrun import finish, kill_all

pytest.importorskip("scvi")

import penstock.scvi as pscvi
from scvi_callbacks import RankMetrics, Recorded

SCRIPT = SCRIPTS / "scvi_launch_script.py"
#: Many times what anything here takes.
TIME_LIMIT_SECONDS = 600

CELLS = [
    """\
import json
import numpy as np
import penstock as ps
import penstock.scvi as pscvi
import scvi
import torch
from lightning.pytorch.callbacks import Callback

class Third(ps.Encoder):
    needs_fit = False

    def transform(self, obs):
        return np.asarray(obs["soma_joinid"]) % 3

class Fails(Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_rank == 1:
            raise ArithmeticError("the third donor has no cells")

keys = {"batch_key": Third("soma_joinid", "third"), "labels_key": "kind", "batch_size": 40}
how = {"devices": 2, "accelerator": "cpu", "max_epochs": 2, "early_stopping": True, "seed": 0}
data = pscvi.DataModule(PATH, **keys)
model = data.create_model(n_latent=4)
""",
    """\
try:
    pscvi.train(model, data, callbacks=[Fails()], **how)
except pscvi.RankFailed as error:
    print("FAILED", "ArithmeticError: the third donor has no cells" in str(error))
""",
    "pscvi.train(model, data, **how)\n",
    """\
labelled = pscvi.DataModule(PATH, "SCANVI", unlabeled_category="Unknown", **keys)
scanvi = scvi.model.SCANVI.from_scvi_model(model, "Unknown", adata=labelled.template)
pscvi.train(scanvi, labelled, progress=False, **how)
""",
    """\
other = pscvi.DataModule(PATH, "LinearSCVI", **keys)
linear = other.create_model(n_latent=3)
pscvi.train(linear, other, progress=False, **how)
scanvi.save("scanvi")
every = [(model, data), (scanvi, labelled), (linear, other)]
print("RESULTS " + json.dumps({
    "batches": [each.n_batch for _, each in every],
    "epochs": [len(each.history["elbo_validation"]) for each, _ in every],
    "shapes": [pscvi.latent(*each, devices=2).values.shape for each in every],
    "labels": sorted(set(pscvi.predict(scanvi, labelled).values.tolist())),
}))
""",
]


def text_of(cell) -> str:
    return "".join(each.get("text", "") for each in cell.outputs)


def test_models_in_one_kernel(
    cells: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three models on two processes each, one that fails first; the encoder is a cell's."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(f"PATH = {str(cells.path)!r}\n" + CELLS[0])]
    book.cells += [nbformat.v4.new_code_cell(source) for source in CELLS[1:]]
    nbclient.NotebookClient(
        book,
        timeout=TIME_LIMIT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    assert "FAILED True" in text_of(book.cells[1])
    assert "Epoch 2/2" in text_of(book.cells[2]), "rank 0's progress is the cell's"
    assert "Epoch" not in text_of(book.cells[3])
    (line,) = [x for x in text_of(book.cells[4]).splitlines() if x.startswith("RESULTS ")]
    found = json.loads(line.removeprefix("RESULTS "))
    assert found["batches"] == [3, 3, 3]
    assert found["epochs"] == [2, 2, 2]
    assert found["shapes"] == [[331, 4], [331, 4], [331, 3]]
    assert set(found["labels"]) <= {"T", "B", "NK"}
    assert (tmp_path / "scanvi" / "model.pt").exists()


def recorded(cells: Oracle, folder: Path, *callbacks, epochs: int = 3, **others):
    data = pscvi.DataModule(
        cells.path, batch_key="donor", train_size=260 / 331, batch_size=20, validation_size=0.2
    )
    torch.manual_seed(0)
    model = data.create_model(n_latent=4, n_hidden=16, dropout_rate=0.0)
    pscvi.train(
        model, data, devices=2, accelerator="cpu", max_epochs=epochs, seed=1, progress=False,
        check_val_every_n_epoch=1, callbacks=callbacks, **others,
    )  # fmt: skip
    return model


def steps(folder: Path, rank: int) -> list[list[int]]:
    lines = (folder / f"steps-{rank}.txt").read_text().splitlines()
    return [list(map(int, line.split())) for line in lines]


def test_resuming_within_an_epoch(cells: Oracle, tmp_path: Path) -> None:
    """A rank is killed in the middle of one: the batches that were left come, and no others."""
    whole, killed, rest = (tmp_path / name for name in ("whole", "killed", "rest"))
    for folder in (whole, killed, rest):
        folder.mkdir()
    expected = recorded(cells, whole, Recorded(whole))
    kept = {"checkpoint": killed / "checkpoint", "checkpoint_every_n_steps": 2}
    with pytest.raises(pscvi.RankFailed, match="rank 1 of 2 was killed by SIGKILL"):
        recorded(cells, killed, Recorded(killed, killed_at=(1, 4)), **kept)
    found = recorded(cells, rest, Recorded(rest), resume=True, **kept)
    for rank in range(2):
        every = steps(whole, rank)
        assert [each[:2] for each in every] == [[e, i] for e in range(3) for i in range(7)]
        # Seven steps are an epoch: the last even one before the kill is the tenth, 2 of epoch 1.
        assert steps(rest, rank) == [each for each in every if each[:2] > [1, 2]]
    assert steps(whole, 0)[0] != steps(whole, 1)[0], "ranks take other cells"
    seeds = [(rest / f"seed-{rank}.txt").read_text() for rank in range(2)]
    assert seeds[0] != seeds[1], "ranks draw other noise"
    for name, each in expected.module.state_dict().items():
        torch.testing.assert_close(found.module.state_dict()[name], each, rtol=1e-5, atol=1e-6)


def test_ranks_lower_the_learning_rate_together(cells: Oracle, tmp_path: Path) -> None:
    plan = {"reduce_lr_on_plateau": True, "lr": 1e-2, "lr_patience": 0, "lr_threshold": 1e9,
            "lr_factor": 0.5, "lr_min": 1e-6}  # fmt: skip
    recorded(cells, tmp_path, RankMetrics(tmp_path), plan_kwargs=plan)
    first, second = (np.loadtxt(tmp_path / f"metrics-{rank}.txt") for rank in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(set(first[:, 0])) == 3
    assert first[-1, 1] < first[0, 1] == 1e-2, "it is never better by so much"


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for ranks in /proc")
def test_a_killed_session_leaves_no_ranks_and_resumes(cells: Oracle, tmp_path: Path) -> None:
    """As when a kernel is killed: ranks that continued would write into the next run's folder."""

    def start(epochs: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(cells.path), str(tmp_path / "run"), str(epochs)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    process = start(100_000)
    end = time.monotonic() + TIME_LIMIT_SECONDS
    ranks: list[int] = []
    try:
        while not (tmp_path / "run" / "last.ckpt").exists():
            assert process.poll() is None, process.communicate()[1][-3000:]
            assert time.monotonic() < end
            time.sleep(0.05)
        ranks = children_of(process.pid)
        assert len(ranks) >= 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        while any(map(is_running, ranks)):
            assert time.monotonic() < end, "ranks outlive who started them"
            time.sleep(0.05)
    finally:
        for rank in filter(is_running, ranks):
            os.kill(rank, signal.SIGKILL)
        kill_all(process)
    done = torch.load(tmp_path / "run" / "last.ckpt", map_location="cpu", weights_only=False)
    out = finish(start(done["epoch"] + 3))
    assert int(out.split()[-2]) == done["epoch"] + 3
