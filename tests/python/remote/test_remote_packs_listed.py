"""Packs with missing files, in a bucket and on a web server.

This is a separate module, because all moto servers in a process share their objects.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import collect, write_small_tiles
from penstock.experiment.web_index import write_index

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import BUCKET, bare_environment, client, fault_proxy, s3_server, upload


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(tmp_path: Path):
    with bare_environment(tmp_path / "home"):
        yield


def test_every_listed_file_must_be_there(tmp_path: Path) -> None:
    """Copied without its commits, a pack would be one without cells or genes."""
    source = write_small_tiles(tmp_path / "experiment", 300, 100)
    whole = tmp_path / "cells.pack"
    ps.pack(source, whole)
    lost = {
        "obs": "obs/__commits/*.wrt",
        "var": "ms/RNA/var/__commits/*.wrt",
        "rows": "ms/RNA/X/raw/*.rows",
    }
    www = tmp_path / "www"
    for name, pattern in lost.items():
        shutil.copytree(whole, www / name)
        for file in (www / name).glob(pattern):
            file.unlink()
    write_index(www)
    with s3_server() as endpoint:
        for name in lost:
            upload(endpoint, www / name, name)
        with fault_proxy(endpoint) as bucket, fault_proxy(folder=www) as web:
            for name, pattern in lost.items():
                missing = f"is missing.*/{name}/" + pattern.replace(".", "[.]").replace("*", ".*")
                with pytest.raises(ps.CorruptData, match=missing):
                    ps.open(f"{web.url}/{name}")
                options = {"endpoint": bucket.url, "anonymous": True}
                with pytest.raises(ps.CorruptData, match=missing):
                    ps.open(f"s3://{BUCKET}/{name}", storage_options=options)


@pytest.mark.parametrize("above", [0, 1, 3])
def test_packing_with_an_index_that_is_above_the_experiment(tmp_path: Path, above: int) -> None:
    """Fragments of var are five folders below the experiment."""
    folder = tmp_path / "www" / "a" / "b" / "c" / "experiment"
    folder.parent.mkdir(parents=True)
    write_small_tiles(folder, 300, 100)
    write_index([folder, *folder.parents][above])
    with fault_proxy(folder=tmp_path / "www") as server:
        ps.pack(f"{server.url}/a/b/c/experiment", tmp_path / "remote.pack")
    ps.pack(folder, tmp_path / "local.pack")
    remote, local = (collect(ps.Dataset(tmp_path / f"{name}.pack")) for name in ("remote", "local"))
    np.testing.assert_array_equal(remote[0], local[0])
    np.testing.assert_array_equal(remote[1], local[1])


@pytest.mark.parametrize("table", ["obs", "ms/RNA/var"])
def test_a_file_that_goes_after_the_pack_was_opened(tmp_path: Path, table: str) -> None:
    """A remote store lists a folder once, when the pack is opened, so that no cell goes with it."""
    source = write_small_tiles(tmp_path / "experiment", 300, 100)
    ps.pack(source, tmp_path / "cells.pack")
    (commit,) = (tmp_path / "cells.pack" / table / "__commits").iterdir()
    with s3_server() as endpoint:
        upload(endpoint, tmp_path / "cells.pack", "pack")
        options = {"endpoint": endpoint, "anonymous": True}
        opened = ps.open(f"s3://{BUCKET}/pack", storage_options=options)
        client(endpoint).delete_object(Bucket=BUCKET, Key=f"pack/{table}/__commits/{commit.name}")
        assert (len(opened.obs.to_pandas()), len(opened.var("RNA").to_pandas())) == (300, 100)
