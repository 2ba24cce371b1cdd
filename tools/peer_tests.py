"""Runs the tests of tiledbsoma_ml or of the Census's loaders over `penstock.compat`.

    python tools/peer_tests.py [--original] TESTS [arguments of pytest]

TESTS is the folder `tests` of a checkout: of TileDB-SOMA-ML (v0.1.0), or of
cellxgene-census/api/python/cellxgene_census before change 1392, which removed the loaders. It is
copied, with names of modules changed, to a folder that is deleted afterwards. Prints how many cases
of each test pass, and why the others fail; docs/guides/compat.md lists these. Ends with 1 if fewer cases
pass than docs/guides/compat.md says. With --original the tests run over the loader that they were written
for, if it is installed.

Needs pytest and tiledbsoma, with which the tests write their cells.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """Changes to the tests of a loader.

    Attributes
    ----------
    tests : tuple of str
        Files of the folder to run; tests of private names are left out.
    renames : tuple of (str, str)
        Texts to replace, in this order.
    passes : int
        Cases that pass over `penstock.compat`, as docs/guides/compat.md says.
    options : tuple of str
        Options of pytest.
    """

    tests: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    passes: int
    options: tuple[str, ...] = ()


#: Names for annotations only.
_TYPES = "from typing import Any as MiniBatch, Any as NDArrayJoinId\n"

#: Torch's own since 2.13: the tests are older.
_OF_TORCH = ("WorkerInfo(", "WorkerInfo(dataset=None, ")

PEERS = {
    "tiledbsoma_ml": Peer(
        ("test_dataset.py", "test_dataloader.py", "test_query_ids.py"),
        (
            ("from tiledbsoma_ml._common import", "from tests.peer_types import"),
            ("tiledbsoma_ml._query_ids", "tiledbsoma_ml.query_ids"),
            ("tiledbsoma_ml", "penstock.compat.tiledbsoma_ml"),
        ),
        58,
    ),
    "census": Peer(
        ("experimental/ml/test_pytorch.py",),
        (
            ("        list_split,\n", ""),
            ("cellxgene_census.experimental.ml.pytorch.dist.", "torch.distributed."),
            ("cellxgene_census.experimental.ml", "penstock.compat.census"),
        ),
        40,
        ("--experimental",),
    ),
}


def peer_of(tests: Path) -> Peer:
    """Return the peer whose tests a folder holds."""
    for peer in PEERS.values():
        if all((tests / each).is_file() for each in peer.tests):
            return peer
    wanted = " or ".join(", ".join(peer.tests) for peer in PEERS.values())
    sys.exit(f"{tests} has no tests of the peers ({wanted})")


def copy_changed(tests: Path, to: Path, renames: Sequence[tuple[str, str]]) -> None:
    """Copy the tests with texts replaced."""
    shutil.copytree(tests, to, ignore=shutil.ignore_patterns("__pycache__"))
    (to / "peer_types.py").write_text(_TYPES)
    for file in to.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for before, after in renames:
            text = text.replace(before, after)
        file.write_text(text, encoding="utf-8")


def run(root: Path, peer: Peer, arguments: list[str]) -> dict[str, list[str | None]]:
    """Return for each test its cases: None if it passed, else the first line of the error."""
    report = root / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    command += [*peer.options, *arguments, *(f"tests/{each}" for each in peer.tests)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path[1:]])}
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if ended.returncode not in (0, 1):  # not only tests that fail
        sys.exit(ended.stdout[-4000:] + ended.stderr[-4000:])
    cases: dict[str, list[str | None]] = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        fault = case.find("failure")
        fault = case.find("error") if fault is None else fault
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').partition('[')[0]}"
        cases[name].append(None if fault is None else fault.get("message", "").split("\n")[0][:120])
    return cases


def main() -> None:
    """Run and print."""
    arguments = sys.argv[1:]
    original = arguments[:1] == ["--original"]
    arguments = arguments[original:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    tests = Path(arguments[0])
    peer = peer_of(tests)
    renames = [_OF_TORCH, *(() if original else peer.renames)]
    with tempfile.TemporaryDirectory() as folder:
        copy_changed(tests, Path(folder) / "tests", renames)
        cases = run(Path(folder), peer, arguments[1:])
    for name, faults in cases.items():
        failed = [each for each in faults if each is not None]
        print(
            f"{len(faults) - len(failed)} of {len(faults)}  {name}"
            + (f": {failed[0]}" if failed else "")
        )
    every = [fault for faults in cases.values() for fault in faults]
    print(f"{every.count(None)} of {len(every)} cases pass")
    if not original and len(arguments) == 1 and every.count(None) < peer.passes:
        sys.exit(f"{peer.passes} passed when docs/guides/compat.md was written")


if __name__ == "__main__":
    main()
