"""scVI from layers/counts of a store, on one process and two: the ELBO of the AnnData in memory, within noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import anndata
import numpy as np
import penstock as ps
import pytest
import torch
from anndata_cases import write_h5ad, write_zarr
from conftest import Oracle

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from scvi_experiments import SEEDS, as_anndata, same_elbos  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

COUNTS: dict[str, Any] = {"layer": "counts"}
SIZES: dict[str, Any] = {"n_latent": 4, "n_hidden": 16}
TRAINED: dict[str, Any] = {"max_epochs": 25, "plan_kwargs": {"lr": 5e-3}}
BATCH = 40


class Cells(NamedTuple):
    trained: anndata.AnnData
    held_out: anndata.AnnData
    paths: dict[str, Path]  # of the first, by kind of store


@pytest.fixture(scope="module")
def halves(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """X has the genes in reverse, so that a model of the wrong layer stands out."""
    made = as_anndata(cells)
    made.layers["counts"] = made.X.copy()
    made.X = made.X[:, ::-1].tocsr()
    order = np.random.default_rng(0).permutation(made.n_obs)
    held_out, some = made[order[:71]].copy(), made[order[71:]].copy()
    folder = tmp_path_factory.mktemp("halves")
    paths = {
        "zarr": write_zarr(some, folder / "cells.zarr", version=3, chunk=700),
        "h5ad": write_h5ad(some, folder / "cells.h5ad", "gzip"),
    }
    return Cells(some, held_out, paths)


def elbo_of(model: Any, halves: Cells) -> float:
    """The mean ELBO of the held-out cells; higher is better."""
    held_out = ps.Dataset(halves.held_out, **COUNTS)
    return float(pscvi.elbo(model, held_out, seed=7).values.mean())


def ours(source: Any, halves: Cells, seed: int, devices: int) -> float:
    torch.manual_seed(seed)
    data = pscvi.DataModule(
        source, batch_key="donor", train_size=0.9, split_seed=seed, batch_size=BATCH // devices,
        dataset={**COUNTS, "seed": seed},
    )  # fmt: skip
    model = data.create_model(**SIZES)
    pscvi.train(
        model, data, devices=devices, accelerator="cpu", seed=seed, progress=False, **TRAINED
    )
    return elbo_of(model, halves)


@pytest.fixture(scope="module")
def in_memory(halves: Cells) -> dict[str, list[float]]:
    """ELBOs of scvi-tools and of Penstock from the AnnData in memory, seeds of their own."""
    elbos: dict[str, list[float]] = {"scvi-tools": [], "penstock": []}
    for seed in range(SEEDS):
        adata = halves.trained.copy()
        scvi.settings.seed = 100 + seed
        scvi.model.SCVI.setup_anndata(adata, layer="counts", batch_key="donor")
        model = scvi.model.SCVI(adata, **SIZES)
        model.train(
            accelerator="cpu",
            train_size=0.9,
            batch_size=BATCH,
            enable_progress_bar=False,
            **TRAINED,
        )
        elbos["scvi-tools"].append(elbo_of(model, halves))
        elbos["penstock"].append(ours(halves.trained, halves, 200 + seed, 1))
    return elbos


@pytest.mark.parametrize(("kind", "devices"), [("zarr", 1), ("zarr", 2), ("h5ad", 2)])
def test_held_out_elbo(
    halves: Cells, in_memory: dict[str, list[float]], kind: str, devices: int
) -> None:
    """Of some seeds each, with splits, orders and noise of their own."""
    found = [ours(halves.paths[kind], halves, seed, devices) for seed in range(SEEDS)]
    for elbos in in_memory.values():
        same_elbos(found, elbos)
    torch.manual_seed(0)
    data = pscvi.DataModule(halves.paths[kind], batch_key="donor", dataset=COUNTS)
    untrained = data.create_model(**SIZES)
    untrained.is_trained_ = True
    assert np.mean(found) > 0.85 * elbo_of(untrained, halves), "models that have learned"
