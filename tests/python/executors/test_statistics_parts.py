"""Statistics and highly variable genes in parts have the bits of one pass, for any parts and executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import engines
import numpy as np
import pandas as pd
import part_functions
import penstock as ps
import pytest
from conftest import Oracle
from penstock import _core
from penstock.executors import PartFailed
from penstock.genes import chunks

JOBS: dict[str, Callable[..., pd.DataFrame]] = {
    "genes": lambda ds, **given: ps.gene_statistics(ds, **given),
    "groups": lambda ds, **given: ps.gene_statistics(ds, group_by="cell_type", **given),
    "cells": lambda ds, **given: ps.cell_statistics(ds, **given),
    "seurat_v3": lambda ds, **given: ps.highly_variable_genes(
        ds, 200, batch_key="dataset_id", span=0.6, **given
    ),
    "seurat": lambda ds, **given: ps.highly_variable_genes(ds, 200, flavor="seurat", **given),
    "cell_ranger": lambda ds, **given: ps.highly_variable_genes(
        ds, 200, flavor="cell_ranger", batch_key="dataset_id", **given
    ),
}


def same_bits(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    return a.index.equals(b.index) and all(
        a[name].to_numpy().tobytes() == b[name].to_numpy().tobytes()
        for name in a.columns
        if a[name].dtype != object
    )


def dataset(source: Any, job: str) -> ps.Dataset:
    logs = [ps.NormalizeTotal(), ps.Log1p()] if job in ("seurat", "cell_ranger") else []
    return ps.Dataset(source, obs_query="nnz > 5", transforms=logs)


@pytest.fixture(scope="module", params=engines.KINDS)
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    with engines.made(request.param) as made:
        yield made


@pytest.mark.parametrize("job", JOBS)
def test_on_an_executor(
    job: str, executor: Any, census_like: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = dataset(census_like.path, job)
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 700)
    assert ds.n_obs > 3 * 700
    assert same_bits(JOBS[job](ds, executor=executor), JOBS[job](ds))


@pytest.mark.parametrize("job", JOBS)
def test_the_number_of_parts_moves_no_count(
    job: str, census_like: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of counts the bits are those of any chunks; of fractions those of the same chunks alone."""
    ds = dataset(census_like.path, job)
    tables = []
    with ThreadPoolExecutor(2) as pool:
        for cells in (1 << 18, 901, 55):
            monkeypatch.setattr(chunks, "CHUNK_CELLS", cells)
            tables.append(JOBS[job](ds, executor=pool))
    fractions = job in ("seurat", "cell_ranger")
    for table in tables[1:]:
        assert same_bits(table, tables[0]) != fractions
        pd.testing.assert_frame_equal(table, tables[0], rtol=1e-9)


def test_of_fractions_beside_numpy(census_like: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks, groups that not every chunk has, and cells without a group."""
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 450)
    ds = ps.Dataset(census_like.path, transforms=[ps.NormalizeTotal(), ps.Log1p()])
    with ThreadPoolExecutor(3) as pool:
        found = ps.gene_statistics(ds, executor=pool)
        one = ps.gene_statistics(ds)
    X = census_like.X.toarray().astype(np.float32)
    logs = np.log1p(X / X.sum(axis=1, keepdims=True) * np.float32(1e4)).astype(np.float64)
    assert same_bits(found, one)
    np.testing.assert_allclose(found["mean"], logs.mean(axis=0), rtol=2e-5, atol=1e-9)
    np.testing.assert_allclose(found["variance"], logs.var(axis=0, ddof=1), rtol=5e-5, atol=1e-9)


def test_a_killed_worker(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask runs its part again; a pool is broken, and the same call completes on a new one."""
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 500)
    ds = dataset(census_like.path, "genes")
    alone = ps.gene_statistics(ds)
    for kind in ("processes", "loky", "dask"):
        marker = tmp_path / kind
        with engines.made(kind) as executor:
            killing = engines.Calling(executor, part_functions.killed_once, str(marker))
            if kind == "dask":
                assert same_bits(ps.gene_statistics(ds, executor=killing), alone)
            else:
                with pytest.raises(PartFailed, match=r"lost cells [\d,]+ to [\d,]+"):
                    ps.gene_statistics(ds, executor=killing)
        assert marker.exists(), "a worker was killed"
    with engines.made("processes") as executor:
        assert same_bits(ps.gene_statistics(ds, executor=executor), alone)


def test_no_more_than_some_parts_wait_for_their_turn() -> None:
    from penstock.executors.parts import Part, results

    with ThreadPoolExecutor(4) as pool:
        given = [Part(str(i), (0.2 if i == 0 else 0.0, i)) for i in range(60)]
        begun: list[int] = []

        class Noting:
            def submit(self, *call: Any) -> Any:
                begun.append(call[3][1])
                return pool.submit(*call)

        yielded = 0
        for part, number in results(
            Noting(), part_functions.after_a_while, given, at_once=8, in_order=True
        ):
            assert part.name == str(yielded) == str(number)
            assert len(begun) - yielded <= 8
            yielded += 1
        assert yielded == 60


def test_refused(census_like: Oracle) -> None:
    for job in ("genes", "cells", "seurat_v3"):
        with pytest.raises(ps.InvalidArgument, match="executor must have a submit method"):
            JOBS[job](dataset(census_like.path, job), executor=3)
    with pytest.warns(ps.NoCellsWarning):
        empty = ps.Dataset(census_like.path)[:0]
    with pytest.raises(ps.InvalidArgument, match="executor must have a submit method"):
        ps.cell_statistics(empty, executor=3)  # type: ignore[arg-type]
    called = ps.Dataset(census_like.path, transforms=[lambda X, obs: X])
    with ThreadPoolExecutor(1) as pool:
        for statistics in (ps.gene_statistics, ps.cell_statistics):
            with pytest.raises(ps.InvalidArgument, match="no callables"):
                statistics(called, executor=pool)


def test_sums_under_way_are_bounded_by_bytes(
    census_like: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large sums: two parts at a time, also if a later one ends first."""
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 100)
    monkeypatch.setattr("penstock.executors.parts._BYTES", 1)
    under_way, most = 0, 0

    class Counting(ThreadPoolExecutor):
        def submit(self, *call: Any) -> Any:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            return super().submit(*call)

    real = _core.StatisticsSum.add

    def add(self: Any, *given: Any) -> None:
        nonlocal under_way
        under_way -= 1
        real(self, *given)

    ds = dataset(census_like.path, "groups")
    monkeypatch.setattr(_core.StatisticsSum, "add", add)
    with Counting(2) as pool:
        found = JOBS["groups"](ds, executor=pool)
    assert most == 2
    assert under_way == 0
    assert same_bits(found, JOBS["groups"](ds))
