"""The script of each rank of tests/python/compat/test_compat_processes.py, under torchrun.

torchrun … compat_script.py PATH
"""

from __future__ import annotations

import datetime
import json
import sys

import penstock.compat.census as census_ml
import penstock.compat.tiledbsoma_ml as soma_ml
import tiledbsoma
import torch
import torch.distributed as dist
from group_end import end_group
from torch.nn.parallel import DistributedDataParallel

BATCH = 16


class Joinids(census_ml.Encoder):
    """The Census's pipe has no joinids in its batches but through an encoder."""

    name = "joinid"
    columns = ("soma_joinid",)

    def fit(self, obs) -> None:
        pass

    def transform(self, df):
        return df["soma_joinid"].to_numpy()

    def inverse_transform(self, encoded_values):
        return encoded_values


def census_loader(experiment, seed, workers: int):
    pipe = census_ml.ExperimentDataPipe(
        experiment, encoders=[Joinids()], batch_size=BATCH, seed=seed
    )
    return pipe, census_ml.experiment_dataloader(pipe, num_workers=workers)


def soma_loader(experiment, seed, workers: int):
    with experiment.axis_query("RNA") as query:
        ds = soma_ml.ExperimentDataset(query, "raw", batch_size=BATCH, seed=seed)
    return ds, soma_ml.experiment_dataloader(ds, num_workers=workers)


def steps(loader, model) -> list[list[int]]:
    """A DDP step for each batch: a rank with more of them than another would wait for ever."""
    batches = []
    for X, obs in loader:
        model(torch.as_tensor(X)).square().mean().backward()
        ids = obs[:, 0] if isinstance(obs, torch.Tensor) else obs["soma_joinid"]
        batches.append([int(joinid) for joinid in ids])
    return batches


def main() -> None:
    results = []
    with tiledbsoma.open(sys.argv[1]) as experiment:
        for make in (census_loader, soma_loader):
            for seed, workers in ((3, 0), (None, 0), (3, 2)):
                dataset, loader = make(experiment, seed, workers)
                genes = dataset.penstock_dataset.n_vars
                model = DistributedDataParallel(torch.nn.Linear(genes, 1))
                expected = len(loader)
                epochs = [steps(loader, model), steps(loader, model)]
                loader.sampler.set_epoch(0)  # as Lightning does
                epochs.append(steps(loader, model))
                everybody = [None] * dist.get_world_size()
                mine = {"epochs": epochs, "len": expected, "epoch": dataset.penstock_dataset.epoch}
                dist.all_gather_object(everybody, mine)
                results.append(everybody)
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(results), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    main()
    end_group()
