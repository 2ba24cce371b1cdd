"""The script of each rank of tests/python/ranks/test_rank_agreement.py, under torchrun.

torchrun … rank_agreement_script.py PATH     runs every function of CASES and prints each rank's results
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterable

import numpy as np
import penstock as ps
import tiledbsoma
import torch.distributed as dist
from group_end import end_group
from penstock.compat.tiledbsoma_ml import ExperimentDataset
from penstock.epochs import rank_check

PATH = sys.argv[1]
RANK = int(os.environ["RANK"])
LONG = rank_check.WAIT_SECONDS


def dataset(first: int = 0, cells: int = 300, **arguments) -> ps.Dataset:
    query = ps.AxisQuery(coords=(slice(first, first + cells - 1),))
    given = {"batch_size": 20, "sparse": True, "memory_budget": "8MiB"}
    return ps.Dataset(PATH, obs_query=query, **{**given, **arguments})


def joinids(batches: Iterable) -> list[int]:
    return [joinid for _, obs in batches for joinid in np.asarray(obs["soma_joinid"]).tolist()]


def equal() -> list:
    ds = dataset()
    return [joinids(ds), joinids(ds)]


def equal_with_workers() -> list:
    loader = ps.dataloader(dataset(), num_workers=2)
    return [joinids(loader), joinids(loader)]


def seed() -> list:
    return joinids(dataset(seed=RANK))


def seed_with_workers() -> list:
    loader = ps.dataloader(dataset(seed=RANK), num_workers=2)
    batches = iter(loader)
    try:
        return joinids(batches)
    finally:
        assert list(batches) == []


def seed_on_the_way_to_a_device() -> list:
    return joinids(dataset(seed=RANK, format="torch", dtype="bfloat16"))


def seed_of_compat() -> list:
    with tiledbsoma.open(PATH) as experiment, experiment.axis_query("RNA") as query:
        ds = ExperimentDataset(query, layer_name="raw", seed=RANK)
    return [len(batch[0]) for batch in ds]


def number_of_cells() -> list:
    return joinids(dataset(cells=300 - RANK))


def other_cells() -> list:
    return joinids(dataset(first=RANK))


def batch_size() -> list:
    return joinids(dataset(batch_size=20 + RANK))


def epoch() -> list:
    ds = dataset()
    ds.set_epoch(RANK)
    return joinids(ds)


def later_epoch() -> list:
    """The second one is of another seed on one rank: one that changed its mind."""
    ds = dataset()
    joinids(ds)
    ds.reader.change_settings(seed=RANK)
    return joinids(ds)


def state_of_rank_0_alone() -> list:
    ds = dataset()
    if RANK == 0:
        before = dataset(rank=0, world_size=2)
        next(iter(before))
        ds.load_state_dict(before.state_dict())
    return joinids(ds)


def begun(**arguments) -> tuple[list[int], dict]:
    """Cells of this rank's first two batches, and the state after them."""
    ds = dataset(**arguments)
    batches = iter(ds)
    got = joinids(next(batches) for _ in range(2))
    return got, ds.state_dict()


def state_of_rank_0(**arguments) -> tuple[list[int], dict]:
    """As `begun`, but with the state that rank 0 has."""
    got, state = begun(**arguments)
    states = [state]
    dist.broadcast_object_list(states)
    return got, states[0]


def resumes(state: dict, **arguments) -> ps.Dataset:
    ds = dataset(**arguments)
    ds.load_state_dict(state)
    return ds


def state_and_other_memory() -> list:
    return joinids(resumes(state_of_rank_0()[1], memory_budget=f"{8 + RANK}MiB"))


def state_and_other_workers() -> list:
    ds = resumes(state_of_rank_0()[1])
    return joinids(ps.dataloader(ds, num_workers=2 * RANK))


def states_of_unlike_memory() -> list:
    return joinids(resumes(begun(memory_budget=f"{8 + RANK}MiB")[1]))


def state_and_other_memory_on_all() -> list:
    """Whatever they have now: what is left is the same."""
    got, state = state_of_rank_0()
    return [got, joinids(resumes(state, memory_budget=f"{9 + RANK}MiB"))]


def states_of_its_own() -> list:
    memory = f"{8 + RANK}MiB"
    got, state = begun(memory_budget=memory)
    return [got, joinids(resumes(state, memory_budget=memory))]


