"""Data are refused if the model was made for other data, and accepted otherwise."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from penstock.scvi.registry.model_classes import check_versions  # noqa: E402
from scvi_experiments import as_anndata  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SOME = {"obs_query": "soma_joinid < 90"}
COVARIATES: dict[str, Any] = {
    "categorical_covariate_keys": ["sex", "chemistry"],
    "continuous_covariate_keys": ["age", "percent"],
}
LABELS = {"labels_key": "kind", "unlabeled_category": "Unknown"}


def module_of(cells: Oracle, model: str = "SCVI", **keys: Any) -> pscvi.DataModule:
    return pscvi.DataModule(cells.path, model, dataset=SOME, **keys)


def ready(data: pscvi.DataModule) -> Any:
    """A model that counts as trained."""
    torch.manual_seed(0)
    model = data.create_model(n_latent=3, n_hidden=8)
    model.is_trained_ = True
    return model


def refused(model: Any, data: pscvi.DataModule, said: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=said):
        pscvi.train(model, data, max_epochs=1, accelerator="cpu", progress=False)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"categorical_covariate_keys": ["chemistry", "sex"]}, "categorical covariates"),
        ({"continuous_covariate_keys": ["percent", "age"]}, "continuous covariates"),
        ({"continuous_covariate_keys": ["percent", "factor"]}, "continuous covariates"),
        ({"continuous_covariate_keys": ["age"]}, "continuous covariates"),
        ({"continuous_covariate_keys": None}, r"but the data has \[\]: use DataModule.from_model"),
        ({"size_factor_key": "factor"}, "data has the size factor 'factor' but the model has none"),
    ],
)
def test_other_covariates(cells: Oracle, other: dict[str, Any], said: str) -> None:
    model = ready(module_of(cells, **COVARIATES))
    data = module_of(cells, **{**COVARIATES, **other})
    refused(model, data, said)
    for infer in (pscvi.latent, pscvi.elbo, pscvi.normalized):
        with pytest.raises(ps.InvalidArgument, match=said):
            infer(model, data)


def test_the_size_factor_of_the_model(cells: Oracle) -> None:
    model = ready(module_of(cells, size_factor_key="factor"))
    refused(model, module_of(cells), "model has the size factor 'factor' but the data has none")


def test_other_labels(cells: Oracle) -> None:
    model = ready(module_of(cells, "SCANVI", **LABELS))
    for keys in ({"labels_key": "site"}, {"unlabeled_category": "B"}):
        refused(model, module_of(cells, "SCANVI", **{**LABELS, **keys}), "the model has the labels")
    plain = module_of(cells, labels_key="kind")
    refused(model, plain, "the model is a SCANVI and the data module one of SCVI")
    refused(ready(plain), module_of(cells, "SCANVI", **LABELS), "the model is a SCVI .* of SCANVI")
    assert pscvi.latent(model, plain).values.shape == (90, 3), "labels are nothing to latents"


def test_labels_that_have_a_dispersion_each(cells: Oracle) -> None:
    """Those of other data would take that of another label, or one that is not there.

    A SCANVI has none: scvi-tools makes one that cannot decode.
    """
    data = module_of(cells, labels_key="kind")
    torch.manual_seed(0)
    model = data.create_model(n_latent=3, n_hidden=8, dispersion="gene-label")
    model.is_trained_ = True
    expected = pscvi.elbo(model, data).values
    for other in (module_of(cells, labels_key="site"), module_of(cells)):
        refused(model, other, "the model has the labels .* 4 in all, but the data")
        for infer in (pscvi.elbo, pscvi.normalized):
            with pytest.raises(ps.InvalidArgument, match=r"the model has the labels .* 4 in all"):
                infer(model, other)
    np.testing.assert_array_equal(pscvi.elbo(model, cells.path, dataset=SOME).values, expected)


def test_the_elbo_of_a_scanvi_has_nothing_of_labels(cells: Oracle) -> None:
    """It sums over all that the model knows, whatever the cells are told."""
    data = module_of(cells, "SCANVI", **LABELS)
    model = ready(data)
    expected = pscvi.elbo(model, data).values
    for other in (module_of(cells, "SCANVI", **{**LABELS, "labels_key": "site"}), module_of(cells)):
        np.testing.assert_array_equal(pscvi.elbo(model, other).values, expected)


def test_a_scanvi_of_a_scvi_of_other_covariates(cells: Oracle) -> None:
    model = ready(
        module_of(cells, labels_key="kind", categorical_covariate_keys=["sex", "chemistry"])
    )
    for keys in (
        {"categorical_covariate_keys": ["chemistry", "sex"]},
        {**COVARIATES, "continuous_covariate_keys": ["age"]},
    ):
        data = module_of(cells, "SCANVI", **LABELS, **keys)
        with pytest.raises(ps.InvalidArgument, match="covariates"):
            data.create_model(from_scvi=model)


def test_a_model_of_a_layer(cells: Oracle) -> None:
    """Its AnnData had the counts there; here they are X."""
    adata = as_anndata(cells)[:90].copy()
    adata.layers["counts"] = adata.X.copy()
    adata.X = adata.X * 0
    scvi.model.SCVI.setup_anndata(adata, layer="counts", batch_key="donor")
    model = scvi.model.SCVI(adata, n_latent=3, n_hidden=8)
    model.is_trained_ = True
    model.module.eval()
    found = pscvi.latent(model, cells.path, dataset=SOME)
    np.testing.assert_allclose(
        found.values, model.get_latent_representation(), rtol=1e-4, atol=1e-5
    )
    assert pscvi.elbo(model, cells.path, dataset=SOME).values.shape == (90,)


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_one_cell_and_none(cells: Oracle) -> None:
    """One is inferred, and not trained on."""
    model = ready(module_of(cells, batch_key="donor"))
    every = pscvi.latent(model, cells.path, dataset=SOME).values
    one = {"obs_query": "soma_joinid == 7"}
    np.testing.assert_allclose(
        pscvi.latent(model, cells.path, dataset=one).values, every[7:8], rtol=1e-4
    )
    data = pscvi.DataModule.from_model(model, cells.path, dataset=one)
    refused(model, data, "two cells or more, got 1 of 1")
    with pytest.raises(ps.InvalidArgument, match="two cells or more"):
        data.train_dataloader()
    none = {"obs_query": "donor == 'nobody'"}
    for make in (
        lambda: pscvi.latent(model, cells.path, dataset=none),
        lambda: pscvi.DataModule(cells.path, dataset=none),
    ):
        with pytest.raises(ps.InvalidArgument, match="no cell is selected by obs_query="):
            make()
    with pytest.raises(ps.InvalidArgument, match="no cell is selected by the Dataset"):
        pscvi.DataModule(ps.Dataset(cells.path, **none))


@pytest.mark.parametrize(
    ("module", "version", "said"),
    [
        ("scvi", "1.4.0", "needs scvi-tools 1.4.1 or newer, but 1.4.0 is"),
        ("scvi", "1.4.0.post1", "but 1.4.0.post1 is"),
        ("lightning", "2.4.0", "needs lightning 2.5 or newer"),
        ("scvi", "1.4.1", None),
        ("scvi", "1.5.0rc1", None),
        ("lightning", "2.5", None),
        ("lightning", "3.0", None),
    ],
)
def test_versions(
    monkeypatch: pytest.MonkeyPatch, module: str, version: str, said: str | None
) -> None:
    made = types.ModuleType(module)
    made.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module, made)
    if said is None:
        check_versions()
    else:
        with pytest.raises(ps.Unsupported, match=said):
            check_versions()


def test_loadings_by_the_template(cells: Oracle, tmp_path: Path) -> None:
    """A model that was trained here asks for an AnnData, and takes the template."""
    model = ready(module_of(cells, "LinearSCVI", batch_key="donor"))
    data = module_of(cells, "LinearSCVI", batch_key="donor")
    model.save(str(tmp_path / "model"))
    loaded = scvi.model.LinearSCVI.load(str(tmp_path / "model"), data.template, accelerator="cpu")
    loadings = loaded.get_loadings()
    assert loadings.index.tolist() == data.template.var_names.tolist()
    for name, each in loaded.module.state_dict().items():
        torch.testing.assert_close(each, model.module.state_dict()[name], msg=name)
    assert loadings.to_numpy().std() > 0
