"""Checked arguments of a Dataset about how batches are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.base.suggestions import did_you_mean
from penstock.base.validation import (
    checked_bool,
    checked_choice,
    checked_int,
    checked_memory_budget,
    described,
)
from penstock.errors import InvalidArgument

from .device import checked_device
from .sampling import Sampling
from .shard import MOST_RANKS, Shard, find_rank, find_worker

DTYPES = (
    "float32", "float64",
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
)  # fmt: skip
#: Dtypes that torch has, but with few operations.
_NOT_OF_DEVICES = ("uint16", "uint32", "uint64")
#: Dtypes of torch only; the engine makes float32, and torch converts.
HALF_DTYPES = ("float16", "bfloat16")
SPARSE_LAYOUTS = ("csr", "coo")
SCATTER = "scatter"
GLOBAL = "global"
CHUNKS = "chunks"
SHUFFLES = (SCATTER, GLOBAL, CHUNKS)
CHUNK_SIZE = 64
CHUNKS_PER_BLOCK = 1024
UNEVEN = ("drop", "pad", "exact")


@dataclass(frozen=True)
class LoaderSettings:
    """Arguments of `penstock.Dataset`, except those of the selection."""

    batch_size: int
    shuffle: bool | str  # one of SHUFFLES; True: "scatter" or "global", as Planner.shuffle says
    seed: int
    memory_budget: int
    threads: int | None
    sparse: str | None  # "csr" or "coo"; the engine makes CSR for both
    dtype: str
    device: str | None
    drop_last: bool
    min_batch: int
    uneven: str
    shard: bool
    rank: int | None
    world_size: int | None
    compare_ranks: bool
    keep: bool = True
    kept_memory: int = 0  # beside memory_budget, for a part of the cells: Planner.divided
    sampling: Sampling | None = None
    chunk_size: int = 0  # of shuffle="chunks", else 0
    chunks_per_block: int = 0

    @classmethod
    def checked(cls, **arguments: Any) -> LoaderSettings:
        """Check every argument; raise `InvalidArgument` for the first that is not valid."""
        threads = arguments["threads"]
        rank, world_size = arguments["rank"], arguments["world_size"]
        shuffle, chunk_size, chunks_per_block = _shuffle(arguments)
        if (rank is None) != (world_size is None):
            raise InvalidArgument(
                "rank and world_size come together, got "
                f"rank={described(rank)}, world_size={described(world_size)}"
            )
        if world_size is not None:
            world_size = checked_int("world_size", world_size, least=1, most=MOST_RANKS)
            rank = checked_int("rank", rank, least=0, most=world_size - 1)
        dtype = checked_dtype(arguments["dtype"])
        device = None if arguments["device"] is None else checked_device(arguments["device"])
        if device is not None:
            check_placed(dtype)
        return cls(
            batch_size=checked_int("batch_size", arguments["batch_size"], least=1, most=2**31 - 1),
            shuffle=shuffle,
            seed=checked_int("seed", arguments["seed"], least=0, most=2**64 - 1),
            memory_budget=checked_memory_budget(arguments["memory_budget"]),
            threads=None
            if threads is None
            else checked_int("threads", threads, least=1, most=1024),
            sparse=checked_sparse(arguments["sparse"]),
            dtype=dtype,
            device=device,
            drop_last=checked_bool("drop_last", arguments["drop_last"]),
            min_batch=_min_batch(arguments["min_batch"], arguments["batch_size"]),
            uneven=checked_choice("uneven", arguments["uneven"], UNEVEN),
            shard=checked_bool("shard", arguments["shard"]),
            rank=rank,
            world_size=world_size,
            compare_ranks=checked_bool("compare_ranks", arguments["compare_ranks"]),
            keep=checked_bool("keep", arguments["keep"]),
            # Without a shuffle nothing is drawn: a dataset for evaluation yields every cell.
            sampling=arguments.get("sampling") if shuffle else None,
            chunk_size=chunk_size,
            chunks_per_block=chunks_per_block,
        )

    @property
    def is_placed(self) -> bool:
        """Whether torch makes X from the engine's arrays: on a device, or of a half dtype."""
        return self.device is not None or self.dtype in HALF_DTYPES

    @property
    def engine_dtype(self) -> str:
        """Dtype of the engine's values: float32 for half dtypes."""
        return engine_dtype(self.dtype)

    @property
    def is_compared(self) -> bool:
        """Whether ranks are found, not given, and shall compare what they read."""
        return self.compare_ranks and self.shard and self.world_size is None

    def find_shard(self) -> Shard:
        """Return the current shard of this process."""
        rank, world_size = 0, 1
        if self.world_size is not None and self.rank is not None:
            rank, world_size = self.rank, self.world_size
        elif self.shard:
            rank, world_size = find_rank()
        worker, num_workers = find_worker()
        return Shard(rank, world_size, worker, num_workers)

    def with_rank_found(self) -> LoaderSettings:
        """Return settings with the rank of this process, for a copy in a process without a rank.

        Without a rank the settings do not change, since the copy may be sent to a rank.
        """
        shard = self.find_shard()
        if shard.world_size == 1:
            return self
        return replace(self, rank=shard.rank, world_size=shard.world_size)


