"""The examples of docs/ run as they stand."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import penstock as ps
import pytest
import tiledbsoma
import torch
from conftest import ROOT, Oracle, read_with_tiledbsoma
from penstock.experiment.web_index import write_index
from remote_servers import fault_proxy

DOCS = ROOT / "docs"
# compat.md is run by test_compat_census.py.
PAGES = sorted(
    page.name
    for page in DOCS.glob("*.md")
    if "```python" in page.read_text() and page.name != "compat.md"
)
NEEDS = {"anndata.md": "mudata", "measurements.md": "mudata", "training.md": "scvi"}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """The cells of `ps.example("census-like")`, unpacked for this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield read_with_tiledbsoma(Path(ps.example("census-like")))


def blocks_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(
    page: str, examples: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block after the other, in a folder of its own."""
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "docs"}
    with server(page, examples.path, tmp_path) as address:
        for block in blocks_of(page):
            code = block.replace("https://host/experiment", address) if address else block
            exec(compile(code, page, "exec"), names)
    if page in CHECKS:
        CHECKS[page](names, examples)


@contextmanager
def server(page: str, path: Path, folder: Path) -> Iterator[str]:
    """The address of the cells on a web server, for the page that names one."""
    if page != "remote.md":
        yield ""
        return
    shutil.copytree(path, folder / "experiment")
    write_index(folder / "experiment")
    with fault_proxy(folder=folder) as served:
        yield f"{served.url}/experiment"


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
    with tiledbsoma.open(names["path"]) as experiment:
        stored = experiment["predictions"].read().concat().to_pandas()
    assert stored["soma_joinid"].tolist() == oracle.obs["soma_joinid"].tolist()
    assert stored["predicted"].tolist() == expected
    answers = pd.read_csv("answers-0.csv", index_col="soma_joinid")
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
