"""Rows of an inference in a bucket: those of a file, whole or not there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle
from penstock.experiment import bucket as buckets

pytest.importorskip("moto.server", reason="moto[server] is not installed")
pytest.importorskip("obstore")
pytest.importorskip("zarr")
import obstore
import zarr
from remote_servers import BUCKET, Gate, bare_environment, client, fault_proxy, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with bare_environment(tmp_path_factory.mktemp("home")), s3_server() as endpoint:
        client(endpoint).create_bucket(Bucket=BUCKET)
        yield endpoint


@pytest.fixture
def address(server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of its own, which the environment says how to reach."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    return f"s3://{BUCKET}/{re.sub(r'[^a-z0-9]+', '-', request.node.name)}.zarr"


def sums(X: Any, obs: Any) -> Any:
    columns = X.sum(axis=1), (X > 0).sum(axis=1)
    return np.stack([np.asarray(each).ravel() for each in columns], axis=1).astype(np.float32)


def opened(address: str) -> Any:
    """The group, as zarr reads it by itself."""
    store = obstore.store.from_url(address, client_options={"allow_http": True})
    return zarr.open_group(zarr.storage.ObjectStore(store, read_only=True), mode="r")


def names_in(server: str, address: str) -> list[str]:
    prefix = address.removeprefix(f"s3://{BUCKET}/") + "/"
    found = client(server).list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [each["Key"].removeprefix(prefix) for each in found.get("Contents", [])]


def test_they_are_those_of_a_file(
    pbmc3k: Oracle, server: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in several chunks, and over longer rows of before."""
    ds = ps.Dataset(pbmc3k.path, batch_size=100, sparse=True)
    monkeypatch.setattr("penstock.inference.rows._CHUNK_BYTES", 1000)
    for cells in (ds, ds[:1000]):
        expected = ps.map_batches(sums, cells, out=tmp_path / "rows.npy")
        rows = ps.map_batches(sums, cells, out=address)
        np.testing.assert_array_equal(np.asarray(rows), expected.values)
        np.testing.assert_array_equal(rows.joinids, expected.joinids)
        group = opened(address)
        np.testing.assert_array_equal(group["values"][:], expected.values)
        np.testing.assert_array_equal(group["joinids"][:], expected.joinids)
    chunks = [name for name in names_in(server, address) if name.startswith("values/c/")]
    assert len(chunks) == 1000 // (1000 // 8)


def test_on_an_executor(pbmc3k: Oracle, address: str) -> None:
    ds = ps.Dataset(pbmc3k.path, batch_size=100, sparse=True)
    with ThreadPoolExecutor(2) as executor:
        rows = ps.map_batches(sums, ds, out=address, executor=executor)
    np.testing.assert_array_equal(np.asarray(rows), ps.map_batches(sums, ds).values)


def test_latent_variables_of_scvi(pbmc3k: Oracle, address: str) -> None:
    pytest.importorskip("scvi")
    import penstock.scvi as pscvi

    data = pscvi.DataModule(ps.Dataset(pbmc3k.path, obs_query="soma_joinid < 100"))
    model = pscvi.train(
        {"n_latent": 3, "n_hidden": 8}, data, max_epochs=1, accelerator="cpu", progress=False
    )
    rows = pscvi.latent(model, data, accelerator="cpu", out=address)
    np.testing.assert_array_equal(np.asarray(rows), pscvi.latent(model, data, accelerator="cpu"))
    np.testing.assert_array_equal(opened(address)["values"][:], np.asarray(rows))


DRIVER = """
import sys
import numpy as np
import penstock as ps
ds = ps.Dataset(sys.argv[1], batch_size=100, sparse=True)
ps.map_batches(lambda X, obs: np.full(X.shape[0], float(sys.argv[3])), ds, out=sys.argv[2])
"""


