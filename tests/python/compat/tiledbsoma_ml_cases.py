"""Shared modules, cells and datasets for tests of tiledbsoma_ml and its compat module."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
import tiledbsoma
import torch
from compat_experiments import counts, write_cells

THEIRS, OURS = "tiledbsoma_ml", "penstock.compat.tiledbsoma_ml"

theirs = importlib.import_module(THEIRS)
ours = importlib.import_module(OURS)


@pytest.fixture(params=[THEIRS, OURS])
def ml(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture(autouse=True)
def _start_method():
    """tiledbsoma_ml sets the start method of the whole process."""
    before = multiprocessing.get_start_method()
    yield
    torch.multiprocessing.set_start_method(before, force=True)


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """tiledbsoma_ml collects garbage for every block that it reads: seconds a test otherwise."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory):
    """42 cells, 3 genes."""
    with write_cells(tmp_path_factory.mktemp("compat") / "exp", np.arange(42)) as experiment:
        yield experiment


def make(ml: ModuleType, experiment, n_obs: int | None = None, **arguments):
    coords = (slice(None),) if n_obs is None else (slice(0, n_obs - 1),)
    arguments = {"layer_name": "raw", **arguments}
    with experiment.axis_query("RNA", obs_query=tiledbsoma.AxisQuery(coords=coords)) as query:
        return ml.ExperimentDataset(query, **arguments)


def joinids_of(batches) -> list[list[int]]:
    return [obs["soma_joinid"].tolist() for _, obs in batches]


def flat(batches) -> list[int]:
    return [joinid for batch in joinids_of(batches) for joinid in batch]


def check_values(batches) -> None:
    for X, obs in batches:
        dense = X.toarray() if sp.issparse(X) else np.atleast_2d(X)
        np.testing.assert_array_equal(dense, counts(obs["soma_joinid"]), strict=True)
