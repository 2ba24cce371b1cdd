"""A model with some of the cells in memory, for calls of scvi-tools that need an AnnData or MuData."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from ..data.data_module import DataModule
from ..registry.loaders import CATEGORICAL, CATEGORIES, CONTINUOUS, PROTEINS, SIZE_FACTOR, X
from ..registry.modalities import Modalities
from ..registry.model_classes import model_class
from ..registry.registration import Parts, Registration

#: Warnings about cells that are not trained on, and about names and versions, of which a user has neither.
_EXPECTED = (
    "(?s).*fewer than 3 cells",
    ".*does not contain fragment count data",
    "`var_names` for the loaded `model` does not match",
    "Some proteins have all 0 counts",
    "We recommend using setup_mudata",
    "var_names are not unique",
    "Initializing zero-element tensors",
    "The method mod_names is deprecated",
)


@contextlib.contextmanager
def model_with_cells(
    model: Any,
    cells: DataModule,
    places: npt.NDArray[np.int64],
    device: torch.device,
) -> Iterator[tuple[Any, Any]]:
    """Yield the model on a device, with an AnnData or MuData of the cells at some positions, ascending.

    Genes and regions are named by their numbers, since names may occur twice. scvi-tools keeps
    the AnnData of a model in tables of the class, from which it is removed at the end.
    """
    logger = logging.getLogger("scvi")
    level = logger.level
    with warnings.catch_warnings():
        for message in _EXPECTED:
            warnings.filterwarnings("ignore", message=message)
        adata = _in_memory(model, cells, places)
        with tempfile.TemporaryDirectory() as folder:
            logger.setLevel(logging.WARNING)
            try:
                model.save(folder, overwrite=True)
                made = type(model).load(folder, adata, accelerator="cpu")
            finally:
                logger.setLevel(level)
        try:
            made.to_device(device)
            yield made, adata
        finally:
            made.deregister_manager(adata)
            type(made)._setup_adata_manager_store.pop(adata.uns["_scvi_uuid"], None)


def _in_memory(model: Any, cells: DataModule, places: npt.NDArray[np.int64]) -> Any:
    """Return cells with the columns of obs that the model reads, by its names and categories."""
    import anndata
    import pandas as pd

    registered = Registration(None, model.registry)
    tensors = list(cells.batches_at(places, 4096))
    obs = pd.DataFrame(
        _columns(registered, cells, tensors), index=pd.RangeIndex(len(places)).astype(str)
    )

    def counts(tensor: str) -> Any:
        parts = [each[tensor] for each in tensors]
        return sp.vstack(parts, "csr") if sp.issparse(parts[0]) else torch.cat(parts).numpy()

    def var(tensor: str) -> Any:
        names = np.asarray(registered.columns(tensor)).astype(str)
        return pd.Index(names if tensor == PROTEINS else np.arange(len(names)).astype(str))

    modalities = Modalities.saved(model_class(model), model.registry, None)
    if modalities is None or not modalities.is_mudata:
        adata = anndata.AnnData(counts(X), obs, pd.DataFrame(index=var(X)))
        layer = registered.registry["setup_args"].get("layer")
        if layer is not None:
            adata.layers[layer] = adata.X
        if modalities is not None:
            proteins = pd.DataFrame(counts(PROTEINS), obs.index, var(PROTEINS))
            adata.obsm[modalities.called["protein_layer"]] = proteins
        return adata
    parts = {
        modalities.called[layer]: anndata.AnnData(
            _not_empty(counts(tensor)), obs[[]].copy(), pd.DataFrame(index=var(tensor))
        )
        for layer, tensor in modalities.tensor_of.items()
    }
    return Parts(parts, obs).to_mudata()


def _not_empty(matrix: Any) -> Any:
    """Return the matrix with a stored zero if it stores nothing, which scvi-tools takes for minified."""
    if not sp.issparse(matrix) or matrix.nnz or 0 in matrix.shape:
        return matrix
    zero = np.zeros(1, matrix.dtype)
    return sp.csr_matrix((zero, ([0], [0])), matrix.shape)


def _columns(
    registered: Registration, cells: DataModule, tensors: list[dict[str, Any]]
) -> dict[str, Any]:
    setup = registered.registry["setup_args"]

    def column(name: str, index: int = 0) -> npt.NDArray[Any]:
        return np.concatenate([each[name][:, index].cpu().numpy() for each in tensors])

    obs: dict[str, Any] = {}
    for field in CATEGORIES:
        key = setup.get(f"{field}_key")
        if key is None:
            continue
        # Labels that the model does not read may be others than its own.
        known, own = registered.categories(field), cells.registration.categories(field)
        obs[key] = np.where(np.isin(own, known), own, known[0])[column(field)]
    for index, (key, values) in enumerate(registered.covariates.items()):
        obs[key] = values[column(CATEGORICAL, index)]
    for index, key in enumerate(registered.continuous):
        obs[key] = column(CONTINUOUS, index)
    if registered.size_factor is not None:
        obs[registered.size_factor] = column(SIZE_FACTOR)
    return obs


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed numpy's and torch's generators, which scvi-tools draws from; restore them afterwards."""
    state = np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)
