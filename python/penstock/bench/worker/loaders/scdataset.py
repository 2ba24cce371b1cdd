"""scDataset over an h5ad file: shuffled blocks of rows, fetched many at a time.

Chunks are its blocks of rows (default here: 64). A block is the rows of one fetch (64 batches).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..request import Work


def imports(variant: str, work: Work) -> None:
    """Import scDataset, which imports torch."""
    import anndata  # noqa: F401
    import scdataset  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the file; a batch is fetched as CSR rows, and made dense if requested."""
    import anndata
    import h5py
    from scdataset import BlockShuffling, scDataset

    file = h5py.File(work.source, "r")
    joinids = anndata.io.read_elem(file["obs"]["soma_joinid"])
    rows = _Rows(anndata.io.sparse_dataset(file["X"]), joinids, work)
    block = work.block_size or 64 * work.batch_size
    dataset = scDataset(
        rows,
        BlockShuffling(block_size=work.chunk_size or 64),
        batch_size=work.batch_size,
        fetch_factor=max(1, block // work.batch_size),
        fetch_callback=_fetch,
        batch_callback=_batch,
        seed=work.seed,
    )

    def epoch(number: int) -> Iterator[Batch]:
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(number)
        for x, ids in dataset:
            yield x if work.sparse else x.toarray(), ids

    return Opened(epoch, len(dataset))


class _Rows:
    """X and joinids under one index."""

    def __init__(self, x: Any, joinids: Any, work: Work) -> None:
        self.x, self.joinids = x, np.asarray(joinids).astype(np.int64)
        self.genes: Any = None
        if work.genes_path is not None:
            self.genes = np.load(work.genes_path)
        elif work.n_vars is not None:
            self.genes = slice(0, work.n_vars)

    def __len__(self) -> int:
        return len(self.joinids)


def _fetch(rows: _Rows, indices: Any) -> tuple[Any, Any]:
    indices = np.asarray(indices)
    x = rows.x[indices]
    return (x if rows.genes is None else x[:, rows.genes]), rows.joinids[indices]


def _batch(fetched: tuple[Any, Any], indices: Any) -> tuple[Any, Any]:
    return fetched[0][indices], fetched[1][indices]
