"""CPU, memory, bytes and requests of each job of many cells.

    python benchmarks/cost.py EXPERIMENT [--rounds 3] [--jobs "epoch,pack"] [--batch-key COLUMN] [--results FILE.json]

Each measurement is a process of its own with one thread: seconds of the processor from the first call to
the last result, without imports. Bytes and requests are counted by an S3 server on this machine that has
the same files. Jobs take turns; figures are the median (least to most) of the rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.base.text import markdown_table
from penstock.bench.loopback_s3 import BUCKET, Sent, sent, served
from penstock.bench.measuring import page_cache
from penstock.bench.worker.process_facts import cpu_seconds, peak_rss, reset_peak_rss, rss
from spread import spread

GENES = 2_000
BATCH = 128
SCVI_CELLS = 65_536
CELLS = 10**8
BATCH_KEY: str | None = None

Job = Callable[[], int]


def dataset(source: str, options: dict[str, Any], **settings: Any) -> Any:
    import penstock as ps

    return ps.Dataset(
        source, sparse=True, batch_size=BATCH, threads=1, keep=False, storage_options=options or None,
        **settings,
    )  # fmt: skip


def epoch(source: str, options: dict[str, Any], folder: Path) -> Job:
    ds = dataset(source, options)
    return lambda: sum(X.shape[0] for X, _ in ds)


def pack(source: str, options: dict[str, Any], folder: Path) -> Job:
    import penstock as ps

    def job() -> int:
        made = ps.pack(source, folder / "made.pack", threads=1, storage_options=options or None)
        assert made is not None
        return made.n_obs

    return job


def gene_statistics(source: str, options: dict[str, Any], folder: Path) -> Job:
    import penstock as ps

    ds = dataset(source, options)
    return lambda: len(ps.gene_statistics(ds)) and ds.n_obs


def highly_variable_genes(source: str, options: dict[str, Any], folder: Path) -> Job:
    import penstock as ps

    ds = dataset(source, options)
    return lambda: len(ps.highly_variable_genes(ds)) and ds.n_obs


def save_genes(source: Path, file: Path) -> None:
    """Save the joinids of the genes that the most cells have."""
    import numpy as np
    import penstock as ps

    ds = ps.Dataset(source)
    counts = ps.gene_statistics(ds)["nonzeros"].to_numpy()
    places = np.sort(np.argsort(-counts, kind="stable")[:GENES])
    np.save(file, ds.var["soma_joinid"].to_numpy()[places])


def scvi_model(
    source: str, options: dict[str, Any], folder: Path, all_cells: bool = False
) -> tuple[Any, Any]:
    import numpy as np
    import penstock as ps
    import penstock.scvi as pscvi
    import torch

    torch.set_num_threads(1)
    genes = np.load(folder.parent / GENES_FILE)
    ds = dataset(
        source, options, var_query=ps.AxisQuery(coords=(genes,)),
        obs_query=None if all_cells else ps.AxisQuery(coords=(slice(0, SCVI_CELLS - 1),)),
    )  # fmt: skip
    data = pscvi.DataModule(ds, batch_key=BATCH_KEY, train_size=1.0)
    return data.create_model(), data


def scvi_epoch(source: str, options: dict[str, Any], folder: Path) -> Job:
    import penstock.scvi as pscvi

    # From S3 of all cells: an epoch of few cells reads them more often.
    model, data = scvi_model(source, options, folder, all_cells=bool(options))

    def job() -> int:
        pscvi.train(model, data, max_epochs=1, **QUIET)
        return len(data.dataset.obs)

    return job


def scvi_latent(source: str, options: dict[str, Any], folder: Path) -> Job:
    import penstock.scvi as pscvi

    model, data = scvi_model(source, options, folder)
    pscvi.train(model, data, max_epochs=1, **QUIET)
    return lambda: len(pscvi.latent(model, data, **ONE).values)


ONE = {"devices": 1, "accelerator": "cpu"}
QUIET = {**ONE, "progress": False}
GENES_FILE = "genes.npy"
JOBS: dict[str, Callable[[str, dict[str, Any], Path], Job]] = {
    "epoch": epoch,
    "epoch of the pack": epoch,
    "pack": pack,
    "gene statistics": gene_statistics,
    "highly variable genes": highly_variable_genes,
    "scVI: an epoch of training": scvi_epoch,
    "scVI: latent variables": scvi_latent,
}


def run_job(name: str, source: str, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """In a process of its own."""
    warnings.simplefilter("ignore")
    job = JOBS[name](source, options, folder)
    reset_peak_rss()
    memory, before, requested = rss(), sum(cpu_seconds()), traffic(options)
    cells = job()
    cpu, after = sum(cpu_seconds()) - before, traffic(options)
    return {
        "job": name,
        "cells": cells,
        "cpu_seconds": cpu,
        "memory": peak_rss() - memory,
        "bytes": after.bytes - requested.bytes,
        "requests": after.requests - requested.requests,
        "written": sum(
            file.stat().st_size for file in folder.rglob("*.pack/**/*") if file.is_file()
        ),
    }


def traffic(options: dict[str, Any]) -> Sent:
    return sent(options["endpoint"]) if options else Sent(0, 0)


def measured(name: str, source: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        done = subprocess.run(
            [sys.executable, __file__, source, "--job", name, "--folder", own,
             "--options", json.dumps(options), *(["--batch-key", BATCH_KEY] if BATCH_KEY else [])],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def per_cell(rows: list[dict[str, Any]]) -> str:
    return spread([row["cpu_seconds"] / row["cells"] * 1e6 for row in rows], 1)


def tables(local: dict[str, list[dict[str, Any]]], remote: dict[str, dict[str, Any]]) -> str:
    """A table for a cell, and one for 10^8 of them from S3."""
    cell, many = [], []
    for name, rows in local.items():
        far = remote[name]
        cells = far["cells"]
        cell.append(
            (name, per_cell(rows), per_cell([far]), f"{far['bytes'] / cells:,.0f}",
             f"{far['written'] / cells:,.0f}", f"{far['requests'] / cells * 1e6:,.0f}",
             f"{max(row['memory'] for row in [*rows, far]) / 1e6:,.0f}")
        )  # fmt: skip
        many.append(
            (name, f"{far['cpu_seconds'] / cells * CELLS / 3600:.1f}",
             f"{far['bytes'] / cells * CELLS / 1e9:,.0f}", f"{far['written'] / cells * CELLS / 1e9:,.0f}",
             f"{far['requests'] / cells * CELLS:,.0f}")
        )  # fmt: skip
    return "\n\n".join((
        markdown_table(
            ("job", "CPU µs a cell, local", "from S3", "bytes read", "bytes written",
             "requests for 10^6 cells", "memory, MB"), cell,
        ),
        markdown_table(("job", "core hours", "GB read", "GB written", "requests"), many),
    ))  # fmt: skip


def main() -> None:
    """Print tables of a cell and of 10^8."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", default=",".join(JOBS), help="some of them, with commas")
    parser.add_argument("--batch-key", help="of scVI, a column of obs")
    parser.add_argument("--results", type=Path, help="a JSON file for all measurements")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--options", type=json.loads, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    global BATCH_KEY
    BATCH_KEY = parsed.batch_key
    if parsed.job:
        source = (
            str(parsed.experiment) if not parsed.options else f"s3://{BUCKET}/{parsed.experiment}"
        )
        print(json.dumps(run_job(parsed.job, source, parsed.options, parsed.folder)))
        return

    import penstock as ps

    names = parsed.jobs.split(",")
    source = parsed.experiment.resolve()
    with tempfile.TemporaryDirectory(dir=source.parent) as made:
        folder = Path(made)
        if any(name.startswith("scVI") for name in names):
            save_genes(source, folder / GENES_FILE)
        packed = folder / "cells.pack"
        ps.pack(source, packed)
        paths = {name: packed if name == "epoch of the pack" else source for name in names}
        local: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(parsed.rounds):
            for name, path in paths.items():
                page_cache.prepare("warm", path)
                local[name].append(measured(name, str(path), folder, {}))
        with served(source.parent, 0, None) as endpoint:
            keys = {"endpoint": endpoint, "key": "a", "secret": "b"}
            remote = {
                name: measured(name, str(path.relative_to(source.parent)), folder, keys)
                for name, path in paths.items()
            }
    if parsed.results:
        parsed.results.write_text(json.dumps({"local": local, "S3": remote}, indent=1) + "\n")
    print(tables(local, remote))


if __name__ == "__main__":
    main()
