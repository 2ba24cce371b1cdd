"""Experiments for the tests of penstock.scvi, with results of scvi-tools in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anndata
import lightning.pytorch as lightning
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from conftest import Oracle, read_with_tiledbsoma

N_CELLS, N_GENES = 331, 50
#: Models of each kind whose held-out ELBOs are compared.
SEEDS = int(os.environ.get("PENSTOCK_ELBO_SEEDS", "3"))


def write_cells(path: Path, n_cells: int = N_CELLS, seed: int = 0) -> Oracle:
    """Counts of three batches that differ, with labels, covariates and size factors."""
    import tiledbsoma.io

    random = np.random.default_rng(seed)
    batch, label = random.integers(0, 3, n_cells), random.integers(0, 4, n_cells)
    rates = random.gamma(0.5, 2.0, (4, N_GENES)) * (1 + 0.5 * random.random((1, N_GENES)))
    depth = random.lognormal(0, 0.3, (n_cells, 1)) * (1 + batch[:, None] * 0.3)
    X = sp.csr_matrix(random.poisson(rates[label] * depth + 0.05).astype(np.float32))
    X[np.asarray(X.sum(1)).ravel() == 0, 0] = 1
    obs = pd.DataFrame(
        {
            "donor": [f"donor {each}" for each in batch],
            "site": random.choice(["b", "a"], n_cells),
            "kind": np.array(["T", "B", "NK", "Unknown"], object)[label],
            "sex": random.choice(["male", "female", "unknown"], n_cells),
            "chemistry": random.choice(["v3", "v2"], n_cells),
            "age": random.normal(40, 10, n_cells),
            "percent": random.random(n_cells).astype(np.float32),
            "factor": np.asarray(X.sum(1)).ravel() / 30.0,
        },
        index=[f"cell{i}" for i in range(n_cells)],
    )
    var = pd.DataFrame(index=[f"ENSG{i:03}" for i in range(N_GENES)])
    tiledbsoma.io.from_anndata(str(path), anndata.AnnData(X, obs, var), "RNA", X_layer_name="raw")
    return read_with_tiledbsoma(path)


def as_anndata(oracle: Oracle) -> anndata.AnnData:
    """All cells as a user of scvi-tools has them; joined columns as Penstock joins them."""
    obs = oracle.obs.copy()
    for name in obs.columns:
        if obs[name].dtype.kind == "O" or isinstance(obs[name].dtype, pd.CategoricalDtype):
            obs[name] = obs[name].astype(object)
    obs["donor+site"] = obs["donor"] + "//" + obs["site"]
    obs.index = obs["obs_id"].astype(str)
    var = pd.DataFrame(index=oracle.var["var_id"].astype(str))
    return anndata.AnnData(sp.csr_matrix(oracle.X, dtype=np.float32), obs, var)


def same_registry(found: Any, expected: Any, at: str = "registry") -> None:
    """Every key, mapping and count; identifiers apart, which are drawn at random."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), at
        assert list(found) == list(expected), at
        for key, value in expected.items():
            if key != "_scvi_uuid":
                same_registry(found[key], value, f"{at}.{key}")
    elif isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray), at
        assert found.dtype == expected.dtype, at
        assert found.tolist() == expected.tolist(), at
    else:
        assert type(found) is type(expected), at
        assert found == expected, at


def batches_of(loader: Any) -> list[dict[str, Any]]:
    """All batches of a loader, X dense."""
    from penstock.scvi.registry.loaders import to_device

    return [to_device(batch, torch.device("cpu")) for batch in loader]


def elbo_of_each_cell_once(data: Any, model: Any, weights: Path) -> float:
    """The negative ELBO of the validation cells in this process, with the latent means."""
    model.module.load_state_dict(torch.load(weights))
    model.module.eval()
    total = 0.0
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(torch.distributions.Normal, "rsample", lambda self, shape=(): self.loc)
        for batch in data.val_dataloader():
            cells = batch[0] if isinstance(batch, tuple) else batch  # a SCANVI's with labelled ones
            _, _, losses = model.module(cells)
            total += float(losses.reconstruction_loss_sum + losses.kl_local_sum)
    return total / data.n_val


@contextlib.contextmanager
def no_draws_of_loaders() -> Iterator[None]:
    """Let scvi-tools' loaders draw no number before the model does."""
    draw = torch.utils.data.dataloader._BaseDataLoaderIter.__init__

    def without_drawing(self: Any, loader: Any) -> None:
        state = torch.get_rng_state()
        draw(self, loader)
        torch.set_rng_state(state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.utils.data.dataloader._BaseDataLoaderIter, "__init__", without_drawing)
        yield


class _Epochs:
    """Batches of chosen cells, or pairs of them, others in each epoch."""

    def __init__(self, cells: Any, epochs: Sequence[Sequence[Any]]) -> None:
        self._cells = cells
        self._epochs = epochs
        self._next = 0

    def __iter__(self):
        batches = self._epochs[self._next % len(self._epochs)]
        self._next += 1
        for rows in batches:
            yield tuple(map(self._batch, rows)) if isinstance(rows, tuple) else self._batch(rows)

    def _batch(self, rows: Sequence[int]) -> dict[str, torch.Tensor]:
        tensors = self._cells[list(rows)]
        return {name: torch.from_numpy(each) for name, each in tensors.items()}

    def __len__(self) -> int:
        return len(self._epochs[0])


class InMemory(lightning.LightningDataModule):
    """A data module over a model's AnnData that gives chosen cells in each batch and epoch."""

    def __init__(
        self,
        model: Any,
        epochs: Sequence[Sequence[Any]],
        val: Sequence[Any],
    ) -> None:
        super().__init__()
        self._cells = model.adata_manager.create_torch_dataset()
        self._epochs = epochs
        self._val = val
        self.n_train, self.n_val = (
            sum(len(each[0] if isinstance(each, tuple) else each) for each in batches)
            for batches in (epochs[0], val)
        )

    def train_dataloader(self) -> _Epochs:
        return _Epochs(self._cells, self._epochs)

    def val_dataloader(self) -> _Epochs:
        return _Epochs(self._cells, [self._val])


def same_elbos(ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Means of `SEEDS` models each within four standard errors of their difference, or 1 %."""
    error = np.sqrt(sum(np.var(each, ddof=1) / len(each) for each in (ours, theirs)))
    difference = abs(np.mean(ours) - np.mean(theirs))
    print(f"{len(ours)} seeds: {difference / error:.2f} standard errors, {ours} and {theirs}")
    assert difference < max(4 * error, 0.01 * abs(np.mean(theirs)))
