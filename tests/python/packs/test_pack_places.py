"""Invalid destinations of a pack are refused before anything is packed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import penstock as ps
import pytest
from mounts import with_mount
from packed_experiments import entries, same_bits, write_growing


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    return write_growing(tmp_path / "growing")


def test_places_that_cannot_be(growing: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "to-empty").symlink_to(tmp_path / "empty")
    (tmp_path / "to-nothing").symlink_to(tmp_path / "nothing")
    (tmp_path / "to-obs").symlink_to(growing / "obs")
    before = sorted(growing.rglob("*"))
    for place, message in [
        (tmp_path / "to-empty", "is a link"),
        (tmp_path / "to-nothing", "is a link"),
        (growing / "obs" / "pack", "within what is packed"),
        (growing / "ms" / "RNA" / "var" / "a" / "pack", "within what is packed"),
        (tmp_path / "to-obs" / "pack", "within what is packed"),
        ("https://host/pack", "a folder on this machine"),
        ("file:///pack", "a folder on this machine"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            ps.pack(growing, place)
    assert sorted(growing.rglob("*")) == before
    assert not list(tmp_path.rglob("*.partial"))


def test_names_that_are_too_long(growing: Path, tmp_path: Path) -> None:
    """Also for what a pack is called while it is replaced."""
    longest = tmp_path / ("p" * (255 - len(".partial")))
    with pytest.raises(
        ps.InvalidArgument, match=r"too long.* \.partial: make it shorter by 2 bytes"
    ):
        ps.pack(growing, f"{longest}pp")
    expected = entries(ps.pack(growing, longest))
    called: list[object] = []
    with pytest.raises(ps.InvalidArgument, match=r"too long.* \.replaced-.*: make it shorter by"):
        ps.pack(growing, longest, overwrite=True, progress=called.append)
    assert not called
    same_bits(entries(longest), expected)
    ending = f".replaced-{os.getpid()}-99"
    fits = tmp_path / ("q" * (255 - len(ending)))
    for _ in range(2):
        same_bits(entries(ps.pack(growing, fits, overwrite=True)), expected)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["growing", longest.name, fits.name]


PACK_AS_ANOTHER = """
import os, sys
import penstock as ps
os.setegid(54_321)
os.seteuid(54_321)
try:
    ps.pack(sys.argv[1], sys.argv[2], overwrite=True, progress=lambda _: print("packs"))
except ps.PenstockError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
@pytest.mark.parametrize("what", ["sticky", "begun", "forbidden"])
def test_a_place_where_another_user_may_not_exchange(what: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        growing = write_growing(folder / "growing")
        shared = folder / "shared"
        shared.mkdir()
        if what != "begun":
            ps.pack(growing, shared / "pack")
        if what != "sticky":  # by somebody, for everyone
            (shared / "pack.partial").mkdir()
            (shared / "pack.partial" / "pack.partial").touch()
        for path in (*growing.rglob("*"), *shared.rglob("*")):
            path.chmod(0o777)
        shared.chmod(0o755 if what == "forbidden" else 0o1777)
        command = [sys.executable, "-c", PACK_AS_ANOTHER, str(growing), str(shared / "pack")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        said = {
            "sticky": f"InvalidArgument it belongs to another user.*: {shared}/pack$",
            "begun": f"InvalidArgument it belongs to another user.*: {shared}/pack.partial$",
            "forbidden": f"IoError cannot make a pack in .* Permission denied: {shared}$",
        }
        assert re.fullmatch(said[what], done.stdout.strip())


def test_a_mounted_file_system_is_not_replaced(growing: Path, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    mounted = with_mount('mount -t tmpfs none "$0"', tmp_path / "volume")
    pack = "import sys, penstock as ps\nps.pack(sys.argv[1], sys.argv[2])"
    arguments = [sys.executable, "-c", pack, str(growing)]
    done = subprocess.run(
        [*mounted, *arguments, str(tmp_path / "volume")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "InvalidArgument: the destination is where a file system is mounted" in done.stderr
    within = [*mounted, *arguments, str(tmp_path / "volume" / "pack")]
    done = subprocess.run(within, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
