"""Folders for unfinished files: of one call, and gone when it ends or the next one begins."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from penstock.base.scratch import scratch_folder

HOLDER = """
import sys
from penstock.base.scratch import scratch_folder
with scratch_folder("cells.", sys.argv[1]) as folder:
    (folder / "rows").write_text("half")
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that holds a folder until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(parent)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def test_a_folder_of_its_own(tmp_path: Path) -> None:
    with scratch_folder("cells.", tmp_path) as one, scratch_folder("cells.", tmp_path) as two:
        assert one != two
        assert {each.name[:6] for each in tmp_path.iterdir()} == {"cells."}
        (one / "rows").write_text("half")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="no cell"), scratch_folder("cells.", tmp_path):
        raise ValueError("no cell")
    assert not list(tmp_path.iterdir())


def test_folders_of_killed_processes_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    others = tmp_path / "cells.mine.partial", tmp_path / "cells.csv"
    for other in others:
        other.mkdir()
    with holder(tmp_path) as (killed, left), holder(tmp_path) as (living, held):
        killed.kill()
        killed.wait()
        assert (left / "rows").exists(), "a killed process removes nothing"
        with scratch_folder("other.", tmp_path):
            assert left.exists(), "it is for calls with its prefix"
        with scratch_folder("cells.", tmp_path) as own:
            assert set(tmp_path.iterdir()) == {*others, own, held}
        assert (held / "rows").exists()
        living.communicate("")
        assert living.returncode == 0
    assert set(tmp_path.iterdir()) == set(others)


@pytest.mark.parametrize("when", ["made", "about to be locked"])
def test_another_call_begins_before_the_folder_is_locked(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the folder for left and removes it. The first call makes another one."""
    module, name = (tempfile, "mkdtemp") if when == "made" else (fcntl, "flock")
    real = getattr(module, name)
    lost: list[Path] = []

    def another_begins(*given: Any, **named: Any) -> Any:
        result = real(*given, **named) if when == "made" else None
        if not lost:
            lost.extend(tmp_path.iterdir())
            shutil.rmtree(lost[0])
        return real(*given, **named) if result is None else result

    monkeypatch.setattr(module, name, another_begins)
    with scratch_folder("cells.", tmp_path) as folder:
        assert len(lost) == 1
        assert folder != lost[0]
        assert list(tmp_path.iterdir()) == [folder]
    assert not list(tmp_path.iterdir())
