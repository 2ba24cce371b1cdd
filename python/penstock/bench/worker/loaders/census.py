"""cellxgene_census's ExperimentDataPipe, which versions up to 1.17 have."""

from __future__ import annotations

from collections.abc import Iterator

from ..opened import Batch, Opened
from ..request import Work
from .soma import axis_queries, open_experiment


def imports(variant: str, work: Work) -> None:
    """Import the loader, with torch and torchdata."""
    import cellxgene_census.experimental.ml  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the experiment with the given chunks and chunks per block, or its defaults."""
    from cellxgene_census.experimental.ml import ExperimentDataPipe

    settings = {}
    if work.chunk_size is not None:
        settings["soma_chunk_size"] = work.chunk_size
    if work.chunks_per_block is not None:
        settings["shuffle_chunk_count"] = work.chunks_per_block
    pipe = ExperimentDataPipe(
        open_experiment(work),
        measurement_name=work.measurement,
        X_name=work.layer,
        obs_column_names=["soma_joinid"],
        batch_size=work.batch_size,
        shuffle=True,
        seed=work.seed,
        return_sparse_X=work.sparse,
        **axis_queries(work),
        **settings,
    )

    def epoch(number: int) -> Iterator[Batch]:
        # Every obs column is label-encoded, also joinids; a single cell has no axis of cells.
        joinids = pipe.obs_encoders["soma_joinid"]
        for x, obs in pipe:
            codes = obs.numpy().reshape(-1)
            yield x if x.ndim == 2 else x.reshape(1, -1), joinids.inverse_transform(codes)

    return Opened(epoch)
