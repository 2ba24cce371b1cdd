"""An exact uniform shuffle, out of core, beside peers: ``python benchmarks/global_shuffle.py``.

65,536 cells x 60,664 genes, batch 128, page cache warm unless the line says cold. Every measurement
is a process of its own, methods take turns. An epoch counts from the first batch asked for to the
last one handed over; what was opened, imported or loaded into memory before is told apart. An epoch
counts only if it brought every cell and every non-zero. Needs scipy, annbatch and scvi-tools, which
may live in interpreters of their own (``--annbatch-python``, ``--scvi-python``).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 128
SEED = 3
HERE = Path(__file__).resolve().parent

#: Variables of glibc with which malloc gives nothing back to the system.
_KEEPING_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**28),
}

#: X of the next batch, and how many stored values it has (None: not counted).
Batches = Iterator[tuple[int, int | None]]


# Methods: each opens what it needs and gives the batches of an epoch


def _penstock(folder: Path, sparse: bool, shuffle: str, source: str) -> Batches:
    import penstock as ps
    import scipy.sparse  # noqa: F401  in memory before the clock runs, as in the other methods

    ds = ps.Dataset(folder / source, sparse=sparse, shuffle=shuffle, batch_size=BATCH, seed=SEED)
    len(ds)
    yield 0, 0
    for X, _ in ds:
        yield X.shape[0], X.nnz if sparse else None


def _kept(
    folder: Path, sparse: bool, budget: str = "2GiB", genes: int | None = None, rest: bool = False
) -> Batches:
    """The second epoch of an experiment of which as much stays in memory as fits."""
    import penstock as ps
    import scipy.sparse  # noqa: F401

    source = Path((folder / "experiment.txt").read_text())
    transforms: list[object] = []
    if genes is not None:
        transforms = [ps.SelectGenes(list(ps.Dataset(source).var_names[:genes]))]
    ds = ps.Dataset(
        source, sparse=sparse, batch_size=BATCH, seed=SEED, memory_budget=budget,
        transforms=transforms,
    )  # fmt: skip
    for _ in ds:
        pass
    yield 0, 0
    for X, _ in ds:
        yield X.shape[0], X.nnz if sparse else None
    assert ds.stats.all_kept != rest
    assert rest == (ds.stats.bytes_read > 0)


def _streamed(folder: Path, budget: str) -> Batches:
    """The second epoch if nothing stays."""
    import penstock as ps
    import scipy.sparse  # noqa: F401

    source = Path((folder / "experiment.txt").read_text())
    ds = ps.Dataset(
        source, sparse=True, batch_size=BATCH, seed=SEED, memory_budget=budget, keep=False
    )
    for _ in ds:
        pass
    yield 0, 0
    for X, _ in ds:
        yield X.shape[0], X.nnz


def _scipy(folder: Path) -> Batches:
    X = _in_memory(folder)
    yield 0, 0
    order = np.random.default_rng(SEED).permutation(X.shape[0])
    for begin in range(0, len(order), BATCH):
        batch = X[order[begin : begin + BATCH]]
        yield batch.shape[0], batch.nnz


def _annbatch(
    folder: Path, chunk_size: int, preload: int, max_seconds: float, epochs: int = 1
) -> Batches:
    """An epoch, or the last one of several."""
    import zarr
    import zarrs  # noqa: F401
    from annbatch import DatasetCollection, Loader

    zarr.config.set(
        {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": None}
    )
    loader = Loader(
        chunk_size=chunk_size,
        preload_nchunks=preload,
        batch_size=BATCH,
        shuffle=True,
        preload_to_gpu=False,
        rng=np.random.default_rng(SEED),
    )
    loader.use_collection(DatasetCollection(folder / "annbatch"), load_adata=_load_x)
    for _ in range(epochs - 1):
        for _ in loader:
            pass
    yield 0, 0
    begin = time.perf_counter()
    for batch in loader:
        yield batch["X"].shape[0], batch["X"].nnz
        if time.perf_counter() - begin > max_seconds:
            return


def _load_x(group: Any) -> Any:
    import anndata as ad

    return ad.AnnData(X=ad.io.sparse_dataset(group["X"]), obs=ad.io.read_elem(group["obs"])[[]])


def _tiledbsoma_ml(folder: Path) -> Batches:
    """The second epoch."""
    import tiledbsoma
    from tiledbsoma_ml import ExperimentDataset

    source = (folder / "experiment.txt").read_text()
    with tiledbsoma.Experiment.open(source) as experiment:
        query = experiment.axis_query("RNA")
        ds = ExperimentDataset(
            query, layer_name="raw", obs_column_names=["soma_joinid"], batch_size=BATCH, seed=SEED,
            return_sparse_X=True,
        )  # fmt: skip
        for _ in ds:
            pass
        ds.set_epoch(1)
        yield 0, 0
        for X, _ in ds:
            yield X.shape[0], X.nnz


def _scvi(folder: Path, genes: int | None = None) -> Batches:
    import anndata as ad
    import scvi
    from scvi.dataloaders import AnnDataLoader

    adata = ad.AnnData(_in_memory(folder)[:, :genes])
    scvi.model.SCVI.setup_anndata(adata)
    manager = scvi.model.SCVI._get_most_recent_anndata_manager(adata)
    loader = AnnDataLoader(manager, batch_size=BATCH, shuffle=True)
    yield 0, 0
    for tensors in loader:
        yield tensors["X"].shape[0], None


def _in_memory(folder: Path) -> Any:
    import scipy.sparse as sp

    arrays = [np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr")]
    return sp.csr_matrix(tuple(arrays), shape=tuple(np.load(folder / "shape.npy")), copy=False)


METHODS: dict[str, tuple[str, Callable[[Path], Batches], bool]] = {
    # name: (interpreter, batches, page cache warm)
    "CSR: penstock, pack, global": ("own", lambda f: _penstock(f, True, "global", "pack"), True),
    "CSR: penstock, pack, scatter": ("own", lambda f: _penstock(f, True, "scatter", "pack"), True),
    "CSR: scipy, rows of a matrix in memory": ("own", _scipy, True),
    "CSR: scipy, where malloc keeps freed memory": ("own", _scipy, True),
    "CSR: penstock, kept, second epoch": ("own", lambda f: _kept(f, True), True),
    "CSR: penstock, kept bit-packed, second epoch": (
        "own",
        lambda f: _kept(f, True, "400MiB"),
        True,
    ),
    "CSR: penstock, 192 MiB, a part kept, second epoch": (
        "own",
        lambda f: _kept(f, True, "192MiB", rest=True),
        True,
    ),
    "CSR: penstock, 192 MiB, streamed, second epoch": (
        "own",
        lambda f: _streamed(f, "192MiB"),
        True,
    ),
    "CSR: penstock, 2 GiB, streamed, second epoch": ("own", lambda f: _streamed(f, "2GiB"), True),
    "dense, 8,000 genes: penstock, kept, second epoch": (
        "own",
        lambda f: _kept(f, False, genes=8000),
        True,
    ),
    "dense, 8,000 genes: scvi-tools AnnDataLoader, in memory": (
        "scvi",
        lambda f: _scvi(f, 8000),
        True,
    ),
    "CSR: annbatch, chunks of 256 x 64": ("annbatch", lambda f: _annbatch(f, 256, 64, 1e9), True),
    "CSR: annbatch, chunks of 256 x 64, second epoch": (
        "annbatch",
        lambda f: _annbatch(f, 256, 64, 1e9, epochs=2),
        True,
    ),
    "CSR: tiledbsoma_ml, second epoch": ("tiledbsoma_ml", _tiledbsoma_ml, True),
    "CSR: annbatch, chunks of 512 x 32": ("annbatch", lambda f: _annbatch(f, 512, 32, 1e9), True),
    "CSR: annbatch, chunks of 64 x 256": ("annbatch", lambda f: _annbatch(f, 64, 256, 1e9), True),
    "CSR: annbatch, chunks of 1 x 8,192": ("annbatch", lambda f: _annbatch(f, 1, 8192, 10), True),
    "dense: penstock, pack, global": ("own", lambda f: _penstock(f, False, "global", "pack"), True),
    "dense: scvi-tools AnnDataLoader, in memory": ("scvi", _scvi, True),
    "CSR, cold: penstock, pack, global": (
        "own",
        lambda f: _penstock(f, True, "global", "pack"),
        False,
    ),
    "CSR, cold: penstock, pack, scatter": (
        "own",
        lambda f: _penstock(f, True, "scatter", "pack"),
        False,
    ),
}


# One measurement


def _disk_bytes() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One epoch in this process, until its last batch is there.

    What comes after it is not counted: when an iterator ends, matrices are freed that a program
    with another epoch would keep.
    """
    batches = METHODS[name][1](folder)
    opening = time.perf_counter()
    next(batches)  # opened
    disk, cpu, begin = _disk_bytes(), _cpu(), time.perf_counter()
    cells, nonzeros, first = 0, 0, 0.0
    for rows, stored in batches:
        seconds, cpu_seconds = time.perf_counter() - begin, _cpu() - cpu
        first = first or seconds
        cells += rows
        nonzeros = None if stored is None or nonzeros is None else nonzeros + stored
    return {
        "cells": cells,
        "nonzeros": nonzeros,
        "seconds": seconds,
        "first_batch_seconds": first,
        "open_seconds": begin - opening,
        "cpu_seconds": cpu_seconds,
        "disk_bytes": _disk_bytes() - disk,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


# Preparing, and all of them in turns


def prepare(folder: Path, experiment: Path, pythons: dict[str, str]) -> None:
    """Pack, matrix in memory and annbatch's own collection, where missing."""
    import penstock as ps

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.txt").write_text(str(experiment.resolve()))
    if not (folder / "pack").exists():
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "penstock", "pack", str(experiment), str(folder / "pack")],
            check=True,
        )
        print(f"packed in {time.perf_counter() - begin:.1f} s", flush=True)
    if not (folder / "shape.npy").exists():
        X = ps.Dataset(experiment, sparse=True, obs_columns=[]).to_anndata(max_size="16GiB").X
        for name in ("data", "indices", "indptr"):
            np.save(folder / f"{name}.npy", getattr(X, name))
        np.save(folder / "shape.npy", X.shape)
    if not (folder / "annbatch").exists():
        subprocess.run([pythons["annbatch"], __file__, "--write-annbatch", str(folder)], check=True)


