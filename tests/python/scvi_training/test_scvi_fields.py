"""Keys of every kind (encoders, joined columns), and cells of each rank."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

from penstock.encoders import (  # noqa: E402
    LabelEncoder,
    NumericEncoder,
    encoded_rows,
)
from penstock.scvi import DataModule, latent  # noqa: E402
from penstock.scvi.registry.loaders import JOINID, to_device  # noqa: E402
from penstock.synthetic import make_experiment  # noqa: E402
from scvi_experiments import as_anndata, batches_of, same_registry  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


class Third(ps.Encoder):
    """Every third cell."""

    needs_fit = False

    def transform(self, obs):
        return np.asarray(obs["soma_joinid"]) % 3


class Decade(ps.Encoder):
    """A name that is made of a number."""

    needs_fit = False

    def transform(self, obs):
        return np.array([f"{int(age) // 10}0s" for age in obs["age"]], object)


class Root(ps.Encoder):
    """A number that is made of one."""

    needs_fit = False

    def transform(self, obs):
        return np.sqrt(np.abs(np.asarray(obs[self.columns[0]], np.float64))).astype(np.float32)


def encoders() -> list[ps.Encoder]:
    return [
        Third("soma_joinid", "third"),
        Decade("age", "decade"),
        Root("factor", "size"),
        Root("age", "root"),
    ]


def test_encoders_and_joined_columns_for_every_key(cells: Oracle, tmp_path: Path) -> None:
    third, decade, size, root = encoders()
    data = DataModule(
        cells.path,
        batch_key=third,
        labels_key=["kind", "site"],
        size_factor_key=size,
        categorical_covariate_keys=[decade, ["sex", "chemistry"]],
        continuous_covariate_keys=[root, "percent"],
        batch_size=64,
    )
    adata = as_anndata(cells)
    obs = adata.obs
    obs["third"] = np.arange(len(obs)) % 3
    obs["kind+site"] = obs["kind"] + "//" + obs["site"]
    obs["size"] = np.sqrt(obs["factor"]).astype(np.float32)
    obs["decade"] = [f"{int(age) // 10}0s" for age in obs["age"]]
    obs["sex+chemistry"] = obs["sex"] + "//" + obs["chemistry"]
    obs["root"] = np.sqrt(obs["age"].abs()).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scvi.model.SCVI.setup_anndata(
            adata, batch_key="third", labels_key="kind+site", size_factor_key="size",
            categorical_covariate_keys=["decade", "sex+chemistry"],
            continuous_covariate_keys=["root", "percent"],
        )  # fmt: skip
    manager = scvi.model.SCVI._setup_adata_manager_store[adata.uns["_scvi_uuid"]]
    same_registry(data.registry, manager.registry)
    expected = manager.create_torch_dataset()[list(range(adata.n_obs))]

    model = data.create_model(n_latent=3)
    model.train(max_epochs=1, datamodule=data, accelerator="cpu", enable_progress_bar=False)
    model.save(str(tmp_path / "model"))
    with pytest.raises(ps.NotFound, match="pass it in encoders="):
        DataModule.from_model(tmp_path / "model", cells.path, encoders=encoders()[1:])
    again = DataModule.from_model(tmp_path / "model", cells.path, encoders=encoders())
    for made in (data, again):
        found = batches_of(made.predict_dataloader(500))
        (batch,) = found
        assert set(expected) <= set(batch)
        for name, values in expected.items():
            np.testing.assert_array_equal(batch[name].numpy(), values, err_msg=name)
    loaded = scvi.model.SCVI.load(str(tmp_path / "model"), adata, accelerator="cpu")
    np.testing.assert_allclose(
        latent(loaded, again).values, loaded.get_latent_representation(), rtol=1e-5
    )


def test_a_model_loads_with_categories_in_the_order_of_the_store(tmp_path: Path) -> None:
    """Enumerations are in no order: an AnnData of the cells has theirs, and so has the registry."""
    make_experiment(tmp_path / "e", n_cells=400, n_genes=80, n_fragments=2, n_datasets=8)
    cells = ps.Dataset(tmp_path / "e", batch_size=64)
    keys = {"batch_key": "dataset_id", "categorical_covariate_keys": ["sex", "assay"]}
    data = DataModule(cells, **keys)
    adata = cells.to_anndata()
    adata.X = adata.X.astype(np.float32)
    assert not adata.obs["dataset_id"].cat.categories.is_monotonic_increasing
    model = data.create_model(n_latent=3)
    model.train(max_epochs=1, datamodule=data, accelerator="cpu", enable_progress_bar=False)
    model.save(str(tmp_path / "model"))
    loaded = scvi.model.SCVI.load(str(tmp_path / "model"), adata.copy(), accelerator="cpu")
    given = loaded.adata_manager.create_torch_dataset()[list(range(adata.n_obs))]
    (found,) = batches_of(data.predict_dataloader(500))
    for name, values in given.items():
        np.testing.assert_array_equal(found[name].numpy(), values, err_msg=name)
    adata.obs = adata.obs.copy()
    for name in ("dataset_id", "sex", "assay"):
        adata.obs[name] = adata.obs[name].cat.remove_unused_categories()
    scvi.model.SCVI.setup_anndata(adata, **keys)
    manager = scvi.model.SCVI._setup_adata_manager_store[adata.uns["_scvi_uuid"]]
    same_registry(data.registry, manager.registry)


def test_no_code_is_made_for_a_batch(cells: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders, those of the user too, are called before the first batch, and by no batch."""
    made: list[str] = []
    encode = encoded_rows._encoded

    def counted(encoder: ps.Encoder, *arguments: Any) -> Any:
        made.append(encoder.name)
        return encode(encoder, *arguments)

    monkeypatch.setattr(encoded_rows, "_encoded", counted)
    for kind in (LabelEncoder, NumericEncoder, Third):
        transform = kind.transform

        def noted(self: Any, obs: Any, transform: Any = transform) -> Any:
            made.append(self.name)
            return transform(self, obs)

        monkeypatch.setattr(kind, "transform", noted)
    data = DataModule(
        cells.path, "SCANVI", batch_key=Third("soma_joinid", "third"), labels_key=["kind", "site"],
        unlabeled_category="Unknown//a", categorical_covariate_keys=["sex"],
        continuous_covariate_keys=["age"], batch_size=8,
    )  # fmt: skip
    seen = {*made}
    for loader in (data.train_dataloader(), data.val_dataloader(), data.predict_dataloader()):
        batches = iter(loader)
        next(batches)
        seen |= {*made}
        made.clear()
        assert len(list(batches)) > 3
        assert not made
    assert {"third", "sex", "age"} <= {name.rpartition(".")[2] for name in seen}, seen


