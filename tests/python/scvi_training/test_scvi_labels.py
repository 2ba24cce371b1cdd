"""Labelled cells for SCANVI's classifier: some of each label, and resuming."""

from __future__ import annotations

from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

from penstock.scvi import DataModule, train  # noqa: E402
from scvi.dataloaders import SemiSupervisedDataLoader  # noqa: E402
from scvi_experiments import InMemory, as_anndata  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

KEYS = {"labels_key": "kind", "unlabeled_category": "Unknown"}


def few_of_a_kind(cells: Oracle) -> ps.Dataset:
    """All cells but most NK cells, of which seven stay."""
    kinds = cells.obs["kind"].to_numpy()
    rows = np.concatenate([np.flatnonzero(kinds == "NK")[:7], np.flatnonzero(kinds != "NK")])
    return ps.Dataset(cells.path, obs_query=ps.AxisQuery(coords=(np.sort(rows),)))


def labelled_of_an_epoch(loader: Any) -> list[tuple[int, ...]]:
    """Counts and label of each labelled cell of an epoch that has them once."""
    batches = [pair for _, pair in loader]
    rows = torch.cat([torch.cat([each["X"], each["labels"].float()], 1) for each in batches])
    return [tuple(row) for row in rows.int().tolist()]


def n_of(rows: Any, label: int) -> int:
    return sum(row[-1] == label for row in rows)


