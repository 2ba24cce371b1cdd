"""What docs/how-to/executors.md says that a worker needs: measured in one of Dask, which kills one that takes too much."""

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
GENES = 60_664
GROUPS = 48
MODEL = 40_000_000


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
    ps.gene_statistics(ds, executor=executor)


def groups(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    found = ps.gene_statistics(ds, group_by="donor_id", executor=executor)
    assert len(found) == GROUPS * ds.n_vars


def module(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    import torch

    model = torch.nn.Linear(ds.n_vars, MODEL // 4 // ds.n_vars)
    ps.map_batches(model, ds[:12_000].with_settings(sparse=False), executor=executor)


def latent(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    import penstock.scvi as pscvi

    some = {
        "var_query": ps.AxisQuery(coords=(slice(0, 1_999),)),
        "memory_budget": BUDGET,
        "threads": 2,
    }
    data = pscvi.DataModule(cells, batch_key="dataset_id", dataset=some)
    model = data.create_model()
    model.is_trained = True  # enough for its memory
    pscvi.latent(model, data, executor=executor)


def rows(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    found = ps.map_batches(totals, ds, executor=executor)
    assert np.all(np.asarray(found) > 0)


def packing(ds: ps.Dataset, cells: Path, folder: Path, executor: Any) -> None:
    ps.pack(
        cells, folder / "cells.pack", rows_per_file=8192, threads=2, memory_budget=BUDGET,
        executor=executor,
    )  # fmt: skip


#: Jobs, and what docs/how-to/executors.md gives a worker besides.
JOBS: dict[Callable[..., None], int] = {
    statistics: 0,
    groups: 80 * GROUPS * GENES,
    rows: 0,
    packing: 0,
    module: 200_000_000 + 10 * MODEL,
    latent: 800_000_000,
}


@pytest.mark.parametrize("job", JOBS)
def test_the_peak_of_a_worker(job: Callable[..., None], cells: Path, tmp_path: Path) -> None:
    most = BUDGET + MORE + JOBS[job]
    limit = most * 3 // 2  # Dask pauses a worker at 80 % of it, and kills it at 95 %
    ds = ps.Dataset(cells, sparse=True, batch_size=32, memory_budget=BUDGET, threads=2)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=4, dashboard_address=None, memory_limit=limit,
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        ((worker, before),) = client.run(lambda: (os.getpid(), rss())).values()
        job(ds, cells, tmp_path, client)
        ((same, peak),) = client.run(lambda: (os.getpid(), peak_rss())).values()
    assert same == worker, "no worker was killed"
    print(f"{job.__name__}: {peak / 1e6:.0f} of {most / 1e6:.0f} MB")
    assert peak < most
    assert peak - before > BUDGET // 4, "the job ran in this worker"
