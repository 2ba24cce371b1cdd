"""scVI trained from AnnData: the same model from memory, zarr and SOMA, and scvi-tools' names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
from anndata_cases import random_anndata, write_h5ad, write_zarr

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SETTINGS = {"layer": "counts", "seed": 1, "shuffle": "global"}


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    made = random_anndata(np.random.default_rng(41), 300, 30)
    made.layers["counts"].data += 1
    made.obs["donor"] = np.where(made.obs["doublet"], "donor 1", "donor 2")
    return made


def trained(data: Any) -> tuple[Any, Any]:
    module = pscvi.DataModule(data, batch_key="donor", batch_size=64, dataset=SETTINGS)
    scvi.settings.seed = 0
    model = module.create_model(n_latent=4, n_hidden=16)
    pscvi.train(model, module, max_epochs=2, seed=0, progress=False)
    return model, module


def test_a_store_trains_the_model_of_the_object(adata: anndata.AnnData, tmp_path: Path) -> None:
    of_memory, module = trained(adata)
    of_zarr, _ = trained(write_zarr(adata, tmp_path / "cells.zarr", version=3, chunk=500))
    of_h5ad, _ = trained(write_h5ad(adata, tmp_path / "cells.h5ad", "gzip"))
    a, b, c = (
        model.history["elbo_train"].to_numpy().astype(float)
        for model in (of_memory, of_zarr, of_h5ad)
    )
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, c)
    assert np.isfinite(a).all()
    latent = pscvi.latent(of_memory, module)
    assert latent.values.shape == (300, 4)


def test_scvi_tools_maps_the_saved_model(adata: anndata.AnnData, tmp_path: Path) -> None:
    model, module = trained(adata)
    model.save(str(tmp_path / "model"))
    own = adata.copy()
    own.X = own.layers["counts"]  # the registry names no layer
    loaded = scvi.model.SCVI.load(str(tmp_path / "model"), own)
    assert list(loaded.adata.var_names) == adata.var_names.tolist()
    np.testing.assert_allclose(
        loaded.get_latent_representation(), pscvi.latent(model, module).values, rtol=1e-4, atol=1e-4
    )
