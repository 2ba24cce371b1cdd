"""Every call that needs a missing package names it and the command that installs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import penstock as ps
import pytest
from conftest import ROOT, Oracle
from penstock.base.missing_package import _EXTRAS, _PACKAGES

CLONE = "in a clone by pip install"
PROJECT = ROOT / "pyproject.toml"
EXTRAS = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]

#: Modules that are not there, what is called, what is to be installed.
CALLS = [
    ("torch", "ps.dataloader(ds)", "[torch]"),
    ("torch", "ps.Dataset(path, format='torch').head()", "[torch]"),
    ("torch", "ps.Dataset(path, format='torch', sparse='csr').head()", "[torch]"),
    ("torch", "ps.Dataset(path, format='torch', sparse='coo').head()", "[torch]"),
    ("torch", "next(iter(ps.Dataset(path, obs_format='torch')))", "[torch]"),
    ("torch", "ps.Dataset(path, format='torch', device='cpu')", "[torch]"),
    ("torch", "ps.Dataset(path, format='torch', dtype='bfloat16').head()", "[torch]"),
    ("torch", "import penstock.compat.census", "[torch]"),
    ("torch", "import penstock.compat.tiledbsoma_ml", "[torch]"),
    ("torch", "import penstock.scvi", "[scvi]"),
    ("lightning pytorch_lightning", "import penstock.lightning", "[lightning]"),
    ("torch", "import penstock.lightning", "[lightning]"),
    ("sklearn", "from penstock.compat.tiledbsoma_ml import SCVIDataModule", "[scvi]"),
    (
        "lightning pytorch_lightning",
        "from penstock.compat.tiledbsoma_ml import SCVIDataModule",
        "[scvi]",
    ),
    (
        "tiledbsoma",
        "from penstock.compat.tiledbsoma_ml import ExperimentDataset; "
        "ExperimentDataset(path, 'raw').x_locator.open().__enter__()",
        "[bench]",
    ),
    ("lightning", "import penstock.scvi", "[scvi]"),
    ("scvi", "import penstock.scvi", "[scvi]"),
    ("cloudpickle", "import penstock.scvi", "[scvi]"),
    ("scipy", "ps.Dataset(path, sparse=True).head()", "[scipy]"),
    ("scipy", "ps.Dataset(path, sparse='coo').head()", "[scipy]"),
    ("scipy", "ds.to_anndata()", "[anndata]"),
    ("pandas", "ds.obs.to_pandas()", "[pandas]"),
    ("pandas", "ds.obs.read()['cell_type'].to_pandas()", "[pandas]"),
    ("pandas", "ps.Dataset(path, obs_format='pandas').head()", "[pandas]"),
    ("pandas", "ps.gene_statistics(ds)", "[pandas]"),
    ("pandas", "ps.cell_statistics(ds)", "[pandas]"),
    ("pandas", "ps.highly_variable_genes(ds, n_top_genes=5)", "[pandas]"),
    ("pandas", "ds.to_anndata()", "[anndata]"),
    ("anndata", "ds.to_anndata()", "[anndata]"),
    ("matplotlib", "ds.shuffle_report('cell_type').plot('x.png')", "[plot]"),
    ("obstore", "ps.pack(path, 's3://bucket/cells.pack')", "[buckets]"),
    ("skmisc", "ps.highly_variable_genes(ds, n_top_genes=5, flavor='seurat_v3')", "[genes]"),
    (
        "torch",
        "from penstock.bench.worker.loaders.penstock import imports; "
        "from penstock.bench.worker.request import Work; "
        "imports('scatter', Work(path, 'RNA', 'raw', torch=True))",
        "[torch]",
    ),
    (
        "matplotlib kaleido",
        "import pandas as pd; from pathlib import Path; from types import SimpleNamespace as N; "
        "from penstock.bench.reports.plot import _write_picture as write; "
        "write(N(layout=N(title=N(text=''))), pd.DataFrame(), Path('x.png'))",
        "[bench]",
    ),
    (
        "tiledbsoma",
        "from penstock.synthetic import make_experiment; make_experiment('made', n_cells=100)",
        "[bench]",
    ),
]
COMMANDS = [
    ("torch", ["demo", "--data", "PATH", "--label", "cell_type"], "[demo]"),
    ("matplotlib", ["demo", "--data", "PATH", "--label", "cell_type"], "[demo]"),
    ("tiledbsoma", ["synth", "made", "--cells", "1000"], "[bench]"),
    ("torch", ["train", "scvi", "PATH"], "[scvi]"),
    ("scvi", ["train", "scvi", "PATH"], "[scvi]"),
    ("lightning", ["train", "scvi", "PATH"], "[scvi]"),
    ("matplotlib", ["train", "scvi", "PATH", "--plot", "cell_type"], "[plot]"),
    ("tiledbsoma", ["bench", "scale", "cells=1000"], "[bench]"),
]

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def run(blocked: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = f"BLOCKED = {blocked.split()}\n{BLOCK}\n{code}"
    command = [sys.executable, "-W", "ignore", "-c", program]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def check_message(text: str, blocked: str, install: str) -> None:
    packages = [_PACKAGES.get(module, module) for module in blocked.split()]
    assert re.search(rf"needs ({'|'.join(packages)}),", text)
    assert f"{CLONE} '.{install}', from a wheel by pip install 'FILE.whl{install}'" in text
    assert any(brings(install.strip("[]"), package) for package in packages)


def brings(extra: str, package: str) -> bool:
    package = {"scikit-learn": "scvi-tools"}.get(package, package)  # which brings the other
    return any(re.match(rf"{package}[>=]", line) for line in EXTRAS[extra])


def test_extras_bring_what_is_looked_for_in_them() -> None:
    for module, extra in _EXTRAS.items():
        assert brings(extra, _PACKAGES.get(module, module)), module


def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("scvi")
    from penstock.inference.rows import checked_out

    monkeypatch.setitem(sys.modules, "zarr", None)  # anndata has imported it
    with pytest.raises(ps.MissingPackage, match=r"needs zarr, which is not .*\[scvi\]"):
        checked_out("latent.zarr")


def test_a_fragment_that_only_tiledb_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.synthetic import experiment

    monkeypatch.setattr(experiment, "can_stream", lambda: False)
    with pytest.raises(ps.MissingPackage, match=r"needs tiledb, which is not .*\[bench\]"):
        experiment.make_experiment(tmp_path / "made", n_cells=20_000, n_fragments=1)


@pytest.mark.parametrize(("blocked", "call", "install"), CALLS)
def test_calls(soma_small: Oracle, tmp_path: Path, blocked: str, call: str, install: str) -> None:
    code = (
        f"import penstock as ps\npath = {str(soma_small.path)!r}\nds = ps.Dataset(path)\n"
        f"try:\n    {call}\nexcept ImportError as error:\n"
        "    print(isinstance(error, ps.PenstockError), error)"
    )
    done = run(blocked, code, tmp_path)
    assert done.stderr == ""
    assert done.stdout.startswith("True ")
    check_message(done.stdout, blocked, install)


@pytest.mark.parametrize(("blocked", "command", "install"), COMMANDS)
def test_commands(
    soma_small: Oracle, tmp_path: Path, blocked: str, command: list[str], install: str
) -> None:
    arguments = [str(soma_small.path) if each == "PATH" else each for each in command]
    code = f"from penstock.cli import main\nsys.exit(main({arguments!r}))"
    done = run(blocked, code, tmp_path)
    assert done.returncode == 1, done.stderr
    if command[0] == "demo":
        assert done.stdout == "", "told before the work"
    assert "Traceback" not in done.stderr
    check_message(done.stderr, blocked, install)
