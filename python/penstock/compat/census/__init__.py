"""The API of the Census loaders (cellxgene_census.experimental.ml, until 1.17) on Penstock.

    import penstock.compat.census as census_ml

Signatures, defaults and batch types are the Census's; docs/compat.md lists differences.
"""

from penstock.base.missing_package import require

require("torch")

from .encoders import BatchEncoder, Encoder, LabelEncoder  # noqa: E402
from .pytorch import ExperimentDataPipe, Stats, experiment_dataloader  # noqa: E402
from .slices import get_anndata  # noqa: E402

__all__ = [
    "BatchEncoder",
    "Encoder",
    "ExperimentDataPipe",
    "LabelEncoder",
    "Stats",
    "experiment_dataloader",
    "get_anndata",
]
