"""The names of tiledbsoma_ml 0.1 over Penstock.

    from penstock.compat.tiledbsoma_ml import ExperimentDataset, experiment_dataloader

Signatures, defaults and what batches are made of are tiledbsoma_ml's; docs/compat.md lists what
differs.
"""

from .dataloader import experiment_dataloader
from .dataset import ExperimentDataset
from .query_ids import SamplingMethod

__all__ = ["ExperimentDataset", "SamplingMethod", "experiment_dataloader"]
