"""Where each peer is installed, and installing it into an environment of its own."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidArgument
from .methods import METHODS, Method


@dataclass(frozen=True)
class Peer:
    """A package, what pip is asked for, and the Pythons it runs on."""

    module: str
    requirements: tuple[str, ...]
    torch: bool = True
    least_python: tuple[int, int] = (3, 11)
    most_python: tuple[int, int] = (3, 13)


_ALL = (
    Peer("tiledbsoma", ("tiledbsoma>=1.15,<2", "scipy"), torch=False),
    Peer("tiledbsoma_ml", ("tiledbsoma-ml==0.1.0",)),
    # The last release with the loader; it imports torchdata's pipes, which 0.10 no longer has.
    Peer("cellxgene_census", ("cellxgene-census==1.16.2", "torchdata<0.10", "psutil", "tiledbsoma<2",
                              "pyarrow<21"),  # it holds numpy below 2
         most_python=(3, 12)),
    Peer("annbatch", ("annbatch[zarrs]>=0.3", "numba"), torch=False, least_python=(3, 12)),
    Peer("scdataset", ("scDataset>=0.3", "anndata<0.13", "h5py")),
    Peer("anndata", ("anndata<0.13", "h5py")),
)  # fmt: skip
PEERS = {peer.module: peer for peer in _ALL}


def cache_folder() -> Path:
    """Where environments and made data are kept: PENSTOCK_BENCH_CACHE, or the user's cache."""
    if chosen := os.environ.get("PENSTOCK_BENCH_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "penstock" / "bench"


def environment_python(peer: Peer) -> Path:
    """Interpreter of the environment that `install` makes."""
    return cache_folder() / "peers" / peer.module / "bin" / "python"


def interpreter(method: Method) -> str:
    """The interpreter to measure a method with.

    Raises
    ------
    ModuleNotFoundError
        The peer is nowhere; the message says how to get it.
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
    """The peer of this name, or of the method of this name.

    Raises
    ------
    InvalidArgument
        There is none.
    """
    method = METHODS.get(name)
    module = name if method is None or method.peer is None else method.peer
    if module not in PEERS:
        raise InvalidArgument(f"{name!r} is no peer: {', '.join(PEERS)}")
    return PEERS[module]


def install(peer: Peer, say: Callable[[str], object]) -> bool | None:
    """Make the peer's environment and install it by pip; False, with a line, where that fails.

    None, with a line, where no Python is here that it runs on.

    torch is what TORCH says (``torch==2.13.0``, a wheel), from TORCH_INDEX where that is set.
    """
    python = _base_python(peer)
    if python is None:
        least, most = (".".join(map(str, v)) for v in (peer.least_python, peer.most_python))
        say(
            f"{peer.module}: left out, it needs a Python from {least} to {most}, on the PATH or of pyenv or uv"
        )
        return None
    target = environment_python(peer)
    say(f"{peer.module}: installing {', '.join(peer.requirements)} into {target.parents[1]}")
    _can_import.cache_clear()
    commands = [[python, "-m", "venv", "--clear", str(target.parents[1])]]
    pip = [str(target), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if peer.torch:
        index = os.environ.get("TORCH_INDEX")
        source = ["--index-url", index] if index else []
        commands.append([*pip, *source, os.environ.get("TORCH", "torch")])
    commands.append([*pip, *peer.requirements])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            say(f"{peer.module}: failed: {said[-1] if said else 'no word'}")
            return False
    works = _can_import(str(target), _needed(peer))
    say(f"{peer.module}: {'ready' if works else 'installed, but cannot be imported'}")
    return works


def _base_python(peer: Peer) -> str | None:
    """The running interpreter if its version will do, else the first that will: PATH, then pyenv, uv."""
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
    """Interpreters of pyenv and uv, newest first, whether or not they are chosen at the moment."""
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
