"""Outputs of `penstock.scvi` on executors: the bits of one process, for any number of parts."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle

scvi = pytest.importorskip("scvi")

import penstock.scvi as pscvi  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

QUIET = {"max_epochs": 1, "accelerator": "cpu", "progress": False}


@pytest.fixture(scope="module")
def trained(cells: Oracle) -> tuple[Any, Any]:
    torch.manual_seed(0)
    data = pscvi.DataModule(
        cells.path, "SCANVI", labels_key="kind", unlabeled_category="Unknown", batch_key="donor"
    )
    return pscvi.train({"n_latent": 4, "n_hidden": 16}, data, **QUIET), data


@pytest.fixture(scope="module")
def pool() -> Any:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, torch.set_num_threads, (1,)) as executor:
        yield executor


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest, pool: Executor) -> Any:
    return pool if request.param == "processes" else ThreadPoolExecutor(3)


def test_the_same_bits(trained: tuple[Any, Any], executor: Any, tmp_path: Path) -> None:
    model, data = trained
    how: dict[str, Any] = {"batch_size": 20, "accelerator": "cpu"}
    genes = data.gene_names[[7, 2]].tolist()
    for call in (
        lambda **more: pscvi.latent(model, data, return_dist=True, **how, **more),
        lambda **more: pscvi.normalized(model, data, genes=genes, seed=4, **how, **more),
        lambda **more: pscvi.elbo(model, data, seed=2, **how, **more),
        lambda **more: pscvi.predict(model, data, soft=True, **how, **more),
        lambda **more: pscvi.predict(model, data, **how, **more),
    ):
        expected = call()
        np.testing.assert_array_equal(call(executor=executor).values, expected.values)
    expected = pscvi.latent(model, data, **how)
    for name in ("rows.npy", "rows.zarr"):
        found = pscvi.latent(model, data, out=tmp_path / name, executor=executor, **how)
        np.testing.assert_array_equal(np.asarray(found), expected.values)
        np.testing.assert_array_equal(found.joinids, expected.joinids)
    assert model.device == torch.device("cpu")


def test_two_ranks_have_the_bits_of_one(trained: tuple[Any, Any]) -> None:
    """Draws of a batch are from its own seed, so those of a process do not matter."""
    model, data = trained
    how: dict[str, Any] = {"batch_size": 20, "accelerator": "cpu", "seed": 5}
    one = pscvi.normalized(model, data, **how).values
    two = pscvi.normalized(model, data, devices=2, **how).values
    np.testing.assert_array_equal(one, two)


def test_mistakes(trained: tuple[Any, Any], executor: Any) -> None:
    model, data = trained
    with pytest.raises(ps.InvalidArgument, match="leave devices out"):
        pscvi.latent(model, data, devices=2, executor=executor)
    with pytest.raises(ps.InvalidArgument, match="executor must have a submit method"):
        pscvi.latent(model, data, executor="dask")
    with pytest.raises(ps.InvalidArgument, match="accelerator must be one of"):
        pscvi.latent(model, data, accelerator="tpu", executor=executor)