def test_sparse_batches_train_the_same_model(cells: Oracle) -> None:
    """The data module owns the transfer: sparse X is dense when the model has it."""
    states = []
    for sparse in (False, True):
        data = DataModule(cells.path, batch_key="donor", batch_size=64, sparse=sparse)
        kind = next(iter(data.train_dataloader()))["X"]
        assert sp.issparse(kind) == sparse
        torch.manual_seed(0)
        model = data.create_model(n_latent=3)
        model.train(max_epochs=1, datamodule=data, accelerator="cpu", enable_progress_bar=False)
        states.append(model.module.state_dict())
    for name, each in states[0].items():
        torch.testing.assert_close(states[1][name], each, msg=name)


def is_sparse(X: Any) -> bool:
    """As scipy has it, or torch, where it comes from a worker."""
    return sp.issparse(X) or X.layout == torch.sparse_csr


@pytest.mark.parametrize("model", ["SCVI", "SCANVI"])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_sparse_where_a_trainer_makes_them_dense(
    cells: Oracle, monkeypatch: pytest.MonkeyPatch, model: str, workers: int
) -> None:
    """On a CPU as well; in loops of one's own they are dense, before a run and after."""
    keys = {"labels_key": "kind", "unlabeled_category": "Unknown"} if model == "SCANVI" else {}
    kinds: list[bool] = []
    transfer = DataModule.transfer_batch_to_device

    def noted(self: DataModule, batch: Any, *others: Any) -> Any:
        parts = batch if isinstance(batch, tuple) else (batch,)
        kinds.extend(is_sparse(part["X"]) for part in parts)
        return transfer(self, batch, *others)

    monkeypatch.setattr(DataModule, "transfer_batch_to_device", noted)
    states = []
    for sparse in (None, True, False):
        data = DataModule(
            cells.path, model, batch_size=64, sparse=sparse, num_workers=workers, **keys
        )
        torch.manual_seed(0)
        trained = data.create_model(n_latent=3)
        kinds.clear()
        torch.manual_seed(0)
        trained.train(max_epochs=1, datamodule=data, accelerator="cpu", enable_progress_bar=False,
                      check_val_every_n_epoch=1)  # fmt: skip
        assert set(kinds) == {sparse is not False}
        assert len(kinds) == (2 if keys else 1) * (5 + 1), "of validation, too"
        states.append(trained.module.state_dict())
        for loader in (data.train_dataloader(), data.val_dataloader(), data.predict_dataloader()):
            batch = next(iter(loader))
            X = (batch[0] if isinstance(batch, tuple) else batch)["X"]
            assert is_sparse(X) == (sparse is True and JOINID not in batch)
    for state in states[1:]:
        for name, each in states[0].items():
            assert torch.equal(state[name], each), name


