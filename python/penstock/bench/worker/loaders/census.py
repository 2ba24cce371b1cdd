"""cellxgene_census's ExperimentDataPipe, where a version that has it is installed (to 1.17)."""

from __future__ import annotations

from collections.abc import Iterator

from ..opened import Batch, Opened
from ..request import Work
from .soma import axis_queries, open_experiment


def imports(variant: str, work: Work) -> None:
    """It brings torch and torchdata."""
    import cellxgene_census.experimental.ml  # noqa: F401


def open(variant: str, work: Work) -> Opened:
    """Chunks and chunks per block are its own words; its defaults where not given."""
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
        # Every column of obs comes label-encoded, joinids too; one cell comes without the axis of cells.
        joinids = pipe.obs_encoders["soma_joinid"]
        for x, obs in pipe:
            codes = obs.numpy().reshape(-1)
            yield x if x.ndim == 2 else x.reshape(1, -1), joinids.inverse_transform(codes)

    return Opened(epoch)
