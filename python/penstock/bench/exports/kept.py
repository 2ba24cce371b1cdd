"""Exports of an experiment and a selection, made once and kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from penstock.bench.measuring.page_cache import files_of
from penstock.bench.peers import cache_folder
from penstock.synthetic.disk_space import told_when_full

from .annbatch_collection import write_annbatch
from .cells import Cells
from .h5ad import write_h5ad, write_with_gzip
from .zarr_store import write_as_anndata

_SUFFIXES = {"h5ad": ".h5ad", "annbatch": ".annbatch.zarr", "pack": ".pack", "slice": ".soma",
             "zarr2": ".v2.zarr", "zarr3": ".v3.zarr", "h5ad-gzip": ".gzip.h5ad"}  # fmt: skip


def kept_export(cells: Cells, kind: str, say: Callable[[str], object] = print) -> Path:
    """Return the path of the export (h5ad, h5ad-gzip, annbatch, zarr2, zarr3, pack, slice), which is made if missing.

    An experiment that has changed is exported again. If several processes need an export, one makes
    it and the others wait.
    """
    folder = cache_folder() / "exports" / _key(cells)
    target = folder / f"cells{_SUFFIXES[kind]}"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f".{kind}.lock"):
        if not target.exists():
            _make(cells, kind, target, say)
    return target


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock, which the kernel releases when the process ends."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(cells: Cells, kind: str, target: Path, say: Callable[[str], object]) -> None:
    folder = target.parent
    (folder / "made-of.json").write_text(json.dumps(asdict(cells), indent=1) + "\n")
    begin = time.perf_counter()
    with told_when_full(folder):
        if kind == "h5ad":
            write_h5ad(cells, target)
        elif kind == "h5ad-gzip":
            write_with_gzip(kept_export(cells, "h5ad", say), target)
        elif kind == "annbatch":
            write_annbatch(kept_export(cells, "h5ad", say), target)
        elif kind in ("zarr2", "zarr3"):
            write_as_anndata(kept_export(cells, "h5ad", say), target, int(kind[-1]))
        elif kind == "slice":
            _write_slice(cells, target, say)
        else:
            _write_pack(cells, target)
    n_bytes = sum(file.stat().st_size for file in files_of(target))
    seconds = time.perf_counter() - begin
    say(
        f"made {kind} of {cells.source}: {n_bytes / 1e6:,.0f} MB in {seconds:,.0f} s, kept in {folder}"
    )


def _write_slice(cells: Cells, target: Path, say: Callable[[str], object]) -> None:
    from penstock.bench.download import download
    from penstock.bench.target import Target

    selected = Target(cells.source, cells.measurement, cells.layer, cells.obs_filter, cells.n_vars)
    download(selected, target, False, say)


def _write_pack(cells: Cells, target: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "pack", cells.source, str(target)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"cannot make a pack: {done.stderr.strip()[-1500:]}")


def _key(cells: Cells) -> str:
    """Return a key of the selection and of the names and sizes of the experiment's files."""
    content = hashlib.sha256(json.dumps(asdict(cells), sort_keys=True).encode())
    content.update(str(Path(cells.source).resolve()).encode())
    for file in files_of(cells.source):
        content.update(f"{file.relative_to(cells.source)} {file.stat().st_size}\n".encode())
    return content.hexdigest()[:20]
