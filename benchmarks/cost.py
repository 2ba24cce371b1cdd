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
from dataclasses import asdict, dataclass, replace
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

Job = Callable[[], int]


@dataclass(frozen=True)
class Given:
    """The cells of a job, and a folder for what it writes."""

    source: str
    options: dict[str, Any] | None  #: of S3
    folder: str
    genes: str  #: of scVI, a file
    batch_key: str | None

    def dataset(self, **settings: Any) -> Any:
        import penstock as ps

        return ps.Dataset(
            self.source, sparse=True, batch_size=BATCH, threads=1, keep=False,
            storage_options=self.options, **settings,
        )  # fmt: skip


def epoch(given: Given) -> Job:
    ds = given.dataset()
    return lambda: sum(X.shape[0] for X, _ in ds)


def pack(given: Given) -> Job:
    import penstock as ps

    def job() -> int:
        made = ps.pack(
            given.source, Path(given.folder, "made.pack"), threads=1, storage_options=given.options
        )
        assert made is not None
        return made.n_obs

    return job


def gene_statistics(given: Given) -> Job:
    import penstock as ps

    ds = given.dataset()
    return lambda: len(ps.gene_statistics(ds)) and ds.n_obs


def highly_variable_genes(given: Given) -> Job:
    import penstock as ps

    ds = given.dataset()
    return lambda: len(ps.highly_variable_genes(ds)) and ds.n_obs


def save_genes(source: Path, file: Path) -> None:
    """Save the joinids of the genes that the most cells have."""
    import numpy as np
    import penstock as ps

    ds = ps.Dataset(source)
    counts = ps.gene_statistics(ds)["nonzeros"].to_numpy()
    places = np.sort(np.argsort(-counts, kind="stable")[:GENES])
    np.save(file, ds.var["soma_joinid"].to_numpy()[places])


def scvi_model(given: Given, all_cells: bool = False) -> tuple[Any, Any]:
    import numpy as np
    import penstock as ps
    import penstock.scvi as pscvi
    import torch

    torch.set_num_threads(1)
    genes = np.load(given.genes)
    ds = given.dataset(
        var_query=ps.AxisQuery(coords=(genes,)),
        obs_query=None if all_cells else ps.AxisQuery(coords=(slice(0, SCVI_CELLS - 1),)),
    )  # fmt: skip
    data = pscvi.DataModule(ds, batch_key=given.batch_key, train_size=1.0)
    return data.create_model(), data


def scvi_epoch(given: Given) -> Job:
    import penstock.scvi as pscvi

    # From S3 of all cells: an epoch of few cells reads them more often.
    model, data = scvi_model(given, all_cells=given.options is not None)

    def job() -> int:
        pscvi.train(model, data, max_epochs=1, **QUIET)
        return len(data.dataset.obs)

    return job


def scvi_latent(given: Given) -> Job:
    import penstock.scvi as pscvi

    model, data = scvi_model(given)
    pscvi.train(model, data, max_epochs=1, **QUIET)
    return lambda: len(pscvi.latent(model, data, **ONE).values)


ONE = {"devices": 1, "accelerator": "cpu"}
QUIET = {**ONE, "progress": False}
JOBS: dict[str, Callable[[Given], Job]] = {
    "epoch": epoch,
    "epoch of the pack": epoch,
    "pack": pack,
    "gene statistics": gene_statistics,
    "highly variable genes": highly_variable_genes,
    "scVI: an epoch of training": scvi_epoch,
    "scVI: latent variables": scvi_latent,
}


def run_job(name: str, given: Given) -> dict[str, Any]:
    """In a process of its own."""
    warnings.simplefilter("ignore")
    job = JOBS[name](given)
    reset_peak_rss()
    memory, before, requested = rss(), sum(cpu_seconds()), traffic(given)
    cells = job()
    cpu, after = sum(cpu_seconds()) - before, traffic(given)
    written = [file for file in Path(given.folder).rglob("*.pack/**/*") if file.is_file()]
    return {
        "job": name,
        "cells": cells,
        "cpu_seconds": cpu,
        "memory": peak_rss() - memory,
        "bytes": after.bytes - requested.bytes,
        "requests": after.requests - requested.requests,
        "written": sum(file.stat().st_size for file in written),
    }


def traffic(given: Given) -> Sent:
    return Sent(0, 0) if given.options is None else sent(given.options["endpoint"])


def measured(name: str, given: Given) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=given.folder) as own:
        job = json.dumps([name, asdict(replace(given, folder=own))])
        command = [sys.executable, __file__, "--job", job]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
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
    parser.add_argument("experiment", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", default=",".join(JOBS), help="some of them, with commas")
    parser.add_argument("--batch-key", help="of scVI, a column of obs")
    parser.add_argument("--results", type=Path, help="a JSON file for all measurements")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.job:
        name, given = parsed.job
        print(json.dumps(run_job(name, Given(**given))))
        return
    if parsed.experiment is None:
        parser.error("EXPERIMENT is missing")

    import penstock as ps

    names = parsed.jobs.split(",")
    source = parsed.experiment.resolve()
    with tempfile.TemporaryDirectory(dir=source.parent) as made:
        genes, packed = Path(made, "genes.npy"), Path(made, "cells.pack")
        if any(name.startswith("scVI") for name in names):
            save_genes(source, genes)
        ps.pack(source, packed)
        paths = {name: packed if name == "epoch of the pack" else source for name in names}
        given = {
            name: Given(str(path), None, made, str(genes), parsed.batch_key)
            for name, path in paths.items()
        }
        local: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(parsed.rounds):
            for name, path in paths.items():
                page_cache.prepare("warm", path)
                local[name].append(measured(name, given[name]))
        with served(source.parent, 0, None) as endpoint:
            keys = {"endpoint": endpoint, "key": "a", "secret": "b"}
            remote = {}
            for name, path in paths.items():
                address = f"s3://{BUCKET}/{path.relative_to(source.parent)}"
                remote[name] = measured(name, replace(given[name], source=address, options=keys))
    if parsed.results:
        parsed.results.write_text(json.dumps({"local": local, "S3": remote}, indent=1) + "\n")
    print(tables(local, remote))


if __name__ == "__main__":
    main()