@pytest.mark.parametrize("held", ["values/c/", "values/zarr.json", "rows.zarr/zarr.json"])
def test_a_kill_leaves_no_half_of_them(
    held: str, pbmc3k: Oracle, server: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether rows were there before or not, what can be opened is whole."""
    address = address.removesuffix(".zarr") + "-rows.zarr"
    for before in (False, True):
        if before:
            rows = ps.map_batches(
                lambda X, obs: np.ones(X.shape[0]), ps.Dataset(pbmc3k.path), out=address
            )
            assert (opened(address)["values"][:] == 1).all()
        with fault_proxy(server) as proxy:
            gate = Gate(proxy, "PUT", held)
            monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
            process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, str(pbmc3k.path), address, "2"]
            )
            assert gate.reached.wait(60)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            monkeypatch.setenv("AWS_ENDPOINT_URL", server)
            with pytest.raises(zarr.errors.GroupNotFoundError):
                opened(address)
            arrays = {name for name in names_in(server, address) if name.endswith("s/zarr.json")}
            assert not arrays or held != "values/c/", "an array is there when its chunks are"
    rows = ps.map_batches(lambda X, obs: np.zeros(X.shape[0]), ps.Dataset(pbmc3k.path), out=address)
    assert not np.asarray(rows).any()
    assert (opened(address)["values"][:] == 0).all()


@pytest.mark.parametrize("other", ["ends", "is killed"])
def test_two_calls_write_at_once(
    other: str, pbmc3k: Oracle, server: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that began last writes its rows. The other gets an error, and no row of it is left."""
    ds = ps.Dataset(pbmc3k.path, batch_size=100, sparse=True)
    with fault_proxy(server) as proxy, fault_proxy(server) as second, ThreadPoolExecutor(1) as pool:
        gate = Gate(proxy, "PUT", "joinids/zarr.json")
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        first = pool.submit(ps.map_batches, sums, ds, out=address)
        assert gate.reached.wait(60)
        command = [sys.executable, "-c", DRIVER, str(pbmc3k.path), address, "2"]
        if other == "ends":
            monkeypatch.setenv("AWS_ENDPOINT_URL", server)
            subprocess.run(command, check=True)
        else:
            theirs = Gate(second, "PUT", "joinids/c")
            monkeypatch.setenv("AWS_ENDPOINT_URL", second.url)
            with subprocess.Popen(command) as process:
                assert theirs.reached.wait(60)
                process.kill()
            assert process.returncode == -signal.SIGKILL
        gate.open.set()
        with pytest.raises(ps.IoError, match="another call has begun to write there"):
            first.result()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    if other == "ends":
        assert (opened(address)["values"][:] == 2).all()
        assert "rows.partial" not in names_in(server, address)
    else:
        with pytest.raises(zarr.errors.GroupNotFoundError):
            opened(address)
    rows = ps.map_batches(sums, ds, out=address)
    np.testing.assert_array_equal(np.asarray(rows), ps.map_batches(sums, ds).values)
    assert "rows.partial" not in names_in(server, address)


def test_anything_else_is_never_replaced(pbmc3k: Oracle, server: str, address: str) -> None:
    key = address.removeprefix(f"s3://{BUCKET}/") + "/notes.txt"
    client(server).put_object(Bucket=BUCKET, Key=key, Body=b"mine")
    ds = ps.Dataset(pbmc3k.path)
    with pytest.raises(ps.InvalidArgument, match=r"has something else.*, such as notes\.txt"):
        ps.map_batches(sums, ds, out=address)
    assert names_in(server, address) == ["notes.txt"]
    client(server).delete_object(Bucket=BUCKET, Key=key)

    def comes(X: Any, obs: Any) -> Any:
        client(server).put_object(
            Bucket=BUCKET, Key=key.replace("notes.txt", "values/thesis.pdf"), Body=b"mine"
        )
        return sums(X, obs)

    with pytest.raises(ps.InvalidArgument, match=r"has something else.*, such as values/thesis"):
        ps.map_batches(comes, ds, out=address)
    assert names_in(server, address) == ["values/thesis.pdf"]
    with pytest.raises(ps.InvalidArgument, match=r"an address in a bucket that ends in \.zarr"):
        ps.map_batches(sums, ds, out=f"s3://{BUCKET}/rows.npy")
    with pytest.raises(ps.NotFound, match="there is no bucket nowhere at this endpoint"):
        ps.map_batches(sums, ds, out="s3://nowhere/rows.zarr")


def test_what_is_missing_is_told(pbmc3k: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ps.MissingPackage, match=r"needs obstore.*\[buckets\]"):
        ps.map_batches(sums, ps.Dataset(pbmc3k.path), out="s3://bucket/rows.zarr")
    assert buckets.is_bucket("gs://bucket/cells.pack")
