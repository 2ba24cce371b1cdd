"""AnnData in zarr on S3 (moto) and on a web server: the batches of the folder, few requests, clear errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import penstock as ps
import pytest
from anndata_cases import random_anndata, write_zarr
from penstock.experiment.web_index import write_index

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import BUCKET, bare_environment, fault_proxy, s3_server, upload

CELLS = 400
STORES = ["two.zarr", "three.zarr", "shards.zarr", "cells.zarr.zip"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of the same cells."""
    made = random_anndata(np.random.default_rng(31), CELLS, 40, raw=True)
    place = tmp_path_factory.mktemp("stores")
    write_zarr(made, place / "two.zarr", version=2, chunk=200)
    write_zarr(made, place / "three.zarr", version=3, chunk=900)
    write_zarr(made, place / "shards.zarr", version=3, chunk=100, shards=(2000,))
    shutil.make_archive(str(place / "cells.zarr"), "zip", place / "three.zarr")
    write_index(place)
    return place


@pytest.fixture(scope="module", params=["s3", "web"])
def server(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    with bare_environment(tmp_path_factory.mktemp("home")):
        if request.param == "web":
            with fault_proxy(folder=folder) as proxy:
                yield proxy
            return
        with s3_server() as endpoint:
            upload(endpoint, folder, "stores")
            with fault_proxy(endpoint) as proxy:
                yield proxy


def source(server: Any, name: str) -> dict[str, Any]:
    """Arguments of a Dataset for a store on the server."""
    patience = {"retry_timeout": 2, "max_attempts": 2, "stall_timeout": 2}
    if server._folder is not None:
        return {"source": f"{server.url}/{name}", "storage_options": patience}
    options = {"endpoint": server.url, "anonymous": True, **patience}
    return {"source": f"s3://{BUCKET}/stores/{name}", "storage_options": options}


def batches(**arguments: Any) -> list[tuple[bytes, bytes]]:
    dataset = ps.Dataset(**{"layer": "X", "seed": 3, "batch_size": 32, **arguments})
    return [(X.tobytes(), obs["soma_joinid"].tobytes()) for X, obs in dataset]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("settings", [{}, {"obs_query": "n_genes > 5000"}, {"layer": "counts"}])
def test_batches_are_those_of_the_folder(
    server: Any, folder: Path, name: str, settings: dict[str, Any]
) -> None:
    assert batches(**source(server, name), **settings) == batches(source=folder / name, **settings)


@pytest.mark.parametrize("name", STORES)
def test_opening_takes_few_requests(server: Any, name: str) -> None:
    begin = len(server.requests)
    given = source(server, name)
    experiment = ps.open(given["source"], storage_options=given["storage_options"])
    assert experiment.n_obs == CELLS
    asked = server.requests[begin:]
    assert not any("/X/" in request or "layers" in request for request in asked), asked
    assert len(asked) <= 40, asked


def test_a_chunk_that_fails_is_an_error_with_its_path(server: Any) -> None:
    given = source(server, "two.zarr")
    dataset = ps.Dataset(**given, layer="X", batch_size=32)
    server.fault = lambda number, path: "500" if "/X/data/3" in path else None
    try:
        with pytest.raises(ps.IoError, match="X/data/3"):
            list(dataset)
    finally:
        server.fault = lambda number, path: None
    assert server.injected["500"] > 0


def test_faults_now_and_then_change_nothing(server: Any, folder: Path) -> None:
    server.fault = lambda number, path: "500" if number % 7 == 3 else None
    before = server.injected["500"]
    try:
        got = batches(**source(server, "shards.zarr"))
    finally:
        server.fault = lambda number, path: None
    assert server.injected["500"] > before
    assert got == batches(source=folder / "shards.zarr")


def test_a_chunk_that_was_written_meanwhile_is_an_error(tmp_path: Path) -> None:
    made = random_anndata(np.random.default_rng(5), 100, 20)
    store = write_zarr(made, tmp_path / "www" / "cells.zarr", version=2, chunk=200)
    write_index(tmp_path / "www")
    with fault_proxy(folder=tmp_path / "www") as server:
        dataset = ps.Dataset(**source(server, "cells.zarr"), layer="X", batch_size=32, keep=False)
        list(dataset)
        chunk = store / "X" / "data" / "1"
        chunk.write_bytes(chunk.read_bytes()[:-3])
        with pytest.raises(ps.PenstockError, match="X/data/1"):
            list(dataset)


def test_a_cache_serves_a_store_on_s3(folder: Path, tmp_path: Path) -> None:
    with bare_environment(tmp_path), s3_server() as endpoint:
        upload(endpoint, folder / "shards.zarr", "stores/shards.zarr")
        with fault_proxy(endpoint) as proxy:
            given = source(proxy, "shards.zarr")
            cached = {"cache_dir": tmp_path / "cache", "keep": False}
            batches(**given, **cached)
            dataset = ps.Dataset(**given, **cached, layer="X", batch_size=32)
            rows = sorted(int(row) for _, obs in dataset for row in obs["soma_joinid"])
            assert rows == list(range(CELLS))
            assert dataset.stats.bytes_read == 0


def test_nothing_there_is_said(server: Any) -> None:
    given = source(server, "other.zarr")
    with pytest.raises(ps.NotFound, match="nothing at"):
        ps.open(given["source"], storage_options=given["storage_options"])


def test_anndata_reads_the_same(folder: Path) -> None:
    """The stores of this module are what they should be."""
    adata = anndata.read_zarr(folder / "shards.zarr")
    ((X, _),) = list(ps.Dataset(folder / "shards.zarr", layer="X", shuffle=False, batch_size=CELLS))
    np.testing.assert_array_equal(X, adata.X.toarray())
