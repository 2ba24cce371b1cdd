"""Inference over stored cells and cells aligned with a saved model, against scvi-tools."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402
from penstock.inference import rows as rows_files  # noqa: E402
from penstock.scvi.outputs import inference, inference_rows  # noqa: E402
from penstock.scvi.registry.loaders import to_device  # noqa: E402
from scvi_callbacks import Watched  # noqa: E402
from scvi_experiments import as_anndata, no_draws_of_loaders, same_registry, write_cells  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

KEYS = {
    "batch_key": "donor", "labels_key": "kind", "size_factor_key": "factor",
    "categorical_covariate_keys": ["sex", "chemistry"],
}  # fmt: skip
QUIET = {"accelerator": "cpu", "enable_progress_bar": False}


@pytest.fixture(scope="module")
def folder(cells: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model."""
    torch.manual_seed(0)
    data = pscvi.DataModule(cells.path, **KEYS)
    model = data.create_model(n_latent=4, gene_likelihood="nb")
    model.train(max_epochs=1, datamodule=data, **QUIET)
    path = tmp_path_factory.mktemp("models") / "model"
    model.save(str(path))
    return path


@pytest.fixture
def theirs(folder: Path, cells: Oracle):
    return scvi.model.SCVI.load(str(folder), as_anndata(cells), accelerator="cpu")


def test_rows_are_those_of_scvi_tools(theirs, cells: Oracle, tmp_path: Path) -> None:
    n = len(cells.obs)
    latent = pscvi.latent(theirs, cells.path, batch_size=100)
    np.testing.assert_allclose(latent.values, theirs.get_latent_representation(), rtol=1e-5)
    assert latent.joinids.tolist() == cells.obs["soma_joinid"].tolist()
    both = pscvi.latent(theirs, cells.path, return_dist=True).values
    mean, variance = theirs.get_latent_representation(return_dist=True)
    np.testing.assert_allclose(both, np.hstack([mean, variance]), rtol=1e-5)

    # A subset in stored order, through a Dataset, to the files.
    some = ps.Dataset(cells.path, obs_query="site == 'a'")
    places = np.flatnonzero(cells.obs["site"] == "a")
    for name in ("rows.npy", "rows.zarr"):
        rows = pscvi.latent(theirs, some, out=tmp_path / name, batch_size=33)
        np.testing.assert_allclose(np.asarray(rows.values[:]), latent.values[places], rtol=1e-5)
        assert rows.joinids.tolist() == places.tolist()
    stored = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.testing.assert_array_equal(stored, np.asarray(rows.values[:]))
    assert np.load(tmp_path / "rows.joinids.npy").tolist() == places.tolist()

    genes = ["ENSG007", "ENSG002"]
    batches = ["donor 2", "donor 0"]
    for how in (
        {},
        {"transform_batch": batches},
        {"library_size": 1e4},
        {"library_size": "latent"},
    ):
        found = pscvi.normalized(theirs, cells.path, genes=genes, seed=5, batch_size=n, **how)
        torch.manual_seed(5)
        with no_draws_of_loaders():
            expected = theirs.get_normalized_expression(batch_size=n, **how)[genes]
        np.testing.assert_allclose(found.values, expected, rtol=1e-4)
        assert found.columns.tolist() == genes

    elbo = pscvi.elbo(theirs, cells.path, seed=3, batch_size=n).values
    assert elbo.shape == (n,)
    repeated = pscvi.elbo(theirs, cells.path, seed=3, batch_size=n).values
    np.testing.assert_array_equal(elbo, repeated)
    assert abs(elbo.mean() - float(theirs.get_elbo())) < 0.05 * abs(elbo.mean())


def test_two_processes_write_the_same_rows(theirs, cells: Oracle, tmp_path: Path) -> None:
    one = pscvi.latent(theirs, cells.path, batch_size=50)
    two = pscvi.latent(theirs, cells.path, batch_size=50, devices=2, out=tmp_path / "two.zarr")
    np.testing.assert_allclose(np.asarray(two.values[:]), one.values, rtol=1e-5, atol=1e-6)
    assert two.joinids.tolist() == one.joinids.tolist()


