"""Models trained on a GPU get the batches that they get on a CPU; skipped where torch finds no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

scvi = pytest.importorskip("scvi")
pytest.importorskip("tiledbsoma")

import penstock.scvi as pscvi  # noqa: E402
from device_stores import needs_cuda  # noqa: E402
from lightning.pytorch import Callback, seed_everything  # noqa: E402
from several_measurements import Layer, write_measurements  # noqa: E402

pytestmark = [
    needs_cuda,
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mudata"),
    pytest.mark.filterwarnings("ignore:We recommend using setup_mudata"),
]

N_CELLS = 500
COUNTS = {"RNA": 60, "ATAC": 80, "protein": 14}
MODELS: dict[str, dict[str, Any]] = {
    "SCVI": {},
    "SCANVI": {"labels_key": "kind", "unlabeled_category": "unknown"},
    "TOTALVI": {"modalities": {"rna_layer": "RNA", "protein_layer": "protein"}},
    "MULTIVI": {
        "modalities": {"rna_layer": "RNA", "atac_layer": "ATAC", "protein_layer": "protein"}
    },
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells of two kinds from three donors."""
    rng = np.random.default_rng(8)
    kind = rng.integers(0, 2, N_CELLS)
    layers = {
        name: Layer(sp.csr_matrix(rng.poisson(rng.gamma(1, 1, (2, n))[kind]).astype(np.float32)))
        for name, n in COUNTS.items()
    }
    obs = pd.DataFrame(
        {
            "obs_id": [f"cell{i}" for i in range(N_CELLS)],
            "donor": [f"donor {i}" for i in rng.integers(0, 3, N_CELLS)],
            "kind": np.where(rng.random(N_CELLS) < 0.3, "unknown", np.array(["T", "B"])[kind]),
        }
    )
    return write_measurements(tmp_path_factory.mktemp("gpu") / "experiment", layers, obs)


class Seen(Callback):
    """Batches of the training steps, where they were and what they held."""

    def __init__(self) -> None:
        self.batches: list[dict[str, torch.Tensor]] = []
        self.devices: set[str] = set()

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        for part in batch if isinstance(batch, (list, tuple)) else [batch]:
            self.devices |= {each.device.type for each in part.values()}
            self.batches.append({name: each.cpu().clone() for name, each in part.items()})


def trained(path: Path, name: str, accelerator: str) -> tuple[Any, pscvi.DataModule, Seen]:
    data = pscvi.DataModule(
        path, name, batch_key="donor", batch_size=64, train_size=0.8, **MODELS[name]
    )
    seed_everything(0)  # TOTALVI's proteins get a prior by numpy's generator
    model, seen = data.create_model(n_latent=4, n_hidden=16), Seen()
    pscvi.train(
        model, data, accelerator=accelerator, max_epochs=3, seed=0, progress=False, callbacks=[seen]
    )
    return model, data, seen


@pytest.mark.parametrize("name", MODELS)
def test_batches_losses_and_latents_are_those_of_a_cpu(path: Path, name: str) -> None:
    on_cpu, _, expected = trained(path, name, "cpu")
    on_gpu, data, found = trained(path, name, "gpu")
    assert (expected.devices, found.devices) == ({"cpu"}, {"cuda"})
    assert len(found.batches) == len(expected.batches) > 0
    for batch, wanted in zip(found.batches, expected.batches, strict=True):
        assert set(batch) == set(wanted)
        for key, values in batch.items():
            assert values.dtype == wanted[key].dtype, key
            assert torch.equal(values, wanted[key]), key
    # The noise of a GPU's generator is another than a CPU's.
    losses = [model.history["elbo_train"].to_numpy(float)[-1] for model in (on_gpu, on_cpu)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    on_gpu.to_device("cuda:0")
    there = pscvi.latent(on_gpu, data)
    on_gpu.to_device("cpu")
    here = pscvi.latent(on_gpu, data)
    np.testing.assert_array_equal(there.joinids, here.joinids)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-3, atol=1e-3)
