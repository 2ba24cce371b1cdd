"""A worker needs `memory_budget` and 200 MB: measured in a worker of Dask, which kills one that takes too much."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.bench.worker.process_facts import peak_rss, rss

distributed = pytest.importorskip("distributed")

BUDGET = 128 << 20
MORE = 200_000_000


def totals(X: Any, obs: Any) -> Any:
    return X.sum(axis=1)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whose X takes more than the budget."""
    from penstock.synthetic import make_experiment

    path = tmp_path_factory.mktemp("large") / "cells"
    make_experiment(path, n_cells=32_768, n_datasets=8)
    return path


def statistics(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    ps.gene_statistics(ds, group_by="dataset_id", executor=executor)


def rows(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    found = ps.map_batches(totals, ds, executor=executor)
    assert np.all(np.asarray(found) > 0)


def packing(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    ps.pack(
        cells, folder / "cells.pack", rows_per_file=8192, threads=2, memory_budget=BUDGET,
        executor=executor,
    )  # fmt: skip


@pytest.mark.parametrize("job", [statistics, rows, packing])
def test_the_peak_of_a_worker(job: Callable[..., None], cells: Path, tmp_path: Path) -> None:
    limit = (BUDGET + MORE) * 3 // 2  # Dask pauses a worker at 80 % of it, and kills it at 95 %
    ds = ps.Dataset(cells, sparse=True, batch_size=512, memory_budget=BUDGET, threads=2)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=limit,
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        ((worker, before),) = client.run(lambda: (os.getpid(), rss())).values()
        job(ds, cells, tmp_path, client.get_executor())
        ((same, peak),) = client.run(lambda: (os.getpid(), peak_rss())).values()
    assert same == worker, "no worker was killed"
    assert peak < BUDGET + MORE
    assert peak - before > BUDGET // 4, "the job ran in this worker"
