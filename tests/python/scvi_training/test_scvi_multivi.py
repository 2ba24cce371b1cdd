"""MULTIVI over genes, regions and proteins of an experiment, against scvi-tools with a MuData."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch

scvi = pytest.importorskip("scvi")
pytest.importorskip("mudata")

import penstock.scvi as pscvi  # noqa: E402
from multivi_cells import COVARIATES, LAYERS, QUIET, SIZES, TWO, Cells, write  # noqa: E402
from scvi_experiments import SEEDS, batches_of, same_elbos, same_registry  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mudata"),
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return write(tmp_path_factory.mktemp("multivi") / "experiment")


MODALITIES = {
    "genes and regions": TWO,
    "proteins, too": LAYERS,
    "genes": {"rna_layer": "RNA"},
    "regions": {"atac_layer": "ATAC"},
    "genes and proteins": {layer: LAYERS[layer] for layer in ("rna_layer", "protein_layer")},
    "regions and proteins": {layer: LAYERS[layer] for layer in ("atac_layer", "protein_layer")},
}


@pytest.mark.parametrize("modalities", MODALITIES.values(), ids=MODALITIES)
@pytest.mark.parametrize("covariates", [{}, COVARIATES], ids=["plain", "covariates"])
def test_registry_batches_and_latents(
    cells: Cells, modalities: dict[str, str], covariates: dict[str, Any], tmp_path: Path
) -> None:
    data = cells.data(modalities, **covariates)
    several = cells.several(modalities, batch_key="donor", **covariates)
    theirs = scvi.model.MULTIVI(several, **SIZES)
    same_registry(data.registry, theirs.registry)
    for tensors, expected in zip(
        batches_of(data.predict_dataloader(batch_size=50)),
        batches_of(theirs._make_data_loader(several, batch_size=50)),
        strict=True,
    ):
        tensors.pop("soma_joinid")
        assert set(tensors) == set(expected)
        for name, values in tensors.items():
            assert values.shape == expected[name].shape, name
            if name != "ind_x":  # positions, which only modality_weights="cell" reads
                assert values.dtype == expected[name].dtype, name
                assert torch.equal(values, expected[name]), name
    model = data.create_model(**SIZES)
    ours, want = (each.module.state_dict() for each in (model, theirs))
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in want.items()}
    pscvi.train(model, data, accelerator="cpu", max_epochs=2, progress=False)
    assert len(model.history["elbo_validation"]) == 2
    found = pscvi.latent(model, data)
    model.save(str(tmp_path / "model"))
    loaded = scvi.model.MULTIVI.load(str(tmp_path / "model"), several, accelerator="cpu")
    expected_latent = loaded.get_latent_representation()
    np.testing.assert_allclose(found.values, expected_latent, rtol=1e-4, atol=1e-6)
    for trained in (loaded, tmp_path / "model"):
        again = pscvi.DataModule.from_model(trained, cells.path)
        np.testing.assert_allclose(
            pscvi.latent(loaded, again).values, expected_latent, rtol=1e-4, atol=1e-6
        )
    assert np.isfinite(pscvi.elbo(model, data).values).all()


@pytest.mark.parametrize("name", ["genes", "regions", "regions and proteins"])
def test_one_of_both_measurements(cells: Cells, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ELBO, what it decodes and compares; a query is mapped on it."""
    modalities = MODALITIES[name]
    few = {"obs_query": "donor != 'donor 0'"}
    data = cells.data(modalities, dataset=few)
    model = data.create_model(**SIZES)
    pscvi.train(model, data, accelerator="cpu", max_epochs=2, progress=False)
    genes = "rna_layer" in modalities
    assert data.n_vars == (40 if genes else 0)
    assert {"genes": "x 40 genes,", "regions": "x 60 regions,"}.get(
        name, "60 regions and 12"
    ) in repr(data)
    several = cells.several(modalities, batch_key="donor")
    several = several[several.obs["donor"] != "donor 0"].copy()
    if genes:
        expected = model.get_normalized_expression(several, return_numpy=True)
    else:
        expected = model.get_normalized_accessibility(several, return_numpy=True)
    found = pscvi.normalized(model, data)
    np.testing.assert_allclose(found.values, expected, rtol=1e-4, atol=1e-7)
    assert found.columns[:2].tolist() == (["RNA0", "RNA1"] if genes else ["ATAC0", "ATAC1"])
    with monkeypatch.context() as patch:
        # The means of the latent variables in place of a draw.
        patch.setattr(torch.distributions.Normal, "rsample", lambda self, shape=(): self.loc)
        elbo = float(model.get_elbo(several))
        assert pscvi.elbo(model, data).values.mean() == pytest.approx(elbo, rel=1e-5)
    lacking = "regions" if genes else "genes"
    with pytest.raises(ps.InvalidArgument, match=f"of must be '{name[:5]}"):
        pscvi.normalized(model, data, of=lacking)
    with pytest.raises(ps.Unsupported, match=f"by a MULTIVI without {lacking}"):
        pscvi.differential_accessibility(model, data, "donor", accelerator="cpu")
    if genes:
        table = pscvi.differential_expression(model, data, "donor", "donor 1", accelerator="cpu")
        assert len(table) == 40
    else:
        with pytest.raises(ps.Unsupported, match="MULTIVI without genes: train a PEAKVI"):
            pscvi.differential_expression(model, data, "donor", accelerator="cpu")
    query = pscvi.DataModule.from_model(
        model, cells.path, extend_categories=True, dataset={"obs_query": "donor == 'donor 0'"}
    )
    mapped = query.load_query_data(model)
    pscvi.train(mapped, query, accelerator="cpu", max_epochs=1, progress=False)
    assert pscvi.latent(mapped, query).values.shape == (query.n_obs, 4)
    both = pscvi.DataModule(cells.path, "MULTIVI", modalities=TWO, batch_key="donor", dataset=few)
    with pytest.raises(ps.InvalidArgument, match="the model has"):
        pscvi.latent(model, both)
    with pytest.raises(ps.InvalidArgument, match="give modalities= a name for each of these"):
        pscvi.DataModule.from_model(model, cells.path, modalities=TWO)


