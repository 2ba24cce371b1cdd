"""A script of each process of test_accelerate.py whose cells would be sharded twice.

torchrun … accelerate_twice_script.py PATH KIND WORKERS CONTEXT
"""

from __future__ import annotations

import sys

import penstock as ps
import penstock.compat.census as census
import penstock.compat.tiledbsoma_ml as ml
from accelerate import Accelerator


def loader(path: str, kind: str, **how):
    if kind == "census":
        pipe = census.ExperimentDataPipe(ps.open(path), batch_size=8)
        return census.experiment_dataloader(pipe, **how)
    if kind == "tiledbsoma_ml":
        import tiledbsoma

        query = tiledbsoma.open(path).axis_query("RNA")
        dataset = ml.ExperimentDataset(query, layer_name="raw", batch_size=8)
        return ml.experiment_dataloader(dataset, **how)
    return ps.dataloader(ps.Dataset(path, batch_size=8), **how)


def main() -> None:
    path, kind, workers, context = sys.argv[1:]
    how = {"multiprocessing_context": context} if int(workers) else {}
    prepared = Accelerator(cpu=True).prepare(loader(path, kind, num_workers=int(workers), **how))
    print("BATCHES", sum(1 for _ in prepared), flush=True)


if __name__ == "__main__":
    main()
