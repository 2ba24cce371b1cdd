"""Packing a matrix that is stored in one gzip chunk, as R writes it: docs/design/0016-anndata.md.

python benchmarks/one_chunk.py [--nonzeros 240e6] [--memory-budget 16MiB 2GiB] [--rounds 3]

Seconds and peak memory of `ps.pack` for each budget, and of `anndata.read_h5ad`, which has to hold the
matrix. Each run is a process of its own, and its memory is counted from after the imports on.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import anndata
import h5py
import numpy as np
import scipy.sparse as sp

CELL_NONZEROS = 2_000
GENES = 30_000

RUN = """
import shutil, sys, time
import anndata
import penstock as ps
from penstock.bench.worker.process_facts import peak_rss, reset_peak_rss, rss

path, budget = sys.argv[1:]
shutil.rmtree(path + ".pack", ignore_errors=True)
assert reset_peak_rss()
before, start = rss(), time.perf_counter()
if budget:
    ps.pack(path, path + ".pack", memory_budget=budget)
else:
    anndata.read_h5ad(path)
print(time.perf_counter() - start, (peak_rss() - before) / 2**20)
"""


def write(path: Path, nonzeros: int, shuffle: bool) -> None:
    """Write counts of random genes."""
    random = np.random.default_rng(0)
    cells = nonzeros // CELL_NONZEROS
    anndata.AnnData(sp.csr_matrix((cells, GENES), dtype=np.float32)).write_h5ad(path)
    steps = random.integers(1, 2 * GENES // CELL_NONZEROS, (cells, CELL_NONZEROS), dtype=np.int32)
    arrays = {
        "data": random.geometric(0.6, cells * CELL_NONZEROS).astype(np.float32),
        "indices": (steps.cumsum(1, dtype=np.int32) % GENES).ravel(),
        "indptr": np.arange(cells + 1, dtype=np.int64) * CELL_NONZEROS,
    }
    with h5py.File(path, "r+") as file:
        for name, values in arrays.items():
            del file["X"][name]
            file["X"].create_dataset(
                name, data=values, chunks=values.shape, compression="gzip", shuffle=shuffle
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nonzeros", type=float, default=240e6)
    parser.add_argument("--memory-budget", nargs="+", default=["16MiB", "2GiB"])
    parser.add_argument("--rounds", type=int, default=3)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for shuffle in (True, False):
            path = Path(folder) / "cells.h5ad"
            write(path, int(parsed.nonzeros), shuffle)
            ways = [*parsed.memory_budget, ""]
            runs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
            for _ in range(parsed.rounds):
                for way in ways:
                    ran = subprocess.run(
                        [sys.executable, "-c", RUN, str(path), way],
                        capture_output=True, text=True, check=True,
                    )  # fmt: skip
                    seconds, memory = map(float, ran.stdout.split())
                    runs[way].append((seconds, memory))
            for way, measured in runs.items():
                seconds = sorted(each for each, _ in measured)
                print(
                    f"{'gzip and shuffle' if shuffle else 'gzip'}, "
                    f"{f'ps.pack with {way}' if way else 'anndata.read_h5ad'}: "
                    f"{statistics.median(seconds):.1f} s ({seconds[0]:.1f} to {seconds[-1]:.1f}), "
                    f"{max(memory for _, memory in measured):,.0f} MiB"
                )


if __name__ == "__main__":
    main()