def split() -> list:
    train, _ = dataset().random_split(0.5, 0.5, seed=RANK)
    return joinids(train)


def iterates_alone() -> list:
    """Rank 0 reads its part of a dataset that nobody else reads, twice; then both train on."""
    train, validation = dataset().random_split(0.7, 0.3)
    got = [joinids(train)]
    if RANK == 0:
        assert joinids(validation) != joinids(validation)
    return [*got, joinids(train)]


def has_one_more() -> list:
    """One function makes the datasets of all, and rank 0 has one that the others have not."""

    def make(**arguments) -> ps.Dataset:
        return dataset(**arguments)

    validation = make(first=100, cells=50) if RANK == 0 else None
    train = make()
    if validation is not None:
        joinids(validation)
    return [joinids(train), joinids(train)]


def looks_at_a_batch() -> list:
    ds = dataset()
    if RANK == 0:
        next(iter(ds))
    got = []
    for number in range(3):
        ds.set_epoch(number)
        got.append(joinids(ds))
    return got


def looks_at_a_batch_and_resumes() -> list:
    """As the one before, but nobody says which epoch comes: rank 0 is one ahead from then on."""
    ds = dataset()
    if RANK == 0:
        next(iter(ds))
    return [joinids(ds), joinids(ds)]


def all_leave_early() -> list:
    ds = dataset()
    next(iter(ds))
    return [joinids(ds), joinids(ds)]


def comes_late() -> list:
    """Too late for the other to hear of it."""
    time.sleep(RANK)
    return joinids(dataset(seed=RANK))


def of_its_own() -> list:
    """What is not divided by torch.distributed, or must not be compared, may be anything."""
    alone = dataset(seed=RANK, shard=False)
    by_hand = dataset(seed=RANK, rank=0, world_size=1)
    off = dataset(seed=RANK, compare_ranks=False)
    for ds in (alone, by_hand):
        assert sorted(joinids(ds)) == list(range(300))
    assert len(joinids(off)) == 150
    os.environ[rank_check.SWITCH] = "0"
    assert len(joinids(dataset(seed=RANK))) == 150
    del os.environ[rank_check.SWITCH]
    return []


def of_different_machines() -> list:
    """Memory, threads and workers may differ among ranks: who reads which cell does not."""
    ds = dataset(memory_budget=f"{8 * (1 + RANK)}MiB", threads=1 + RANK)
    return [joinids(ps.dataloader(ds, num_workers=RANK)), joinids(ds)]


def in_a_forked_process() -> list:
    """It inherits the store's connection and leaves it alone, while its parent talks."""
    ds = dataset()
    context = multiprocessing.get_context("fork")
    theirs = context.SimpleQueue()

    def epochs() -> list[list[int]]:
        got = []
        for number in range(5):
            ds.set_epoch(number)
            got.append(joinids(ds))
        return got

    process = context.Process(target=lambda: theirs.put(epochs()))
    process.start()
    mine = epochs()
    assert theirs.get() == mine
    process.join()
    assert process.exitcode == 0
    return mine


CASES = {
    each.__name__: (each, wait)
    for wait, functions in {
        LONG: [
            equal, equal_with_workers, seed, seed_with_workers, seed_on_the_way_to_a_device,
            seed_of_compat, number_of_cells, other_cells, batch_size, epoch, later_epoch,
            state_of_rank_0_alone, state_and_other_memory, state_and_other_workers,
            states_of_unlike_memory, state_and_other_memory_on_all, states_of_its_own, split, of_its_own, of_different_machines, in_a_forked_process,
        ],
        0.2: [
            iterates_alone, has_one_more, looks_at_a_batch, looks_at_a_batch_and_resumes,
            all_leave_early, comes_late,
        ],
    }.items()
    for each in functions
}  # fmt: skip


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    results = {}
    for name, (call, wait) in CASES.items():
        rank_check.WAIT_SECONDS = wait
        dist.barrier()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                mine = {"got": call()}
            except ps.InvalidArgument as error:
                mine = {"error": str(error)}
        mine["warned"] = [text for each in caught if "epoch" in (text := str(each.message))]
        everybody: list = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, mine)
        results[name] = everybody
    if RANK == 0:
        print("RESULTS " + json.dumps(results), flush=True)
    end_group()


if __name__ == "__main__":
    main()
