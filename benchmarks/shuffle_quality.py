"""How well batches are mixed for their memory: Penstock's scatter beside shuffled chunks.

python benchmarks/shuffle_quality.py [EXPERIMENT] [--column dataset_id] [--plot FILE]

The Census's loaders and tiledbsoma_ml cut the cells into chunks of 64, put the chunks in random order,
read a number of them as a block, shuffle the block and cut batches from it. That is played here on
the labels alone. Their memory is that of the decoded cells: 20 bytes a non-zero (two int64 indices and a
float32), in two blocks where the next one is read while a block is used (tiledbsoma_ml); what tiledbsoma_ml's
process took in the last run of benchmarks/run.py is a curve of its own. Penstock's is the whole
memory_budget; its order is that of its planner.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import penstock as ps
from make_data import data_folder

BATCH = 128
CHUNK = 64
BAND = 2048
DECODED_BYTES = 20
BUDGETS = ("160MiB", "256MiB", "384MiB", "512MiB", "768MiB", "1GiB", "1536MiB", "2GiB")
# Cells in a block of the runs of benchmarks/run.py, by method.
MEASURED = {"tiledbsoma_ml, io 8,192": 8_192, "tiledbsoma_ml": 65_536}
BLOCK_CHUNKS = (16, 32, 64, 128, 256, 512, 1024, 2048)


def batch_entropy(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Entropy of each whole batch of `labels`, in bits."""
    batches = labels[: len(labels) // BATCH * BATCH].reshape(-1, BATCH)
    classes = int(labels.max()) + 1
    entropy = np.empty(len(batches))
    for i, batch in enumerate(batches):
        shares = np.bincount(batch, minlength=classes) / BATCH
        shares = shares[shares > 0]
        entropy[i] = -(shares * np.log2(shares)).sum()
    return entropy


def shuffled_chunks(
    labels: npt.NDArray[np.int64], chunks_per_block: int, random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The labels in the order of the peers' scheme."""
    chunks = np.array_split(labels, range(CHUNK, len(labels), CHUNK))
    order = random.permutation(len(chunks))
    blocks = []
    for begin in range(0, len(order), chunks_per_block):
        block = np.concatenate([chunks[i] for i in order[begin : begin + chunks_per_block]])
        blocks.append(random.permutation(block))
    return np.concatenate(blocks)


def random_pool(
    labels: npt.NDArray[np.int64], share: float, random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The labels as a pool gives them that holds `share` of all cells, whatever they weigh.

    Bands are read in an order that takes one from each part of the store in turn; any cell of the
    pool may leave next, which mixes best for the cells held. Nothing that reads whole bands once
    does better.
    """
    bands = np.array_split(labels, range(BAND, len(labels), BAND))
    stride = max(1, round(len(bands) ** 0.5))
    order = [band for start in random.permutation(stride) for band in bands[start::stride]]
    pool = np.empty(0, np.int64)
    left = []
    for band in order:
        pool = random.permutation(np.concatenate([pool, band]))
        leaving = max(0, len(pool) - int(share * len(labels)))
        left.append(pool[:leaving])
        pool = pool[leaving:]
    return np.concatenate([*left, pool])


def measured_peaks() -> dict[str, float]:
    """GiB that the processes of the last benchmark took at their peak, by method."""
    latest = Path(__file__).resolve().parent / "results" / "tiledbsoma_ml" / "latest.json"
    runs = json.loads(latest.read_text())["cases"]["csr-524k-32f"]["runs"]
    return {
        method: float(np.median([run["peak_bytes"] for run in of_method])) / 2**30
        for method, of_method in runs.items()
    }


def main() -> None:
    """Print the table and draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", nargs="?", default=str(data_folder() / "census-524k-32f"))
    parser.add_argument("--column", default="dataset_id")
    parser.add_argument("--plot")
    options = parser.parse_args()
    ds = ps.Dataset(
        options.experiment, layer="raw", sparse=True, batch_size=BATCH, obs_columns=[options.column]
    )
    report = ds.shuffle_report(options.column)
    uniform = report.uniform_entropy
    values = ds.obs.to_pandas(columns=[options.column])[options.column]
    labels = np.unique(values.astype(str).to_numpy(), return_inverse=True)[1].astype(np.int64)
    nonzeros = ds.obs.to_pandas(columns=["nnz"])["nnz"].mean()
    print(
        f"{ds.n_obs:,} cells of {labels.max() + 1} {options.column}, {nonzeros:,.0f} non-zeros a cell"
    )

    curves: dict[str, list[tuple[float, float]]] = {}
    for budget in BUDGETS:
        report = ds.shuffle_report(options.column, memory_budget=budget)
        point = report.memory_budget / 2**30, report.share
        curves.setdefault("Penstock", []).append(point)
        print(
            f"Penstock            {point[0]:6.2f} GiB  {point[1]:6.1%}  {report.units_in_shuffle} of "
            f"{report.units} units, first batches {report.first_share:.1%}, "
            f"last {report.last_share:.1%}, amplification {report.read_amplification:.2f}"
        )
    random = np.random.default_rng(0)
    for count in BLOCK_CHUNKS:
        share = float(batch_entropy(shuffled_chunks(labels, count, random)).mean()) / uniform
        block = count * CHUNK * nonzeros * DECODED_BYTES / 2**30
        for name, blocks in (("Census's scheme", 1), ("tiledbsoma_ml", 2)):
            curves.setdefault(name, []).append((blocks * block, share))
        print(
            f"{count:5d} chunks of {CHUNK}  {block:6.2f} GiB (Census), {2 * block:.2f} GiB "
            f"(tiledbsoma_ml)  {share:6.1%}"
        )
    for part in (0.25, 0.5):
        share = float(batch_entropy(random_pool(labels, part, random)).mean()) / uniform
        print(f"a pool of {part:.0%} of the cells, any of which may leave next: {share:6.1%}")
    peaks = measured_peaks()
    for method, cells in MEASURED.items():
        share = float(batch_entropy(shuffled_chunks(labels, cells // CHUNK, random)).mean())
        curves.setdefault("tiledbsoma_ml, its process", []).append((peaks[method], share / uniform))
    for memory, share in curves["tiledbsoma_ml, its process"]:
        print(f"tiledbsoma_ml, its process {memory:6.2f} GiB  {share:6.1%}")
    if options.plot:
        draw(curves, options.column, options.plot)


def draw(curves: dict[str, list[tuple[float, float]]], column: str, path: str) -> None:
    """Share of a uniform shuffle's entropy against memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = {"Penstock": "#1b7f8c", "Census's scheme": "#d1672e", "tiledbsoma_ml": "#8a6fae"}
    labels = {
        "Penstock": "budget",
        "Census's scheme": "cells alone",
        "tiledbsoma_ml": "cells alone",
    }
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, points in curves.items():
        memory, share = zip(*sorted(points), strict=True)
        color = colors[name.split(",")[0]]
        label = f"{name}, {labels[name]}" if name in labels else name
        style = "o:" if name in labels and name != "Penstock" else "s-"
        axes.plot(memory, [100 * each for each in share], style, color=color, label=label)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(
        xlabel="memory (GiB)",
        ylabel=f"entropy of {column} in batches of {BATCH}\n(% of a uniform shuffle)",
        ylim=(0, 103),
    )
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
