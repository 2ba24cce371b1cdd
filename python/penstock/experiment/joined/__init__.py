"""Several experiments joined into one; docs/guides/several-experiments.md."""

from .experiment import JoinedExperiment
from .join import join

__all__ = ["JoinedExperiment", "join"]
