"""`make test-all` in parts: what passed is not made again until its files change. `make` is a recorder here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "test_all.sh"
#: Appends its arguments to `made`, writes to a file named by `touches`, and fails if `fails` names an argument.
RECORDER = """#!/bin/bash
echo "$*" >>"$RECORD/made"
[ ! -e "$RECORD/touches" ] || echo more >>"$(cat "$RECORD/touches")"
[[ " $* " != *" $(cat "$RECORD/fails" 2>/dev/null || echo nothing) "* ]]
"""


class Repository:
    """A repository with the script and a file of each kind."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder / "repository", folder / "record"
        self.record.mkdir()
        (folder / "bin").mkdir()
        recorder = folder / "bin" / "make"
        recorder.write_text(RECORDER)
        recorder.chmod(0o755)
        who = {
            f"GIT_{role}_{what}": "penstock"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            **who,
            "NEWER_PYTHONS": "",
            "RECORD": str(self.record),
            "PATH": path,
        }
        self.said = ""
        for name in ("src/a.cc", "python/a.py", "tests/fuzz/corpora.tar.gz"):
            self.write(name, "begin")
        self.write(".gitignore", "build\n")
        (self.folder / "tools").mkdir()
        shutil.copy(SCRIPT, self.folder / "tools")
        subprocess.run(
            ["git", "init", "--quiet"], cwd=self.folder, check=True, env=self.environment
        )
        self.commit()

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self) -> None:
        for command in (["add", "--all"], ["commit", "--quiet", "--message", "files"]):
            subprocess.run(["git", *command], cwd=self.folder, check=True, env=self.environment)

    def run(self, *parts: str) -> tuple[int, list[str]]:
        """The exit status, and what was made: the first argument of each call."""
        made = self.record / "made"
        made.write_text("")
        script = self.folder / "tools" / "test_all.sh"
        done = subprocess.run(
            [script, *parts], env=self.environment, capture_output=True, text=True, cwd="/"
        )
        self.said = done.stderr
        return done.returncode, [line.split()[0] for line in made.read_text().splitlines()]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_what_passed_is_made_again_when_its_files_change(repository: Repository) -> None:
    status, everything = repository.run()
    assert status == 0
    assert len(everything) == 16
    assert repository.run() == (0, [])
    repository.write("python/a.py", "changed")
    repository.commit()
    _, of_python = repository.run()
    engine = {"tidy", "test-cpp", "test-asan", "test-tsan", "test-scalar", "fuzz"}
    assert set(of_python) == set(everything) - engine
    repository.write("tests/fuzz/corpora.tar.gz", "more")  # by `fuzz`
    repository.commit()
    assert engine.isdisjoint(repository.run()[1])
    repository.write("src/a.cc", "changed")
    repository.commit()
    assert repository.run() == (0, everything)


def test_a_run_that_failed_is_continued(repository: Repository) -> None:
    (repository.record / "fails").write_text("test-scalar")
    status, before = repository.run()
    assert (status != 0, before[-1]) == (True, "test-scalar")
    (repository.record / "fails").unlink()
    status, after = repository.run()
    assert (status, after[0]) == (0, "test-scalar")
    assert len(before) + len(after) == 17


def test_a_part_that_is_not_there_is_an_error(repository: Repository) -> None:
    assert repository.run("docs", "dosc") == (2, ["docs"])
    assert "there is no part dosc; choose from check docs" in repository.said


def test_nothing_is_noted_of_files_that_are_not_committed(repository: Repository) -> None:
    repository.write("src/new.cc", "not committed")
    assert repository.run("cpp") == repository.run("cpp") == (0, ["test-cpp"])
    repository.commit()
    (repository.record / "touches").write_text(str(repository.folder / "src" / "a.cc"))
    assert repository.run("cpp") == (0, ["test-cpp"])  # changes a file while it runs
    (repository.record / "touches").unlink()
    repository.commit()
    assert repository.run("cpp") == (0, ["test-cpp"])
    assert repository.run("cpp") == (0, [])


def test_a_week_later_all_is_made_again(repository: Repository) -> None:
    """Packages of the newest versions are others then."""
    assert repository.run("cpp", "docs") == (0, ["docs", "test-cpp"])
    stamp = repository.folder / "build" / "passed" / "cpp"
    long_ago = time.time() - 8 * 86_400
    os.utime(stamp, (long_ago, long_ago))
    assert repository.run("cpp", "docs") == (0, ["test-cpp"])
