"""scvi-tools' words: genes by SelectGenes, names of other data modules, tables of results."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from penstock.cli.train.models import MODELS, Model  # noqa: E402
from penstock.scvi.data import hints  # noqa: E402
from penstock.scvi.registry import model_classes  # noqa: E402
from scvi_experiments import as_anndata  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

QUIET: dict[str, Any] = {"max_epochs": 1, "accelerator": "cpu", "progress": False}
GENES = [7, 3, 40, 12, 11, 30]


@pytest.fixture(scope="module")
def some_genes(cells: Oracle) -> ps.Dataset:
    """Genes in an order of their own."""
    return ps.Dataset(cells.path)[:, GENES]


@pytest.fixture(scope="module")
def trained(some_genes: ps.Dataset) -> tuple[pscvi.DataModule, Any]:
    data = pscvi.DataModule(some_genes, batch_key="donor")
    return data, pscvi.train({"n_latent": 3, "n_hidden": 8}, data, **QUIET)


def test_the_genes_are_those_of_the_columns(
    cells: Oracle, some_genes: ps.Dataset, trained: tuple[pscvi.DataModule, Any]
) -> None:
    """Registry and batches as scvi-tools' own of an AnnData with its genes in this order."""
    data, model = trained
    adata = as_anndata(cells)[:, GENES].copy()
    scvi.model.SCVI.setup_anndata(adata, batch_key="donor")
    assert data.gene_names.tolist() == adata.var_names.tolist() == some_genes.var_names.tolist()
    assert data.registry["field_registries"]["X"]["state_registry"]["column_names"].tolist() == (
        adata.var_names.tolist()
    )
    X = np.vstack([batch["X"].numpy() for batch in data.predict_dataloader()])
    np.testing.assert_array_equal(X, adata.X.toarray() if hasattr(adata.X, "toarray") else adata.X)
    theirs = scvi.model.SCVI(adata, n_latent=3, n_hidden=8)
    theirs.module.load_state_dict(model.module.state_dict())
    theirs.module.eval()
    theirs.is_trained_ = True
    expected = theirs.get_latent_representation(adata)
    np.testing.assert_allclose(pscvi.latent(model, data).values, expected, atol=1e-6)


@pytest.mark.parametrize("other", [None, [12, 40, 3, 7, 30, 11], [0, 1, 2]])
def test_cells_for_the_model_are_aligned_by_name(
    cells: Oracle, trained: tuple[pscvi.DataModule, Any], other: list[int] | None, tmp_path: Path
) -> None:
    """Whatever genes a Dataset has chosen, those of the model are read."""
    data, model = trained
    expected = pscvi.latent(model, data).values
    for reference in (model, tmp_path / "model"):
        model.save(tmp_path / "model", overwrite=True)
        ds = ps.Dataset(cells.path) if other is None else ps.Dataset(cells.path)[:, other]
        aligned = pscvi.DataModule.from_model(reference, ds)
        assert aligned.gene_names.tolist() == data.gene_names.tolist()
        np.testing.assert_array_equal(pscvi.latent(model, aligned).values, expected)


def test_all_genes_of_the_model_in_another_order(cells: Oracle) -> None:
    """A model of all genes, and cells whose genes were put into another order."""
    data = pscvi.DataModule(cells.path)
    model = pscvi.train({"n_latent": 3, "n_hidden": 8}, data, **QUIET)
    reversed_genes = ps.Dataset(cells.path)[:, np.arange(50)[::-1]]
    aligned = pscvi.DataModule.from_model(model, reversed_genes)
    np.testing.assert_array_equal(
        pscvi.latent(model, aligned).values, pscvi.latent(model, data).values
    )
    with pytest.raises(ps.InvalidArgument, match="gene"):
        pscvi.train(model, pscvi.DataModule(reversed_genes), **QUIET)


def test_transforms_that_change_counts_are_refused(cells: Oracle) -> None:
    ds = ps.Dataset(cells.path, transforms=[ps.SelectGenes([1, 2]), ps.Log1p(), np.sqrt])
    with pytest.raises(ps.InvalidArgument, match=r"\(Log1p, sqrt\): leave them out"):
        pscvi.DataModule(ds)


def test_names_of_other_data_modules_say_ours(cells: Oracle) -> None:
    parameters = inspect.signature(pscvi.DataModule).parameters
    assert not set(hints.ARGUMENTS) & set(parameters)
    for name, says in hints.ARGUMENTS.items():
        if says.endswith("=") and " " not in says:
            assert says[:-1] in parameters, name
        with pytest.raises(TypeError, match=f"no argument '{name}'; use {re.escape(says)}"):
            pscvi.DataModule(cells.path, **{name: 1})
    with pytest.raises(TypeError, match="did you mean 'batch_key'"):
        pscvi.DataModule(cells.path, batch_keys="donor")
    with pytest.raises(TypeError, match=re.escape("dataset={'obs_query': …}")):
        pscvi.DataModule.from_model("folder", cells.path, obs_query="")
    for name, says in hints.OF_MODULE.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}': {re.escape(says)}"):
            getattr(pscvi, name)
    assert not set(hints.OF_MODULE) & set(dir(pscvi))
    with pytest.raises(AttributeError, match="did you mean 'DataModule'"):
        _ = pscvi.DataModul


