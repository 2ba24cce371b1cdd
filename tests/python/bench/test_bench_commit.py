"""The commit in the rows of ``penstock bench``: from the build or from the checkout."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Oracle
from penstock.bench import machine
from penstock.bench.measuring.measurement import Measurement, measure
from penstock.bench.methods import METHODS
from penstock.bench.worker.request import Request, Work

_MINE = """
cmake_minimum_required(VERSION 3.22)
project(mine LANGUAGES NONE)
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/PenstockCommit.cmake COMPONENT python)
"""


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the folders of ours, and a package in it."""
    folder = tmp_path / "checkout"
    for name in ("include/penstock", "python/penstock", "benchmarks/results", "cmake"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("")
    (folder / "CMakeLists.txt").write_text(_MINE)
    shutil.copy(ROOT / "cmake" / "PenstockCommit.cmake", folder / "cmake")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    return folder


CHANGES = [
    ("benchmarks/results/file", False),
    ("benchmarks/results/new", False),
    ("include/penstock/file", True),
    ("python/penstock/new.py", True),
    ("CMakeLists.txt", True),
]


@pytest.mark.parametrize(("changed", "dirty"), CHANGES)
def test_the_commit_of_a_checkout(changed: str, dirty: bool, checkout: Path) -> None:
    """What the bench itself writes makes no other build."""
    head = git(checkout, "rev-parse", "HEAD")
    package = checkout / "python" / "penstock"
    assert machine.commit(package) == head
    with (checkout / changed).open("a") as file:
        file.write("\n")
    assert machine.commit(package) == (f"{head}-dirty" if dirty else head)
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "y")
    assert machine.commit(package) == git(checkout, "rev-parse", "HEAD") != head


@pytest.mark.parametrize(("changed", "dirty"), CHANGES)
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not here")
def test_a_build_has_its_commit(
    changed: str, dirty: bool, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the checkout has newer commits. Installing again, without another configure, renews it."""

    def install() -> Path:
        subprocess.run(
            ["cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "site", "--component",
             "python"], check=True, capture_output=True,
        )  # fmt: skip
        return tmp_path / "site" / "penstock"

    head = git(checkout, "rev-parse", "HEAD")
    command = ["cmake", "-S", checkout, "-B", tmp_path / "build"]
    subprocess.run(command, check=True, capture_output=True)
    assert machine.commit(install()) == head
    with (checkout / changed).open("a") as file:
        file.write("\n")
    assert machine.commit(tmp_path / "site" / "penstock") == head
    assert machine.commit(install()) == (f"{head}-dirty" if dirty else head)
    shutil.rmtree(checkout / ".git")
    monkeypatch.delenv("PENSTOCK_BENCH_COMMIT", raising=False)
    assert machine.commit(install()) is None  # as of an sdist


def test_sources_are_the_same_in_both_places() -> None:
    script = (ROOT / "cmake" / "PenstockCommit.cmake").read_text()
    assert f" {' '.join(machine.SOURCES)}\n" in script
    for name in machine.SOURCES:
        assert (ROOT / name).exists()


def test_rows_have_it(census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.machine_facts.cache_clear()
    monkeypatch.setattr(machine, "commit", lambda: "0123abcd-dirty")
    asked = Request("penstock", "scatter", Work(str(census_like.path), sparse=True))
    each = Measurement(METHODS["penstock"], dataclasses.replace(asked, max_batches=1))
    try:
        (row,) = measure(each)
    finally:
        machine.machine_facts.cache_clear()
    assert row["sha"] == "0123abcd-dirty"