@pytest.mark.parametrize("folder", [False, True])
def test_a_query(cells: Cells, tmp_path: Path, folder: bool) -> None:
    few = {"obs_query": "donor != 'donor 0'"}
    data = cells.data(LAYERS, dataset=few)
    model = data.create_model(**SIZES)
    pscvi.train(model, data, accelerator="cpu", max_epochs=1, progress=False)
    model.save(str(tmp_path / "model"))
    reference = tmp_path / "model" if folder else model
    query = pscvi.DataModule.from_model(
        reference, cells.path, extend_categories=True, dataset={"obs_query": "donor == 'donor 0'"}
    )
    mapped = query.load_query_data(reference)
    pscvi.train(mapped, query, accelerator="cpu", max_epochs=1, progress=False)
    assert pscvi.latent(mapped, query).values.shape == (query.n_obs, 4)
    assert mapped.summary_stats.n_batch == 3
    # What scvi-tools maps from the folder.
    several = cells.several(LAYERS, batch_key="donor")
    theirs = scvi.model.MULTIVI.load_query_data(several, str(tmp_path / "model"))
    assert theirs.summary_stats.n_batch == 3


def test_two_ranks(cells: Cells) -> None:
    """Loss curves as on one process: the noise is another. Both fall."""
    curves = []
    for devices, batch_size in ((1, 64), (2, 32)):
        data = cells.data(TWO, batch_size=batch_size)
        torch.manual_seed(0)
        model = data.create_model(**SIZES)
        pscvi.train(
            model, data, devices=devices, accelerator="cpu", max_epochs=3, seed=1, progress=False,
            plan_kwargs={"lr": 3e-3},
        )  # fmt: skip
        curves.append(model)
    alone, both = curves
    assert both.history.keys() == alone.history.keys()
    for metric in ("reconstruction_loss_validation", "elbo_train"):
        found, expected = (each.history[metric].astype(float).to_numpy() for each in (both, alone))
        assert len(found) == 3
        np.testing.assert_allclose(found, expected, rtol=0.05, err_msg=metric)
        assert expected[-1] < expected[0]
        assert found[-1] < found[0]


