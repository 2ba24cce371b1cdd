"""The script of each rank of tests/python/ranks/test_processes.py, under torchrun.

torchrun … distributed_script.py PATH cases      every case: DDP steps, and the cells of each rank
torchrun … distributed_script.py PATH train DIR  a loop that may be killed and resumes
torchrun … distributed_script.py PATH part DIR   a part of an epoch, from the state of another world
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import penstock as ps
import torch
import torch.distributed as dist
from group_end import end_group
from torch.nn.parallel import DistributedDataParallel


def model_of(genes: int, batch_norm: bool = False) -> DistributedDataParallel:
    torch.manual_seed(0)
    layer = torch.nn.Linear(genes, 1)
    if batch_norm:  # cannot be trained on one cell; DDP also sends its means around
        return DistributedDataParallel(torch.nn.Sequential(torch.nn.BatchNorm1d(genes), layer))
    return DistributedDataParallel(layer)


def step(model, optimizer, batch) -> float:
    X, obs = batch
    target = torch.as_tensor(np.asarray(obs["soma_joinid"]) % 2, dtype=torch.float32)
    loss = ((model(X.to_dense())[:, 0] - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss, dist.ReduceOp.SUM)
    return loss.item()


def run_case(path: str, case: dict) -> dict:
    rows = slice(case["begin"], case["begin"] + case["cells"] - 1) if case["cells"] else []
    ds = ps.Dataset(
        path,
        obs_query=ps.AxisQuery(coords=(rows,)),
        batch_size=case["batch_size"],
        uneven=case["uneven"],
        sparse=True,
        min_batch=case["min_batch"],
        memory_budget="4MiB",
    )
    keeps = {"persistent_workers": True} if case["num_workers"] > 1 else {}
    loader = ps.dataloader(ds, num_workers=case["num_workers"], **keeps)
    model = model_of(ds.n_vars, case["batch_norm"])
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    epochs, sizes = [], []
    try:
        expected = len(loader)
        for _ in range(2):
            ids = []
            for batch in loader:
                step(model, optimizer, batch)
                ids.append(np.asarray(batch[1]["soma_joinid"]).tolist())
            assert len(ids) == expected, (len(ids), expected)
            epochs.append([joinid for each in ids for joinid in each])
            sizes.append([len(each) for each in ids])
    except ps.InvalidArgument as error:
        return {"error": str(error)}
    return {"epochs": epochs, "sizes": sizes}


def cases(path: str) -> None:
    results = []
    for case in json.loads(Path(os.environ["CASES"]).read_text()):
        mine = run_case(path, case)
        everybody: list = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, mine)
        results.append(everybody)
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(results), flush=True)


def train(path: str, folder: Path) -> None:
    """Three epochs with a checkpoint after every batch; a line of the loss for each step."""
    ds = ps.Dataset(path, batch_size=50, sparse=True, memory_budget="4MiB", seed=5)
    loader = ps.dataloader(ds, num_workers=int(os.environ.get("NUM_WORKERS", "0")))
    model = model_of(ds.n_vars)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    checkpoint, steps = folder / "checkpoint.pt", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["data"])
        steps = saved["steps"]
    while loader.state_dict()["epoch"] < 3:
        for batch in loader:
            loss = step(model, optimizer, batch)
            steps += 1
            if dist.get_rank() == 0:
                with (folder / "losses.txt").open("a") as file:
                    file.write(f"{steps} {loss!r}\n")
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "data": loader.state_dict(),
                        "steps": steps,
                    },
                    checkpoint.with_suffix(".new"),
                )
                checkpoint.with_suffix(".new").rename(checkpoint)
            if "SLOWLY" in os.environ:
                time.sleep(0.05)
            dist.barrier()


def part(path: str, folder: Path) -> None:
    """STOP_AFTER batches of what is left of the epoch, with NUM_WORKERS; rank 0 writes the state."""
    ds = ps.Dataset(path, batch_size=20, sparse=True, memory_budget="4MiB", seed=5, uneven="exact")
    loader = ps.dataloader(ds, num_workers=int(os.environ["NUM_WORKERS"]))
    checkpoint = folder / "state.json"
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text()))
    dist.barrier()  # before rank 0 writes another
    model = model_of(ds.n_vars)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    seen: list[list[int]] = []
    for batch in loader:
        step(model, optimizer, batch)
        seen.append(np.asarray(batch[1]["soma_joinid"]).tolist())
        if len(seen) == int(os.environ["STOP_AFTER"]):
            break
    if dist.get_rank() == 0:
        checkpoint.write_text(json.dumps(loader.state_dict()))
    everybody: list = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, seen)
    if dist.get_rank() == 0:
        print("RESULTS " + json.dumps(everybody), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    if sys.argv[2] == "cases":
        cases(sys.argv[1])
    elif sys.argv[2] == "part":
        part(sys.argv[1], Path(sys.argv[3]))
    else:
        train(sys.argv[1], Path(sys.argv[3]))
    end_group()
