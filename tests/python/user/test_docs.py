"""The examples of docs/ run."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiledbsoma
import torch
from conftest import ROOT, Oracle
from penstock.experiment.web_index import write_index
from remote_servers import fault_proxy
from several_measurements import random_layer, write_measurements

DOCS = ROOT / "docs"
# The example of compat.md is that of test_compat_census.py, which checks its results.
PAGES = sorted(
    page.name
    for page in DOCS.glob("*.md")
    if "```python" in page.read_text() and page.name != "compat.md"
)


def run_page(page: str, **names) -> dict:
    """Run a page's Python blocks one after the other, with `names` given."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    namespace = {"__name__": "docs", **names}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, census_like: Oracle, tmp_path: Path) -> None:
    path = census_like.path
    if page == "training.md":
        pytest.importorskip("scvi")
    if page == "measurements.md":
        rng = np.random.default_rng(0)
        layers = {"RNA": random_layer(rng, 300, 50), "protein": random_layer(rng, 300, 9)}
        path = write_measurements(tmp_path / "several", layers)
    if page == "inference.md":  # it writes
        path = tmp_path / "experiment"
        shutil.copytree(census_like.path, path)
    own = {}
    if page == "anndata.md":
        path, own = anndata_store(tmp_path)
    given = {"path": path, "checkpoint": tmp_path / "checkpoint.pt", "folder": tmp_path}
    with served(path, tmp_path) if page == "remote.md" else nullcontext() as address:
        names = run_page(page, address=address, **given, **own)
    if page in CHECKS:
        CHECKS[page](names, census_like)


def anndata_store(folder: Path) -> tuple[Path, dict]:
    """A zarr store, and the names that its page uses."""
    anndata = pytest.importorskip("anndata")
    adata = anndata.read_h5ad(ROOT / "tests" / "data" / "pbmc3k.h5ad")[:300].copy()
    adata.obs["n_genes"] = np.diff(adata.X.tocsr().indptr)
    adata.layers["counts"] = adata.X.copy()
    adata.write_zarr(folder / "cells.zarr")
    mudata = pytest.importorskip("mudata")
    protein = adata[:, :4].copy()
    protein.var_names = ["CD3", "CD4", "CD8", "CD19"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        mudata.MuData({"rna": adata, "protein": protein}).write_h5mu(folder / "cells.h5mu")
    genes = adata.var_names[:5].tolist()
    return folder / "cells.zarr", {"adata": adata, "genes": genes, "h5mu": folder / "cells.h5mu"}


@contextmanager
def served(path: Path, folder: Path) -> Iterator[str]:
    """The address of a copy of an experiment on a web server."""
    shutil.copytree(path, folder / "experiment")
    write_index(folder / "experiment")
    with fault_proxy(folder=folder) as server:
        yield f"{server.url}/experiment"


def check_resume(names: dict, oracle: Oracle) -> None:
    batches = -(-6_000 // 64)
    assert (names["first"], names["second"]) == (7, 2 * batches - 7)


def check_inference(names: dict, oracle: Oracle) -> None:
    """The answers are the model's, each beside its own cell, and better than none."""
    model, classes = names["model"], names["classes"]
    with torch.inference_mode():
        scores = model(torch.log1p(torch.from_numpy(oracle.X.toarray())))
    expected = classes[scores.argmax(1).numpy()].tolist()
    assert names["obs"]["predicted"].tolist() == expected
    adata = names["adata"]
    assert adata.obs["predicted"].tolist() == expected
    assert (adata.X != oracle.X).nnz == 0
    with tiledbsoma.open(str(names["path"])) as experiment:
        stored = experiment["predictions"].read().concat().to_pandas()
    assert stored["soma_joinid"].tolist() == oracle.obs["soma_joinid"].tolist()
    assert stored["predicted"].tolist() == expected
    answers = pd.read_csv(names["folder"] / "answers-0.csv", index_col="soma_joinid")
    assert answers["predicted"].tolist() == expected
    assert names["right"].mean() > 1.5 * oracle.obs["cell_type"].value_counts(normalize=True).max()


def check_lightning(names: dict, oracle: Oracle) -> None:
    joinids = torch.cat([ids for ids, _ in names["predictions"]]).tolist()
    assert joinids == oracle.obs["soma_joinid"].tolist()


def check_benchmarks(names: dict, oracle: Oracle) -> None:
    assert names["frame"]["status"].tolist() == ["ok", "ok"]
    assert (names["frame"]["n_nonzeros"] == oracle.X[:, :500].nnz).all()


CHECKS = {
    "benchmarks.md": check_benchmarks,
    "inference.md": check_inference,
    "lightning.md": check_lightning,
    "resume.md": check_resume,
}