def test_elbo_is_that_of_scvi_tools(theirs, cells: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every cell, with the means of the latent variables in place of a draw."""
    monkeypatch.setattr(torch.distributions.Normal, "rsample", lambda self, shape=(): self.loc)
    found = pscvi.elbo(theirs, cells.path, batch_size=50).values
    assert found.mean() == pytest.approx(float(theirs.get_elbo()), rel=1e-5)
    for place in (0, 57, 330):
        expected = float(theirs.get_elbo(indices=[place]))
        assert found[place] == pytest.approx(expected, rel=1e-5)


def test_labels_on_two_processes(cells: Oracle, tmp_path: Path) -> None:
    data = pscvi.DataModule(
        cells.path, "SCANVI", labels_key="kind", unlabeled_category="Unknown", batch_key="donor"
    )
    torch.manual_seed(0)
    model = data.create_model(n_latent=4)
    model.train(max_epochs=1, datamodule=data, **QUIET)
    one = pscvi.predict(model, data, soft=True)
    two = pscvi.predict(model, data, soft=True, devices=2, out=tmp_path / "labels.npy")
    assert isinstance(two.values, np.memmap)
    np.testing.assert_array_equal(two.values, one.values)
    hard = pscvi.predict(model, data, out=tmp_path / "hard.npy")
    assert (hard.values.dtype, hard.columns.tolist()) == (np.int32, two.columns.tolist())
    assert hard.columns[hard.values].tolist() == pscvi.predict(model, data).values.tolist()


@pytest.mark.parametrize(
    ("devices", "name"), [(1, "rows.npy"), (1, "rows.zarr"), (2, "rows.npy"), (2, "rows.zarr")]
)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_rows_for_a_file_are_never_in_memory(
    pbmc3k: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: int, name: str
) -> None:
    """All genes of all cells: a rank has a batch of them, and the one that it makes."""
    data = pscvi.DataModule(pbmc3k.path, train_size=1.0, dataset={"memory_budget": "32MiB"})
    model = data.create_model(n_latent=3, n_hidden=4)
    model.is_trained_ = True
    whole = data.n_obs * data.n_vars * 4
    made = inference.decoded_features
    monkeypatch.setattr(
        inference,
        "decoded_features",
        lambda *given: (it := made(*given))._replace(decoder=Watched(it.decoder, tmp_path)),
    )
    monkeypatch.setattr(rows_files, "_CHUNK_BYTES", 1 << 19)
    tracemalloc.start()
    try:
        rows = pscvi.normalized(
            model, data, out=tmp_path / name, batch_size=64, devices=devices, accelerator="cpu"
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < whole / 4
    ranks = [list(map(int, path.read_text().split())) for path in tmp_path.glob("allocated-*.txt")]
    assert len(ranks) == devices
    assert sum(map(len, ranks)) >= data.n_obs // 64
    # What a batch takes is there from the second on, and no more of it with each.
    for allocated in ranks:
        assert max(allocated) - allocated[1] < whole / 4 / devices
    assert name.endswith(".zarr") or isinstance(rows.values, np.memmap)
    assert rows.values.shape == (data.n_obs, data.n_vars)
    np.testing.assert_allclose(np.asarray(rows.values[:])[::500].sum(axis=1), 1, rtol=1e-4)


def test_the_elbo_of_two_processes_is_that_of_one(theirs, cells: Oracle, tmp_path: Path) -> None:
    """Where the latent variables have next to no variance; else each rank draws for its cells."""
    with torch.no_grad():
        theirs.module.z_encoder.var_encoder.weight.zero_()
        theirs.module.z_encoder.var_encoder.bias.fill_(-30)
    theirs.module.z_encoder.var_eps = 0
    one = pscvi.elbo(theirs, cells.path, batch_size=50)
    two = pscvi.elbo(
        theirs, cells.path, batch_size=50, devices=2, accelerator="cpu", out=tmp_path / "elbo.npy"
    )
    np.testing.assert_allclose(two.values, one.values, rtol=1e-5)
    assert len(np.unique(one.values)) > 300, "of each cell its own"
    np.testing.assert_array_equal(two.joinids, one.joinids)


def test_batches_are_sparse_until_the_device(
    theirs, cells: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[bool] = []

    def noted(batch, device):
        kinds.append(sp.issparse(batch["X"]))
        return to_device(batch, device)

    monkeypatch.setattr(inference_rows, "to_device", noted)
    found = pscvi.latent(theirs, cells.path, batch_size=100).values
    np.testing.assert_allclose(found, theirs.get_latent_representation(), rtol=1e-5)
    assert kinds == [True] * 4


def test_genes_are_aligned(folder: Path, theirs, cells: Oracle, tmp_path: Path) -> None:
    import tiledbsoma.io

    # Other cells: genes in another order, two of the model's missing, one of their own.
    adata = as_anndata(cells)[:60].copy()
    kept = [name for name in adata.var_names if name not in ("ENSG003", "ENSG041")][::-1]
    other = adata[:, kept].copy()
    other = anndata.AnnData(
        sp.hstack([other.X, np.ones((60, 1), np.float32)], format="csr"),
        other.obs.drop(columns=["soma_joinid", "obs_id"]),
        pd.DataFrame(index=[*kept, "own"]),
    )
    tiledbsoma.io.from_anndata(str(tmp_path / "query"), other, "RNA", X_layer_name="raw")
    with pytest.warns(UserWarning, match="lack 2 of the model's 50 genes.*ENSG003, ENSG041"):
        data = pscvi.DataModule.from_model(folder, tmp_path / "query")
    assert data.missing_genes.tolist() == ["ENSG003", "ENSG041"]
    expected = adata.X.toarray()
    expected[:, [3, 41]] = 0
    found = torch.cat([batch["X"] for batch in data.predict_dataloader()]).numpy()
    np.testing.assert_array_equal(found, expected)
    assert data.registry["field_registries"]["X"]["state_registry"]["column_names"].tolist() == (
        adata.var_names.tolist()
    )
    adata.X = sp.csr_matrix(expected)
    np.testing.assert_allclose(
        pscvi.latent(theirs, data).values, theirs.get_latent_representation(adata), rtol=1e-4
    )


def test_categories_are_aligned(folder: Path, cells: Oracle, tmp_path: Path) -> None:
    other = write_cells(tmp_path / "other", 90, seed=4)
    some = ps.Dataset(other.path, obs_query="donor != 'donor 0' and kind == 'T'")
    data = pscvi.DataModule.from_model(folder, some)
    codes = torch.cat([batch["batch"] for batch in data.predict_dataloader()])[:, 0]
    joined = data.joinids
    donors = other.obs["donor"].iloc[joined]
    assert codes.tolist() == [int(donor[-1]) for donor in donors]
    assert data.n_batch == 3

    renamed = as_anndata(other)
    renamed.obs["donor"] = renamed.obs["donor"].str.replace("donor 1", "donor new")
    path = tmp_path / "renamed"
    import tiledbsoma.io

    renamed.obs = renamed.obs.drop(columns=["soma_joinid", "obs_id", "donor+site"])
    renamed.obs.index.name = renamed.var.index.name = None
    tiledbsoma.io.from_anndata(str(path), renamed.copy(), "RNA", X_layer_name="raw")
    with pytest.raises(
        ps.InvalidArgument, match=r"knows no donor of 'donor new'.*then load_query_data$"
    ):
        pscvi.DataModule.from_model(folder, path)
    query = pscvi.DataModule.from_model(folder, path, extend_categories=True)
    assert query.registration.batches.tolist() == ["donor 0", "donor 1", "donor 2", "donor new"]

    ours = query.load_query_data(folder)
    expected = scvi.model.SCVI.load_query_data(renamed, str(folder), accelerator="cpu")
    same_registry(ours.registry, expected.registry)
    ours.train(max_epochs=1, datamodule=query, plan_kwargs={"weight_decay": 0.0}, **QUIET)
    ours.save(str(tmp_path / "query model"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        loaded = scvi.model.SCVI.load(str(tmp_path / "query model"), renamed, accelerator="cpu")
    np.testing.assert_allclose(
        pscvi.latent(ours, query).values, loaded.get_latent_representation(), rtol=1e-5
    )


def test_a_label_that_a_scanvi_does_not_know(cells: Oracle) -> None:
    """scvi-tools adds batches to a model, but no labels."""
    few = {"obs_query": "kind != 'NK'"}
    keys = {"labels_key": "kind", "unlabeled_category": "Unknown"}
    model = pscvi.DataModule(cells.path, "SCANVI", **keys, dataset=few).create_model(n_latent=4)
    with pytest.raises(
        ps.InvalidArgument,
        match=r"adds no label to a SCANVI.* 'NK': .* give them the label 'Unknown'$",
    ):
        pscvi.DataModule.from_model(model, cells.path, extend_categories=True)
    assert pscvi.DataModule.from_model(model, cells.path, extend_categories=True, dataset=few)


def test_a_query_mapped_on_a_scanvi(cells: Oracle, tmp_path: Path) -> None:
    """It saves the registry of both, predicts, and loads in scvi-tools with the query's cells."""
    import tiledbsoma.io

    keys = {"batch_key": "donor", "labels_key": "kind", "unlabeled_category": "Unknown",
            "categorical_covariate_keys": ["sex"]}  # fmt: skip
    data = pscvi.DataModule(cells.path, "SCANVI", **keys)
    torch.manual_seed(0)
    reference = data.create_model(n_latent=4)
    reference.train(max_epochs=1, datamodule=data, **QUIET)
    reference.save(str(tmp_path / "reference"))

    query = as_anndata(write_cells(tmp_path / "other", 90, seed=4))
    query.obs["donor"] = query.obs["donor"].str.replace("donor 1", "donor new")
    query.obs.loc[query.obs["kind"] == "NK", "kind"] = "Unknown"
    stored = query.copy()
    stored.obs = stored.obs.drop(columns=["soma_joinid", "obs_id", "donor+site"])
    stored.obs.index.name = stored.var.index.name = None
    tiledbsoma.io.from_anndata(str(tmp_path / "query"), stored, "RNA", X_layer_name="raw")

    found = pscvi.DataModule.from_model(
        tmp_path / "reference", tmp_path / "query", extend_categories=True
    )
    ours = found.load_query_data(tmp_path / "reference")
    expected = scvi.model.SCANVI.load_query_data(
        query, str(tmp_path / "reference"), accelerator="cpu"
    )
    same_registry(ours.registry, expected.registry)
    assert found.registration.batches.tolist() == ["donor 0", "donor 1", "donor 2", "donor new"]
    pscvi.train(
        ours, found, max_epochs=1, plan_kwargs={"weight_decay": 0.0}, accelerator="cpu", seed=0,
        progress=False,
    )  # fmt: skip
    ours.save(str(tmp_path / "mapped"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        loaded = scvi.model.SCANVI.load(str(tmp_path / "mapped"), query, accelerator="cpu")
    same_registry(loaded.adata_manager.registry, ours.registry)
    soft = pscvi.predict(ours, found, soft=True)
    assert soft.columns.tolist() == ["B", "NK", "T"]
    np.testing.assert_allclose(soft.values, loaded.predict(soft=True), rtol=1e-5, atol=1e-7)


def test_what_is_refused(theirs, folder: Path, cells: Oracle, tmp_path: Path) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"\.npy.*\.zarr"):
        pscvi.latent(theirs, cells.path, out=tmp_path / "rows.csv")
    with pytest.raises(ps.InvalidArgument, match="no gene 'TP53'"):
        pscvi.normalized(theirs, cells.path, genes=["TP53"])
    with pytest.raises(ps.InvalidArgument, match="no batch 'donor 9'"):
        pscvi.normalized(theirs, cells.path, transform_batch="donor 9")
    with pytest.raises(ps.InvalidArgument, match="transform_batch must name a batch"):
        pscvi.normalized(theirs, cells.path, transform_batch=[])
    for size in (None, -1, "large", True):
        with pytest.raises(ps.InvalidArgument, match="library_size must be"):
            pscvi.normalized(theirs, cells.path, library_size=size)
    with pytest.raises(ps.InvalidArgument, match="'sex' more than once"):
        pscvi.DataModule(cells.path, categorical_covariate_keys=["sex", "sex"])
    with pytest.raises(ps.InvalidArgument, match="predict takes a SCANVI"):
        pscvi.predict(theirs, cells.path)
    with pytest.raises(ps.NotFound, match=r"no model\.pt"):
        pscvi.DataModule.from_model(tmp_path, cells.path)
    untrained = pscvi.DataModule(cells.path).create_model()
    with pytest.raises(ps.InvalidArgument, match="not trained"):
        pscvi.latent(untrained, cells.path)
    with pytest.raises(ps.InvalidArgument, match="batches"):
        pscvi.latent(theirs, pscvi.DataModule(cells.path))
