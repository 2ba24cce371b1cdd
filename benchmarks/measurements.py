"""CPU time a cell of two measurements in a batch, beside that of each alone.

    python benchmarks/measurements.py FOLDER [CELLS]

Makes an experiment once: RNA in the Census's layout, the same as logarithms and 150 proteins in
tiledbsoma's default layout. Prints a table of epochs in stored order, which keep no cells.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from penstock.synthetic import make_experiment

PROTEINS = 150
ROUNDS = 5
#: Two measurements in a batch, and the arguments of a Dataset of each alone.
PAIRS = {
    "RNA, protein": ("RNA", "protein"),
    "normalized RNA, protein": ("normalized", "protein"),
}
ALONE = {
    "RNA": {"measurement": "RNA"},
    "normalized": {"measurement": "RNA", "layer": "normalized"},
    "protein": {"measurement": "protein"},
}


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
        rna = experiment.ms["RNA"].X
        counts = ps.Dataset(path, sparse=True, shuffle=False, keep=False, batch_size=4096)
        normalized = rna.add_new_sparse_ndarray(
            "normalized", type=pa.float32(), shape=rna["raw"].shape
        )
        for batch, obs in counts:
            coo = batch.tocoo()
            normalized.write(
                pa.table(
                    {
                        "soma_dim_0": obs["soma_joinid"][coo.row],
                        "soma_dim_1": coo.col.astype(np.int64),
                        "soma_data": np.log1p(coo.data / 3).astype(np.float32),
                    }
                )
            )
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


def epoch(path: Path, **arguments: Any) -> tuple[float, float, int, float]:
    """(CPU microseconds a cell, cells a second, non-zeros a cell, bytes read over needed)."""
    ds = ps.Dataset(path, sparse=True, shuffle=False, keep=False, memory_budget="1GiB", **arguments)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    cells = nonzeros = 0
    for X, _ in ds:
        arrays = list(X.values()) if isinstance(X, dict) else [X]
        cells += arrays[0].shape[0]
        nonzeros += sum(each.nnz for each in arrays)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stats = ds.stats
    read = stats.bytes_read / stats.bytes_needed
    return used / cells * 1e6, cells / seconds, nonzeros // cells, read


def main() -> None:
    folder = Path(sys.argv[1])
    cells = int(sys.argv[2]) if len(sys.argv) > 2 else 65_536
    path = folder / f"measurements-{cells}"
    if not path.exists():
        write(path, cells)
    cases: dict[str, dict[str, Any]] = dict(ALONE)
    for name, pair in PAIRS.items():
        cases[name] = {"measurements": {each: ALONE[each] for each in pair}}
    rounds = [
        {name: epoch(path, **arguments) for name, arguments in cases.items()} for _ in range(ROUNDS)
    ]
    print("| what | µs CPU a cell: min, median, max | cells/s | non-zeros | read over needed |")
    print("|---|---|---|---|---|")
    for name in cases:
        own = [each[name] for each in rounds]
        cpu = [each[0] for each in own]
        print(
            f"| {name} | {min(cpu):.2f}, {statistics.median(cpu):.2f}, {max(cpu):.2f} "
            f"| {statistics.median(each[1] for each in own):,.0f} | {own[0][2]:,} | {own[0][3]:.3f} |"
        )
    print()
    for name, pair in PAIRS.items():
        ratios = [sum(each[part][0] for part in pair) / each[name][0] for each in rounds]
        print(
            f"{name}: sum of the parts over both {min(ratios):.3f}, "
            f"{statistics.median(ratios):.3f}, {max(ratios):.3f}"
        )


if __name__ == "__main__":
    main()
