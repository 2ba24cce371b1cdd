"""Bytes that DataLoader workers, and ranks, read over those that the cells need.

python benchmarks/worker_reads.py EXPERIMENT… [--workers 0 1 2 4 8] [--ranks 2 4 8] [--batch-size 100]
    [--together] [--drop-last]

Whole epochs of CSR batches through penstock.dataloader, and of all ranks one after the other. Needed are the stored bytes of the
distinct tiles that the cells touch; read is what all workers read. With batches of 100 cells shares end within
fetch units, as they do in general; with 128 they end with units of 2,048 cells. With --together ranks have workers, and what
all of them read is compared with what the cells of each rank need.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import penstock as ps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", type=Path, nargs="+")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--drop-last", action="store_true")
    options = parser.parse_args()
    for path in options.experiments:
        if options.together:
            for ranks, workers in itertools.product(options.ranks, options.workers):
                print_together(path, ranks, workers, options)
            continue
        for workers in options.workers:
            ds = ps.Dataset(path, sparse=True, batch_size=options.batch_size)
            cells = sum(X.shape[0] for X, _ in ps.dataloader(ds, num_workers=workers))
            stats = ds.stats
            assert cells == ds.n_obs == stats.cells
            print(
                f"{path.name}: {cells:,} cells, {ds.plan().planned_units} units, {workers} workers: "
                f"{stats.bytes_read:,} of {stats.bytes_needed:,} bytes, "
                f"{stats.read_amplification:.3f} times",
                flush=True,
            )
        for ranks in options.ranks:
            read, cells = 0, 0
            for rank in range(ranks):
                ds = ps.Dataset(
                    path, sparse=True, batch_size=options.batch_size, rank=rank, world_size=ranks
                )
                cells += sum(X.shape[0] for X, _ in ds)
                read += ds.stats.bytes_read
            needed = ps.Dataset(path, sparse=True).plan().bytes_needed
            print(
                f"{path.name}: {cells:,} cells, {ranks} ranks: {read / needed:.3f} times",
                flush=True,
            )


def print_together(path: Path, ranks: int, workers: int, options: argparse.Namespace) -> None:
    """Read an epoch as ranks that have workers."""
    read = needed = cells = 0
    for rank in range(ranks):
        ds = ps.Dataset(
            path,
            sparse=True,
            batch_size=options.batch_size,
            drop_last=options.drop_last,
            rank=rank,
            world_size=ranks,
        )
        cells += sum(X.shape[0] for X, _ in ps.dataloader(ds, num_workers=workers))
        read += ds.stats.bytes_read
        needed += ds.stats.bytes_needed
    print(
        f"{path.name}: {cells:,} cells, {ranks} ranks of {workers} workers: {read / needed:.3f} times",
        flush=True,
    )


if __name__ == "__main__":
    main()
