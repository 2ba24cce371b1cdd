"""CPU time a cell of two measurements in a batch, beside that of each alone.

    python benchmarks/measurements.py FOLDER [CELLS]

Makes an experiment with RNA in the Census's layout and 150 proteins in tiledbsoma's default layout,
once, and prints a table. No epoch keeps its cells.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import penstock as ps
from penstock.synthetic import make_experiment

PROTEINS = 150
ROUNDS = 5
MEASUREMENTS = (["RNA"], ["protein"], ["RNA", "protein"])


def write(path: Path, cells: int) -> None:
    """Write the experiment; proteins are counts, a tenth of them zero."""
    import pyarrow as pa
    import tiledbsoma

    make_experiment(path, n_cells=cells, n_datasets=max(1, cells // 1600), seed=1)
    rng = np.random.default_rng(1)
    with tiledbsoma.open(str(path), "w") as experiment:
        protein = experiment.ms.add_new_collection("protein", tiledbsoma.Measurement)
        var = pa.table(
            {
                "soma_joinid": np.arange(PROTEINS),
                "var_id": [f"protein{i}" for i in range(PROTEINS)],
            }
        )
        table = protein.add_new_dataframe("var", schema=var.schema, domain=[(0, PROTEINS - 1)])
        table.write(var)
        layers = protein.add_new_collection("X", tiledbsoma.Collection)
        X = layers.add_new_sparse_ndarray("raw", type=pa.float32(), shape=(cells, PROTEINS))
        step = 8192
        for first in range(0, cells, step):
            counts = rng.poisson(rng.gamma(1, 30, PROTEINS), (min(step, cells - first), PROTEINS))
            counts[rng.random(counts.shape) < 0.1] = 0
            rows, columns = counts.nonzero()
            values = counts[rows, columns].astype(np.float32)
            X.write(
                pa.table({"soma_dim_0": rows + first, "soma_dim_1": columns, "soma_data": values})
            )


def epoch(path: Path, names: list[str]) -> tuple[float, float, int, float]:
    """(CPU microseconds a cell, cells a second, non-zeros a cell, bytes read over needed)."""
    ds = ps.Dataset(path, measurements=names, sparse=True, keep=False, memory_budget="1GiB")
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    cells = nonzeros = 0
    for X, _ in ds:
        cells += next(iter(X.values())).shape[0]
        nonzeros += sum(each.nnz for each in X.values())
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stats = ds.stats
    return (
        used / cells * 1e6,
        cells / seconds,
        nonzeros // cells,
        (stats.bytes_read / stats.bytes_needed),
    )


def main() -> None:
    folder = Path(sys.argv[1])
    cells = int(sys.argv[2]) if len(sys.argv) > 2 else 65_536
    path = folder / f"measurements-{cells}"
    if not path.exists():
        write(path, cells)
    rounds = [[epoch(path, names) for names in MEASUREMENTS] for _ in range(ROUNDS)]
    print(
        "| measurements | µs CPU a cell: min, median, max | cells/s | non-zeros | read over needed |"
    )
    print("|---|---|---|---|---|")
    for i, names in enumerate(MEASUREMENTS):
        own = [each[i] for each in rounds]
        cpu = [each[0] for each in own]
        print(
            f"| {', '.join(names)} | {min(cpu):.2f}, {statistics.median(cpu):.2f}, {max(cpu):.2f} "
            f"| {statistics.median(each[1] for each in own):,.0f} | {own[0][2]:,} | {own[0][3]:.3f} |"
        )
    ratios = [(rna[0] + protein[0]) / both[0] for rna, protein, both in rounds]
    print(
        f"\nsum of the parts over both: {min(ratios):.3f}, {statistics.median(ratios):.3f}, "
        f"{max(ratios):.3f}"
    )


if __name__ == "__main__":
    main()
