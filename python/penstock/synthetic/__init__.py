"""Census-like experiments on demand, for the demo, the benchmarks and tests.

    from penstock.synthetic import make_experiment
    make_experiment("demo.soma", n_cells=30_000, n_fragments=4, seed=0, progress=print)

The result is a TileDB-SOMA experiment in the CELLxGENE Census's own array settings and obs columns,
with invented counts whose shape is that of real ones. Needs tiledbsoma; tiledb too where a fragment
has more than 16,384 cells. Both are imported when a function is called.
"""

from .consolidate import consolidate_like_census
from .experiment import ExperimentSummary, estimate_bytes, make_experiment

__all__ = ["ExperimentSummary", "consolidate_like_census", "estimate_bytes", "make_experiment"]
