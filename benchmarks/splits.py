"""Time, memory and pickles of splits at the size of a whole atlas. No experiment is needed.

python benchmarks/splits.py [--cells 100000000]

An axis is made up: joinids without gaps, a dataset of very uneven size for each stretch of cells, cell
types at random. What `Dataset.random_split` does with it is measured, reading of obs apart; seconds are of
the processor, which a busy machine does not change much.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import time

import numpy as np
from penstock import _core
from penstock.experiment.columns import ColumnValues, objects
from penstock.plan.splits.random_split import part_sizes, split

CELL_TYPES = 700
DATASETS = 300


class Axis:
    """obs in memory, as `split` reads it."""

    def __init__(self, cells: int) -> None:
        random = np.random.default_rng(0)
        shares = random.lognormal(0, 1.5, DATASETS)
        ends = np.round(np.cumsum(shares) / shares.sum() * cells).astype(np.int64)
        datasets = np.repeat(np.arange(DATASETS, dtype=np.uint16), np.diff(ends, prepend=0))
        types = random.integers(0, CELL_TYPES, cells, dtype=np.uint16)
        self.columns = {
            "dataset_id": coded("dataset_id", datasets, DATASETS),
            "cell_type": coded("cell_type", types, CELL_TYPES),
        }

    def checked_columns(self, names: list[str], argument: str) -> list[str]:
        return list(names)

    def read(self, names: list[str]) -> dict[str, ColumnValues]:
        return {name: self.columns[name] for name in names}


def coded(name: str, codes: np.ndarray, count: int) -> ColumnValues:
    return ColumnValues(name, objects([f"{name} {i:04}" for i in range(count)]), codes)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=100_000_000)
    cells = parser.parse_args().cells
    axis = Axis(cells)
    rows = _core.RowSelection.range(0, cells)
    sizes = part_sizes([0.8, 0.1, 0.1], cells)
    print(f"{cells:,} cells, obs columns in memory; {peak_mib():,.0f} MiB before")
    for name, arguments in {
        "plain": {},
        'stratify="cell_type"': {"stratify": "cell_type"},
        'stratify=["cell_type", "dataset_id"]': {"stratify": ["cell_type", "dataset_id"]},
        'group="dataset_id"': {"group": "dataset_id"},
    }.items():
        begin, begin_cpu = time.perf_counter(), time.process_time()
        parts = split(axis, rows, sizes, 0, **arguments)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
        pickles = ", ".join(f"{len(pickle.dumps(part)) / 2**20:.2f}" for part in parts)
        held = ", ".join(f"{part.memory_bytes / 2**20:.2f}" for part in parts)
        shares = ", ".join(f"{len(part) / cells:.6f}" for part in parts)
        print(
            f"{name}: {cpu:.1f} s of the processor, {seconds:.1f} s; pickles {pickles} MiB, in memory {held} MiB; shares {shares}; "
            f"peak {peak_mib():,.0f} MiB"
        )


if __name__ == "__main__":
    main()
