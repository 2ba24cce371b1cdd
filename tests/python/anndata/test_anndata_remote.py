"""AnnData in zarr on S3 (moto) and on a web server: the batches of the folder, few requests, clear errors."""

from __future__ import annotations

import http.server
import shutil
import threading
import urllib.parse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from anndata_cases import random_anndata, write_h5ad, write_zarr
from penstock.experiment.web_index import write_index

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import BUCKET, bare_environment, fault_proxy, s3_server, upload

CELLS = 400
STORES = ["two.zarr", "three.zarr", "shards.zarr", "cells.zarr.zip", "plain.h5ad", "gzip.h5ad"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of the same cells."""
    made = random_anndata(np.random.default_rng(31), CELLS, 40, raw=True)
    place = tmp_path_factory.mktemp("stores")
    write_zarr(made, place / "two.zarr", version=2, chunk=200)
    write_zarr(made, place / "three.zarr", version=3, chunk=900)
    write_zarr(made, place / "shards.zarr", version=3, chunk=100, shards=(2000,))
    shutil.make_archive(str(place / "cells.zarr"), "zip", place / "three.zarr")
    write_h5ad(made, place / "plain.h5ad")
    write_h5ad(made, place / "gzip.h5ad", "gzip")
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


def test_a_file_on_a_web_server_needs_no_index(folder: Path, tmp_path: Path) -> None:
    """Also one whose path leads into it; two requests find it, and none lists a folder."""
    mudata = pytest.importorskip("mudata")
    for name in ("plain.h5ad", "gzip.h5ad", "cells.zarr.zip"):
        shutil.copy(folder / name, tmp_path / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = anndata.read_h5ad(folder / "plain.h5ad")
        mudata.MuData({"rna": adata}).write_h5mu(tmp_path / "cells.h5mu")
    names = ("plain.h5ad", "gzip.h5ad", "cells.zarr.zip", "cells.h5mu/mod/rna", "cells.h5mu/rna")
    with bare_environment(tmp_path), fault_proxy(folder=tmp_path) as proxy:
        for name in names:
            query = {"obs_query": "n_genes > 5000"} if "h5mu" not in name else {}
            url = f"{proxy.url}/{name}"
            assert batches(source=url, **query) == batches(source=tmp_path / name, **query)
            there, here = ps.Dataset(url, **query), ps.Dataset(tmp_path / name, **query)
            # The name of the index is of the rows at this address.
            frames = [each.obs.to_pandas().rename_axis(None) for each in (there, here)]
            pd.testing.assert_frame_equal(*frames)
            pd.testing.assert_frame_equal(there.var.to_pandas(), here.var.to_pandas())
        asked = " ".join(str(request) for request in proxy.requests)
        assert "penstock-index" not in asked
        with pytest.raises(ps.NotFound, match=r"no group 'atac', in .*cells\.h5mu"):
            ps.open(f"{proxy.url}/cells.h5mu/atac")
        with pytest.raises(ps.NotFound, match=r"there is no file at .*/missing\.h5ad"):
            ps.open(f"{proxy.url}/missing.h5ad")


def test_a_server_without_ranges_is_told(folder: Path, tmp_path: Path) -> None:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with (
            bare_environment(tmp_path),
            pytest.raises(ps.Unsupported, match=r"must answer range requests: .*plain\.h5ad"),
        ):
            ps.open(f"http://127.0.0.1:{server.server_port}/plain.h5ad")
        server.shutdown()


def arguments_of(server: Any, name: str, **options: Any) -> tuple[str, dict[str, Any]]:
    given = source(server, name)
    return given["source"], {**given["storage_options"], **options}


def asked_by(server: Any, call: Callable[[], Any]) -> list[str]:
    """Paths of the requests that a call makes; listings of S3 as ``list PREFIX``."""
    begin = len(server.requests)
    call()
    paths = []
    for request in server.requests[begin:]:
        parts = urllib.parse.urlsplit(request)
        fields = urllib.parse.parse_qs(parts.query)
        if "list-type" in fields:
            kind = "list" if "delimiter" in fields else "list all below"
            paths.append(f"{kind} {fields['prefix'][0].removeprefix('stores/')}")
        else:
            paths.append(parts.path.removeprefix(f"/{BUCKET}/stores").removeprefix("/"))
    return paths


@contextmanager
def together(server: Any, count: int, chosen: Callable[[str], bool]) -> Iterator[None]:
    """Answer chosen requests when `count` of them have come; fail unless they come at the same time.

    Whoever makes them one after the other never makes the second one. The time that counts is far
    above that of any machine.
    """
    gate, alone = threading.Barrier(count, timeout=30), []

    def wait(path: str) -> None:
        if not chosen(path):
            return
        try:
            gate.wait()
        except threading.BrokenBarrierError:
            alone.append(path)

    server.before_answer = wait
    try:
        yield
    finally:
        server.before_answer = lambda path: None
    assert not alone, alone


PATIENT = {"stall_timeout": 120, "retry_timeout": 300}


@pytest.mark.parametrize(
    ("name", "documents"),
    [("two.zarr", [".zgroup", ".zmetadata"]), ("three.zarr", ["zarr.json"])],
)
def test_opening_consolidated_metadata_takes_a_list_and_these(
    server: Any, name: str, documents: list[str]
) -> None:
    uri, options = arguments_of(server, name)
    asked = asked_by(server, lambda: ps.open(uri, storage_options=options))
    if server._folder is None:
        assert asked[0] == f"list {name}/"
        assert asked[1:] == [f"{name}/{document}" for document in documents]
    else:
        indexes = [f"{name}/.penstock-index.json", ".penstock-index.json"]
        assert asked == indexes + [f"{name}/{document}" for document in documents]


def test_a_table_takes_two_rounds_of_requests(server: Any, folder: Path) -> None:
    """One list of its objects, and all of them at the same time."""
    uri, options = arguments_of(server, "three.zarr", **PATIENT)
    experiment = ps.open(uri, storage_options=options)
    chunks = len([*(folder / "three.zarr" / "obs").glob("**/c/*")])
    assert chunks > 10
    with together(server, chunks, lambda path: "/obs/" in path and "list-type" not in path):
        asked = asked_by(server, experiment.obs.to_pandas)
    assert len(set(asked)) == len(asked)
    assert sum("list" in path for path in asked) == (1 if server._folder is None else 0)
    assert len(asked) == chunks + (1 if server._folder is None else 0)
    again = asked_by(server, lambda: experiment.obs.to_pandas(columns=["category", "score"]))
    assert len(again) <= 3
    assert not any("list" in path for path in again)


def test_a_matrix_takes_a_round_of_lists_and_its_offsets(server: Any) -> None:
    """Objects of the three arrays of X are found at the same time."""
    uri, options = arguments_of(server, "three.zarr", **PATIENT)
    experiment = ps.open(uri, storage_options=options)
    assert experiment.n_obs == CELLS
    experiment.var().to_pandas()
    lists = 3 if server._folder is None else 0
    with together(server, max(lists, 1), lambda path: "list-type" in path):
        asked = asked_by(server, lambda: experiment.x("RNA", "X").shape)
        asked += asked_by(server, lambda: ps.Dataset(experiment, layer="X"))
    assert len(asked) == lists + 1, asked
    assert "three.zarr/X/indptr/c/0" in asked


def test_an_epoch_requests_each_chunk_once(server: Any, folder: Path) -> None:
    for name in ("two.zarr", "three.zarr"):
        dataset = ps.Dataset(**source(server, name), layer="X", batch_size=32, keep=False)
        list(dataset)
        stored = [
            path
            for array in ("data", "indices")
            for path in (folder / name / "X" / array).rglob("*")
            if path.is_file() and path.name[0] not in ".z"
        ]
        asked = asked_by(server, lambda dataset=dataset: list(dataset))
        assert sorted(asked) == sorted(str(path.relative_to(folder)) for path in stored)
        assert dataset.stats.requests == len(asked)
        assert dataset.stats.bytes_read == sum(path.stat().st_size for path in stored)


def test_an_epoch_reads_neighbours_in_a_shard_together(server: Any, folder: Path) -> None:
    dataset = ps.Dataset(**source(server, "shards.zarr"), layer="X", batch_size=32, keep=False)
    list(dataset)
    shards = [
        path
        for array in ("data", "indices")
        for path in (folder / "shards.zarr" / "X" / array / "c").iterdir()
    ]
    asked = asked_by(server, lambda: list(dataset))
    # A unit that a boundary of shards divides reads both sides of it.
    assert len(shards) <= len(asked) <= 2 * len(shards)
    assert dataset.stats.bytes_read <= 1.05 * sum(path.stat().st_size for path in shards)


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
        uri, options = arguments_of(server, "shards.zarr", max_attempts=20, retry_timeout=60)
        got = batches(source=uri, storage_options=options)
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
