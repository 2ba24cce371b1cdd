"""Synthetic Census-like experiments, for the demo, the benchmarks and tests.

    from penstock.synthetic import make_experiment
    make_experiment("demo.soma", n_cells=30_000, n_fragments=4, seed=0, progress=print)

The result is a TileDB-SOMA experiment with the array settings and obs columns of the CELLxGENE
Census. Its invented counts are distributed like real ones. Needs tiledbsoma, and tiledb for
fragments of more than 16,384 cells. Both are imported when a function is called.
"""

from .consolidate import consolidate_like_census
from .experiment import ExperimentSummary, estimate_bytes, make_experiment

__all__ = ["ExperimentSummary", "consolidate_like_census", "estimate_bytes", "make_experiment"]
