"""Makes the benchmark experiments and keeps them: ``python benchmarks/make_data.py [NAME ...]``.

They lie in ``benchmarks/.data`` or where PENSTOCK_BENCH_DATA says. An experiment that is there with
the same parameters (a stamp file beside it says so) is left alone. The two large ones hold the same
cells, 1.0 x 10^9 non-zeros and about 1.6 GB each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
try:
    from penstock.synthetic import make_experiment
except ImportError:  # not built yet: the generator is pure Python
    package = types.ModuleType("penstock")
    package.__path__ = [str(ROOT.parent / "python" / "penstock")]
    sys.modules["penstock"] = package
    from penstock.synthetic import make_experiment

GENERATOR_VERSION = 1
"""Raise it when the generator draws other cells: kept experiments are then made again."""
_COMMON = {"n_genes": 60_664, "mean_genes_per_cell": 1_950.0, "seed": 20_250_101}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "census-65k": {"n_cells": 65_536, "n_fragments": 4, "n_datasets": 40},
    "census-524k-32f": {"n_cells": 524_288, "n_fragments": 32, "n_datasets": 120},
    "census-524k-1f": {"n_cells": 524_288, "consolidated": True, "n_datasets": 120},
}


def data_folder() -> Path:
    """Where the experiments are kept."""
    return Path(os.environ.get("PENSTOCK_BENCH_DATA", ROOT / ".data"))


def experiment_path(name: str) -> Path:
    return data_folder() / name


def _stamp(name: str) -> Path:
    return data_folder() / f"{name}.json"


def is_present(name: str) -> bool:
    """Whether the experiment is there, whole and with the parameters of this file."""
    try:
        stamp = json.loads(_stamp(name).read_text())
    except (OSError, ValueError):
        return False
    return experiment_path(name).is_dir() and stamp.get("parameters") == _parameters(name)


def facts(name: str) -> dict[str, Any]:
    """What the stamp says: cells, non-zeros, bytes, parameters."""
    return json.loads(_stamp(name).read_text())


def _parameters(name: str) -> dict[str, Any]:
    return {**_COMMON, **EXPERIMENTS[name], "generator_version": GENERATOR_VERSION}


def make(name: str, quiet: bool = False) -> None:
    """Make the experiment unless it is present."""
    if is_present(name):
        print(f"{name}: present in {data_folder()}")
        return
    started = time.perf_counter()

    def progress(done: int, total: int) -> None:
        seconds = time.perf_counter() - started
        end = "\n" if done == total else "\r"
        print(f"{name}: {done:,} of {total:,} cells, {seconds:.0f} s", end=end, flush=True)

    _stamp(name).unlink(missing_ok=True)
    parameters = _parameters(name)
    arguments = {k: v for k, v in parameters.items() if k != "generator_version"}
    summary = make_experiment(
        experiment_path(name), overwrite=True, progress=None if quiet else progress, **arguments
    )
    stamp = {
        "parameters": parameters,
        "n_cells": summary.n_cells,
        "n_genes": summary.n_genes,
        "n_nonzeros": summary.n_nonzeros,
        "n_fragments": summary.n_fragments,
        "n_bytes": summary.n_bytes,
        "seconds_to_make": round(summary.seconds, 1),
    }
    _stamp(name).write_text(json.dumps(stamp, indent=2) + "\n")
    print(
        f"{name}: {summary.n_cells:,} cells, {summary.n_nonzeros:,} non-zeros, "
        f"{summary.n_bytes / 1e9:.2f} GB in {summary.seconds:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    options = parser.parse_args()
    if unknown := set(options.names) - set(EXPERIMENTS):
        parser.error(f"no experiment is called {', '.join(sorted(unknown))}")
    for name in options.names or EXPERIMENTS:
        make(name, options.quiet)


if __name__ == "__main__":
    main()
