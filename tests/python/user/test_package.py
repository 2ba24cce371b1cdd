"""The installed package: cost and needs of imports, types, version."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import ROOT, Oracle

PACKAGE = Path(ps.__file__).parent


def test_version_is_that_of_the_project() -> None:
    declared = re.search(
        r"project\(penstock VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()
    )
    assert declared
    assert ps.__version__ == declared[1]
    if "site-packages" in PACKAGE.parts:
        assert importlib.metadata.version("penstock") == ps.__version__


def test_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_core.pyi").exists()


def test_importing_brings_numpy_alone() -> None:
    code = """
        import sys
        before = set(sys.modules)
        import penstock
        new = {name.split(".")[0] for name in set(sys.modules) - before}
        new -= {name for name in new if "cython" in name}  # NumPy 1 has some
        print(sorted(new - set(sys.stdlib_module_names) - {"penstock", "numpy"}))
        print(len([n for n in sys.modules if n.split(".")[0] in ("torch", "pandas", "scipy")]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "0"]


def test_everything_but_extras_works_with_numpy_alone(tmp_path: Path, soma_small: Oracle) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    numpy = Path(np.__file__).parent
    for folder in (numpy, numpy.parent / "numpy.libs", PACKAGE):
        if folder.exists():
            (site / folder.name).symlink_to(folder)
    code = f"""
        import penstock as ps
        exp = ps.open({str(soma_small.path)!r})
        ds = ps.Dataset(exp, obs_columns=["soma_joinid", "cell_type"],
                        encoders=[ps.LabelEncoder("cell_type", "label")])
        train, val = ds.random_split(0.9, 0.1)
        print(sum(X.shape[0] for X, obs in train), len(val), exp, ds)
        for missing in (lambda: exp.obs.to_pandas(), lambda: ps.dataloader(ds),
                        lambda: next(iter(ps.Dataset(exp, sparse=True)))):
            try:
                missing()
            except ImportError as error:
                print("needs", error.name)
    """
    python = environment / "bin" / "python"
    done = subprocess.run(
        [python, "-I", "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.stdout.startswith("270 1"), done.stderr
    needs = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("needs")]
    assert needs == ["pandas", "torch", "scipy"]
    info = subprocess.run(
        [python, "-I", "-m", "penstock", "info", soma_small.path], capture_output=True, text=True
    )
    assert "300 cells" in info.stdout, info.stderr
    demo = subprocess.run(
        [python, "-I", "-m", "penstock", "demo"], capture_output=True, text=True, cwd=tmp_path
    )
    assert demo.returncode == 1
    assert "pip install '.[demo]'" in demo.stderr
    assert "Traceback" not in demo.stderr


def test_stub_names_what_the_extension_has() -> None:
    nanobind = pytest.importorskip("nanobind")
    if nanobind.__version__.split(".")[0] != "3":
        pytest.skip(f"the stub is as nanobind 3 writes it, this is {nanobind.__version__}")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_stubs.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_extension_shows_its_entry_alone() -> None:
    """Else other libraries' instances of templates of the standard library would stand in for ours."""
    command = ["nm", "--dynamic", "--defined-only", ps._core.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["PyInit__core"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), (5, 5), ("2GiB", 2 << 30), ("256MiB", 256 << 20), ("1.5 GB", 1_500_000_000),
     ("1k", 1024), (" 3 kib ", 3072), (np.int64(7), 7)],
)  # fmt: skip
def test_memory_sizes(text, size: int) -> None:
    from penstock.base.validation import parse_memory_size

    assert parse_memory_size("memory_budget", text) == size


def test_layers_go_one_way(tmp_path: Path) -> None:
    script = ROOT / "tools" / "check_layers.py"
    done = subprocess.run([sys.executable, script, ROOT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

    (tmp_path / "src" / "base").mkdir(parents=True)
    (tmp_path / "src" / "io").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "CMakeLists.txt").write_text("penstock_layer(base)\npenstock_layer(io base)\n")
    (tmp_path / "src" / "io" / "good.cc").write_text('#include "base/a.h"\n#include <vector>\n')
    (tmp_path / "src" / "base" / "bad.h").write_text('#include "io/store.h"\n')
    (tmp_path / "src" / "base" / "python.cc").write_text("#include <Python.h>\n")
    (tmp_path / "include" / "public.h").write_text('#include "base/a.h"\n')
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    found = done.stdout.splitlines()
    assert len(found) == 3
    assert any("bad.h:1" in line and "io/store.h" in line for line in found)
    assert any("python.cc:1" in line for line in found)
    assert any("public.h:1" in line for line in found)


#: The call of the engine's class, by any name of its module.
_LOADER = r"(?<!annbatch\.)\bLoader\("


def test_the_planner_alone_makes_loaders() -> None:
    files = (ROOT / "python" / "penstock").rglob("*.py")
    places = [file.stem for file in files for _ in re.findall(_LOADER, file.read_text())]
    assert places == ["planner"]
