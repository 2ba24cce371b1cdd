"""Mixing and speed of epochs, if a part of the cells stays in memory: benchmarks/results/kept.md.

python benchmarks/kept_mixing.py [EXPERIMENT] [--memory-budget 192MiB 256MiB 2GiB] [--epochs 3]

For each budget, with `keep=True` and `keep=False`: entropy of the labels of a batch as a share of a
uniform shuffle's (of epoch 1, its first twentieth, and epoch 0's first twentieth), then epochs that are
read: seconds, seconds to the first batch, bytes read, kept cells, memory.
"""

from __future__ import annotations

import argparse
import time

import penstock as ps

BATCH = 128


def dataset(path: str, column: str, budget: str, keep: bool) -> ps.Dataset:
    return ps.Dataset(
        path, sparse=True, obs_columns=[column], batch_size=BATCH, memory_budget=budget, keep=keep
    )


def report(path: str, column: str, budget: str, keep: bool) -> str:
    ds = dataset(path, column, budget, keep)
    first = ds.shuffle_report(column)
    ds.set_epoch(1)
    later = ds.shuffle_report(column)
    return (
        f"{later.share:.1%} of epoch 1 ({ds.shuffle}, {later.units_in_shuffle} of {later.units} units), "
        f"first twentieth {later.first_twentieth_share:.1%}; epoch 0: {first.share:.1%}, "
        f"first twentieth {first.first_twentieth_share:.1%}"
    )


def read(ds: ps.Dataset) -> str:
    start = time.perf_counter()
    batches = iter(ds)
    next(batches)
    first = time.perf_counter() - start
    for _ in batches:
        pass
    seconds, stats = time.perf_counter() - start, ds.stats
    return (
        f"{seconds:.2f} s, first batch {first:.3f} s, {stats.bytes_read / 1e6:.0f} MB read, "
        f"{stats.kept_cells} cells kept, peak {stats.peak_buffered_bytes / 2**20:.0f} MiB, "
        f"{stats.spilled_bytes / 2**20:.0f} MiB spilled"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", nargs="?", default="benchmarks/.data/census-65k")
    parser.add_argument("--column", default="dataset_id")
    parser.add_argument("--memory-budget", nargs="+", default=["192MiB", "256MiB", "2GiB"])
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    for budget in args.memory_budget:
        for keep in (True, False):
            print(f"{budget}, keep={keep}: {report(args.experiment, args.column, budget, keep)}")
            ds = dataset(args.experiment, args.column, budget, keep)
            for epoch in range(args.epochs):
                print(f"  epoch {epoch}: {read(ds)}", flush=True)
            ds.close()


if __name__ == "__main__":
    main()
