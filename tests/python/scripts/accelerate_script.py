"""The script of each process of tests/python/ranks/test_accelerate.py, under torchrun.

torchrun … accelerate_script.py PATH CELLS WORKERS
"""

from __future__ import annotations

import json
import sys

import penstock as ps
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, gather_object
from group_end import end_group


def dataset(path: str, cells: int, **arguments) -> ps.Dataset:
    query = ps.AxisQuery(coords=(slice(0, cells - 1),))
    return ps.Dataset(path, obs_query=query, batch_size=8, memory_budget="8MiB", **arguments)


def ids(obs) -> list[int]:
    return obs["soma_joinid"].tolist()


def prepared(accelerator: Accelerator, path: str, cells: int, workers: int) -> dict:
    """Accelerate divides the batches: two epochs without a call of the user's."""
    ds = dataset(path, cells, shard=False)
    loader, model = accelerator.prepare(
        ps.dataloader(ds, num_workers=workers), torch.nn.Linear(ds.n_vars, 1)
    )
    epochs, metrics, steps = [], [], []
    for _ in range(2):
        mine, gathered, count = [], [], 0
        for X, obs in loader:
            accelerator.backward(model(X).square().mean())
            mine += ids(obs)
            gathered += accelerator.gather_for_metrics(obs["soma_joinid"]).tolist()
            count += 1
        epochs.append(mine)
        metrics.append(gathered)
        steps.append(count)
    loader.set_epoch(0)
    again = [joinid for X, obs in loader for joinid in ids(obs)]
    return {"epochs": epochs, "metrics": metrics, "steps": steps, "again": again}


def own(accelerator: Accelerator, path: str, cells: int, workers: int) -> dict:
    """The dataset divides the cells; its loader is not given to `prepare`."""
    ds = dataset(path, cells, sparse=True, uneven="exact")
    loader = ps.dataloader(ds, num_workers=workers)
    model = accelerator.prepare(torch.nn.Linear(ds.n_vars, 1))
    epochs = []
    for _ in range(2):
        mine = []
        for X, obs in loader:
            accelerator.backward(model(X.to_dense()).square().mean())
            mine += ids(obs)
        epochs.append(mine)
    return {"epochs": epochs}


def loaded(path: str, cells: int) -> dict:
    """A state is loaded after `prepare`, also into the loader of torchdata that it makes."""
    begun = ps.dataloader(dataset(path, cells, shard=False))
    batches = iter(begun)
    for _ in range(4):
        next(batches)
    left = [ids(obs) for _, obs in ps.dataloader(dataset(path, cells, shard=False))][4:]
    result = {}
    for stateful in (False, True):
        config = DataLoaderConfiguration(use_stateful_dataloader=stateful)
        accelerator = Accelerator(cpu=True, dataloader_config=config)
        ds = dataset(path, cells, shard=False)
        loader = accelerator.prepare(ps.dataloader(ds))
        ds.load_state_dict(begun.state_dict())
        mine = [ids(obs) for _, obs in loader]
        expected = left[accelerator.process_index :: accelerator.num_processes]
        full = len(left) // accelerator.num_processes  # the last round may be filled
        result[str(stateful)] = mine[: full - 1] == expected[: full - 1]
    return result


def main() -> None:
    path, cells, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    accelerator = Accelerator(cpu=True)
    mine = {
        "prepared": prepared(accelerator, path, cells, workers),
        "own": own(accelerator, path, cells, workers),
        "loaded": loaded(path, cells),
    }
    everybody = gather_object([mine])
    if accelerator.is_main_process:
        print("RESULTS " + json.dumps(everybody), flush=True)
    accelerator.end_training()
    end_group()


if __name__ == "__main__":
    main()
