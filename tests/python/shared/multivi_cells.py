"""Cells with genes, regions and proteins, as an experiment and as users of scvi-tools have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import anndata
import mudata
import numpy as np
import pandas as pd
import penstock.scvi as pscvi
import scipy.sparse as sp
import scvi
from several_measurements import Layer, write_measurements

N_CELLS = 300
COUNTS = {"RNA": 40, "ATAC": 60, "protein": 12}
LAYERS = {"rna_layer": "RNA", "atac_layer": "ATAC", "protein_layer": "protein"}
TWO = {layer: LAYERS[layer] for layer in ("rna_layer", "atac_layer")}
SIZES = {"n_latent": 4, "n_hidden": 16}
QUIET = {"accelerator": "cpu", "enable_progress_bar": False}
COVARIATES: dict[str, Any] = {
    "categorical_covariate_keys": ["sex"],
    "continuous_covariate_keys": ["age"],
}


class Cells(NamedTuple):
    """An experiment, and what it holds."""

    path: Path
    counts: dict[str, sp.csr_matrix]
    obs: pd.DataFrame

    def several(self, modalities: dict[str, str], **keys: Any) -> Any:
        """The cells as a user of scvi-tools has them, registered."""
        obs = self.obs.set_index("obs_id")
        parts = {
            name: anndata.AnnData(
                # Of sparse proteins scvi-tools makes a mask of another shape.
                self.counts[name].toarray() if name == "protein" else self.counts[name].copy(),
                pd.DataFrame(index=obs.index),
                pd.DataFrame(index=[f"{name}{i}" for i in range(COUNTS[name])]),
            )
            for name in modalities.values()
        }
        made = mudata.MuData(parts)
        for name in ("donor", "sex"):
            made.obs[name] = obs[name].astype("category")
        made.obs["age"] = obs["age"]
        scvi.model.MULTIVI.setup_mudata(made, modalities=dict(modalities), **keys)
        return made

    def data(self, modalities: dict[str, str], **given: Any) -> pscvi.DataModule:
        given = {"batch_key": "donor", "batch_size": 64, "train_size": 0.8, **given}
        return pscvi.DataModule(self.path, "MULTIVI", modalities=modalities, **given)


def write(path: Path) -> Cells:
    """Cells of two kinds; a fifth has no genes, another fifth no regions, a donor one protein less."""
    rng = np.random.default_rng(6)
    kind = rng.integers(0, 2, N_CELLS)
    donor = np.array([f"donor {i}" for i in rng.integers(0, 3, N_CELLS)])
    counts = {
        name: rng.poisson(rng.gamma(1, 1, (2, n))[kind]).astype(np.float32)
        for name, n in COUNTS.items()
    }
    counts["RNA"][: N_CELLS // 5] = 0
    counts["ATAC"][-N_CELLS // 5 :] = 0
    counts["protein"][donor == "donor 1", 3] = 0
    obs = pd.DataFrame(
        {
            "obs_id": [f"cell{i}" for i in range(N_CELLS)],
            "donor": donor,
            "sex": rng.choice(["f", "m"], N_CELLS),
            "age": rng.random(N_CELLS).astype(np.float32),
        }
    )
    layers = {name: Layer(sp.csr_matrix(each)) for name, each in counts.items()}
    write_measurements(path, layers, obs)
    return Cells(path, {name: layer.X for name, layer in layers.items()}, obs)
