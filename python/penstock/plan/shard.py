"""Shard: the part of the cells that this process reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from penstock.errors import InvalidArgument

#: More than any run has; plans take memory for each rank.
MOST_RANKS = 2**16
MOST_WORKERS = 2**12


@dataclass(frozen=True)
class Shard:
    """Rank among the processes that train together, and DataLoader worker within the rank."""

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1


def find_rank() -> tuple[int, int]:
    """Return the rank and the world size of this process.

    They come from torch.distributed if it is initialised, else from the environment of torchrun
    (``RANK``, ``WORLD_SIZE``), else from that of a Slurm job step (``SLURM_PROCID``,
    ``SLURM_STEP_NUM_TASKS``). Torch is not imported.

    Returns
    -------
    rank, world_size : int
        (0, 1) if no rank is found.

    Raises
    ------
    InvalidArgument
        The environment has a rank without a world size, or a rank outside of the world.
    """
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    # In a batch script without srun, SLURM_NTASKS is set although there is one process. The count
    # of the step is correct.
    for rank_name, world_name in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
        if rank_name in os.environ and world_name in os.environ:
            return _from_environment(rank_name, world_name)
    if "RANK" in os.environ:
        raise InvalidArgument(
            f"the environment has RANK={os.environ['RANK']!r} without WORLD_SIZE, so that every rank "
            "would read all cells: set both (torchrun does), or pass shard=False or rank and "
            "world_size"
        )
    return 0, 1


def check_divided_once(world_size: Callable[[], int]) -> None:
    """Refuse to divide the cells if a loader of Accelerate divides the batches, too.

    Called when an iterator is made, and when a dataset is sent to a worker. Dividing twice would
    leave out most cells.

    Raises
    ------
    InvalidArgument
        The caller is such a loader.
    """
    if "accelerate.data_loader" not in sys.modules:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            loader = type(frame.f_locals.get("self")).__name__
            if loader in ("IterableDatasetShard", "DataLoaderDispatcher") and world_size() > 1:
                raise InvalidArgument(
                    f"the cells are divided among {world_size()} ranks already, but Accelerate's "
                    "prepare divides the batches again, so most cells would be skipped: leave the "
                    "loader out of prepare, or make a penstock.Dataset with shard=False"
                )
        frame = frame.f_back


def find_worker() -> tuple[int, int]:
    """Return the number of this DataLoader worker and of all workers; (0, 1) in other processes."""
    data: Any = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (0, 1) if info is None else (info.id, info.num_workers)


def in_worker() -> bool:
    """Whether this process is a DataLoader worker."""
    data: Any = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def find_iterator_seed() -> int | None:
    """Return the seed that the workers of a DataLoader iterator share; None outside of a worker."""
    data: Any = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return None if info is None else (info.seed - info.id) % 2**63


def _from_environment(rank_name: str, world_name: str) -> tuple[int, int]:
    try:
        rank, world_size = int(os.environ[rank_name]), int(os.environ[world_name])
    except ValueError:
        rank, world_size = -1, 0
    if not 0 <= rank < world_size:
        raise InvalidArgument(
            "the environment names no rank of a world, "
            f"{rank_name}={os.environ[rank_name]!r}, {world_name}={os.environ[world_name]!r}; "
            "pass shard=False or rank and world_size"
        )
    if world_size > MOST_RANKS:
        raise InvalidArgument(
            f"{world_name} must be {MOST_RANKS} or less, got {world_size} in the environment; pass "
            "shard=False or rank and world_size"
        )
    return rank, world_size