def write_annbatch(folder: Path) -> None:
    """annbatch's own pre-shuffled collection, with its defaults."""
    import anndata as ad
    import pandas as pd
    from annbatch import DatasetCollection

    X = _in_memory(folder)
    obs = pd.DataFrame(index=[f"cell{i}" for i in range(X.shape[0])])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(X.shape[1])])
    ad.AnnData(X, obs, var).write_h5ad(folder / "for-annbatch.h5ad")
    DatasetCollection(folder / "annbatch").add_adatas([folder / "for-annbatch.h5ad"])
    (folder / "for-annbatch.h5ad").unlink()


def cache(folder: Path, warm: bool) -> None:
    """Bring every file into the page cache, or ask the system to drop it."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if warm:
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass
        else:
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def run(names: list[str], folder: Path, repeats: int, pythons: dict[str, str]) -> dict[str, Any]:
    """Measure every method as often as asked for, in turns."""
    expected = int(np.load(folder / "shape.npy")[0]), len(np.load(folder / "data.npy", "r"))
    runs: dict[str, Any] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            interpreter, _, warm = METHODS[name]
            used = folder / ("annbatch" if interpreter == "annbatch" else "pack")
            cache(used, warm)
            done = subprocess.run(
                [pythons[interpreter], __file__, "--one", name, "--folder", str(folder)],
                capture_output=True,
                text=True,
                env={**os.environ, **(_KEEPING_MEMORY if "malloc keeps" in name else {})},
            )
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr[-2000:]}")
            answer = json.loads(done.stdout.strip().splitlines()[-1])
            whole = answer["cells"], answer["nonzeros"]
            if "8,000 genes" in name:
                whole = answer["cells"], None  # of another matrix
            if "chunks of 1 " not in name and whole not in (expected, (expected[0], None)):
                raise SystemExit(f"{name}: {whole} cells and non-zeros, not {expected}")
            runs[name].append(answer)
            print(f"{name}: {answer['cells'] / answer['seconds']:,.0f} cells/s", flush=True)
    return runs


def table(runs: dict[str, Any]) -> str:
    """Median (least to most) of each method."""
    from markdown_table import markdown_table, spread  # annbatch's interpreter has no penstock

    rows = []
    for name, answers in runs.items():
        cpu = statistics.median(a["cpu_seconds"] / a["cells"] * 1e6 for a in answers)
        first, opening, disk = (
            statistics.median(a[each] for a in answers)
            for each in ("first_batch_seconds", "open_seconds", "disk_bytes")
        )
        peak = max(a["peak_bytes"] for a in answers)
        rows.append(
            (name, spread([a["cells"] / a["seconds"] for a in answers]), f"{cpu:.1f}", f"{first:.3f}",
             f"{opening:.2f}", f"{disk / 1e6:,.0f}", f"{peak / 2**20:,.0f}")
        )  # fmt: skip
    head = ("method", "cells/s", "CPU µs a cell", "first batch s", "opening s", "from disk MB", "peak MiB")  # fmt: skip
    return markdown_table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    data = HERE / ".data"
    parser.add_argument("--folder", type=Path, default=data / "global-shuffle")
    parser.add_argument("--experiment", type=Path, default=data / "census-65k")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only", default="", help="methods whose name has one of these, separated by commas, in it"
    )
    parser.add_argument("--annbatch-python", default=sys.executable)
    parser.add_argument("--scvi-python", default=sys.executable)
    parser.add_argument("--tiledbsoma-ml-python", default=sys.executable)
    parser.add_argument("--prepare", action="store_true", help="make what is missing, and stop")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--write-annbatch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write_annbatch:
        write_annbatch(options.write_annbatch)
    elif options.one:
        print(json.dumps(measure(options.one, options.folder)))
    else:
        pythons = {
            "own": sys.executable,
            "annbatch": options.annbatch_python,
            "scvi": options.scvi_python,
            "tiledbsoma_ml": options.tiledbsoma_ml_python,
        }
        prepare(options.folder, options.experiment, pythons)
        if not options.prepare:
            names = [
                name for name in METHODS if any(each in name for each in options.only.split(","))
            ]
            print(table(run(names, options.folder, options.repeats, pythons)))


if __name__ == "__main__":
    main()
