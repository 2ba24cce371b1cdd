"""Epochs that are interrupted in the middle, with every kind of state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import scipy.sparse as sp
import torch

CELLS = 8000

#: Arguments of the dataset by name. `source` is experiment (the default), pack or joined; `workers`
#: are of the DataLoader.
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "kept in memory": {"keep": True, "memory_budget": "64MiB"},
    "in stored order": {"shuffle": False},
    "dense": {"sparse": False, "dtype": "float64", "memory_budget": "1500KiB"},
    "chunks": {"shuffle": "chunks", "chunk_size": 40, "chunks_per_block": 5},
    "global": {"shuffle": "global"},
    "some cells and genes": {
        "obs_query": "soma_joinid >= 301 and soma_joinid < 7000",
        "var_query": ps.AxisQuery(coords=(np.arange(0, 200, 3),)),
    },
    "drop_last": {"drop_last": True, "seed": 8},
    "min_batch": {"batch_size": 251, "min_batch": 250, "memory_budget": "1MiB"},
    "rank 1 of 3": {"rank": 1, "world_size": 3},
    "rank 2 of 3, padded": {"rank": 2, "world_size": 3, "uneven": "pad"},
    "rank 0 of 3, exact": {"rank": 0, "world_size": 3, "uneven": "exact", "min_batch": 2},
    "drawn": {
        "weights": np.arange(1, CELLS + 1),
        "num_samples": 4000,
        "replacement": True,
        "seed": 5,
    },
    "workers": {"workers": 2, "memory_budget": "2MiB"},
    "workers of rank 1 of 2": {"workers": 2, "rank": 1, "world_size": 2, "memory_budget": "2MiB"},
    "pack": {"source": "pack"},
    "cells of a pack one by one": {"source": "pack", "shuffle": "global"},
    "joined": {"source": "joined", "memory_budget": "1MiB"},
}


def batches_of(
    kind: str, sources: dict[str, Any], **changed: Any
) -> tuple[ps.Dataset, Iterable[Any]]:
    """The dataset of that kind and what gives its batches."""
    given = {
        "sparse": True, "batch_size": 250, "memory_budget": "700KiB", "keep": False,
        "seed": 3, "threads": 2,
    }  # fmt: skip
    arguments = {**given, **KINDS[kind], **changed}
    workers = arguments.pop("workers", 0)
    dataset = ps.Dataset(sources[arguments.pop("source", "experiment")], **arguments)
    return dataset, ps.dataloader(dataset, num_workers=workers) if workers else dataset


def sources(experiment: Path, folder: Path) -> dict[str, Any]:
    """What `batches_of` reads: the experiment, a pack of it, both joined."""
    pack = folder / "pack"
    ps.pack(experiment, pack)
    return {
        "experiment": experiment,
        "pack": pack,
        "joined": {"stored": experiment, "packed": pack},
    }


def take(batches: Iterable[Any], count: int) -> Iterator[Any]:
    """An iterator that has given so many."""
    iterator = iter(batches)
    for _ in islice(iterator, count):
        pass
    return iterator


def digest(batches: Iterable[Any]) -> dict[str, Any]:
    """How many batches, and SHA-256 of their cells and values in order."""
    sum_, count = hashlib.sha256(), 0
    for X, obs in batches:
        if isinstance(X, torch.Tensor):
            X = X.to_dense().numpy()
        values = X.toarray() if sp.issparse(X) else X
        ids = np.asarray(obs["soma_joinid"], np.int64)
        sum_.update(repr((values.shape, str(values.dtype))).encode())
        sum_.update(ids.tobytes() + np.ascontiguousarray(values).tobytes())
        count += 1
    return {"batches": count, "sha256": sum_.hexdigest()}


def resumed(kind: str, sources: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """What is left of the epoch of a state, and the epoch after it."""
    dataset, batches = batches_of(kind, sources)
    dataset.load_state_dict(state)
    return {"left": digest(batches), "after": digest(batches)}


def saved(kind: str, sources: dict[str, Any], taken: int) -> dict[str, Any]:
    """The state after so many batches of the second epoch."""
    dataset, batches = batches_of(kind, sources)
    dataset.set_epoch(1)
    held = take(batches, taken)
    state = dataset.state_dict()
    del held
    return state
