"""`penstock.executors.RayExecutor`, where Ray is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import part_functions as functions
import penstock as ps
import pytest
from conftest import Oracle, write_small_tiles
from engines import Calling
from packed_experiments import contents
from penstock.base.missing_package import MissingPackage
from penstock.executors import PartFailed, RayExecutor
from penstock.executors.parts import Part, results
from penstock.genes import chunks


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match="ray"):
        RayExecutor()


@pytest.fixture(scope="module")
def executor() -> Iterator[RayExecutor]:
    ray = pytest.importorskip("ray")
    # A cluster that was not shut down leaves a file that "auto" follows.
    path = [str(Path(functions.__file__).parent)]
    ray.init(
        address="local", num_cpus=2, include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": ":".join([*path, *sys.path])}},
    )  # fmt: skip
    yield RayExecutor(num_cpus=1, max_retries=1)
    ray.shutdown()


def parts(count: int, *before: Any, after: tuple[Any, ...] = ()) -> list[Part]:
    return [Part(f"part {i}", (*before, i, *after)) for i in range(count)]


def test_parts_on_ray(executor: RayExecutor, tmp_path: Path) -> None:
    got = {p.name: r for p, r in results(executor, functions.square, parts(30))}
    assert got == {f"part {i}": i * i for i in range(30)}
    again = [
        r for _, r in results(executor, functions.killing, parts(6, str(tmp_path), after=(3,)))
    ]
    assert sorted(again) == list(range(6))
    assert functions.ran(tmp_path).count(3) == 2, "Ray runs a part again whose worker was killed"
    error = ps.NotFound("there is no cell")
    with pytest.raises(ps.NotFound) as raised:
        list(results(executor, functions.raising, parts(200, str(tmp_path), after=(error,))))
    assert str(raised.value) == "there is no cell"
    time.sleep(1)  # what still ran would be noted by then
    assert len(functions.ran(tmp_path)) < 50, "parts that had not begun are cancelled"
    with pytest.raises(PartFailed, match="RayExecutor lost part 0: WorkerCrashedError"):
        list(results(executor, functions.always_killing, parts(1)))


def test_rows_on_ray(executor: RayExecutor, pbmc3k: Oracle, tmp_path: Path) -> None:
    """Also when a worker is killed: Ray runs its part again."""
    ds = ps.Dataset(pbmc3k.path, batch_size=100)

    def totals(X: Any, obs: Any) -> Any:
        return X.sum(axis=1)

    killing = Calling(executor, functions.killed_once, str(tmp_path / "killed"))
    rows = ps.map_batches(totals, ds, executor=killing)
    assert (tmp_path / "killed").exists(), "a worker was killed"
    np.testing.assert_array_equal(rows.values, ps.map_batches(totals, ds).values)


def test_statistics_on_ray(
    executor: RayExecutor, pbmc3k: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits of one process, also when a worker is killed: Ray runs its part again."""
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 500)
    ds = ps.Dataset(pbmc3k.path)
    killing = Calling(executor, functions.killed_once, str(tmp_path / "killed"))
    found = ps.gene_statistics(ds, group_by="cell_type", executor=killing)
    assert (tmp_path / "killed").exists(), "a worker was killed"
    alone = ps.gene_statistics(ds, group_by="cell_type")
    pd.testing.assert_frame_equal(found, alone, check_exact=True)


def test_a_pack_on_ray(executor: RayExecutor, tmp_path: Path) -> None:
    """Also when a worker is killed while it writes: Ray runs its part again."""
    source = write_small_tiles(tmp_path / "cells", 3_000, 200, per_cell=40)
    pack, marker = tmp_path / "cells.pack", tmp_path / "killed"
    killing = Calling(
        executor, functions.killed_while_writing, str(marker), str(tmp_path / "cells.pack.partial")
    )
    ps.pack(source, pack, rows_per_file=100, executor=killing)
    assert marker.exists(), "a worker was killed"
    ps.pack(source, tmp_path / "whole.pack", rows_per_file=100)
    assert contents(pack) == contents(tmp_path / "whole.pack")
