"""TOTALVI over genes and proteins of an experiment, against scvi-tools with an AnnData of the same cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import torch

scvi = pytest.importorskip("scvi")
pa = pytest.importorskip("pyarrow")
tiledbsoma = pytest.importorskip("tiledbsoma")

import penstock.scvi as pscvi  # noqa: E402
from scvi_experiments import SEEDS, batches_of, same_elbos, same_registry  # noqa: E402
from several_measurements import Layer, write_measurements  # noqa: E402
from totalvi_cells import COVARIATES, MODALITIES, QUIET, SIZES, Cells, write  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning:scvi"),
    pytest.mark.filterwarnings("ignore:Some proteins have all 0"),
    pytest.mark.filterwarnings("ignore:We recommend using setup_mudata"),
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return write(tmp_path_factory.mktemp("totalvi") / "experiment", missing=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """Without a protein that a donor lacks."""
    return write(tmp_path_factory.mktemp("totalvi-whole") / "experiment", missing=False)


CASES: dict[str, dict[str, Any]] = {
    "batches": {"batch_key": "donor"},
    "no batches": {"batch_key": None},
    "panels": {"batch_key": "donor", "panel_key": "panel"},
    "covariates": {"batch_key": "donor", **COVARIATES},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("missing", [True, False])
def test_registry_and_batches(
    cells: Cells, whole: Cells, case: str, missing: bool, tmp_path: Path
) -> None:
    own = cells if missing else whole
    keys = CASES[case]
    data = own.data(**keys)
    adata = own.adata(**{name: key for name, key in keys.items() if key is not None})
    sizes = {**SIZES, "use_observed_lib_size": case == "panels"}
    theirs = scvi.model.TOTALVI(adata, **sizes)
    same_registry(data.registry, theirs.registry)
    for tensors, expected in zip(
        batches_of(data.predict_dataloader(batch_size=50)),
        batches_of(theirs._make_data_loader(adata, batch_size=50)),
        strict=True,
    ):
        tensors.pop("soma_joinid")
        assert set(tensors) == set(expected)
        for name, values in tensors.items():
            assert values.dtype == expected[name].dtype, name
            assert torch.equal(values, expected[name]), name
    model = data.create_model(**sizes)
    ours, want = (dict(each.module.state_dict()) for each in (model, theirs))
    shapes = [{name: each.shape for name, each in made.items()} for made in (ours, want)]
    assert shapes[0] == shapes[1]
    for name in () if case == "panels" else ("library_log_means", "library_log_vars"):
        found, expected = getattr(model.module, name), getattr(theirs.module, name)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    # Each draws cells of its own for the prior, which has noise of its own.
    for name in ("background_pro_alpha", "background_pro_log_beta"):
        assert (ours[name] - want[name]).abs().mean() < 0.5
    assert model._use_adversarial_classifier == theirs._use_adversarial_classifier
    assert model._use_adversarial_classifier == (missing and case != "no batches")


def test_the_prior_is_of_real_proteins(cells: Cells) -> None:
    """Rows of the template are cells of their batch."""
    data = cells.data()
    template = data.template
    proteins = template.obsm["protein"].to_numpy()
    codes = template.obs["donor"].astype(str).to_numpy()
    assert len(proteins) >= 3 * 200
    for name in np.unique(codes):
        own = {row.tobytes() for row in cells.proteins[cells.obs["donor"] == name]}
        drawn = [row.tobytes() for row in proteins[codes == name]]
        assert set(drawn) <= own
        assert set(drawn) == own, "all are drawn, since there are few"


def test_latents_of_a_saved_model(cells: Cells, tmp_path: Path) -> None:
    keys = CASES["covariates"]
    data = cells.data(**keys)
    model = data.create_model(**SIZES)
    pscvi.train(model, data, accelerator="cpu", max_epochs=2, progress=False)
    assert len(model.history["elbo_validation"]) == 2
    model.save(str(tmp_path / "model"))
    adata = cells.adata(**keys)
    theirs = scvi.model.TOTALVI.load(str(tmp_path / "model"), adata, accelerator="cpu")
    expected = theirs.get_latent_representation()
    np.testing.assert_allclose(pscvi.latent(model, data).values, expected, rtol=1e-4, atol=1e-6)
    for source in (cells.path, ps.Dataset(cells.path, measurements=["protein", "RNA"])):
        rows = pscvi.latent(theirs, source)
        np.testing.assert_allclose(rows.values, expected, rtol=1e-4, atol=1e-6)
    elbos = [float(-theirs.get_elbo()) for _ in range(8)]
    ours = [float(pscvi.elbo(model, data, seed=seed).values.mean()) for seed in range(8)]
    error = np.sqrt((np.var(elbos, ddof=1) + np.var(ours, ddof=1)) / 8)
    assert abs(np.mean(np.abs(elbos)) - np.mean(np.abs(ours))) < 5 * error
    with pytest.raises(ps.Unsupported, match=r"call penstock.scvi.train\(model, data\)$"):
        model.train()
    with pytest.raises(ps.Unsupported, match=r"call penstock.scvi.train\(model, data\)$"):
        model.train(datamodule=data)
    with pytest.raises(
        ps.Unsupported, match=r"load it .* scvi.model.TOTALVI.load\(folder, adata\)"
    ):
        model.get_normalized_expression()
    # A query of a donor that the model does not know.
    few = cells.data(dataset={"obs_query": "donor != 'donor 0'"})
    reference = few.create_model(**SIZES)
    pscvi.train(reference, few, accelerator="cpu", max_epochs=1, progress=False)
    query = pscvi.DataModule.from_model(
        reference, cells.path, extend_categories=True, dataset={"obs_query": "donor == 'donor 0'"}
    )
    mapped = query.load_query_data(reference)
    pscvi.train(mapped, query, accelerator="cpu", max_epochs=1, progress=False)
    assert pscvi.latent(mapped, query).values.shape == (query.n_obs, 4)
    assert mapped.summary_stats.n_batch == 3


def renamed(cells: Cells, path: Path, names: dict[str, str]) -> dict[str, str]:
    """Write the cells with measurements of other names, and their features in reverse."""
    layers = {}
    for name, X in (("RNA", cells.genes), ("protein", sp.csr_matrix(cells.proteins))):
        layers[names[name]] = Layer(X[:, ::-1].tocsr())
    write_measurements(path, layers, cells.obs)
    with tiledbsoma.open(str(path), "w") as experiment:
        for name, other in names.items():
            count = layers[other].X.shape[1]
            var = {
                "soma_joinid": np.arange(count),
                "var_id": [f"{name}{i}" for i in reversed(range(count))],
                "highly_variable": np.zeros(count, bool),
            }
            experiment.ms[other].var.write(pa.table(var))
    return {"rna_layer": names["RNA"], "protein_layer": names["protein"]}


def test_features_in_another_order_and_measurements_of_other_names(
    cells: Cells, tmp_path: Path
) -> None:
    data = cells.data()
    model = data.create_model(**SIZES)
    pscvi.train(model, data, accelerator="cpu", max_epochs=1, progress=False)
    expected = pscvi.latent(model, data).values
    same = renamed(cells, tmp_path / "same", {"RNA": "RNA", "protein": "protein"})
    found = pscvi.latent(model, tmp_path / "same").values
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    other = renamed(cells, tmp_path / "other", {"RNA": "gex", "protein": "ADT"})
    with pytest.raises(ps.NotFound, match="RNA"):
        pscvi.latent(model, tmp_path / "other")
    aligned = pscvi.DataModule.from_model(model, tmp_path / "other", modalities=other)
    np.testing.assert_allclose(pscvi.latent(model, aligned).values, expected, rtol=1e-4, atol=1e-6)
    # Trained on them, it finds them again, also from a folder.
    own = pscvi.DataModule(tmp_path / "other", "TOTALVI", modalities=other, batch_key="donor")
    trained = own.create_model(**SIZES)
    pscvi.train(trained, own, accelerator="cpu", max_epochs=1, progress=False)
    trained.save(str(tmp_path / "model"))
    again = pscvi.DataModule.from_model(tmp_path / "model", tmp_path / "other")
    np.testing.assert_array_equal(
        pscvi.latent(trained, again).values, pscvi.latent(trained, own).values
    )
    assert same == MODALITIES
    few = ps.Dataset(
        cells.path, measurements={"RNA": {"var_query": "soma_joinid < 30"}, "protein": {}}
    )
    with pytest.warns(UserWarning, match="lack 10 of the model's 40 genes"):
        lacking = pscvi.DataModule.from_model(model, few)
    assert lacking.missing_genes.tolist() == [f"RNA{i}" for i in range(30, 40)]
    assert pscvi.latent(model, lacking).values.shape == expected.shape


def test_a_query_has_the_mask_of_all_its_cells(cells: Cells) -> None:
    """Not that of the rows of a template."""
    few = {"obs_query": "donor != 'donor 0'"}
    reference = cells.data(dataset=few)
    sizes = {**SIZES, "use_observed_lib_size": False}
    model = reference.create_model(**sizes)
    pscvi.train(model, reference, accelerator="cpu", max_epochs=1, progress=False)
    means = model.module.library_log_means.clone()
    query = pscvi.DataModule.from_model(
        model, cells.path, extend_categories=True, dataset={"obs_query": "donor == 'donor 0'"}
    )
    mapped = query.load_query_data(model)
    mask = query.registry["field_registries"]["proteins"]["state_registry"]
    assert "protein_batch_mask" not in mask
    assert mapped.module.protein_batch_mask is None
    assert not mapped._use_adversarial_classifier
    torch.testing.assert_close(mapped.module.library_log_means[:, :2], means[:, :2])
    assert mapped.module.library_log_means[0, 2] > 1


@pytest.mark.parametrize("missing", [True, False])
def test_two_ranks(cells: Cells, whole: Cells, missing: bool) -> None:
    """Loss curves as on one process: the noise is another. Both fall."""
    own = cells if missing else whole
    curves = []
    for devices, batch_size in ((1, 64), (2, 32)):
        data = own.data(batch_size=batch_size)
        torch.manual_seed(0)
        np.random.seed(0)
        model = data.create_model(**SIZES)
        pscvi.train(
            model, data, devices=devices, accelerator="cpu", max_epochs=3, seed=1, progress=False,
            plan_kwargs={"lr": 4e-3},
        )  # fmt: skip
        curves.append(model)
    alone, both = curves
    assert both.history.keys() == alone.history.keys()
    for metric in ("elbo_validation", "elbo_train"):
        found, expected = (each.history[metric].astype(float).to_numpy() for each in (both, alone))
        assert len(found) == 3
        np.testing.assert_allclose(found, expected, rtol=0.1, err_msg=metric)
        assert expected[-1] < expected[0]
        assert found[-1] < found[0]


def test_held_out_elbo(whole: Cells) -> None:
    """Of some seeds each, with splits, orders and noise of their own."""
    elbos: dict[str, list[float]] = {"ours": [], "theirs": []}
    chosen = {"obs_query": "soma_joinid < 320"}
    held_out = ps.Dataset(
        whole.path, measurements=["RNA", "protein"], obs_query="soma_joinid >= 320"
    )
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        data = whole.data(dataset={**chosen, "seed": seed}, split_seed=seed, train_size=0.9)
        ours = data.create_model(**SIZES)
        how: dict[str, Any] = {"accelerator": "cpu", "progress": False, "early_stopping": False}
        pscvi.train(ours, data, max_epochs=15, **how)
        scvi.settings.seed = 100 + seed
        adata = whole.adata(batch_key="donor")[:320].copy()
        scvi.model.TOTALVI.setup_anndata(
            adata, protein_expression_obsm_key="protein", batch_key="donor"
        )
        theirs = scvi.model.TOTALVI(adata, **SIZES)
        theirs.train(max_epochs=15, train_size=0.9, batch_size=64, early_stopping=False, **QUIET)
        for who, model in (("ours", ours), ("theirs", theirs)):
            elbos[who].append(float(pscvi.elbo(model, held_out, seed=7).values.mean()))
    same_elbos(elbos["ours"], elbos["theirs"])


def test_what_is_refused(cells: Cells) -> None:
    for given, match in (
        ({}, r"TOTALVI reads several measurements: give modalities=\{'rna_layer': …, 'protein"),
        ({"modalities": {"rna_layer": "RNA"}}, "give modalities="),
        ({"modalities": "RNA"}, "give modalities="),
        ({"modalities": {**MODALITIES, "atac_layer": "ATAC"}}, "give modalities="),
        ({"modalities": MODALITIES, "labels_key": "sex"}, "TOTALVI takes no labels_key"),
    ):
        with pytest.raises(ps.InvalidArgument, match=match):
            pscvi.DataModule(cells.path, "TOTALVI", **given)
    with pytest.raises(ps.InvalidArgument, match="SCVI reads one measurement"):
        pscvi.DataModule(cells.path, "SCVI", modalities=MODALITIES)
    several = ps.Dataset(cells.path, measurements=["RNA", "protein"])
    with pytest.raises(
        ps.InvalidArgument, match="made with measurements=: make it with measurement="
    ):
        pscvi.DataModule(several, "SCVI")
    for source in (
        ps.Dataset(cells.path),
        ps.Dataset(cells.path, measurements=["RNA"]),
        ps.Dataset(cells.path, measurements={"RNA": {}, "protein": {"transforms": [ps.Log1p()]}}),
    ):
        with pytest.raises(ps.InvalidArgument, match=r"measurements=|protein has transforms"):
            pscvi.DataModule(source, "TOTALVI", modalities=MODALITIES)
    data = cells.data()
    few = pscvi.DataModule(
        ps.Dataset(
            cells.path,
            measurements={"RNA": {}, "protein": {"var_query": "soma_joinid < 5"}},
        ),
        "TOTALVI",
        modalities=MODALITIES,
        batch_key="donor",
    )
    with pytest.raises(ps.InvalidArgument, match="the model has the proteins"):
        pscvi.train(data.create_model(**SIZES), few, accelerator="cpu")
    with pytest.raises(ps.Unsupported, match="not TOTALANVI: its training step"):
        pscvi.DataModule(cells.path, "TOTALANVI", modalities=MODALITIES)
