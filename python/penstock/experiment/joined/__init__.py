"""Several experiments joined into one; docs/several-experiments.md."""

from .experiment import JoinedExperiment
from .join import join

__all__ = ["JoinedExperiment", "join"]
