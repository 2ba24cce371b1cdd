"""First steps of a user: the README's code, the demo and its errors, missing packages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import penstock as ps
import pytest
import torch
from conftest import ROOT, Oracle
from mounts import with_mount

DEMO = [sys.executable, "-m", "penstock", "demo"]


@pytest.mark.parametrize("kind", ["soma", "h5ad", "zarr"])
def test_the_ten_lines_of_the_readme(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As they are with an h5ad, and with other stores in its place."""
    cells = 0

    def seen(shape: tuple[int, int], codes: torch.Tensor) -> None:
        nonlocal cells
        assert shape[1] == census_like.X.shape[1]
        assert codes.dtype == torch.int64
        cells += shape[0]

    place = tmp_path / "cells.h5ad"
    if kind == "soma":
        place.symlink_to(census_like.path)
    else:
        adata = ps.Dataset(census_like.path).to_anndata()
        adata.write_h5ad(place) if kind == "h5ad" else adata.write_zarr(place)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```python\n(import penstock.*?)```", text, re.DOTALL)
    tissue = census_like.obs["tissue_general"].astype(str)
    most = tissue.mode()[0]
    for stands, here in (
        ("tissue == 'lung'", f"tissue_general == '{most}'"),
        ('ps.example("census-like")', '"cells.h5ad"'),
    ):
        assert stands in block
        block = block.replace(stands, here)
    exec(compile(block, "README.md", "exec"), {"print": seen})
    assert cells == round(0.8 * int((tissue == most).sum()))


def test_the_demo_shows_what_the_article_does(tmp_path: Path) -> None:
    """Both acts: speed, then loss and accuracy by epoch, shuffled and not; the second one's filter."""
    done = subprocess.run(
        [*DEMO, "--cells", "4000", "--epochs", "2", "--output", str(tmp_path)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    acts = done.stdout.split("At scale")
    assert len(acts) == 2
    for act, epochs in zip(acts, (5, 2), strict=True):
        assert "cells/s: " in act
        assert "in stored order:" in act
        rows = [
            [float(each) for each in line.replace("%", "").replace(",", "").split()]
            for line in act.splitlines()
            if re.match(r" +\d+ +\d+\.\d{3} ", line)
        ]
        assert [row[0] for row in rows] == list(range(1, epochs + 1))
        assert all(len(row) == 7 for row in rows), rows  # loss, accuracy and cells/s of both
        assert rows[-1][1] < rows[0][1], "the shuffled loss falls"
    assert "tissue_general in [" in acts[1]
    made = ps.open(tmp_path / "census-like-4000.soma").obs.to_pandas()
    classes, accuracy = made["cell_type"].astype(str).value_counts(normalize=True), rows[-1][2]
    assert accuracy > 100 * 2 * classes.iloc[0], "far above naming the largest class"


def test_ctrl_c_ends_the_demo_in_a_line(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*DEMO, "--cells", "200000", "--output", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Who runs the tests in the background of a shell has the signal ignored, and so its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert running.stdout is not None
    for line in running.stdout:
        if "At scale" in line:  # cells are about to be made
            break
    # Cells are being made: an interrupt within an import is one that Python may lose.
    deadline = time.monotonic() + 120
    while not any(tmp_path.glob(".census-like*.partial-*/**/*.wrt")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    try:
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("census-like*"))


@pytest.mark.parametrize("size", ["200k", "12m"])
def test_a_disk_that_fills_up_ends_the_demo_in_a_line(size: str, tmp_path: Path) -> None:
    """Where the real cells are unpacked, and where experiments and pictures go."""
    full = tmp_path / "full"
    full.mkdir()
    prefix = with_mount(f'mount -t tmpfs -o size={size} tmpfs "$0"', full)
    script = f'"$@" --output "{full}/out"; status=$?; ls -A "{full}/out" >&2; exit $status'
    done = subprocess.run(
        [*prefix, "sh", "-c", script, "sh", *DEMO, "--cells", "20000", "--epochs", "1"],
        capture_output=True, text=True, timeout=600, env={**os.environ, "TMPDIR": str(full)},
    )  # fmt: skip
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    # numcodecs' warning of its own dependencies may come first.
    said, left = re.search(r"^penstock: (.*)\n([^:]*)\Z", done.stderr, re.MULTILINE).groups()
    assert "space" in said.lower()
    assert "census-like" not in left, "nothing half made is left"


def test_missing_packages_are_named_to_who_may_not_install_them(tmp_path: Path) -> None:
    """A machine without cmake and ninja, as somebody who is not root."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = tools / program.name
            if program.name not in ("cmake", "ninja", "id", "apt-get") and not link.exists():
                link.symlink_to(program)
    for name, text in (("id", "echo 1000"), ("apt-get", "exit 3")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / "tools/install_system_packages.sh")],
        capture_output=True, text=True, env={**os.environ, "PATH": str(tools)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "sudo apt-get install" in done.stderr
    assert " cmake" in done.stderr
    assert " ninja-build" in done.stderr
    assert "libzstd-dev" not in done.stderr, "which is there"


def test_info_names_the_memory_of_a_default_loader(
    pbmc3k: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.base.text import size
    from penstock.cli import main

    assert main(["info", str(pbmc3k.path)]) == 0
    planned = ps.Dataset(pbmc3k.path).plan().planned_bytes
    assert f"a loader with default settings takes {size(planned)} " in capsys.readouterr().out
