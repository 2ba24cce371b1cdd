"""Environments of other loaders (peers): finding and installing them."""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.base.validation import checked_local_path
from penstock.errors import InvalidArgument

from .methods import METHODS, Method


@dataclass(frozen=True)
class Peer:
    """A package, its requirements for pip, and the Python versions that it supports."""

    module: str
    requirements: tuple[str, ...]
    torch: bool = True
    least_python: tuple[int, int] = (3, 11)
    most_python: tuple[int, int] = (3, 13)


_ALL = (
    Peer("tiledbsoma", ("tiledbsoma>=1.15", "scipy"), torch=False),
    Peer("tiledbsoma_ml", ("tiledbsoma-ml>=0.1",)),
    # cellxgene-census 1.18 lacks the loader. The loader imports torchdata's pipes, which 0.10
    # lacks. 1.17 is for Python below 3.13. test_bench_peers.py checks all three.
    Peer("cellxgene_census", ("cellxgene-census<1.18", "torchdata<0.10", "psutil"), most_python=(3, 12)),
    Peer("annbatch", ("annbatch[zarrs]>=0.3", "numba"), torch=False, least_python=(3, 12)),
    Peer("scdataset", ("scDataset>=0.3", "anndata", "h5py")),
    Peer("anndata", ("anndata", "h5py")),
    Peer("scvi", ("scvi-tools",)),
    Peer("lamindb", ("lamindb>=2", "anndata", "h5py")),
)  # fmt: skip
PEERS = {peer.module: peer for peer in _ALL}
_MADE_OF = "penstock-made-of.json"  # in a complete environment: its requirements


def cache_folder() -> Path:
    """Return the folder of environments and data: PENSTOCK_BENCH_CACHE or the user's cache."""
    if chosen := os.environ.get("PENSTOCK_BENCH_CACHE"):
        return Path(checked_local_path("PENSTOCK_BENCH_CACHE", chosen))
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "penstock" / "bench"


def environment_python(peer: Peer) -> Path:
    """Return the interpreter of the environment that `install` makes."""
    return cache_folder() / "peers" / peer.module / "bin" / "python"


def interpreter(method: Method) -> str:
    """Return the interpreter to measure a method with.

    Raises
    ------
    ModuleNotFoundError
        The peer is not installed; the message says how to install it.
    """
    if method.peer is None:
        return sys.executable
    peer = PEERS[method.peer]
    variable = f"PENSTOCK_BENCH_PYTHON_{peer.module.upper()}"
    if chosen := os.environ.get(variable):
        if _can_import(chosen, _needed(peer)):
            return chosen
        raise ModuleNotFoundError(f"{variable} says {chosen}, which cannot import {peer.module}")
    if all(
        importlib.util.find_spec(name.partition(".")[0]) for name in _needed(peer)
    ) and _can_import(sys.executable, _needed(peer)):
        return sys.executable
    own = environment_python(peer)
    if own.exists() and _can_import(str(own), _needed(peer)):
        return str(own)
    raise ModuleNotFoundError(
        f"{method.name} is left out: {peer.module} is not installed here; "
        f"'penstock bench peers install {peer.module}' installs it"
    )


def _needed(peer: Peer) -> tuple[str, ...]:
    if peer.module == "cellxgene_census":
        return ("cellxgene_census.experimental.ml.pytorch",)
    return (peer.module, "torch") if peer.torch else (peer.module,)


@functools.cache
def _can_import(python: str, modules: tuple[str, ...]) -> bool:
    code = f"import {', '.join(modules)}"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def peer_named(name: str) -> Peer:
    """Return the peer of this name or of the method of this name.

    Raises
    ------
    InvalidArgument
        There is no such peer.
    """
    method = METHODS.get(name)
    module = name if method is None or method.peer is None else method.peer
    if module not in PEERS:
        raise InvalidArgument(f"{name!r} is no peer: {', '.join(PEERS)}")
    return PEERS[module]


