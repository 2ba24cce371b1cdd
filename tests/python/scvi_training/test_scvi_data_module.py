"""penstock.scvi.DataModule against scvi-tools with an AnnData of the same cells."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

from penstock.scvi import DataModule, predict  # noqa: E402
from scvi_experiments import InMemory, as_anndata, batches_of, same_registry  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

COVARIATES = {
    "categorical_covariate_keys": ["sex", "chemistry"],
    "continuous_covariate_keys": ["age", "percent"],
}
#: (model, keys of Penstock, keys of scvi-tools where they differ)
CASES = {
    "nothing": ("SCVI", {}, {}),
    "batch": ("SCVI", {"batch_key": "donor"}, {}),
    "joined": ("SCVI", {"batch_key": ["donor", "site"]}, {"batch_key": "donor+site"}),
    "all": (
        "SCVI",
        {"batch_key": "donor", "labels_key": "kind", "size_factor_key": "factor", **COVARIATES},
        {},
    ),
    "linear": ("LinearSCVI", {"batch_key": "donor", "labels_key": "kind"}, {}),
    "scanvi": (
        "SCANVI",
        {"batch_key": "donor", "labels_key": "kind", "unlabeled_category": "Unknown", **COVARIATES},
        {},
    ),
    "all labelled": (
        "SCANVI",
        {"labels_key": "kind", "unlabeled_category": "nobody knows"},
        {},
    ),
}


def set_up(oracle: Oracle, case: str):
    name, keys, theirs = CASES[case]
    adata = as_anndata(oracle)
    model = getattr(scvi.model, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.setup_anndata(adata, **{**keys, **theirs})
    return model, adata, keys


@pytest.mark.parametrize("case", CASES)
def test_registry_is_that_of_setup_anndata(cells: Oracle, case: str) -> None:
    model, adata, keys = set_up(cells, case)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        found = DataModule(cells.path, model, **keys)
    expected = model._setup_adata_manager_store[adata.uns["_scvi_uuid"]].registry
    same_registry(found.registry, expected)
    assert (found.n_obs, found.n_vars) == adata.shape
    assert not found.template.n_obs > 100


@pytest.mark.parametrize("case", ["nothing", "joined", "all", "scanvi"])
@pytest.mark.parametrize("sparse", [False, True])
def test_tensors_are_those_of_scvi_tools(cells: Oracle, case: str, sparse: bool) -> None:
    model, adata, keys = set_up(cells, case)
    data = DataModule(cells.path, model, sparse=sparse, batch_size=40, **keys)
    manager = model._setup_adata_manager_store[adata.uns["_scvi_uuid"]]
    expected = manager.create_torch_dataset()
    joinids = []
    for batch in batches_of(data.predict_dataloader()):
        rows = batch.pop("soma_joinid").tolist()
        joinids += rows
        theirs = expected[rows]
        assert set(theirs) <= set(batch)
        for name, values in theirs.items():
            assert batch[name].dtype == torch.from_numpy(values).dtype, name
            assert batch[name].shape == values.shape, name
            np.testing.assert_array_equal(batch[name].numpy(), values)
    assert joinids == list(range(adata.n_obs))


def weights(model) -> dict[str, torch.Tensor]:
    return {name: each.clone() for name, each in model.module.state_dict().items()}


def made(data: DataModule, seed: int = 0, **arguments):
    torch.manual_seed(seed)
    return data.create_model(**arguments)


def train_both(ours, data: DataModule, theirs) -> None:
    """Two epochs with the same batches and noise; every figure must be the same to 1e-6."""
    train = data.train.with_settings(min_batch=2, obs_columns=["soma_joinid"])
    orders = [[obs["soma_joinid"].tolist() for _, obs in train] for _ in range(2)]
    held_out = data.val.with_settings(shuffle=False, obs_columns=["soma_joinid"])
    val = [obs["soma_joinid"].tolist() for _, obs in held_out]
    assert orders[0] != orders[1]
    assert sorted(sum(orders[0] + val, [])) == list(range(data.n_obs))

    torch.manual_seed(1)
    ours.train(max_epochs=2, datamodule=data, **QUIET)
    torch.manual_seed(1)
    theirs.train(max_epochs=2, datamodule=InMemory(theirs, orders, val), **QUIET)
    assert ours.history.keys() == theirs.history.keys()
    for name, values in theirs.history.items():
        np.testing.assert_allclose(
            ours.history[name].astype(float), values.astype(float), rtol=1e-6, err_msg=name
        )


class Third(ps.Encoder):
    """Three donors made up of one."""

    needs_fit = False

    def transform(self, obs):
        return np.asarray(obs["soma_joinid"]) % 3


@pytest.mark.parametrize("donors", [False, True])
def test_losses_on_real_cells(pbmc3k: Oracle, donors: bool) -> None:
    often = np.flatnonzero(np.asarray((pbmc3k.X > 0).sum(axis=0)).ravel() > 500)
    cells = ps.Dataset(pbmc3k.path, var_query=ps.AxisQuery(coords=(often,)), batch_size=512)
    key = {"batch_key": Third("soma_joinid", "donor")} if donors else {}
    data = DataModule(cells, **key)
    adata = cells.to_anndata()
    adata.obs["donor"] = np.arange(adata.n_obs) % 3
    scvi.model.SCVI.setup_anndata(adata, batch_key="donor" if donors else None)
    ours = made(data)
    torch.manual_seed(0)
    theirs = scvi.model.SCVI(adata)
    theirs.module.load_state_dict(weights(ours))
    train_both(ours, data, theirs)


def same_in_scvi_tools(ours, loaded, loader) -> None:
    """Latents, ELBO and decoder's output of a model that scvi-tools loaded with its AnnData."""
    for method in ("get_latent_representation", "get_elbo", "get_normalized_expression"):
        torch.manual_seed(2)
        torch.empty((), dtype=torch.int64).random_()  # as a DataLoader does for its workers
        found = getattr(ours, method)(dataloader=loader)
        torch.manual_seed(2)
        expected = getattr(loaded, method)(batch_size=loaded.adata.n_obs)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)


