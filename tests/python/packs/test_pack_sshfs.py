"""Packs in parts by two nodes on sshfs, where no lock holds between nodes and both have the same process numbers."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import penstock as ps
import pytest
from conftest import write_small_tiles
from packed_experiments import contents, row_files
from penstock import _core
from sshfs import missing, two_mounts

lacking = missing()
pytestmark = pytest.mark.skipif(bool(lacking), reason=f"not there: {', '.join(lacking)}")

# Packs all files but the last, and waits for the other node while both write the first.
NODE = """
import os, sys, time
from pathlib import Path
import penstock as ps
from penstock import _core

source, pack, signs, me, other = sys.argv[1:]

def meet(what):
    Path(signs, f"{what}-{me}").touch()
    while not Path(signs, f"{what}-{other}").exists():
        time.sleep(0.01)

packer = _core.Packer(ps.open(source).engine, pack, None, [], [], False, 1, 1000, 1 << 30, (0, 2, False))
assert packer.advance(0)
meet("writing")
# Counted where the server has them: a mount remembers for seconds what was in a folder.
served = Path(pack).parent.parent / "shared" / Path(pack + ".partial").name
print(len(list(served.rglob("*.rows.*.tmp"))))
meet("counted")
while packer.advance(1):
    pass
print(os.getpid())
"""


@pytest.fixture(scope="module")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    with two_mounts(tmp_path_factory.mktemp("sshfs")) as both:
        yield both


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("cells") / "cells", 3_000, 200, per_cell=40)


def test_no_lock_holds_between_the_mounts(mounts: tuple[Path, Path]) -> None:
    """What the tests below are for."""
    with (mounts[0] / "lock").open("w") as one, (mounts[1] / "lock").open("r+") as other:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_two_nodes_pack_the_same_part_at_once(
    mounts: tuple[Path, Path], cells: Path, tmp_path: Path
) -> None:
    nodes = [
        subprocess.Popen(
            ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, "-c", NODE,
             cells, mount / "cells.pack", tmp_path, me, other],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for mount, me, other in zip(mounts, "ab", "ba", strict=True)
    ]  # fmt: skip
    said = [node.communicate(timeout=120) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    assert [out for out, _ in said] == ["2\n1\n", "2\n1\n"], (
        "both wrote at a time, with the same pid"
    )
    shared = mounts[0].parent / "shared"
    written = len(row_files(shared / "cells.pack.partial"))
    assert written == 2
    ps.pack(cells, mounts[1] / "cells.pack", rows_per_file=1000)
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=1000)
    assert contents(shared / "cells.pack") == contents(tmp_path / "whole.pack")
    assert ps.open(mounts[0] / "cells.pack").n_obs == 3_000
    assert not list(shared.rglob("*.tmp"))


def test_two_whole_packers_at_once(mounts: tuple[Path, Path], cells: Path, tmp_path: Path) -> None:
    """One of them stops with an error, and the other one's pack is whole."""
    source = ps.open(cells)

    def begun(mount: Path) -> _core.Packer:
        pack = str(mount / "twice.pack")
        packer = _core.Packer(source.engine, pack, None, [], [], False, 1, 1000)
        assert packer.advance(0), "it is in the middle of a file"
        return packer

    one, other = begun(mounts[0]), begun(mounts[1])
    with pytest.raises(ps.IoError, match=r"twice\.pack"):
        while one.advance(1):
            pass
    while other.advance(1):
        pass
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=1000)
    assert contents(mounts[0].parent / "shared" / "twice.pack") == contents(tmp_path / "whole.pack")
