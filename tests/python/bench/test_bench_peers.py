"""Each peer is installed once into its own environment, completely or not at all."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from penstock.bench import peers
from penstock.bench.methods import METHODS
from penstock.cli import main

PEER = peers.Peer("tiny_peer", ("tiny-peer>=1",), torch=False)

# Stands for an interpreter: venv makes one of its kind, whose pip notes what it is asked for and
# fails where the folder has a file named "broken"; what pip was asked for can be imported.
_FAKE = """#!/bin/sh
case "$1 $2" in
"-m venv")
  for last; do :; done
  mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
"-m pip")
  echo "$@" >>"{folder}/asked"
  if [ -e "{folder}/killed" ]; then kill -KILL $PPID; fi
  if [ -e "{folder}/broken" ]; then echo no network >&2; exit 3; fi ;;
"-c import sys, venv"*) echo 3 12 ;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TORCH", "TORCH_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(peers.PEERS, "tiny_peer", PEER)
    return tmp_path / "cache" / "peers"


@pytest.fixture
def pip_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the fake interpreter's pip has been asked for, a line a call."""
    fake = tmp_path / "python"
    fake.write_text(_FAKE.format(folder=tmp_path))
    fake.chmod(0o755)
    monkeypatch.setattr(peers, "_base_python", lambda peer: str(fake))
    asked = tmp_path / "asked"
    asked.touch()
    return asked


