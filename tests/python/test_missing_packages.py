"""A package that is not installed is named with what to install, by every call that needs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Oracle

CLONE = "in a clone by pip install"

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
    ("torch", "import penstock.lightning", "[torch]"),
    ("lightning pytorch_lightning", "import penstock.lightning", "pip install lightning"),
    ("lightning", "import penstock.scvi", "[scvi]"),
    ("scvi", "import penstock.scvi", "[scvi]"),
    ("cloudpickle", "import penstock.scvi", "[scvi]"),
    ("scipy", "ps.Dataset(path, sparse=True).head()", "[scipy]"),
    ("scipy", "ps.Dataset(path, sparse='coo').head()", "[scipy]"),
    ("scipy", "ds.to_anndata()", "[scipy]"),
    ("pandas", "ds.obs.to_pandas()", "[pandas]"),
    ("pandas", "ds.obs.read()['cell_type'].to_pandas()", "[pandas]"),
    ("pandas", "ps.Dataset(path, obs_format='pandas').head()", "[pandas]"),
    ("pandas", "ps.gene_statistics(ds)", "[pandas]"),
    ("pandas", "ps.cell_statistics(ds)", "[pandas]"),
    ("pandas", "ps.highly_variable_genes(ds, n=5)", "[pandas]"),
    ("pandas", "ds.to_anndata()", "[pandas]"),
    ("anndata", "ds.to_anndata()", "pip install anndata"),
    ("matplotlib", "ds.shuffle_report('cell_type').plot('x.png')", "pip install matplotlib"),
    ("skmisc", "ps.highly_variable_genes(ds, n=5, flavor='seurat_v3')", "scikit-misc"),
    (
        "tiledbsoma",
        "from penstock.synthetic import make_experiment; make_experiment('made', n_cells=100)",
        "[bench]",
    ),
]
COMMANDS = [
    ("torch", ["demo", "--data", "PATH", "--label", "cell_type"], "[demo]"),
    ("tiledbsoma", ["synth", "made", "--cells", "1000"], "[bench]"),
    ("torch", ["train", "scvi", "PATH"], "[scvi]"),
    ("scvi", ["train", "scvi", "PATH"], "[scvi]"),
    ("lightning", ["train", "scvi", "PATH"], "[scvi]"),
    ("matplotlib", ["train", "scvi", "PATH", "--plot", "cell_type"], "pip install matplotlib"),
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
    assert re.search(rf"needs ({'|'.join(blocked.split())}|scikit-misc)", text)
    assert install in text
    if install.startswith("["):
        assert f"{CLONE} '.{install}', from a wheel by pip install 'FILE.whl{install}'" in text


@pytest.mark.parametrize(("blocked", "call", "install"), CALLS)
def test_calls(soma_small: Oracle, tmp_path: Path, blocked: str, call: str, install: str) -> None:
    code = (
        f"import penstock as ps\npath = {str(soma_small.path)!r}\nds = ps.Dataset(path)\n"
        f"try:\n    {call}\nexcept ImportError as error:\n"
        "    print(isinstance(error, ps.PenstockError), error)"
    )
    done = run(blocked, code, tmp_path)
    assert done.stderr == ""
    assert done.stdout.startswith("True ") or blocked == "skmisc"
    check_message(done.stdout, blocked, install)


@pytest.mark.parametrize(("blocked", "command", "install"), COMMANDS)
def test_commands(
    soma_small: Oracle, tmp_path: Path, blocked: str, command: list[str], install: str
) -> None:
    arguments = [str(soma_small.path) if each == "PATH" else each for each in command]
    code = f"from penstock.cli import main\nsys.exit(main({arguments!r}))"
    done = run(blocked, code, tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    check_message(done.stderr, blocked, install)