@pytest.mark.parametrize("n", [9, 20, 1_000])
def test_some_of_each_label(cells: Oracle, n: int) -> None:
    """As many as scvi-tools draws, none twice, in each epoch others, and all sooner or later."""
    some = few_of_a_kind(cells)
    # A batch holds the labelled cells of an epoch, which come once for each batch of cells.
    data = DataModule(some, "SCANVI", n_samples_per_label=n, batch_size=1_000, **KEYS)
    model = data.create_model()
    adata = as_anndata(cells)[some.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"]].copy()
    scvi.model.SCANVI.setup_anndata(adata, **KEYS)
    theirs = SemiSupervisedDataLoader(
        scvi.model.SCANVI(adata).adata_manager, n_samples_per_label=n, indices=data.train_idx
    )
    codes = model.registry["field_registries"]["labels"]["state_registry"]["categorical_mapping"]
    drawn = adata.obs["kind"].to_numpy()[theirs.subsample_labels()]
    expected = [int((drawn == each).sum()) for each in codes]
    loader = data.train_dataloader()
    assert len(loader) == 1
    seen: set[tuple[int, ...]] = set()
    epochs = []
    for _ in range(60):
        rows = labelled_of_an_epoch(loader)
        assert len(set(rows)) == len(rows)
        assert [n_of(rows, label) for label in range(len(codes))] == expected
        epochs.append(frozenset(rows))
        seen |= set(rows)
    kinds = adata.obs["kind"].to_numpy()[data.train_idx]
    every = [int((kinds == each).sum()) if each != "Unknown" else 0 for each in codes]
    assert len(set(epochs)) == (1 if expected == every else 60)
    assert [n_of(seen, label) for label in range(len(codes))] == every
    whole = labelled_of_an_epoch(data.val_dataloader())
    held_out = adata.obs["kind"].to_numpy()[data.val_idx]
    assert len(whole) == (held_out != "Unknown").sum(), "validation has all of them"


def test_ranks_share_one_draw(cells: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataModule(cells.path, "SCANVI", n_samples_per_label=6, batch_size=1_000, **KEYS)
    monkeypatch.setenv("WORLD_SIZE", "3")
    shares = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        shares.append(labelled_of_an_epoch(data.train_dataloader()))
    assert [len(each) for each in shares] == [6, 6, 6]
    every = sum(shares, [])
    assert len(set(every)) == 18
    assert [n_of(every, label) for label in range(3)] == [6, 6, 6]
    few = DataModule(cells.path, "SCANVI", n_samples_per_label=1, **KEYS)
    with pytest.raises(ps.InvalidArgument, match="two labelled cells or more, got 3 for 3 ranks"):
        few.train_dataloader()


def same_pair(found: Any, expected: Any) -> bool:
    return all(torch.equal(x["X"], y["X"]) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("n", [None, 11])
@pytest.mark.parametrize("done", [0, 2, 6, 8])
def test_resuming(cells: Oracle, n: int | None, done: int) -> None:
    """Within an epoch, and at its end, whose labelled cells are no longer those of the next."""

    def loader() -> Any:
        return DataModule(
            cells.path, "SCANVI", n_samples_per_label=n, batch_size=40, **KEYS
        ).train_dataloader()

    whole = loader()
    epochs = [list(whole) for _ in range(3)]
    assert [len(each) for each in epochs] == [8, 8, 8]
    begun = loader()
    list(begun)
    pairs = iter(begun)
    for _ in range(done):
        next(pairs)
    if done == 8:
        assert next(pairs, None) is None
    state = begun.state_dict()
    again = loader()
    again.load_state_dict(state)
    rest = [list(again) for _ in range(2)]
    expected = [epochs[1][done:], epochs[2]] if done < 8 else [epochs[2]]
    for found, pairs in zip(rest, expected, strict=False):
        assert len(found) == len(pairs)
        assert all(map(same_pair, found, pairs))


COVARIATES = {
    "batch_key": "donor",
    "categorical_covariate_keys": ["sex", "chemistry"],
    "continuous_covariate_keys": ["age", "percent"],
}


@pytest.mark.parametrize("n", [None, 11])
def test_losses_are_those_of_scvi_tools(cells: Oracle, n: int | None) -> None:
    """The same weights, noise and pairs of batches from an AnnData: every figure to 1e-6."""
    how = {"n_samples_per_label": n, "batch_size": 64, **KEYS, **COVARIATES}
    recorder, data = (DataModule(cells.path, "SCANVI", **how) for _ in range(2))
    # The same order, and it says which cells.
    recorder.train, recorder.val = (
        part.with_settings(obs_columns=["soma_joinid"]) for part in (recorder.train, recorder.val)
    )
    train = recorder.train_dataloader()
    *epochs, val = (
        [tuple(each["soma_joinid"].tolist() for each in pair) for pair in loader]
        for loader in (train, train, recorder.val_dataloader())
    )
    assert epochs[0] != epochs[1]

    adata = as_anndata(cells)
    scvi.model.SCANVI.setup_anndata(adata, **KEYS, **COVARIATES)
    torch.manual_seed(0)
    ours = data.create_model(n_latent=4, n_hidden=16)
    theirs = scvi.model.SCANVI(adata, n_latent=4, n_hidden=16)
    theirs.module.load_state_dict(ours.module.state_dict())
    quiet = {"accelerator": "cpu", "check_val_every_n_epoch": 1, "enable_progress_bar": False,
             "plan_kwargs": {"on_step": True}, "max_epochs": 2}  # fmt: skip
    torch.manual_seed(1)
    ours.train(datamodule=data, **quiet)
    torch.manual_seed(1)
    theirs.train(datamodule=InMemory(theirs, epochs, val), **quiet)
    assert ours.history.keys() == theirs.history.keys()
    for part in ("train_loss_step", "train_classification", "validation_accuracy"):
        assert any(part in name for name in ours.history), sorted(ours.history)
    for name, values in theirs.history.items():
        np.testing.assert_allclose(
            ours.history[name].astype(float), values.astype(float), rtol=1e-6, err_msg=name
        )
    for name, each in theirs.module.state_dict().items():
        torch.testing.assert_close(ours.module.state_dict()[name], each, msg=name)


def test_on_two_processes(cells: Oracle) -> None:
    data = DataModule(cells.path, "SCANVI", n_samples_per_label=8, batch_size=80, **KEYS)
    model = data.create_model(n_latent=3, n_hidden=8)
    train(
        model, data, devices=2, accelerator="cpu", max_epochs=2, seed=0, progress=False,
        early_stopping=True,
    )  # fmt: skip
    assert len(model.history["validation_accuracy"]) == 2


def test_what_is_refused(cells: Oracle) -> None:
    with pytest.raises(ps.InvalidArgument, match="n_samples_per_label needs SCANVI"):
        DataModule(cells.path, labels_key="kind", n_samples_per_label=5)
    for wrong in (0, -1, 2.5, "all"):
        with pytest.raises(ps.InvalidArgument, match="n_samples_per_label"):
            DataModule(cells.path, "SCANVI", n_samples_per_label=wrong, **KEYS)
    loader = DataModule(cells.path, "SCANVI", **KEYS).train_dataloader()
    state = loader.state_dict()
    for name in state:
        with pytest.raises(ps.InvalidArgument, match=f"must have {name}"):
            loader.load_state_dict({each: state[each] for each in state if each != name})