def make_wheel(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f"version = {version!r}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_a_peer_is_installed_by_pip(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By venv and pip themselves, from wheels in a folder; the environment works where it lies."""
    make_wheel(tmp_path / "wheels", "tiny_peer", "1.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setattr(peers, "_base_python", lambda peer: sys.executable)
    assert main(["bench", "peers", "install", "tiny_peer"]) == 0
    folder = cache / "tiny_peer"
    assert capsys.readouterr().out == (
        f"tiny_peer: installing tiny-peer>=1 into {folder}\ntiny_peer: ready\n"
    )
    code = "import sys, tiny_peer; print(sys.prefix, tiny_peer.version, tiny_peer.__file__)"
    done = subprocess.run(
        [peers.environment_python(PEER), "-c", code], capture_output=True, text=True, check=True
    )
    prefix, version, file = done.stdout.split()
    assert (prefix, version) == (str(folder), "1.5")
    assert Path(file).is_relative_to(folder)
    assert [each.name for each in cache.iterdir() if each.is_dir()] == ["tiny_peer"]


def test_what_is_ready_is_left_as_it_is(
    cache: Path, pip_asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "peers", "install", "tiny_peer"]) == 0
    note = cache / "tiny_peer" / "note"
    note.touch()
    assert main(["bench", "peers", "install", "tiny_peer"]) == 0
    assert "tiny_peer: ready already, in " in capsys.readouterr().out
    assert note.exists()
    assert len(pip_asked.read_text().splitlines()) == 1
    assert main(["bench", "peers", "install", "tiny_peer", "--again"]) == 0
    assert "again (asked for again) into" in capsys.readouterr().out
    assert not note.exists()
    assert len(pip_asked.read_text().splitlines()) == 2


def test_what_was_not_finished_is_installed_again(
    cache: Path, pip_asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed while pip runs, with nothing there before and with an environment there."""
    killed = tmp_path / "killed"
    program = (
        "import sys\nfrom penstock.bench import peers\n"
        "peers._base_python = lambda peer: sys.argv[1]\n"
        "peers.install(peers.Peer('tiny_peer', ('tiny-peer>=1',), torch=False), print, again=True)"
    )
    for before in (False, True):
        killed.touch()
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "python")], check=False
        )
        assert done.returncode == -9
        assert (cache / "tiny_peer").exists() == before
        assert (cache / ".tiny_peer.partial").exists()
        killed.unlink()
        options = ["--again"] if before else []
        assert main(["bench", "peers", "install", "tiny_peer", *options]) == 0
        shown = capsys.readouterr().out
        assert "an earlier installation was interrupted; what it left is removed" in shown
        assert shown.endswith("tiny_peer: ready\n")
        assert not (cache / ".tiny_peer.partial").exists()
    assert len(pip_asked.read_text().splitlines()) == 4


def test_a_failure_leaves_what_was_there(
    cache: Path, pip_asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "peers", "install", "tiny_peer"]) == 0
    (tmp_path / "broken").touch()
    assert main(["bench", "peers", "install", "tiny_peer", "--again"]) == 1
    assert "tiny_peer: failed: no network; what was there is kept" in capsys.readouterr().out
    (tmp_path / "broken").unlink()
    assert main(["bench", "peers", "install", "tiny_peer"]) == 0
    assert "ready already" in capsys.readouterr().out


def test_reasons_to_install_again(
    cache: Path, pip_asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_torch = peers.Peer("tiny_peer", ("tiny-peer>=1",))
    said: list[str] = []

    def install(peer: peers.Peer) -> str:
        said.clear()
        assert peers.install(peer, said.append) is True
        return said[0]

    install(PEER)
    newer = peers.Peer("tiny_peer", ("tiny-peer>=2",), torch=False)
    assert "again (the environment that is there was made of other requirements)" in install(newer)
    assert "made of other requirements" in install(with_torch)
    assert "ready already" in install(with_torch)
    monkeypatch.setenv("TORCH", "torch==2.13.0")
    monkeypatch.setenv("TORCH_INDEX", "file:///wheels")
    assert "made of other requirements" in install(with_torch)
    torch, rest = pip_asked.read_text().splitlines()[-2:]
    assert torch.endswith("install --quiet --index-url file:///wheels torch==2.13.0")
    assert rest.endswith("install --quiet tiny-peer>=1")
    monkeypatch.delenv("TORCH")  # nothing else is asked for
    assert "ready already" in install(with_torch)
    (made_of,) = (cache / "tiny_peer").glob("penstock-*.json")
    assert json.loads(made_of.read_text())["torch"] == "torch==2.13.0"
    made_of.unlink()
    assert "was not finished, or by an earlier version" in install(with_torch)
    fake = peers.environment_python(PEER)
    fake.write_text("#!/bin/sh\nexit 1\n")
    peers._can_import.cache_clear()
    assert "what is there cannot be imported" in install(with_torch)


def test_what_cannot_be_imported_is_said(
    cache: Path, pip_asked: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(peers, "_can_import", functools.cache(lambda python, modules: False))
    assert main(["bench", "peers", "install", "tiny_peer"]) == 1
    assert "tiny_peer: installed, but cannot be imported" in capsys.readouterr().out


def test_again_goes_with_install(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "peers", "--again"]) == 1
    assert "--again goes with install" in capsys.readouterr().err


def release(package: str) -> tuple[int, int]:
    """Major and minor of what is installed; the test is skipped where it is not."""
    try:
        major, minor = importlib.metadata.version(package).split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    return int(major), int(minor)


def test_upper_pins_are_those_that_are_shown_below() -> None:
    pinned = {
        each for peer in peers.PEERS.values() for each in peer.requirements if "<" in each or "==" in each
    }  # fmt: skip
    assert pinned == {"cellxgene-census<1.18", "torchdata<0.10"}


def test_torchdata_has_no_pipes_from_0_10_on() -> None:
    if release("torchdata") < (0, 10):
        pytest.skip("torchdata is older")
    assert importlib.util.find_spec("torchdata.datapipes") is None


def test_cellxgene_census_has_no_loader_from_1_18_on() -> None:
    if release("cellxgene-census") < (1, 18):
        pytest.skip("cellxgene-census is older")
    files = importlib.metadata.files("cellxgene-census")
    assert files
    assert not [each for each in files if each.match("experimental/ml/*")]


def test_the_census_loader_needs_the_pipes_and_no_python_of_3_13() -> None:
    try:
        python = peers.interpreter(METHODS["cellxgene_census"])
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    code = (
        "import importlib.metadata, sys, cellxgene_census.experimental.ml.pytorch\n"
        "print('torchdata.datapipes' in sys.modules)\n"
        "print(importlib.metadata.metadata('cellxgene-census')['Requires-Python'])\n"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    pipes, pythons = done.stdout.splitlines()
    assert pipes == "True"
    assert "<3.13" in pythons.split(",")
