"""Cells with genes and proteins, as an experiment and as users of scvi-tools have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import anndata
import numpy as np
import pandas as pd
import penstock.scvi as pscvi
import scipy.sparse as sp
import scvi
from several_measurements import Layer, write_measurements

N_CELLS, N_GENES, N_PROTEINS = 400, 40, 14
MODALITIES = {"rna_layer": "RNA", "protein_layer": "protein"}
QUIET = {"accelerator": "cpu", "enable_progress_bar": False}
SIZES = {"n_latent": 4, "n_hidden": 16}
COVARIATES: dict[str, Any] = {
    "categorical_covariate_keys": ["sex"],
    "continuous_covariate_keys": ["age"],
}


class Cells(NamedTuple):
    """An experiment, and what it holds."""

    path: Path
    genes: sp.csr_matrix
    proteins: np.ndarray
    obs: pd.DataFrame

    def adata(self, **keys: Any) -> anndata.AnnData:
        """The cells as a user of scvi-tools has them, registered."""
        made = anndata.AnnData(
            self.genes.copy(),
            self.obs.set_index("obs_id"),
            pd.DataFrame(index=[f"RNA{i}" for i in range(N_GENES)]),
        )
        for name in ("donor", "sex", "panel"):
            made.obs[name] = made.obs[name].astype("category")
        names = [f"protein{i}" for i in range(N_PROTEINS)]
        made.obsm["protein"] = pd.DataFrame(self.proteins, made.obs_names, names)
        scvi.model.TOTALVI.setup_anndata(made, protein_expression_obsm_key="protein", **keys)
        return made

    def data(self, **given: Any) -> pscvi.DataModule:
        given = {"batch_key": "donor", "batch_size": 64, "train_size": 0.8, **given}
        return pscvi.DataModule(self.path, "TOTALVI", modalities=MODALITIES, **given)


def write(path: Path, missing: bool) -> Cells:
    """Cells of two kinds from three donors; two donors lack one protein each, if `missing`."""
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 2, N_CELLS)
    donor = np.array([f"donor {i}" for i in rng.integers(0, 3, N_CELLS)])
    genes = rng.poisson(rng.gamma(1, 1, (2, N_GENES))[kind]).astype(np.float32)
    proteins = rng.poisson(rng.gamma(2, 10, (2, N_PROTEINS))[kind]).astype(np.float32)
    if missing:
        proteins[donor == "donor 1", 3] = 0
        proteins[donor == "donor 2", 7] = 0
    obs = pd.DataFrame(
        {
            "obs_id": [f"cell{i}" for i in range(N_CELLS)],
            "donor": donor,
            "sex": rng.choice(["f", "m"], N_CELLS),
            "panel": np.where(donor == "donor 1", "second", "first"),
            "age": rng.random(N_CELLS).astype(np.float32),
        }
    )
    layers = {"RNA": Layer(sp.csr_matrix(genes)), "protein": Layer(sp.csr_matrix(proteins))}
    return Cells(write_measurements(path, layers, obs), layers["RNA"].X, proteins, obs)
