"""``penstock synth``: Census-like experiments of any size, also in the formats of other loaders."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_local_path
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

FORMATS = ("soma", "h5ad", "zarr", "annbatch")


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "synth",
        help="make a Census-like experiment of any size",
        description="Writes synthetic cells with the CELLxGENE Census's array settings, and the same "
        "cells as h5ad, sharded zarr v3 or an annbatch collection. Needs penstock's extra [bench].",
        examples=(
            "penstock synth census-like --cells 6000 --genes 1500 --genes-per-cell 120",
            "penstock synth census-like --cells 100000 --format soma,h5ad",
        ),
    )
    parser.add_argument("path", metavar="PATH", help="folder of the new experiment")
    parser.add_argument(
        "--cells",
        type=int,
        default=30_000,
        metavar="N",
        help="number of cells",
    )
    parser.add_argument(
        "--genes",
        type=int,
        default=60_664,
        metavar="N",
        help="number of genes",
    )
    parser.add_argument("--datasets", type=int, metavar="N",
                        help="number of datasets, of unequal sizes (default: 12 to 120, by --cells)")  # fmt: skip
    parser.add_argument("--fragments", type=int, metavar="N",
                        help="number of fragments of X (default: one per 16,384 cells)")  # fmt: skip
    parser.add_argument(
        "--consolidated", action="store_true", help="write X as a single consolidated fragment"
    )
    parser.add_argument("--genes-per-cell", type=float, metavar="N",
                        help="mean number of non-zero genes in a cell (default: 1950, but at most --genes / 8)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the cells")
    parser.add_argument("--processes", type=int, metavar="N",
                        help="processes that generate cells (default: one per core, up to 4)")  # fmt: skip
    parser.add_argument("--format", default="soma", metavar="NAMES",
                        help=f"formats, separated by commas: {', '.join(FORMATS)}; the experiment is always "
                        "made, and other formats are written beside PATH")  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Check the arguments, make the experiment, and export it."""
    from penstock.synthetic.overwrite import check_file_replaceable, check_zarr_replaceable

    path = Path(checked_local_path("PATH", parsed.path))
    formats = [name.strip() for name in parsed.format.split(",")]
    for name in formats:
        if name not in FORMATS:
            raise InvalidArgument(f"--format must be of {', '.join(FORMATS)}, got {name!r}")
    checked_int("--cells", parsed.cells, least=1)
    checked_int("--seed", parsed.seed, least=0)
    if parsed.processes is not None:
        checked_int("--processes", parsed.processes, least=1)
    exports = {name: path.with_name(path.name + suffix) for name, suffix in (
        ("h5ad", ".h5ad"), ("zarr", ".zarr"), ("annbatch", ".annbatch.zarr")) if name in formats}  # fmt: skip
    for name, target in exports.items():
        check = check_file_replaceable if name == "h5ad" else check_zarr_replaceable
        check(target, parsed.overwrite)
    _check_modules(exports)
    _make(parsed, path)
    _export(path, exports)


def _check_modules(exports: Mapping[str, Path]) -> None:
    """Check, before any cell is made, that the packages of the formats are installed."""
    from penstock.bench.methods import METHODS
    from penstock.bench.peers import interpreter

    needed = {
        "h5ad": ("anndata", "h5py"),
        "zarr": ("anndata", "zarr"),
        "annbatch": ("anndata", "h5py"),
    }
    for name in exports:
        for module in needed[name]:
            if importlib.util.find_spec(module) is None:
                raise ImportError(f"--format {name} needs {module}", name=module)
        if name == "annbatch":
            interpreter(METHODS["annbatch"])


def _make(parsed: argparse.Namespace, path: Path) -> None:
    from penstock.synthetic import make_experiment

    def progress(done: int, total: int) -> None:
        print(
            f"\r{done:,} of {plural(total, 'cell')}", end="\n" if done == total else "", flush=True
        )

    try:
        made = make_experiment(
            path,
            n_cells=parsed.cells,
            n_genes=parsed.genes,
            n_fragments=parsed.fragments,
            consolidated=parsed.consolidated,
            seed=parsed.seed,
            n_datasets=parsed.datasets,
            mean_genes_per_cell=parsed.genes_per_cell,
            processes=parsed.processes,
            overwrite=parsed.overwrite,
            progress=None if parsed.quiet else progress,
        )
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    print(
        f"{made.path}: {plural(made.n_cells, 'cell')}, {plural(made.n_genes, 'gene')}, "
        f"{plural(made.n_nonzeros, 'non-zero')}, {plural(made.n_fragments, 'fragment')}, {made.n_bytes / 1e6:,.0f} MB in {made.seconds:,.0f} s"
    )


def _export(path: Path, exports: dict[str, Path]) -> None:
    from penstock.bench.exports.annbatch_collection import write_annbatch
    from penstock.bench.exports.cells import Cells
    from penstock.bench.exports.h5ad import write_h5ad
    from penstock.bench.exports.zarr_store import write_zarr
    from penstock.synthetic.disk_space import told_when_full
    from penstock.synthetic.overwrite import remove_replaced

    cells = Cells(str(path))
    for name, target in exports.items():
        remove_replaced(target)
        with told_when_full(target.parent):
            if name == "zarr":
                write_zarr(cells, target)
            elif name == "h5ad":
                write_h5ad(cells, target)
            elif "h5ad" in exports:
                write_annbatch(exports["h5ad"], target)
            else:
                _write_annbatch_alone(cells, target)
        print(f"{target}: {name}")


def _write_annbatch_alone(cells: Any, target: Path) -> None:
    """Write an annbatch collection from a temporary h5ad file."""
    from penstock.bench.exports.annbatch_collection import write_annbatch
    from penstock.bench.exports.h5ad import write_h5ad

    h5ad = target.with_name(f".{target.name}.h5ad")
    try:
        write_h5ad(cells, h5ad)
        write_annbatch(h5ad, target)
    finally:
        h5ad.unlink(missing_ok=True)
