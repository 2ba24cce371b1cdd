"""The request to a worker, sent as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Work:
    """Work for any loader. Sizes are bytes, counts are cells or genes."""

    source: str  # of the loader's kind: experiment, h5ad, collection, pack
    measurement: str = "RNA"
    layer: str = "raw"
    obs_filter: str | None = None  # tiledbsoma's value_filter
    n_vars: int | None = None  # the first so many genes
    genes_path: str | None = None  # .npy of the joinids of the genes to take
    batch_size: int = 1024
    sparse: bool = False
    torch: bool = False
    seed: int = 0
    chunk_size: int | None = None
    chunks_per_block: int | None = None
    memory_budget: str | None = None  # of penstock
    threads: int | None = None
    device: str | None = None  # device of batches; penstock:device makes them there
    py_buffer_size: int | None = None  # of tiledbsoma
    soma_buffer_size: int | None = None
    region: str | None = None  # of S3
    endpoint: str | None = None  # of an S3 server without signatures
    rank: int = 0
    world_size: int = 1

    @property
    def block_size(self) -> int | None:
        """Number of cells in a block of chunks."""
        if self.chunk_size is None or self.chunks_per_block is None:
            return None
        return self.chunk_size * self.chunks_per_block

    def chosen_genes(self) -> Any:
        """Return an index of genes for batches: joinids, a slice, or None for all genes."""
        if self.genes_path is not None:
            import numpy as np

            return np.load(self.genes_path)
        return None if self.n_vars is None else slice(0, self.n_vars)


@dataclass(frozen=True)
class Request:
    """A loader, its work, and settings of the measurement."""

    loader: str
    variant: str
    work: Work
    epochs: int = 1
    max_batches: int = 0  # 0: all
    first_batch_included: bool = False
    gc_freq: int = 0  # 0: never
    device: str | None = None  # batches are copied there, timed
    memory_limit: int | None = None  # of address space, in bytes
    joinids_path: str | None = None  # .npz for the joinids of the last epoch, batch by batch
    max_seconds: float | None = None  # the epoch ends after the batch at which this has passed

    def to_json(self) -> str:
        """Return the request as one line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Request:
        """Return the request of a line."""
        raw: dict[str, Any] = json.loads(text)
        return Request(work=Work(**raw.pop("work")), **raw)
