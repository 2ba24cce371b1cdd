"""SCVIDataModule of penstock.compat.tiledbsoma_ml, as tiledbsoma_ml's notebook on scVI uses it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import tiledbsoma
import torch
from conftest import Oracle

pytest.importorskip("scvi")

import scvi
from penstock.compat.tiledbsoma_ml import ExperimentDataset, SCVIDataModule
from penstock.compat.tiledbsoma_ml.scvi import DEFAULT_DATALOADER_KWARGS
from sklearn.preprocessing import LabelEncoder

COLUMNS = ["donor", "site", "chemistry"]


def label(obs: pd.DataFrame) -> list[str]:
    return ["//".join(row) for row in obs[COLUMNS].astype(str).itertuples(index=False)]


def tensors(module: SCVIDataModule) -> list[dict[str, torch.Tensor]]:
    module.setup()
    return [module.on_before_batch_transfer(each, 0) for each in module.train_dataloader()]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_are_counts_and_codes_of_labels(cells: Oracle, num_workers: int) -> None:
    arguments = {"dataloader_kwargs": {"num_workers": num_workers}} if num_workers else {}
    with tiledbsoma.open(str(cells.path)) as experiment, experiment.axis_query("RNA") as query:
        module = SCVIDataModule(
            query, "raw", batch_column_names=COLUMNS, batch_size=50, shuffle=False, **arguments
        )
        batches = tensors(module)
        assert (module.n_obs, module.n_vars) == cells.X.shape
        assert isinstance(module.train_dataset, ExperimentDataset)
    labels = label(cells.obs)
    assert sorted(module.batch_labels) == sorted(set(labels))
    assert module.n_batch == len(set(labels))
    if num_workers == 0:
        codes = LabelEncoder().fit_transform(labels)
        assert torch.cat([each["batch"] for each in batches])[:, 0].tolist() == codes.tolist()
        X = torch.cat([each["X"] for each in batches])
        np.testing.assert_array_equal(X.numpy(), cells.X.toarray())
    assert sum(len(each["X"]) for each in batches) == len(labels)
    for each in batches:
        assert each["X"].dtype == torch.float32
        assert each["batch"].dtype == torch.int64
        assert each["batch"].shape == (len(each["X"]), 1)
        assert each["labels"].numel() == 0


def test_labels_of_another_query(cells: Oracle) -> None:
    """As for a model that was trained on more batches."""
    labels = sorted(set(label(cells.obs)))
    some = tiledbsoma.AxisQuery(value_filter="donor == 'donor 1'")
    with (
        tiledbsoma.open(str(cells.path)) as experiment,
        experiment.axis_query("RNA", obs_query=some) as query,
    ):
        arguments = {"layer_name": "raw", "batch_column_names": COLUMNS, "shuffle": False}
        module = SCVIDataModule(query, batch_labels=labels, batch_size=64, **arguments)
        codes = torch.cat([each["batch"] for each in tensors(module)])[:, 0]
        expected = label(cells.obs[cells.obs["donor"] == "donor 1"])
        assert [labels[code] for code in codes] == expected
        assert module.n_batch == len(labels) > len(set(expected))
        few = SCVIDataModule(query, batch_labels=labels[:1], batch_size=64, **arguments)
        with pytest.raises(ValueError, match="unseen labels"):
            tensors(few)


def test_the_notebook(cells: Oracle) -> None:
    """Its calls: a model without data, trained on the module, then embeddings in stored order."""
    scvi.settings.seed = 0
    with tiledbsoma.open(str(cells.path)) as experiment, experiment.axis_query("RNA") as query:
        common = {"layer_name": "raw", "batch_size": 64, "batch_column_names": COLUMNS}
        module = SCVIDataModule(
            query, shuffle=True, seed=42, dataloader_kwargs={"num_workers": 0}, **common
        )
        model = scvi.model.SCVI(
            n_layers=1, n_latent=5, gene_likelihood="nb", encode_covariates=False
        )
        model.train(
            datamodule=module,
            max_epochs=2,
            batch_size=64,
            train_size=0.9,
            early_stopping=False,
            accelerator="cpu",
            enable_progress_bar=False,
        )
        assert model.module.n_batch == module.n_batch
        again = SCVIDataModule(query, shuffle=False, batch_labels=module.batch_labels, **common)
        again.setup()
        latent = model.get_latent_representation(
            dataloader=(
                again.on_before_batch_transfer(batch, None) for batch in again.train_dataloader()
            )
        )
        joinids = again.train_dataset.query_ids.obs_joinids
    np.testing.assert_array_equal(joinids, cells.obs["soma_joinid"])
    counts = torch.from_numpy(cells.X.toarray().astype(np.float32))
    codes = torch.from_numpy(LabelEncoder().fit_transform(label(cells.obs)))[:, None]
    with torch.inference_mode():
        expected = model.module.inference(counts, codes)["qz"].loc
    np.testing.assert_allclose(latent, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_workers_are_asked_for() -> None:
    assert set(DEFAULT_DATALOADER_KWARGS) == {"pin_memory"}
