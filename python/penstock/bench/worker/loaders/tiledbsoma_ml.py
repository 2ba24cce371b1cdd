"""tiledbsoma_ml's ExperimentDataset, iterated without a DataLoader, which is its fastest way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..opened import Batch, Opened
from ..request import Work
from .soma import axis_queries, open_experiment


def imports(variant: str, work: Work) -> None:
    """Import tiledbsoma_ml, which imports torch."""
    import tiledbsoma  # noqa: F401
    import tiledbsoma_ml  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the experiment; chunks are shuffle chunks, a block is an io batch."""
    import tiledbsoma_ml

    experiment = open_experiment(work)
    query = experiment.axis_query(measurement_name=work.measurement, **axis_queries(work))
    settings: dict[str, Any] = {}
    if work.chunk_size is not None:
        settings["shuffle_chunk_size"] = work.chunk_size
    if work.block_size is not None:
        settings["io_batch_size"] = work.block_size
    experiment_dataset: Any = tiledbsoma_ml.ExperimentDataset
    dataset = experiment_dataset(
        query,
        layer_name=work.layer,
        obs_column_names=["soma_joinid"],
        batch_size=work.batch_size,
        shuffle=True,
        seed=work.seed,
        return_sparse_X=work.sparse,
        **settings,
    )

    def epoch(number: int) -> Iterator[Batch]:
        dataset.set_epoch(number)
        for x, obs in dataset:
            yield x, obs["soma_joinid"].to_numpy().astype(np.int64)

    return Opened(epoch, len(dataset))
