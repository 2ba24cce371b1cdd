"""Drawing and writing fragments of X, in this process or in worker processes.

Workers are plain subprocesses, not multiprocessing: this works from a notebook, from standard input
and from a script without a ``__main__`` guard. Each worker draws its own copy of the model (1.5 s),
because a band depends only on the population and the recipe. Workers report progress on standard
output. All workers map files with the labels and sums by cell, so memory does not grow with the
cells. Each worker returns its sums by gene in a file.
"""

from __future__ import annotations

import json
import pickle
import selectors
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .axes import AxisStatistics
from .counts import CountModel
from .population import Population, invent_population
from .x_writer import write_fragment

# Workers need only this sub-package: without penstock's __init__ they start faster.
_BOOTSTRAP = """
import sys, types
package = types.ModuleType("penstock")
package.__path__ = [sys.argv[1]]
sys.modules["penstock"] = package
from penstock.synthetic.fragments import run_job
run_job()
"""


@dataclass(frozen=True)
class Recipe:
    """All settings that the counts depend on."""

    n_cells: int
    n_genes: int
    n_datasets: int
    mean_genes_per_cell: float
    seed: int
    distinctness: float = 1.0

    def population(self, folder: Path) -> Population:
        """Draw the population into files of the folder."""
        return invent_population(self.n_cells, self.n_datasets, self.seed, folder)

    def model(self, population: Population) -> CountModel:
        """Draw the count model, in a second or two."""
        return CountModel(
            population, self.n_genes, self.mean_genes_per_cell, self.seed, self.distinctness
        )


@dataclass(frozen=True)
class Job:
    """Fragments that one process writes; `folder` holds the population and sums by cell."""

    recipe: Recipe
    uri: str
    slabs: tuple[tuple[int, int], ...]
    threads: int
    folder: Path
    gene_sums: Path | None = None


def write_slabs(
    job: Job, model: CountModel, statistics: AxisStatistics, on_rows: Callable[[int], None]
) -> None:
    """Write the job's fragments in this process."""
    for begin, end in job.slabs:
        write_fragment(job.uri, model, begin, end, statistics, job.threads, on_rows)


def write_in_processes(
    job: Job, n_processes: int, statistics: AxisStatistics, on_rows: Callable[[int], None]
) -> None:
    """Distribute the job's fragments over processes; the first failure ends all of them.

    `statistics` must map the files of the job's folder, which receive the sums by cell.

    Raises
    ------
    RuntimeError
        A worker failed; the message has the end of its standard error.
    """
    jobs = [
        replace(
            job,
            slabs=job.slabs[i::n_processes],
            threads=1,
            gene_sums=job.folder / f"gene-sums-{i}.npy",
        )
        for i in range(n_processes)
    ]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for i, mine in enumerate(jobs):
            workers.append(_start(mine, job.folder / f"stderr-{i}.txt"))
        _follow(workers, on_rows)
        for i, worker in enumerate(workers):
            if worker.wait() != 0:
                said = (job.folder / f"stderr-{i}.txt").read_text(errors="replace").strip()
                raise RuntimeError(
                    f"a worker process ended with {worker.returncode}: {said[-2000:]}"
                )
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            assert worker.stdout is not None
            worker.stdout.close()
    for mine in jobs:
        assert mine.gene_sums is not None
        statistics.gene_nnz += np.load(mine.gene_sums)


def _start(job: Job, stderr: Path) -> subprocess.Popen[bytes]:
    with stderr.open("wb") as errors:
        worker = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP, str(Path(__file__).resolve().parents[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert worker.stdin is not None
    with worker.stdin as pipe:
        pipe.write(pickle.dumps(job))
    return worker


def _follow(workers: Sequence[subprocess.Popen[bytes]], on_rows: Callable[[int], None]) -> None:
    """Report progress until all workers have closed their output or one has failed."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            assert worker.stdout is not None
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    on_rows(json.loads(line))
                    continue
                selector.unregister(key.fileobj)
                if key.data.wait() != 0:
                    return


def run_job() -> None:
    """Run the job that is pickled on standard input."""
    job: Job = pickle.load(sys.stdin.buffer)
    statistics = AxisStatistics.shared(job.folder, job.recipe.n_genes)

    def report(n_rows: int) -> None:
        print(json.dumps(n_rows), flush=True)

    write_slabs(job, job.recipe.model(Population.read(job.folder)), statistics, report)
    assert job.gene_sums is not None
    np.save(job.gene_sums, statistics.gene_nnz)
