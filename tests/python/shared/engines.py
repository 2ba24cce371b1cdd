"""Executors of each engine that needs no cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

KINDS = ["threads", "processes", "loky", "dask"]


@contextmanager
def made(kind: str, workers: int = 2) -> Iterator[Any]:
    """An executor of so many workers."""
    if kind == "threads":
        with ThreadPoolExecutor(workers) as executor:
            yield executor
    elif kind == "processes":
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as executor:
            yield executor
    elif kind == "loky":
        from joblib.externals.loky import ProcessPoolExecutor as Loky

        with Loky(workers) as executor:
            yield executor
    else:
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


class Calling:
    """An executor whose parts are called by another function."""

    def __init__(self, executor: Any, function: Callable[..., Any], *before: str) -> None:
        self.executor, self.function, self.before = executor, function, before

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.executor.submit(self.function, *self.before, function, arguments)