def check_placed(dtype: str) -> None:
    """Refuse a dtype that torch cannot make X of; see `LoaderSettings.is_placed`."""
    if dtype in _NOT_OF_DEVICES:
        raise InvalidArgument(
            f"torch makes no X of dtype {dtype!r} on a device; use float32 or int64"
        )


def engine_dtype(dtype: str) -> str:
    """Return the dtype of the engine's values: float32 for half dtypes."""
    return "float32" if dtype in HALF_DTYPES else dtype


def checked_sparse(sparse: Any) -> str | None:
    """Return the layout of sparse X: "csr" for True, None for False, else the argument."""
    if isinstance(sparse, str) and sparse in SPARSE_LAYOUTS:
        return sparse
    if sparse is None:
        return None
    try:
        return "csr" if checked_bool("sparse", sparse) else None
    except InvalidArgument:
        raise InvalidArgument(
            f"sparse must be True, False, 'csr' or 'coo', got {described(sparse)}"
        ) from None


def _shuffle(arguments: Mapping[str, Any]) -> tuple[bool | str, int, int]:
    """Return the shuffle, and the sizes of chunks and blocks (0 for other shuffles)."""
    shuffle = arguments["shuffle"]
    sizes = {name: arguments.get(name) for name in ("chunk_size", "chunks_per_block")}
    if not isinstance(shuffle, str) or shuffle != CHUNKS:
        if not isinstance(shuffle, str) or shuffle not in SHUFFLES:
            try:
                shuffle = checked_bool("shuffle", shuffle)
            except InvalidArgument:
                meant = did_you_mean(shuffle, SHUFFLES) if isinstance(shuffle, str) else ""
                raise InvalidArgument(
                    "shuffle must be True, False, 'scatter', 'global' or 'chunks', got "
                    f"{described(shuffle)}{meant}"
                ) from None
        for name, size in sizes.items():
            if size is not None:
                raise InvalidArgument(
                    f"{name} needs shuffle='chunks', got shuffle={shuffle!r}, {name}={described(size)}"
                )
        return shuffle, 0, 0
    defaults = {"chunk_size": CHUNK_SIZE, "chunks_per_block": CHUNKS_PER_BLOCK}
    chunk_size, chunks_per_block = (
        defaults[name] if size is None else checked_int(name, size, least=1, most=2**31 - 1)
        for name, size in sizes.items()
    )
    return shuffle, chunk_size, chunks_per_block


def _min_batch(min_batch: Any, batch_size: Any) -> int:
    least = checked_int("min_batch", min_batch, least=1)
    if least > checked_int("batch_size", batch_size, least=1):
        raise InvalidArgument(
            f"min_batch must not exceed batch_size, got min_batch={min_batch}, "
            f"batch_size={batch_size}"
        )
    return least


def checked_dtype(dtype: Any) -> str:
    """Return the name of a dtype of X; raise `InvalidArgument` for others."""
    try:
        name = str(dtype).removeprefix("torch.")
    except Exception:  # raised by a user's class, or by an int of thousands of digits
        name = ""
    if dtype is not None and name not in DTYPES + HALF_DTYPES:  # numpy converts None to float64
        try:
            name = np.dtype(dtype).name
        except Exception:  # numpy parses texts as Python and calls the repr of objects
            pass
    if name not in DTYPES + HALF_DTYPES:
        raise InvalidArgument(
            f"dtype must be one of {', '.join(DTYPES + HALF_DTYPES)}, got {described(dtype)}"
            + (did_you_mean(dtype, DTYPES + HALF_DTYPES) if isinstance(dtype, str) else "")
        )
    return name
