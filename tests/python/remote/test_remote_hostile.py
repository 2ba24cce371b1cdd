"""Hostile or incomplete responses of buckets and web servers."""

from __future__ import annotations

import json
import signal
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import collect, write_small_tiles
from loopback_http import Handler, serving
from penstock.experiment.web_index import INDEX_NAME, write_index

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import BUCKET, bare_environment, client, s3_server, upload

QUICK = {"retry_timeout": 5, "max_attempts": 3, "stall_timeout": 3}


@pytest.fixture(scope="module", autouse=True)
def _no_credentials_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 300, 60)


@contextmanager
def web_server(
    folder: Path, fields: Callable[[str], dict[str, str]] = lambda path: {}
) -> Iterator[str]:
    """Serves a folder's files and ranges of them with those fields, ETags only if they are some."""

    class Files(Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            path = folder / urllib.parse.unquote(self.path).lstrip("/")
            body = path.read_bytes() if path.is_file() else b""
            asked = self.headers.get("Range")
            self.send_response(404 if not path.is_file() else 206 if asked else 200)
            if asked and body:
                first, last = (int(each) for each in asked.removeprefix("bytes=").split("-"))
                whole, body = len(body), body[first : last + 1]
                last = first + len(body) - 1
                self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
            for name, value in fields(self.path).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Files) as url:
        yield url


def test_a_pack_of_a_bucket_writes_nothing_outside_its_folder(tiles: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "keys").write_text("mine\n")
    with s3_server() as endpoint:
        upload(endpoint, tiles, "exp")
        for folder in ("exp/ms/RNA/var", "exp/obs", "exp"):
            for up in ("..", "../..", "../../..", "../../../.."):
                key = f"{folder}/{up}/.ssh/keys"
                client(endpoint).put_object(
                    Bucket=BUCKET, Key=key, Body=b"theirs", ACL="public-read"
                )
        for marker in ("exp/", "exp/ms/", "exp/ms/RNA/var//"):
            client(endpoint).put_object(Bucket=BUCKET, Key=marker, Body=b"", ACL="public-read")
        options = {"endpoint": endpoint, "anonymous": True}
        ps.pack(f"s3://{BUCKET}/exp", home / "x.pack", storage_options=options)
    assert (home / ".ssh" / "keys").read_text() == "mine\n"
    found = {each for each in tmp_path.rglob("keys") if each.is_file()}
    assert found == {home / ".ssh" / "keys"}
    expected = collect(ps.Dataset(tiles, shuffle=False))
    got = collect(ps.Dataset(home / "x.pack", shuffle=False))
    np.testing.assert_array_equal(got[1], expected[1])


@pytest.mark.parametrize("size", [2**64 - 1, 2**63])
def test_a_size_that_no_file_has_is_refused(tiles: Path, tmp_path: Path, size: int) -> None:
    ps.pack(tiles, tmp_path / "cells.pack")
    write_index(tmp_path)
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    index["files"]["cells.pack/pack.json"] = size
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    expected = pytest.raises(ps.CorruptData, match=rf"{size}.*cells.pack/pack.json")
    with web_server(tmp_path) as url, expected:
        ps.open(f"{url}/cells.pack", storage_options=QUICK)


def test_ctrl_c_ends_a_listing_that_never_ends() -> None:
    pages = []

    class Endless(Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            pages.append(self.path)
            key = f"<Contents><Key>exp/{len(pages)}</Key><Size>1</Size></Contents>"
            token = f"<NextContinuationToken>{len(pages)}</NextContinuationToken>"
            if len(pages) > 19_000:
                return self.answer(b"<ListBucketResult></ListBucketResult>")
            more = "<IsTruncated>true</IsTruncated>"
            page = f"<ListBucketResult>{key}{token}{more}</ListBucketResult>"
            return self.answer(page.encode())

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with serving(Endless) as url:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                ps.open("s3://b/exp", storage_options={"endpoint": url, "anonymous": True})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 0 < len(pages) < 19_000


def test_without_etags_a_file_replaced_in_mid_epoch_is_an_error(tmp_path: Path) -> None:
    write_small_tiles(tmp_path / "exp", 1_600, 600, per_cell=96)
    write_index(tmp_path)
    modified = "Mon, 01 Jan 2024 00:00:00 GMT"
    with web_server(tmp_path, lambda path: {"Last-Modified": modified}) as url:
        dataset = ps.Dataset(ps.open(f"{url}/exp", storage_options=QUICK), keep=False)
        assert sum(X.shape[0] for X, _ in dataset) == 1_600
        modified = "Tue, 02 Jan 2024 00:00:00 GMT"
        with pytest.raises(ps.IoError, match=r"changed while it was read.*Tue, 02 Jan 2024"):
            list(dataset)


@pytest.mark.parametrize("layer", ["50%25", "a%b", "ä b%2Fc+d"])
def test_layers_whose_names_are_escaped_on_disk(tmp_path: Path, layer: str) -> None:
    import anndata
    import pandas as pd
    import tiledbsoma.io

    www = tmp_path / "my data"
    www.mkdir()
    obs, var = (pd.DataFrame(index=[f"{kind}{i}" for i in range(20)]) for kind in "cg")
    X = np.arange(400, dtype=np.float32).reshape(20, 20)
    tiledbsoma.io.from_anndata(
        str(www / "exp"), anndata.AnnData(X, obs, var), "RNA", X_layer_name=layer
    )
    ps.pack(www / "exp", www / "cells.pack")
    write_index(tmp_path)
    expected = collect(ps.Dataset(www / "exp", layer=layer, shuffle=False))
    with web_server(tmp_path) as url:
        for name in ("exp", "cells.pack"):
            for folder in ("my data", "my%20data"):
                remote = ps.open(f"{url}/{folder}/{name}", storage_options=QUICK)
                got = collect(ps.Dataset(remote, layer=layer, shuffle=False))
                np.testing.assert_array_equal(got[1], expected[1])
