"""The call that scvi-tools documents for several devices, in a script and in a notebook.

``model.train(datamodule=data, devices=-1, strategy="ddp_find_unused_parameters_true")``: Lightning
starts the ranks by rerunning a script or forking a notebook's kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Oracle
from torchrun import finish

pytest.importorskip("scvi")

import penstock.scvi as pscvi
from scvi_experiments import elbo_of_each_cell_once

pytestmark = pytest.mark.usefixtures("one_torch_thread")

KEYS = {"batch_key": "donor", "labels_key": "kind", "batch_size": 40, "train_size": 260 / 331}
STRATEGIES = {"script": "ddp_find_unused_parameters_true",
              "notebook": "ddp_notebook_find_unused_parameters_true"}  # fmt: skip
#: Many times what a cell takes.
TIME_LIMIT_SECONDS = 600

CELLS = [
    """\
import json
import os
from pathlib import Path
import penstock.scvi as pscvi
import scvi
import torch
from lightning.pytorch.accelerators import CPUAccelerator
from scvi_callbacks import FixedNoise, Recorded

# -1 is all of the GPUs, say two. Of CPUs Lightning wants a number.
CPUAccelerator.parse_devices = staticmethod(lambda devices: 2)
CPUAccelerator.get_parallel_devices = staticmethod(lambda devices: 2 * [torch.device("cpu")])

how = {"devices": -1, "strategy": STRATEGY, "accelerator": "cpu", "max_epochs": 2,
       "check_val_every_n_epoch": 1, "enable_progress_bar": False, "log_save_dir": FOLDER}
torch.manual_seed(0)
data = pscvi.DataModule(PATH, **KEYS)
model = data.create_model(n_latent=4, n_hidden=16)
begun = iter(data.train_dataloader())
next(begun)  # the loader's threads are there when a kernel is forked
""",
    """\
model.train(datamodule=data, callbacks=[Recorded(Path(FOLDER)), FixedNoise(Path(FOLDER))], **how)
""",
    """\
labelled = pscvi.DataModule(PATH, "SCANVI", unlabeled_category="Unknown", **KEYS)
scanvi = scvi.model.SCANVI.from_scvi_model(model, "Unknown", adata=labelled.template)
scanvi.train(datamodule=labelled, **how)
""",
    """\
if int(os.environ.get("LOCAL_RANK", 0)) == 0:
    model.save(f"{FOLDER}/model")
    print("RESULTS " + json.dumps({
        "history": model.history["elbo_validation"]["elbo_validation"].astype(float).tolist(),
        "scanvi": len(scanvi.history["elbo_validation"]),
        "is_trained": [model.is_trained_, scanvi.is_trained_],
        "train": model.train_indices.tolist(),
    }), flush=True)
""",
]


def in_a_script(source: list[str], folder: Path) -> str:
    script = folder / "script.py"
    script.write_text("\n".join(source))
    return finish(
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def in_a_notebook(source: list[str], folder: Path) -> str:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook()
    book.cells = list(map(nbformat.v4.new_code_cell, source))
    nbclient.NotebookClient(
        book,
        timeout=TIME_LIMIT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    return "".join(each.get("text", "") for each in book.cells[-1].outputs)


@pytest.mark.parametrize("where", ["script", "notebook"])
def test_every_device_trains(
    cells: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    given = {
        "PATH": str(cells.path), "FOLDER": str(tmp_path), "KEYS": KEYS, "STRATEGY": STRATEGIES[where],
    }  # fmt: skip
    source = ["\n".join(f"{name} = {value!r}" for name, value in given.items()), *CELLS]
    out = (in_a_script if where == "script" else in_a_notebook)(source, tmp_path)
    (line,) = [each for each in out.splitlines() if each.startswith("RESULTS ")]
    found = json.loads(line.removeprefix("RESULTS "))

    data = pscvi.DataModule(cells.path, **KEYS)
    assert found["train"] == data.train_idx.tolist()
    # Ranks have all training cells between them, others of them in each epoch, in as many steps.
    steps = [np.loadtxt(tmp_path / f"steps-{rank}.txt", dtype=int) for rank in range(2)]
    expected = int(cells.X[data.train_idx].sum())
    for epoch in range(2):
        mine = [each[each[:, 0] == epoch] for each in steps]
        assert len(mine[0]) == len(mine[1])
        assert sum(each[:, 2].sum() for each in mine) == expected
    assert set(steps[0][:, 2]).isdisjoint(steps[1][:, 2])
    for each in steps:
        assert set(each[each[:, 0] == 0, 2]).isdisjoint(each[each[:, 0] == 1, 2])

    # Metrics and weights of both ranks are in the model of the script, or the notebook.
    again = data.create_model(n_latent=4, n_hidden=16)
    elbos = [elbo_of_each_cell_once(data, again, tmp_path / f"{epoch}.pt") for epoch in range(2)]
    np.testing.assert_allclose(found["history"], elbos, rtol=1e-5)
    assert found["scanvi"] == 2
    assert found["is_trained"] == [True, True]
    last = torch.load(tmp_path / "1.pt")
    saved = torch.load(tmp_path / "model" / "model.pt", weights_only=False)["model_state_dict"]
    for name, each in last.items():
        torch.testing.assert_close(saved[name], each, msg=name)
