"""Packs in a bucket and behind a web server from which files are gone.

A module of its own: moto keeps the objects of all its servers in a process in one place.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import penstock as ps
import pytest
from conftest import write_small_tiles
from penstock.index_manifest import write_index

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import BUCKET, bare_environment, fault_proxy, s3_server, upload


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
