"""A model with some of the cells in memory, for calls of scvi-tools that need an AnnData."""

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
from ..registry.loaders import CATEGORICAL, CATEGORIES, CONTINUOUS, SIZE_FACTOR, X
from ..registry.registration import Registration


@contextlib.contextmanager
def model_with_cells(
    model: Any, cells: DataModule, places: npt.NDArray[np.int64], device: torch.device
) -> Iterator[tuple[Any, Any]]:
    """Yield the model on a device, with an AnnData of the cells at some positions, ascending.

    Genes of the AnnData are named by their numbers, since names may occur twice. scvi-tools keeps
    the AnnData of a model in tables of the class, from which it is removed at the end.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Variable names are not unique")
        adata = _anndata_of(model, cells, places)
    logger = logging.getLogger("scvi")
    level = logger.level
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Nothing is trained on these cells.
        warnings.filterwarnings("ignore", message="(?s).*fewer than 3 cells")
        warnings.filterwarnings("ignore", message="Variable names are not unique")
        logger.setLevel(logging.WARNING)
        try:
            model.save(folder, overwrite=True)
            made = type(model).load(folder, adata, accelerator="cpu")
        finally:
            logger.setLevel(level)
    try:
        made.to_device(device)
        adata.var_names = np.arange(adata.n_vars).astype(str)
        yield made, adata
    finally:
        made.deregister_manager(adata)
        type(made)._setup_adata_manager_store.pop(adata.uns["_scvi_uuid"], None)


def _anndata_of(model: Any, cells: DataModule, places: npt.NDArray[np.int64]) -> Any:
    """Return cells with the columns of obs that the model reads, by its names and categories."""
    import anndata
    import pandas as pd

    registered = Registration(None, model.registry)
    tensors = list(cells.batches_at(places, 4096))
    matrix = sp.vstack([each[X] for each in tensors], "csr")
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
    names = pd.RangeIndex(len(places)).astype(str)
    var = pd.DataFrame(index=pd.Index(np.asarray(registered.columns(X)).astype(str)))
    adata = anndata.AnnData(matrix, pd.DataFrame(obs, index=names), var)
    if setup.get("layer") is not None:
        adata.layers[setup["layer"]] = matrix
    return adata


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
