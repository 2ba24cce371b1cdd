"""Models that scvi-tools' TileDBDataModule trained, converted, beside scvi-tools' own outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")
pytest.importorskip("tiledbsoma_ml")
soma = pytest.importorskip("tiledbsoma")

import penstock.scvi as pscvi  # noqa: E402
from scvi.dataloaders import TileDBDataModule  # noqa: E402
from scvi_experiments import as_anndata  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CASES: dict[str, dict[str, Any]] = {
    "joined": {"batch_column_names": ["donor", "site"]},
    "one": {"batch_column_names": ["donor"], "continuous_covariate_keys": ["age", "percent"]},
    "numbers": {"batch_column_names": ["lane"]},
    "floats": {"batch_column_names": ["dose"]},
    "booleans": {"batch_column_names": ["fresh"]},
}


@pytest.fixture(scope="module")
def path(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells of `write_cells`, with columns of numbers."""
    import shutil

    import pyarrow as pa

    made = tmp_path_factory.mktemp("lanes") / "experiment"
    shutil.copytree(cells.path, made)
    with soma.open(str(made)) as stored:
        table = stored.obs.read().concat().to_pandas()
    rng = np.random.default_rng(4)
    table["lane"] = rng.choice([10, 9, 101], len(table))
    table["dose"] = rng.choice([0.1, 0.7], len(table)).astype(np.float32)
    table["fresh"] = rng.random(len(table)) < 0.5
    with soma.open(str(made), "w") as stored:
        soma.io.update_obs(stored, table)
    assert pa.types.is_integer(soma.open(str(made)).obs.schema.field("lane").type)
    return made


class Theirs:
    """A model that scvi-tools trained with its own data module."""

    def __init__(self, path: Path, name: str) -> None:
        query = soma.open(str(path)).axis_query("RNA")
        self.data = TileDBDataModule(
            query, layer_name="raw", batch_size=64, shuffle=False, seed=0, train_size=1.0,
            accelerator="cpu", dataloader_kwargs={"num_workers": 0}, **CASES[name],
        )  # fmt: skip
        torch.manual_seed(0)
        self.model = scvi.model.SCVI(registry=self.data.registry, n_latent=4, gene_likelihood="nb")
        self.data.setup()
        self.model.train(
            datamodule=self.data, max_epochs=3, accelerator="cpu", enable_progress_bar=False
        )


@pytest.fixture(scope="module", params=list(CASES))
def theirs(request, path: Path) -> Theirs:
    made = Theirs(path, request.param)
    made.name = request.param
    return made


def decoded(model: Any, batches: Any) -> np.ndarray:
    """Expression decoded from the means, which depends on the codes of the batches."""
    rows = []
    module = model.module.eval()
    with torch.inference_mode():
        for tensors in batches:
            inputs = module._get_inference_input(tensors)
            outputs = module.inference(**inputs)
            outputs["z"] = outputs["qz"].loc
            made = module.generative(**module._get_generative_input(tensors, outputs))
            rows.append(made["px"].mu.numpy())
    return np.concatenate(rows)


@pytest.mark.parametrize("saved", [False, True])
def test_converted(theirs: Theirs, path: Path, cells: Oracle, saved: bool, tmp_path: Path) -> None:
    given: Any = theirs.model
    if saved:
        given = tmp_path / "theirs"
        theirs.model.save(str(given), datamodule=theirs.data)
    key = CASES[theirs.name]["batch_column_names"]
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    model = pscvi.convert_model(given, path, batch_key=key)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()
    assert model.is_trained_
    assert model.history_ is not theirs.model.history_
    assert model.get_var_names().tolist() == cells.var["var_id"].tolist()
    data = pscvi.DataModule.from_model(model, path)
    expected = decoded(theirs.model, theirs.data.inference_dataloader())
    found = decoded(model, data.predict_dataloader())
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # Batches are in another order in its registry than their codes.
    assert len(np.unique(expected[:, 0])) > 1
    latent = pscvi.latent(model, path).values
    model.save(str(tmp_path / "ours"))
    adata = as_anndata(cells)
    for name, values in ps.open(path).obs.to_pandas(columns=["lane", "dose", "fresh"]).items():
        adata.obs[name] = values.to_numpy()
    loaded = scvi.model.SCVI.load(str(tmp_path / "ours"), adata, accelerator="cpu")
    np.testing.assert_allclose(loaded.get_latent_representation(), latent, rtol=1e-4, atol=1e-6)
    assert len(pscvi.differential_expression(model, path, "kind", "T", all_stats=False)) == 50
    query = pscvi.DataModule.from_model(model, path, extend_categories=True)
    assert query.load_query_data(tmp_path / "ours").module is not None


def test_what_is_refused(theirs: Theirs, path: Path, tmp_path: Path) -> None:
    key = CASES[theirs.name]["batch_column_names"]
    with pytest.raises(ps.Unsupported, match=r"convert it first, by penstock\.scvi\.convert_model"):
        pscvi.latent(theirs.model, path)
    with pytest.raises(ps.InvalidArgument, match="which is no batch of the model; it has"):
        pscvi.convert_model(theirs.model, path, batch_key="kind")
    with pytest.raises(ps.InvalidArgument, match="the cells lack 49 genes of the model, such as"):
        pscvi.convert_model(
            theirs.model, path, batch_key=key, dataset={"var_query": ps.AxisQuery(coords=([3],))}
        )
    with pytest.raises(ps.InvalidArgument, match="must be a model of scvi-tools or the folder"):
        pscvi.convert_model(3, path, batch_key=key)
    with pytest.raises(ps.Unsupported, match="convert it first"):
        pscvi.train(theirs.model, pscvi.DataModule(path, batch_key=key), accelerator="cpu")
    with pytest.raises(ps.NotFound, match="no model of scvi-tools is saved"):
        pscvi.convert_model(tmp_path, path, batch_key=key)
    converted = pscvi.convert_model(theirs.model, path, batch_key=key)
    with pytest.raises(ps.Unsupported, match="takes it as it is"):
        pscvi.convert_model(converted, path, batch_key=key)
    registry = theirs.model.registry_
    fields = registry["field_registries"]
    for changes, match in [
        ({"model_name": "SCANVI"}, "got a SCANVI"),
        ({"labels": {"state_registry": {"categorical_mapping": ["a"]}}}, "label_keys"),
        ({"extra_categorical_covs": {"state_registry": {"mapping": {}, "a": 1}}}, "joins them in one"),
        ({"X": {"state_registry": {"column_names": ["ENSG1"], "n_obs": 1}}}, "genes by name"),
    ]:  # fmt: skip
        changed = {**registry, **changes, "field_registries": {**fields, **changes}}
        theirs.model.registry_ = changed
        try:
            with pytest.raises(ps.Unsupported, match=match):
                pscvi.convert_model(theirs.model, path, batch_key=key)
        finally:
            theirs.model.registry_ = registry


def test_batches_that_are_no_numbers(path: Path) -> None:
    """A column of numbers, and a batch of the model that is a text."""
    theirs = Theirs(path, "numbers")
    state = theirs.model.registry_["field_registries"]["batch"]["state_registry"]
    state["categorical_mapping"] = np.array([*state["categorical_mapping"], "x"], object)
    with pytest.raises(ps.InvalidArgument, match="has numbers, but the model's batches not"):
        pscvi.convert_model(theirs.model, path, batch_key="lane")
