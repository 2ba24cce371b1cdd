"""A model with some of the cells in memory, for calls of scvi-tools that need an AnnData."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from .data_module import DataModule
from .loaders import CATEGORICAL, CATEGORIES, CONTINUOUS, SIZE_FACTOR, X
from .registration import Registration


@contextlib.contextmanager
def model_with_cells(
    model: Any, cells: DataModule, places: npt.NDArray[np.int64], accelerator: str
) -> Iterator[tuple[Any, Any]]:
    """Yield the model with an AnnData of the cells at some positions, ascending."""
    adata = _anndata_of(Registration(None, model.registry), cells, places)
    logger = logging.getLogger("scvi")
    level = logger.level
    with tempfile.TemporaryDirectory() as folder:
        logger.setLevel(logging.WARNING)
        try:
            model.save(folder, overwrite=True)
            made = type(model).load(
                folder, adata, accelerator="gpu" if accelerator == "cuda" else accelerator
            )
        finally:
            logger.setLevel(level)
    yield made, adata


def _anndata_of(registered: Registration, cells: DataModule, places: npt.NDArray[np.int64]) -> Any:
    """Return cells with the columns of obs that the model reads, by its names and categories."""
    import anndata
    import pandas as pd

    tensors = list(cells.batches_at(places, 4096))
    matrix = sp.vstack([each[X] for each in tensors], "csr")
    setup = registered.registry["setup_args"]

    def column(name: str, index: int = 0) -> npt.NDArray[Any]:
        return np.concatenate([each[name][:, index].cpu().numpy() for each in tensors])

    obs: dict[str, Any] = {}
    for field in CATEGORIES:
        key = setup.get(f"{field}_key")
        if key is not None:
            obs[key] = registered.categories(field)[column(field)]
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
def numpy_seeded(seed: int) -> Iterator[None]:
    """Seed numpy's and torch's generators, which scvi-tools draws from; restore them afterwards."""
    state = np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)
