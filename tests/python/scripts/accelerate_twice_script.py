"""A script of each process of test_accelerate.py whose cells would be sharded twice.

torchrun … accelerate_twice_script.py PATH KIND WORKERS
"""

from __future__ import annotations

import sys

import penstock as ps
import penstock.compat.census as census
import penstock.compat.tiledbsoma_ml as ml
from accelerate import Accelerator


def loader(path: str, kind: str, workers: int):
    if kind == "census":
        pipe = census.ExperimentDataPipe(ps.open(path), batch_size=8)
        return census.experiment_dataloader(pipe, num_workers=workers)
    if kind == "tiledbsoma_ml":
        import tiledbsoma

        query = tiledbsoma.open(path).axis_query("RNA")
        dataset = ml.ExperimentDataset(query, layer_name="raw", batch_size=8)
        return ml.experiment_dataloader(dataset, num_workers=workers)
    return ps.dataloader(ps.Dataset(path, batch_size=8), num_workers=workers)


def main() -> None:
    path, kind, workers = sys.argv[1:]
    prepared = Accelerator(cpu=True).prepare(loader(path, kind, int(workers)))
    print("BATCHES", sum(1 for _ in prepared), flush=True)


if __name__ == "__main__":
    main()