def test_sparse_tensors_become_dense() -> None:
    """As on a GPU, where X is scattered; a gene that a cell has twice is added."""
    random = np.random.default_rng(0)
    for shape in ((1, 1), (7, 5), (40, 300)):
        count = int(random.integers(0, 3 * shape[0]))
        rows, columns = (random.integers(0, each, count) for each in shape)
        values = random.integers(1, 9, count).astype(np.float32)
        order = np.argsort(rows, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X = torch.sparse_csr_tensor(
                torch.from_numpy(indptr), torch.from_numpy(columns[order]),
                torch.from_numpy(values[order]), shape, check_invariants=False,
            )  # fmt: skip
        expected = sp.coo_matrix((values, (rows, columns)), shape).toarray()
        batch = {"X": X, "batch": torch.zeros(shape[0], 1)}
        for each in to_device((batch, batch), torch.device("cpu")):
            np.testing.assert_array_equal(each["X"].numpy(), expected)
            assert each["batch"] is not None


def of_rank(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world_size))


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_ranks_take_equally_many_batches_and_none_of_one_cell(
    cells: Oracle, monkeypatch: pytest.MonkeyPatch, world_size: int
) -> None:
    data = DataModule(cells.path, labels_key="kind")
    share = data.n_train // world_size
    # Of which a rank's last batch would have one cell.
    size = next(each for each in range(2, share) if share % each == 1)
    counts, X = [], []
    for rank in range(world_size):
        of_rank(monkeypatch, rank, world_size)
        small = DataModule(cells.path, labels_key="kind", batch_size=size)
        assert small.train_idx.tolist() == data.train_idx.tolist()
        sizes = [len(batch["X"]) for batch in small.train_dataloader()]
        assert min(sizes) > 1
        counts.append(len(sizes))
        assert counts[-1] == len(small.train_dataloader())
        X += [batch["X"] for batch in small.val_dataloader()]
    assert len(set(counts)) == 1
    found = torch.cat(X).numpy()
    expected = cells.X[data.val_idx].toarray()
    assert len(found) == len(expected) == data.n_val, "each once over all ranks"
    np.testing.assert_array_equal(
        found[np.lexsort(found.T)], expected[np.lexsort(expected.T)].astype(np.float32)
    )


def test_few_labelled_cells_on_many_ranks(cells: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    some = np.flatnonzero(cells.obs["kind"].to_numpy() == "T")[:6]
    others = np.flatnonzero(cells.obs["kind"].to_numpy() == "Unknown")
    rows = np.sort(np.concatenate([some, others]))
    few = ps.Dataset(cells.path, obs_query=ps.AxisQuery(coords=(rows,)))
    data = DataModule(few, "SCANVI", labels_key="kind", unlabeled_category="Unknown")
    labelled = np.isin(rows, some)
    for world_size in (2, 4):
        of_rank(monkeypatch, 1, world_size)
        if labelled[data.train_idx].sum() >= 2 * world_size:
            pairs = list(data.train_dataloader())
            assert all(len(batch["X"]) > 1 for _, batch in pairs)
        else:
            with pytest.raises(ps.InvalidArgument, match="two labelled cells or more"):
                data.train_dataloader()
    # Validation has fewer labelled cells than there are ranks: each has all of them.
    there = int(labelled[data.val_idx].sum())
    assert there < 4
    loader = data.val_dataloader()
    if there:
        assert all(len(batch["X"]) == there for _, batch in loader)


def test_balance_draws_labels_evenly(cells: Oracle) -> None:
    """What scvi-tools' n_samples_per_label is for."""
    kinds = cells.obs["kind"].to_numpy()
    rare = np.flatnonzero(kinds == "NK")[::6]
    rows = np.sort(np.concatenate([rare, np.flatnonzero(kinds != "NK")]))
    data = DataModule(
        ps.Dataset(cells.path, obs_query=ps.AxisQuery(coords=(rows,)), balance="kind", batch_size=32),
        "SCANVI", labels_key="kind", unlabeled_category="Unknown",
    )  # fmt: skip
    loader = data.train_dataloader()
    drawn = torch.cat([pair["labels"] for _ in range(20) for _, pair in loader])[:, 0]
    shares = np.bincount(drawn.numpy(), minlength=3) / len(drawn)
    np.testing.assert_allclose(shares[:3], 1 / 3, atol=0.05)
    assert shares[3:].sum() == 0
