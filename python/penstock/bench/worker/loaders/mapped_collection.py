"""LaminDB's MappedCollection over an h5ad file, which reads each row of a batch separately.

torch's DataLoader shuffles, with a worker for each core but one, as in the benchmark of its
authors (``lamin/benchmark_mapped.py`` in arrayloader-benchmarks, commit 100b4fe).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..request import Work


def imports(variant: str, work: Work) -> None:
    """Import MappedCollection and torch."""
    import lamindb.core  # noqa: F401
    import torch  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the file. MappedCollection makes dense rows; sparse batches are converted here."""
    import torch
    from lamindb.core import MappedCollection
    from torch.utils.data import DataLoader

    torch.manual_seed(work.seed)
    rows: Any = MappedCollection(
        [work.source], obs_keys=["soma_joinid"], encode_labels=False, join=None, parallel=True
    )
    loader: Any = DataLoader(
        rows,
        batch_size=work.batch_size,
        shuffle=True,
        num_workers=max(1, len(os.sched_getaffinity(0)) - 1),
        worker_init_fn=rows.torch_worker_init_fn,
    )
    genes = work.chosen_genes()

    def epoch(number: int) -> Iterator[Batch]:
        for batch in loader:
            x = batch["X"] if genes is None else batch["X"][:, genes]
            yield x.to_sparse_csr() if work.sparse else x, np.asarray(batch["soma_joinid"])

    return Opened(epoch, len(loader))