ARGUMENTS = {"n_latent": 4, "n_hidden": 16, "n_layers": 2, "gene_likelihood": "nb",
             "dispersion": "gene-batch", "encode_covariates": True}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "arguments"),
    [("nothing", {}), ("all", ARGUMENTS), ("batch", {"use_observed_lib_size": False}),
     ("linear", {"n_latent": 4})],
)  # fmt: skip
def test_losses_and_the_saved_model_are_those_of_scvi_tools(
    cells: Oracle, case: str, arguments: dict, tmp_path: Path
) -> None:
    cls, adata, keys = set_up(cells, case)
    data = DataModule(cells.path, cls, batch_size=64, **keys)
    ours = made(data, **arguments)
    torch.manual_seed(0)
    theirs = cls(adata, **arguments)
    for name, each in theirs.module.state_dict().items():
        torch.testing.assert_close(weights(ours)[name], each, rtol=1e-5, atol=0, msg=name)
    theirs.module.load_state_dict(weights(ours))

    train_both(ours, data, theirs)
    ours.save(str(tmp_path / "model"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        loaded = cls.load(str(tmp_path / "model"), adata, accelerator="cpu")
    assert loaded.module.state_dict().keys() == ours.module.state_dict().keys()
    same_registry(loaded.adata_manager.registry, ours.registry)
    # One batch: those of a loader that gives cells to ranks are of other sizes.
    same_in_scvi_tools(ours, loaded, data.predict_dataloader(adata.n_obs))
    assert loaded.train_indices.tolist() == data.train_idx.tolist()


QUIET = {
    "accelerator": "cpu", "check_val_every_n_epoch": 1, "enable_progress_bar": False,
    "plan_kwargs": {"on_step": True},
}  # fmt: skip


def test_semi_supervised_pairs(cells: Oracle) -> None:
    cls, adata, keys = set_up(cells, "scanvi")
    data = DataModule(cells.path, cls, batch_size=40, **keys)
    torch.manual_seed(0)
    ours = data.create_model(n_latent=4)
    torch.manual_seed(0)
    theirs = cls(adata, n_latent=4)
    assert ours.n_labels == theirs.n_labels == 3
    for name, each in theirs.module.state_dict().items():
        torch.testing.assert_close(ours.module.state_dict()[name], each, msg=name)

    labelled = np.flatnonzero(cells.obs["kind"].to_numpy() != "Unknown")
    loader = data.train_dataloader()
    counts = dict.fromkeys(data.train_idx[np.isin(data.train_idx, labelled)].tolist(), 0)
    unlabelled = data.registration.labels.tolist().index("Unknown")
    assert unlabelled == 3
    first, second = batches_of(loader), batches_of(loader)
    assert len(first) == len(loader) == -(-data.n_train // 40)
    for both in (first, second):
        assert sum(len(batch["X"]) for batch, _ in both) == data.n_train
        assert all((batch["labels"] != unlabelled).all() for _, batch in both)
        assert all(len(batch["X"]) > 1 for _, batch in both)
    assert not torch.equal(first[0][1]["X"], second[0][1]["X"])
    taken = sum(len(batch["X"]) for _, batch in first)
    assert taken > len(counts), "labelled cells begin again"

    ours.train(max_epochs=2, datamodule=data, **{**QUIET, "plan_kwargs": {}})
    assert {"train_accuracy", "validation_accuracy", "elbo_validation"} <= set(ours.history)
    again = predict(ours, data)
    expected = ours.predict(dataloader=data.predict_dataloader(512))
    assert again.values.tolist() == expected.tolist()


def test_scanvi_from_scvi(cells: Oracle, tmp_path: Path) -> None:
    first = DataModule(cells.path, batch_key="donor", labels_key="kind", **COVARIATES)
    trained = made(first, **ARGUMENTS)
    trained.train(max_epochs=1, datamodule=first, **QUIET)
    second = DataModule(
        cells.path, "SCANVI", batch_key="donor", labels_key="kind", unlabeled_category="Unknown",
        **COVARIATES,
    )  # fmt: skip
    ours = second.create_model(from_scvi=trained)
    directly = scvi.model.SCANVI.from_scvi_model(trained, "Unknown", adata=second.template)
    assert trained.registry["field_registries"]["X"]["state_registry"]["n_obs"] == len(cells.obs)
    for name, each in trained.module.state_dict().items():
        if name in ours.module.state_dict():
            torch.testing.assert_close(ours.module.state_dict()[name], each, msg=name)
            torch.testing.assert_close(directly.module.state_dict()[name], each, msg=name)
    assert ours.was_pretrained
    ours.train(max_epochs=1, datamodule=second, **{**QUIET, "plan_kwargs": {}})
    ours.save(str(tmp_path / "scanvi"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The `srun` command")  # Slurm is installed
        loaded = scvi.model.SCANVI.load(str(tmp_path / "scanvi"), as_anndata(cells))
    found = predict(ours, second, soft=True)
    np.testing.assert_allclose(found.values, loaded.predict(soft=True), rtol=1e-5, atol=1e-7)
    loader = second.predict_dataloader(second.n_obs)
    same_in_scvi_tools(ours, loaded, loader)


def test_a_scvi_keeps_its_cells_and_the_data_module_is_used_again(cells: Oracle) -> None:
    adata = as_anndata(cells)
    scvi.model.SCVI.setup_anndata(adata, batch_key="donor", labels_key="kind")
    trained = scvi.model.SCVI(adata, **ARGUMENTS)
    trained.train(max_epochs=1, accelerator="cpu", enable_progress_bar=False)
    before = trained.get_latent_representation()
    data = DataModule(
        cells.path, "SCANVI", batch_key="donor", labels_key="kind", unlabeled_category="Unknown"
    )
    ours = data.create_model(from_scvi=trained)
    assert trained.adata is adata
    np.testing.assert_array_equal(trained.get_latent_representation(), before)
    other = data.create_model(**ARGUMENTS)
    assert other.module.state_dict().keys() == ours.module.state_dict().keys()
    assert data.create_model(from_scvi=trained).was_pretrained
    with pytest.raises(ps.InvalidArgument, match=r"got a SCVI: DataModule.from_model\(model, data"):
        DataModule(cells.path, trained)


def test_splits(cells: Oracle) -> None:
    data = DataModule(cells.path, train_size=0.7, validation_size=0.2, group="donor", split_seed=3)
    parts = [set(each.tolist()) for each in (data.train_idx, data.val_idx, data.test_idx)]
    assert sorted(set.union(*parts)) == list(range(len(cells.obs)))
    donors = [set(cells.obs["donor"].iloc[list(part)]) for part in parts]
    assert not donors[0] & (donors[1] | donors[2])
    assert not donors[1] & donors[2]
    whole = DataModule(cells.path, train_size=1.0)
    assert (whole.n_train, whole.val_dataloader()) == (len(cells.obs), [])
    even = DataModule(cells.path, stratify="kind")
    shares = cells.obs["kind"].iloc[even.val_idx].value_counts(normalize=True)
    expected = cells.obs["kind"].value_counts(normalize=True)
    assert (shares - expected).abs().max() < 0.05


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ({"train_size": 0.95}, "validation"),
        ({"train_size": 0.75, "validation_size": 0.2}, "validation"),
        ({"train_size": 0.65, "validation_size": 0.3}, "test"),
        ({"train_size": 1.0}, None),
        ({"train_size": 0.7, "validation_size": 0.3}, None),
        ({"train_size": 0.7, "validation_size": 0.0}, None),
    ],
)
def test_a_part_that_comes_to_no_cell_is_a_warning(
    cells: Oracle, sizes: dict[str, float], name: str | None
) -> None:
    few = ps.Dataset(cells.path, obs_query="soma_joinid < 4")
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        DataModule(few, **sizes)
    told = [str(each.message) for each in record if each.category is ps.NoCellsWarning]
    assert [text[: text.index(" part of the split has none of the 4")] for text in told] == (
        [] if name is None else [f"the {name}"]
    )


def test_no_batch_of_one_cell(cells: Oracle) -> None:
    train = 0.9
    for batch_size in range(2, 60):
        n = int(np.ceil(train * len(cells.obs)))
        if n % batch_size == 1:
            data = DataModule(cells.path, batch_size=batch_size, train_size=train)
            sizes = [len(batch["X"]) for batch in data.train_dataloader()]
            assert (min(sizes) > 1, sum(sizes)) == (True, n)
            return
    raise AssertionError("no batch size leaves one cell")


def test_what_is_refused(cells: Oracle) -> None:
    with pytest.raises(ps.Unsupported, match="not VELOVI: it takes two layers"):
        DataModule(cells.path, scvi.external.VELOVI)
    with pytest.raises(ps.Unsupported, match=r"not Mine$"):
        DataModule(cells.path, type("Mine", (scvi.model.TOTALVI,), {}))
    with pytest.raises(ps.InvalidArgument, match="model must be one of"):
        DataModule(cells.path, "SCIV")
    with pytest.raises(ps.InvalidArgument, match="SCANVI needs labels_key"):
        DataModule(cells.path, "SCANVI")
    with pytest.raises(ps.InvalidArgument, match="LinearSCVI takes no size_factor_key"):
        DataModule(cells.path, "LinearSCVI", size_factor_key="factor")
    with pytest.raises(ps.NotFound, match="no column 'batch'"):
        DataModule(cells.path, batch_key="batch")
    with pytest.raises(ps.InvalidArgument, match="takes counts"):
        DataModule(ps.Dataset(cells.path, transforms=[ps.Log1p()]))
    with pytest.raises(ps.InvalidArgument, match="train_size"):
        DataModule(cells.path, train_size=1.5)


class AgeBin(ps.Encoder):
    """Decades."""

    fits_rows = True

    def fit(self, values):
        self.least = np.min(values["age"]) // 10

    def transform(self, obs):
        return (obs["age"] // 10 - self.least).astype(int)


def test_an_encoder_makes_the_batch(cells: Oracle) -> None:
    data = DataModule(cells.path, batch_key=AgeBin("age", "decade"))
    adata = as_anndata(cells)
    decades = (adata.obs["age"] // 10).astype(int)
    adata.obs["decade"] = (decades - decades.min()).to_numpy()
    scvi.model.SCVI.setup_anndata(adata, batch_key="decade")
    expected = scvi.model.SCVI._setup_adata_manager_store[adata.uns["_scvi_uuid"]]
    same_registry(data.registry, expected.registry)
    found = torch.cat([batch["batch"] for batch in data.predict_dataloader()])
    np.testing.assert_array_equal(found.numpy(), expected.get_from_registry("batch"))
