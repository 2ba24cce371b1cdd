"""Models of scvi-tools trained from stored cells, on one process or many; docs/training.md."""

from .data_module import DataModule
from .inference import elbo, latent, normalized, predict
from .launch import RankFailed
from .outputs import Rows
from .train import train

__all__ = [
    "DataModule",
    "RankFailed",
    "Rows",
    "elbo",
    "latent",
    "normalized",
    "predict",
    "train",
]