def install(peer: Peer, say: Callable[[str], object], again: bool = False) -> bool | None:
    """Make the peer's environment with pip, and return whether that succeeded.

    False, with a line, is a failure; None, with a line, means that there is no suitable Python. A
    complete environment that meets the requirements is kept, unless `again`. A new environment
    replaces the old one when it is complete, so a failure leaves the old one. If several processes
    install a peer, one does it and the others wait.

    TORCH gives the requirement for torch (``torch==2.13.0``, a wheel), TORCH_INDEX its index.
    """
    folder = environment_python(peer).parents[1]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{peer.module}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the process ends
        reason = "asked for again" if again and folder.exists() else _reason_to_install(peer)
        if reason is None:
            say(f"{peer.module}: ready already, in {folder} (--again installs it again)")
            return True
        return _install_whole(peer, folder, reason, say)


def _reason_to_install(peer: Peer) -> str | None:
    """Return why an environment must be made: "" if there is none; None if it can be kept."""
    folder = environment_python(peer).parents[1]
    if not folder.exists():
        return ""
    try:
        made_of = json.loads((folder / _MADE_OF).read_text())
    except (OSError, ValueError):
        return "the environment that is there was not finished, or by an earlier version"
    asked = _made_of(peer)
    if "TORCH" not in os.environ:
        asked |= {"torch": made_of["torch"]} if "torch" in made_of else {}
    if made_of != asked:
        return "the environment that is there was made of other requirements"
    if not _can_import(str(environment_python(peer)), _needed(peer)):
        return "what is there cannot be imported"
    return None


def _made_of(peer: Peer) -> dict[str, Any]:
    torch = {"torch": os.environ.get("TORCH", "torch")} if peer.torch else {}
    return {"requirements": list(peer.requirements), **torch}


def _install_whole(
    peer: Peer, folder: Path, reason: str, say: Callable[[str], object]
) -> bool | None:
    python = _base_python(peer)
    if python is None:
        least, most = (".".join(map(str, v)) for v in (peer.least_python, peer.most_python))
        say(
            f"{peer.module}: left out, it needs a Python from {least} to {most}, on the PATH or of pyenv or uv"
        )
        return None
    partial = folder.with_name(f".{folder.name}.partial")
    if partial.exists():
        say(f"{peer.module}: an earlier installation was interrupted; what it left is removed")
        shutil.rmtree(partial)
    why = f" again ({reason})" if reason else ""
    say(f"{peer.module}: installing {', '.join(peer.requirements)}{why} into {folder}")
    try:
        for command in _commands(peer, python, partial):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                said = (done.stderr or done.stdout).strip().splitlines()
                kept = "; what was there is kept" if folder.exists() else ""
                say(f"{peer.module}: failed: {said[-1] if said else 'no word'}{kept}")
                return False
        (partial / _MADE_OF).write_text(json.dumps(_made_of(peer), indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)  # its python finds packages relative to its own path
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _can_import.cache_clear()
    works = _can_import(str(environment_python(peer)), _needed(peer))
    say(f"{peer.module}: {'ready' if works else 'installed, but cannot be imported'}")
    return works


def _commands(peer: Peer, python: str, folder: Path) -> list[list[str]]:
    """Return the commands that make the environment: venv, pip for torch, pip for the rest."""
    commands = [[python, "-m", "venv", "--clear", "--prompt", peer.module, str(folder)]]
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    if peer.torch:
        index = os.environ.get("TORCH_INDEX")
        source = ["--index-url", index] if index else []
        commands.append([*pip, *source, os.environ.get("TORCH", "torch")])
    return [*commands, [*pip, *peer.requirements]]


def _base_python(peer: Peer) -> str | None:
    """Return the running interpreter if supported, else the first in PATH, pyenv or uv."""
    names = ["python3", "python3.13", "python3.12", "python3.11"]
    candidates: Sequence[str | None] = [sys.executable, *map(shutil.which, names), *_unlisted()]
    for python in candidates:
        if python is None:
            continue
        version = _version(python)
        if version is not None and peer.least_python <= version <= peer.most_python:
            return python
    return None


def _unlisted() -> list[str]:
    """Return interpreters of pyenv and uv, newest first, active or not."""
    home = Path.home()
    roots = [
        Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python"),
    ]
    return [
        str(python)
        for root in roots
        for python in sorted(root.glob("*/bin/python3.1[1-9]"), key=_minor, reverse=True)
    ]


def _minor(python: Path) -> int:
    return int(python.name.rpartition(".")[2])


def _version(python: str) -> tuple[int, int] | None:
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