def test_names_of_a_data_module(trained: tuple[pscvi.DataModule, Any]) -> None:
    data, model = trained
    data.setup()
    data.setup(stage="fit")
    for name, says in hints.ATTRIBUTES.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}': {re.escape(says)}"):
            getattr(data, name)
        for attribute in re.findall(r"data\.([a-z_]+)", says):
            assert getattr(data, attribute) is not None
    with pytest.raises(AttributeError, match="did you mean 'n_obs'"):
        _ = data.n_ob
    loader = data.inference_dataloader()
    latent = model.get_latent_representation(dataloader=loader)
    np.testing.assert_array_equal(latent, pscvi.latent(model, data).values)
    assert data.load_query_model.__func__ is pscvi.DataModule.load_query_data


@pytest.mark.parametrize("rank", [0, 1])
def test_every_rank_infers_every_cell(
    trained: tuple[pscvi.DataModule, Any], rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's own calls know of no ranks. `predict_dataloader` is Lightning's, which shares the cells out."""
    data, model = trained
    expected = pscvi.latent(model, data).values
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    shares = [batch["soma_joinid"] for batch in data.predict_dataloader()]
    assert len(torch.cat(shares)) < data.n_obs
    found = model.get_latent_representation(dataloader=data.inference_dataloader())
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("known", [True, False])
def test_a_saved_model_is_loaded_for_stored_cells(
    some_genes: ps.Dataset, trained: tuple[pscvi.DataModule, Any], known: bool, tmp_path: Path
) -> None:
    """With the weights, and without the made-up rows that scvi-tools would take for cells."""
    data, model = trained
    model.save(tmp_path / "model")
    loaded = pscvi.load(tmp_path / "model", data if known else ps.Dataset(some_genes.experiment))
    for name, weights in model.module.state_dict().items():
        assert torch.equal(loaded.module.state_dict()[name], weights), name
    np.testing.assert_array_equal(
        pscvi.latent(loaded, data).values, pscvi.latent(model, data).values
    )
    assert loaded.registry["setup_args"] == model.registry["setup_args"]
    for call in (loaded.get_latent_representation, loaded.get_elbo, loaded.train):
        with pytest.raises(ps.Unsupported, match="the model has no AnnData"):
            call()
    pscvi.train(loaded, data, **QUIET)
    loaded.save(tmp_path / "again")
    assert pscvi.load(tmp_path / "again", data).history is not None
    with pytest.raises(ps.NotFound, match="no model of scvi-tools is saved in"):
        pscvi.load(tmp_path, data)
    with pytest.raises(ps.InvalidArgument, match="gene"):
        pscvi.load(tmp_path / "model", pscvi.DataModule(some_genes.experiment, batch_key="donor"))
    with pytest.raises(TypeError, match="use data, the second argument"):
        pscvi.load(tmp_path / "model", adata=data)


def test_scanvi_starts_with_a_scvi_by_its_own_argument(some_genes: ps.Dataset) -> None:
    labelled = pscvi.DataModule(
        some_genes, "SCANVI", labels_key="kind", unlabeled_category="unknown"
    )
    with pytest.raises(TypeError, match="use from_scvi="):
        labelled.create_model(scvi_model=1)


def test_a_query_is_mapped_onto_a_model(
    some_genes: ps.Dataset, trained: tuple[pscvi.DataModule, Any]
) -> None:
    data, _ = trained
    for given in (some_genes, data):
        with pytest.raises(ps.InvalidArgument, match="reference must be the model that is mapped"):
            data.load_query_data(given)


def test_lightnings_word_for_the_progress_bar(
    some_genes: ps.Dataset, capfd: pytest.CaptureFixture[str]
) -> None:
    data = pscvi.DataModule(some_genes)
    for shown in (True, False):
        pscvi.train(
            {"n_latent": 2}, data, max_epochs=1, accelerator="cpu", enable_progress_bar=shown
        )
        said = "".join(capfd.readouterr())
        assert ("Epoch 1/1" in said) is shown


def test_words_of_training(some_genes: ps.Dataset) -> None:
    data = pscvi.DataModule(some_genes, "scvi")
    assert data.model_class is scvi.model.SCVI
    model = pscvi.train({"n_latent": 2}, datamodule=data, **QUIET)
    assert model.is_trained_
    for wrong, says in (
        ({"progres": False}, "did you mean 'progress'"),
        ({"loggr": None}, "did you mean 'logger'"),
        ({"nothing_like_it": 1}, r"no argument 'nothing_like_it'$"),
    ):
        with pytest.raises(TypeError, match=says):
            pscvi.train(model, data, max_epochs=1, **wrong)
    with pytest.raises(ps.InvalidArgument, match=r"data must be a penstock\.scvi\.DataModule"):
        pscvi.train(model)


def test_arguments_of_outputs(trained: tuple[pscvi.DataModule, Any]) -> None:
    data, model = trained
    for function in (pscvi.latent, pscvi.normalized, pscvi.elbo, pscvi.predict):
        assert not set(hints.OF_OUTPUTS) & set(inspect.signature(function).parameters)
    with pytest.raises(TypeError, match="no argument 'gene_list'; use genes="):
        pscvi.normalized(model, data, gene_list=["a"])
    with pytest.raises(ps.InvalidArgument, match="no batch 'Donor 1'; did you mean 'donor 1'"):
        pscvi.normalized(model, data, transform_batch="Donor 1")
    with pytest.raises(
        TypeError, match=r"create_model\(\) has no argument 'n_latnt'; did you mean 'n_la"
    ):
        data.create_model(n_latnt=5)


def named(function: Any) -> set[str]:
    """The arguments that a function of scvi-tools names."""
    found = inspect.signature(function).parameters.values()
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {each.name for each in found if each.kind not in several} - {"self"}


def test_every_argument_of_scvi_tools_is_answered() -> None:
    """Those of its data modules, and of the calls that ours replace, in the version at hand."""
    modules = [getattr(scvi.dataloaders, name) for name in dir(scvi.dataloaders)]
    modules = [each for each in modules if getattr(each, "__name__", "").endswith("DataModule")]
    assert modules
    for module in modules:
        ours = set(inspect.signature(pscvi.DataModule).parameters)
        assert not named(module.__init__) - ours - set(hints.ARGUMENTS), module
        public = {name for name in dir(module) if not name.startswith("_")}
        theirs = public - set(dir(module.__mro__[1]))
        assert not theirs - set(dir(pscvi.DataModule)) - set(hints.ATTRIBUTES), module
    calls = {
        "get_normalized_expression": pscvi.normalized,
        "get_normalized_accessibility": pscvi.normalized,
        "get_elbo": pscvi.elbo,
        "get_latent_representation": pscvi.latent,
        "predict": pscvi.predict,
    }
    for name in ("SCVI", "SCANVI", "TOTALVI", "MULTIVI", "PEAKVI", "CondSCVI", "AUTOZI"):
        for call, function in calls.items():
            theirs = named(getattr(getattr(scvi.model, name), call, lambda: None))
            ours = set(inspect.signature(function).parameters)
            assert not theirs - ours - set(hints.OF_OUTPUTS), (name, call)


def test_a_module_without_labels_can_be_looked_at(trained: tuple[pscvi.DataModule, Any]) -> None:
    data, _ = trained
    assert not hasattr(data, "labels")
    with pytest.raises(AttributeError, match="labels_key=…"):
        _ = data.labels


def test_rows_are_a_table_and_an_array(
    some_genes: ps.Dataset, trained: tuple[pscvi.DataModule, Any]
) -> None:
    data, model = trained
    rows = pscvi.latent(model, data)
    frame = rows.to_pandas()
    expected = pd.DataFrame(rows.values, columns=["Z_0", "Z_1", "Z_2"])
    pd.testing.assert_frame_equal(frame, expected)
    every_second = some_genes[1::2]
    part = pscvi.latent(model, every_second)
    beside = every_second.obs.to_pandas().join(part.to_pandas())
    assert beside["soma_joinid"].tolist() == part.joinids.tolist()
    np.testing.assert_allclose(beside["Z_0"], rows.values[1::2, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(rows), rows.values)
    assert torch.from_numpy(np.array(rows)).shape == rows.shape == (331, 3)
    assert repr(rows) == "Rows of 331 cells × 3 columns, float32: values, joinids, columns"
    one = pscvi.elbo(model, data)
    assert one.to_pandas()["value"].tolist() == one.values.tolist()
    assert len(rows) == len(rows.values) == len(rows.joinids) == 331
    np.testing.assert_array_equal(rows[5:9, 1], rows.values[5:9, 1])
    np.testing.assert_array_equal(np.stack(list(rows)), rows.values)
    assert pd.DataFrame({"elbo": pscvi.elbo(model, data)})["elbo"].size == 331
    again = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(again.joinids, rows.joinids)
    with pytest.raises(AttributeError, match="cannot assign"):
        rows.values = rows.values
    with pytest.raises(AttributeError, match=r"use to_pandas\(\)"):
        rows.to_frame()


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_the_command_line_shows_when_a_model_stops(model: Model) -> None:
    trained = model_classes.model_class(model.name)
    stops = model_classes.training_default(trained, "early_stopping", False)
    patience = model_classes.early_stopping_defaults(trained)["patience"] if stops else None
    assert model.patience == patience