def test_held_out_elbo(cells: Cells) -> None:
    """Of some seeds each, with splits, orders and noise of their own."""
    elbos: dict[str, list[float]] = {"ours": [], "theirs": []}
    held_out = ps.Dataset(
        cells.path, measurements=list(TWO.values()), obs_query="soma_joinid >= 240"
    )
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        chosen = {"obs_query": "soma_joinid < 240", "seed": seed}
        data = cells.data(TWO, dataset=chosen, split_seed=seed, train_size=0.9)
        ours = data.create_model(**SIZES)
        how: dict[str, Any] = {"accelerator": "cpu", "progress": False, "early_stopping": False}
        pscvi.train(ours, data, max_epochs=15, plan_kwargs={"lr": 3e-3}, **how)
        scvi.settings.seed = 100 + seed
        several = cells.several(TWO, batch_key="donor")[:240].copy()
        scvi.model.MULTIVI.setup_mudata(several, modalities=dict(TWO), batch_key="donor")
        theirs = scvi.model.MULTIVI(several, **SIZES)
        theirs.train(
            max_epochs=15, lr=3e-3, train_size=0.9, batch_size=64, early_stopping=False, **QUIET
        )
        for who, model in (("ours", ours), ("theirs", theirs)):
            elbos[who].append(float(pscvi.elbo(model, held_out, seed=7).values.mean()))
    same_elbos(elbos["ours"], elbos["theirs"])


def test_what_is_refused(cells: Cells) -> None:
    for given, match in (
        (
            {},
            "MULTIVI reads several measurements: give modalities=.* and, if there is one, 'protein_",
        ),
        (
            {"modalities": {"protein_layer": "protein"}},
            r"give modalities=\{.*\} or one of them and, if",
        ),
        ({"modalities": {**TWO, "other": "RNA"}}, "give modalities="),
        ({"modalities": TWO, "labels_key": "sex"}, "MULTIVI takes no labels_key"),
        ({"modalities": TWO, "size_factor_key": "age"}, "MULTIVI takes no size_factor_key"),
    ):
        with pytest.raises(ps.InvalidArgument, match=match):
            pscvi.DataModule(cells.path, "MULTIVI", **given)
    data = cells.data(TWO)
    with pytest.raises(ps.Unsupported, match="modality_weights='cell' learns a weight"):
        data.create_model(modality_weights="cell")
    several = cells.several(TWO, batch_key="donor")
    weighted = scvi.model.MULTIVI(several, modality_weights="cell", **SIZES)
    weighted.is_trained_ = True
    with pytest.raises(ps.Unsupported, match="modality_weights='cell' learns a weight"):
        pscvi.latent(weighted, cells.path)
    mixed = scvi.model.MULTIVI
    several = cells.several({**TWO})
    mixed.setup_mudata(several, modalities={**TWO, "batch_key": "RNA"})
    with pytest.raises(ps.Unsupported, match="set up in a way that is not mapped on"):
        pscvi.DataModule.from_model(mixed(several, **SIZES), cells.path)
    model = data.create_model(**SIZES)
    pscvi.train(model, data, accelerator="cpu", max_epochs=1, progress=False)
    fewer = {"measurements": {"RNA": {}, "ATAC": {"var_query": "soma_joinid < 9"}}}
    with pytest.raises(ps.InvalidArgument, match="the model has the regions"):
        pscvi.latent(model, cells.data(TWO, dataset=fewer))
