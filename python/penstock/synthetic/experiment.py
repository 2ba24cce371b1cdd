"""`make_experiment` writes a complete Census-like experiment, or nothing."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.missing_package import MissingPackage, missing_text, require
from penstock.base.validation import checked_local_path

from .axes import AxisStatistics, obs_tables, var_table
from .census_layout import OBS_CONFIG, VAR_CONFIG, X_CONFIG
from .consolidate import consolidate_fragments
from .counts import MAX_GENES, MIN_GENES
from .dataframe_writer import write_dataframe
from .disk_space import check_space, told_when_full
from .fragments import Job, Recipe, write_in_processes, write_slabs
from .overwrite import check_replaceable, remove_replaced
from .x_writer import MAX_ROWS_WITHOUT_TILEDB, can_stream

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_GENES = 60_664
DEFAULT_GENES_PER_CELL = 1_950.0
BYTES_PER_NONZERO = 3.2  # measured at 60,664 genes: 2.7 to 2.9
BYTES_PER_CELL = 160  # obs, and temporarily labels and sums of cells
_BYTES_PER_GENE = 60  # var


@dataclass(frozen=True)
class ExperimentSummary:
    """Size and place of a new experiment."""

    path: Path
    n_cells: int
    n_genes: int
    n_nonzeros: int
    n_fragments: int
    n_bytes: int
    seconds: float


def estimate_bytes(
    n_cells: int, n_genes: int = DEFAULT_GENES, mean_genes_per_cell: float | None = None
) -> int:
    """Return an upper estimate of the disk space of an experiment."""
    mean = _mean_genes(n_genes, mean_genes_per_cell)
    per_cell = BYTES_PER_NONZERO * mean + BYTES_PER_CELL
    return int(n_cells * per_cell) + n_genes * _BYTES_PER_GENE + (1 << 20)


def make_experiment(
    path: str | os.PathLike[str],
    *,
    n_cells: int = 30_000,
    n_genes: int = DEFAULT_GENES,
    n_fragments: int | None = None,
    consolidated: bool = False,
    seed: int = 0,
    n_datasets: int | None = None,
    mean_genes_per_cell: float | None = None,
    processes: int | None = None,
    distinctness: float = 1.0,
    overwrite: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> ExperimentSummary:
    """Write a Census-like TileDB-SOMA experiment to a local folder.

    Memory does not grow with the number of cells. With tiledb, X is written in bands of 2,048
    cells. ``obs`` is written in tables of 262,144 cells, and data of each cell are kept in files
    meanwhile.

    Parameters
    ----------
    path
        The folder to make; missing parents are made, too.
    n_cells, n_genes
        Size of ``ms/RNA/X/raw``; 64 to 2,097,152 genes.
    n_fragments
        Fragments of X, each of consecutive rows; by default one per 16,384 cells.
    consolidated
        Whether X is one fragment in global order with full tiles, as after TileDB's consolidation.
        Excludes `n_fragments` above 1.
    seed
        Seed of the cells. `n_fragments`, `consolidated` and `processes` do not change the cells,
        but files differ, because fragment names hold times and random ids.
    n_datasets
        Number of datasets of very unequal sizes, 8 or more; by default 12 to 120, by `n_cells`.
    mean_genes_per_cell
        Mean non-zeros a cell, at most a fifth of the genes; by default 1,950 or an eighth of the
        genes, whichever is less.
    processes
        Number of processes; by default the number of cores or fragments, at most 4. Each needs
        about 0.5 GiB of memory, or 1.5 GiB without tiledb.
    distinctness
        How much cell types differ: a factor from 0 to 1 on the logarithm of what tells a type. At
        1 a linear classifier separates all of them, at 0 there are none.
    overwrite
        Whether to replace an experiment at `path` when the new one is complete.
    progress
        Called with (cells written, total cells) after at most 2,048 cells.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is not set.
    InvalidArgument
        `path` is a URL.
    OSError
        The disk has too little space (``errno.ENOSPC``), by an estimate before or by the system
        during writing. No error leaves files behind.
    MissingPackage
        tiledbsoma is missing, or tiledb is missing for a fragment of more than 16,384 cells.
    """
    require("pyarrow", "scipy", "tiledbsoma", extra="bench")  # before anything is written

    started = time.perf_counter()
    target = Path(checked_local_path("path", path))
    mean = _mean_genes(n_genes, mean_genes_per_cell)
    slabs = _cut(n_cells, n_fragments, consolidated)
    if n_datasets is None:
        n_datasets = max(12, min(120, n_cells // 4_000))
    _check(n_cells, n_datasets, slabs)
    if not 0 <= distinctness <= 1:
        raise ValueError(f"distinctness must be from 0 to 1: {distinctness}")
    check_replaceable(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    check_space(target.parent, estimate_bytes(n_cells, n_genes, mean))

    recipe = Recipe(n_cells, n_genes, n_datasets, mean, seed, distinctness)
    if processes is None:
        processes = min(os.cpu_count() or 1, 4)
    processes = max(1, min(processes, len(slabs)))
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with told_when_full(target.parent):
            n_nonzeros = _write(partial, recipe, slabs, processes, progress)
            remove_replaced(target)
            (partial / "experiment").rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return ExperimentSummary(
        path=target,
        n_cells=n_cells,
        n_genes=n_genes,
        n_nonzeros=n_nonzeros,
        n_fragments=len(slabs),
        n_bytes=sum(file.stat().st_size for file in target.rglob("*") if file.is_file()),
        seconds=time.perf_counter() - started,
    )


def _mean_genes(n_genes: int, asked: float | None) -> float:
    mean = min(DEFAULT_GENES_PER_CELL, n_genes / 8) if asked is None else asked
    if not MIN_GENES <= n_genes <= MAX_GENES:
        raise ValueError(f"n_genes must be from {MIN_GENES} to {MAX_GENES}: {n_genes}")
    if not 0 < mean <= n_genes / 5:
        raise ValueError(f"mean_genes_per_cell must be above 0 and at most n_genes / 5: {mean}")
    return mean


def _cut(n_cells: int, n_fragments: int | None, consolidated: bool) -> tuple[tuple[int, int], ...]:
    if consolidated:
        if n_fragments not in (None, 1):
            raise ValueError(f"consolidated is one fragment, n_fragments says {n_fragments}")
        n_fragments = 1
    if n_fragments is None:
        n_fragments = max(1, -(-n_cells // MAX_ROWS_WITHOUT_TILEDB))
    if not 1 <= n_fragments <= max(n_cells, 1):
        raise ValueError(f"n_fragments must be from 1 to n_cells: {n_fragments}")
    edges = [n_cells * i // n_fragments for i in range(n_fragments + 1)]
    return tuple(itertools.pairwise(edges))


def _check(n_cells: int, n_datasets: int, slabs: tuple[tuple[int, int], ...]) -> None:
    if n_cells < 1:
        raise ValueError(f"n_cells must be at least 1: {n_cells}")
    if not 8 <= n_datasets <= 10_000:
        raise ValueError(f"n_datasets must be from 8 to 10,000: {n_datasets}")
    longest = max(end - begin for begin, end in slabs)
    if longest > MAX_ROWS_WITHOUT_TILEDB and not can_stream():
        raise MissingPackage(
            missing_text(f"a fragment of {longest} cells", "tiledb")
            + "; without it ask for n_fragments of "
            f"{-(-slabs[-1][1] // MAX_ROWS_WITHOUT_TILEDB)} or more"
        )


def _write(
    folder: Path,
    recipe: Recipe,
    slabs: tuple[tuple[int, int], ...],
    processes: int,
    progress: Callable[[int, int], object] | None,
) -> int:
    """Write ``folder/experiment``, with workers' scratch files beside it; return non-zeros."""
    import pyarrow as pa
    import tiledbsoma

    folder.mkdir(parents=True)
    # TileDB resolves relative paths in the working folder of when it was loaded.
    folder = folder.absolute()
    uri = str(folder / "experiment")
    done = 0

    def on_rows(n_rows: int) -> None:
        nonlocal done
        done += n_rows
        if progress is not None:
            progress(done, recipe.n_cells)

    with tiledbsoma.Experiment.create(uri) as experiment:
        ms = experiment.add_new_collection("ms")
        rna = ms.add_new_collection("RNA", tiledbsoma.Measurement)
        layers = rna.add_new_collection("X")
        x = layers.add_new_sparse_ndarray(
            "raw",
            type=pa.float32(),
            shape=(recipe.n_cells, recipe.n_genes),
            platform_config=X_CONFIG,
        )
        x_path = str(folder / "experiment" / "ms" / "RNA" / "X" / "raw")
        x.close()
        population = recipe.population(folder)
        model = recipe.model(population)
        statistics = AxisStatistics(recipe.n_cells, recipe.n_genes, folder)
        job = Job(recipe, x_path, slabs, os.cpu_count() or 1, folder)
        if processes > 1:
            write_in_processes(job, processes, statistics, on_rows)
        else:
            write_slabs(job, model, statistics, on_rows)
        obs = obs_tables(model, statistics, recipe.seed)
        _write_axis(experiment, "obs", obs, recipe.n_cells, OBS_CONFIG)
        var = iter([var_table(model, statistics, recipe.seed)])
        _write_axis(rna, "var", var, recipe.n_genes, VAR_CONFIG)
    return int(statistics.nnz.sum())


def _write_axis(
    parent: Any, name: str, tables: Iterator[pa.Table], n_rows: int, config: dict[str, Any]
) -> None:
    """Write one fragment, or without tiledb one per table."""
    uri, n_tables = write_dataframe(parent, name, tables, n_rows, config)
    if n_tables > 1 and can_stream():
        consolidate_fragments(uri, memory_bytes=1 << 28)
