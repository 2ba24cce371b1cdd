"""Shared code of loaders on tiledbsoma: context, experiment, axis query."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reach import is_remote, tiledb_config
from ..request import Work


def open_experiment(work: Work) -> Any:
    """Return a tiledbsoma Experiment with the buffer sizes, threads and region of `work`.

    `threads` does not limit I/O threads of a remote source, which mostly wait for the network.
    """
    import tiledbsoma

    config = tiledb_config(work.source, work.region, work.endpoint)
    if work.py_buffer_size is not None:
        config["py.init_buffer_bytes"] = work.py_buffer_size
    if work.soma_buffer_size is not None:
        config["soma.init_buffer_bytes"] = work.soma_buffer_size
    if work.threads is not None:
        pools = ("sm.compute_concurrency_level", "soma.compute_concurrency_level")
        config |= dict.fromkeys(pools, work.threads)
        if not is_remote(work.source):
            config["sm.io_concurrency_level"] = work.threads
    context = tiledbsoma.SOMATileDBContext(tiledb_config=config)
    return tiledbsoma.Experiment.open(work.source, context=context)


def axis_queries(work: Work) -> dict[str, Any]:
    """Return ``obs_query`` and ``var_query``, if `work` selects."""
    import tiledbsoma

    queries: dict[str, Any] = {}
    if work.obs_filter is not None:
        queries["obs_query"] = tiledbsoma.AxisQuery(value_filter=work.obs_filter)
    if work.genes_path is not None:
        queries["var_query"] = tiledbsoma.AxisQuery(coords=(np.load(work.genes_path),))
    elif work.n_vars is not None:
        queries["var_query"] = tiledbsoma.AxisQuery(coords=(slice(0, work.n_vars - 1),))
    return queries
