"""The examples of docs/ run as they stand."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import tiledbsoma
import torch
from conftest import ROOT, Oracle, read_with_tiledbsoma
from penstock.experiment.web_index import write_index
from remote_servers import fault_proxy
from torchrun import finish, torchrun

DOCS = ROOT / "docs"
# compat.md is run by test_compat_census.py, many-gpus.md on two processes below, restarts.md and ray.md by
# test_restarts.py and test_ray_job.py.
ELSEWHERE = {"compat.md", "many-gpus.md", "ray.md", "restarts.md"}
#: Pages by name; `api`, `design` and `tutorials` have none that run here.
PATHS = {
    page.name: page
    for folder in ("", "how-to", "guides", "concepts", "reference")
    for page in (DOCS / folder).glob("*.md")
}
PAGES = sorted(
    name
    for name, page in PATHS.items()
    if "```python" in page.read_text() and name not in ELSEWHERE
)
NEEDS = {
    "anndata.md": "mudata",
    "measurements.md": "mudata",
    "slurm.md": "scvi",
    "training.md": "scvi",
}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """The cells of `ps.example("census-like")`, unpacked for this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield read_with_tiledbsoma(Path(ps.example("census-like")))


def blocks_of(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PATHS[page].read_text(), re.DOTALL)


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


PLACES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *sorted(DOCS.rglob("*.ipynb"))]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_names_and_arguments_in_examples_exist(place: Path) -> None:
    """Also of examples that cannot run here, such as those that open the Census."""
    scvi = pytest.importorskip("penstock.scvi")
    if place.suffix == ".ipynb":
        cells = json.loads(place.read_text())["cells"]
        blocks = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    else:
        blocks = re.findall(r"```py(?:thon)?\n(.*?)```", place.read_text(), re.DOTALL)
    for block in blocks:
        lines = [line for line in block.splitlines() if not line.lstrip().startswith(("%", "!"))]
        for node in ast.walk(ast.parse("\n".join(lines))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            alias, _, name = called.partition(".")
            module = {"ps": ps, "penstock": ps, "pscvi": scvi}.get(alias)
            if module is None or not re.fullmatch(r"[\w.]+", name):
                continue
            function = attrgetter(name)(module)
            parameters = inspect.signature(function).parameters.values()
            if any(each.kind == each.VAR_KEYWORD for each in parameters):
                continue
            given = {each.arg for each in node.keywords if each.arg}
            assert given <= {each.name for each in parameters}, ast.unparse(node)


def test_the_script_for_many_gpus_runs_on_two_processes(examples: Oracle, tmp_path: Path) -> None:
    (script,) = blocks_of("many-gpus.md")
    (tmp_path / "train.py").write_text(script)
    out = finish(torchrun(2, tmp_path / "train.py", CUDA_VISIBLE_DEVICES=""))
    # A fifth of the cells, to a donor: every one of them once, over both ranks.
    lines = re.findall(r"epoch (\d): ([\d.]+)% of (\d+) cells", out)
    assert [epoch for epoch, _, _ in lines] == ["0", "1", "2"]
    parts = ps.Dataset(examples.path).random_split(0.8, 0.2, group="donor_id", seed=0)
    assert {int(cells) for _, _, cells in lines} == {parts[1].n_obs}
    assert float(lines[-1][1]) > float(lines[0][1])


def test_the_program_in_cpp_compiles(tmp_path: Path) -> None:
    (program,) = blocks_of("cpp.md", "cpp")
    (tmp_path / "stream.cpp").write_text(program)
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror"]
    done = subprocess.run(
        [*command, "-I", ROOT / "include", tmp_path / "stream.cpp"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def log_normalised(oracle: Oracle) -> np.ndarray:
    counts = oracle.X.toarray()
    return np.log1p(counts / counts.sum(1, keepdims=True) * 1e4).astype(np.float32)


def check_quickstart(names: dict, oracle: Oracle) -> None:
    """The matrix is that of the model's answers for the stored counts, by joinid."""
    stored = read_with_tiledbsoma(Path(names["path"]))
    cells = names["test"].obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].to_numpy()
    with torch.inference_mode():
        scores = names["model"](torch.from_numpy(log_normalised(stored)[cells]))
    expected = pd.crosstab(
        stored.obs["cell_type"].to_numpy()[cells], names["names"][scores.argmax(1).numpy()]
    )
    assert (names["confusion"].to_numpy() - expected.to_numpy()).sum() == 0
    assert np.abs(names["confusion"].to_numpy() - expected.to_numpy()).sum() <= 4  # near ties
    assert (names["true"] == names["predicted"]).mean() > 0.85


def check_classifier(names: dict, oracle: Oracle) -> None:
    """Donors are apart, answers are beside their cells, and better than the commonest type."""
    train, test = names["train"], names["test"]
    donors = [set(part.obs.to_pandas(columns=["donor_id"])["donor_id"]) for part in (train, test)]
    assert donors[0].isdisjoint(donors[1])
    assert names["joinids"].tolist() == oracle.obs["soma_joinid"].tolist()
    true = oracle.obs["cell_type"].to_numpy()
    assert (names["predicted"] == true).mean() > 3 * oracle.obs["cell_type"].value_counts(
        normalize=True
    ).max()


def check_choose_shuffle(names: dict, oracle: Oracle) -> None:
    """The page shows what it prints."""
    shown = blocks_of("choose-shuffle.md", "text")[0]
    for kind, low, high in (
        ("scatter", 99, 101),
        ("global", 99, 101),
        ("chunks", 80, 95),
        ("False", 0, 5),
    ):
        (share,) = re.findall(rf"{kind} +([\d.]+)%", shown)
        assert low < float(share) < high
    assert 100 * names["report"].share == pytest.approx(float(share), abs=0.06)


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
    "choose-shuffle.md": check_choose_shuffle,
    "classifier.md": check_classifier,
    "quickstart.md": check_quickstart,
    "benchmarks.md": check_benchmarks,
    "inference.md": check_inference,
    "lightning.md": check_lightning,
    "resume.md": check_resume,
}
