"""The command line: what it prints, and how it fails."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Oracle
from penstock.cli import main


def penstock(*arguments: object, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        **kwargs,
    )


def test_info(pbmc3k: Oracle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(pbmc3k.path)]) == 0
    text = capsys.readouterr().out
    for wanted in (
        "obs: 2,638 cells",
        "category of string",
        "measurement RNA: 13,714 genes",
        "layer RNA/X/raw: float32",
        f"{pbmc3k.X.nnz:,}, 849 a cell",
        "fragments    2",
        "tiles 2048 x 2048",
        "bytes a non-zero",
        "fetch units",
        "a loader with default settings takes",
    ):
        assert wanted in text, text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_info_of_something_else(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        done = penstock("info", path)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("penstock: ")
        assert str(path) in done.stderr
        assert "Traceback" not in done.stderr


def test_usage() -> None:
    assert penstock("--help").returncode == 0
    assert penstock("--version").stdout.startswith("penstock 0.")
    for wrong in ([], ["nonsense"], ["info"], ["demo", "--cells", "many"]):
        done = penstock(*wrong)
        assert done.returncode == 2
        assert "usage:" in done.stderr


def test_a_closed_pipe_is_no_error(pbmc3k: Oracle) -> None:
    command = f"'{sys.executable}' -m penstock info '{pbmc3k.path}' | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_demo_on_data_of_ones_own(pbmc3k: Oracle, tmp_path: Path) -> None:
    done = penstock(
        "demo", "--data", pbmc3k.path, "--label", "cell_type", "--epochs", 3,
        "--filter", "n_counts > 1500", "--output", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    accuracies = [
        float(word) for word in done.stdout.replace("%", " % ").split() if _is_share(word)
    ]
    assert max(accuracies) > 80, done.stdout
    assert "cells/s" in done.stdout
    assert "Next" in done.stdout
    png = (tmp_path / "out" / "penstock-demo.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    page = (tmp_path / "out" / "penstock-demo.html").read_text()
    assert "plotly" in page
    assert '<script src="http' not in page


def _is_share(word: str) -> bool:
    return word.count(".") == 1 and word.replace(".", "").isdigit() and float(word) <= 100


def test_demo_at_both_scales(tmp_path: Path) -> None:
    done = penstock("demo", "--cells", 2_000, "--epochs", 1, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Real cells" in done.stdout
    assert "At scale" in done.stdout
    assert (tmp_path / "census-like-2000.soma").exists()
    assert (tmp_path / "penstock-demo.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "celltype"], "cell_type"),
        (["--layer", "normalized"], "raw"),
        (["--measurement", "protein"], "RNA"),
        (["--filter", "cell_type == "], "filter"),
        (["--filter", "n_counts > 1000000"], "10 cells or more"),
        (["--filter", "cell_type == 'B cells'"], "two classes"),
        (["--epochs", "0"], "--epochs must be 1 or more"),
        (["--memory", "much"], "'much'"),
    ],
)
def test_demo_errors_without_tracebacks(
    pbmc3k: Oracle,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["demo", "--data", str(pbmc3k.path), "--output", str(tmp_path), *arguments])
    said = capsys.readouterr()
    assert status == 1
    assert message in said.err
    assert "Traceback" not in said.err


def test_demo_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    assert main(["demo", "--epochs", "1", "--output", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"penstock: {os.strerror(errno.ENOSPC)}") or "space" in error
    assert "Traceback" not in error
    assert not list(tmp_path.glob("census-like*"))


def test_demo_where_nothing_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = penstock("demo", "--output", file / "folder")
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: ")
    assert "Traceback" not in done.stderr
