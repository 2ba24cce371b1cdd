"""Pipes, devices and sockets in place of a store's files raise an error without a wait."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest
from conftest import Oracle
from penstock.experiment.web_index import write_index

#: Far more than what is asked takes; who hangs is ended then.
PATIENCE_SECONDS = 60

READ = """
import sys
import penstock as ps
cells = 0
cache = {"cache_dir": sys.argv[2], "cache_bytes": "1GiB"} if sys.argv[2] else {}
for X, _ in ps.Dataset(sys.argv[1], shuffle=False, **cache):
    cells += X.shape[0]
print(cells)
"""


def read(path: Path, cache: Path | str = "") -> tuple[str, str]:
    """(standard output, last line of standard error) of a process that reads all cells."""
    done = subprocess.run(
        [sys.executable, "-c", READ, path, cache],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    return done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1]


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def put_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # an address has room for 107 bytes alone
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


KINDS = {"pipe": put_pipe, "device": put_device, "socket": put_socket}
#: What is said of each; the system itself says the last, where a socket is opened.
SAYS = ("it is a named pipe", "it is a device", "it is a socket", "No such device or address")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "pattern",
    [
        "pack.json",
        "ms/RNA/X/raw/*.rows",
        "obs/__schema/*",
        "obs/__fragments/*/__fragment_metadata.tdb",
        "ms/RNA/var/__fragments/*/d0.tdb",
    ],
)
def test_in_a_pack(tmp_path: Path, soma_small: Oracle, kind: str, pattern: str) -> None:
    path = tmp_path / "pack"
    ps.pack(soma_small.path, path)
    file = next(each for each in sorted(path.glob(pattern)) if each.is_file())
    file.unlink()
    KINDS[kind](file)
    out, error = read(path)
    assert not out
    assert file.name in error
    assert any(text in error for text in (*SAYS, "damaged (it has 0 of")), error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "pattern",
    [
        "__group/*",
        "__meta/*",
        "obs/__schema/*",
        "ms/RNA/X/raw/__fragments/*/__fragment_metadata.tdb",
        "ms/RNA/X/raw/__fragments/*/a0.tdb",
        "ms/RNA/X/raw/__fragments/*/d0.tdb",
    ],
)
def test_in_an_experiment(tmp_path: Path, soma_small: Oracle, kind: str, pattern: str) -> None:
    path = tmp_path / "experiment"
    shutil.copytree(soma_small.path, path)
    file = next(each for each in sorted(path.glob(pattern)) if each.is_file())
    file.unlink()
    KINDS[kind](file)
    out, error = read(path)
    assert not out
    assert "penstock.errors" in error
    assert file.name in error
    assert any(text in error for text in SAYS), error


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_cache(tmp_path: Path, soma_small: Oracle, kind: str) -> None:
    """What a cache cannot give is read from the source."""
    cache = tmp_path / "cache"
    cells, _ = read(soma_small.path, cache)
    files = list(cache.rglob("*.rows"))
    assert files
    for file in files:
        file.unlink()
        KINDS[kind](file)
    assert read(soma_small.path, cache)[0] == cells == str(ps.open(soma_small.path).n_obs)


@pytest.mark.parametrize("kind", KINDS)
def test_where_a_pack_is_made(tmp_path: Path, soma_small: Oracle, kind: str) -> None:
    """The mark of a pack that was begun, and names of files that are not whole yet."""
    begun = tmp_path / "pack.partial"
    begun.mkdir()
    KINDS[kind](begun / "pack.partial")
    script = "import sys, penstock as ps; ps.pack(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, soma_small.path, tmp_path / "pack"],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        assert "penstock.errors" in done.stderr
        assert "pack.partial" in done.stderr.splitlines()[-1]
    else:  # what has no content is a mark of nothing
        assert ps.open(tmp_path / "pack").n_obs == ps.open(soma_small.path).n_obs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "command", ["bench plot FILE", "bench data-loader CELLS -m AnnLoader --h5ad FILE"]
)
def test_files_of_commands(tmp_path: Path, soma_small: Oracle, kind: str, command: str) -> None:
    file = tmp_path / "file"
    KINDS[kind](file)
    words = {"FILE": str(file), "CELLS": str(soma_small.path)}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *(words.get(word, word) for word in command.split())],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "must be a file, but it is a " in done.stderr
    assert SAYS[list(KINDS).index(kind)] in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_leaves_them_out(tmp_path: Path, kind: str) -> None:
    (tmp_path / "cells").write_text("cells")
    KINDS[kind](tmp_path / "other")
    path, files, size = write_index(tmp_path)
    assert (files, size) == (1, 5)
    assert json.loads(path.read_text())["files"] == {"cells": 5}


OPEN = """
import sys
import penstock as ps
try:
    ps.open("s3://bucket/x", storage_options={"endpoint": "http://127.0.0.1:9", "max_attempts": 1})
except ps.PenstockError as error:
    print(error)
"""


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_aws(tmp_path: Path, kind: str, variable: str) -> None:
    """/dev/null is none: it says that there are no settings."""
    KINDS[kind](tmp_path / "settings")
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    said = {}
    for path in (tmp_path / "settings", Path("/dev/null"), tmp_path / "none"):
        done = subprocess.run(
            [sys.executable, "-c", OPEN], env={**os.environ, **keys, variable: str(path)},
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        said[path.name] = done.stdout
    assert any(text in said["settings"] for text in SAYS), said
    assert not any(text in said["null"] + said["none"] for text in SAYS), said


@pytest.mark.parametrize("where", ["environment", "profile", "source profile"])
@pytest.mark.parametrize("kind", KINDS)
def test_web_identity_tokens(tmp_path: Path, kind: str, where: str) -> None:
    """botocore reads them, not the engine."""
    pytest.importorskip("botocore")
    token, config, role = (
        tmp_path / "token",
        tmp_path / "config",
        "arn:aws:iam::123456789012:role/x",
    )
    KINDS[kind](token)
    settings = f"role_arn = {role}\nweb_identity_token_file = {token}\n"
    config.write_text(
        {
            "environment": "",
            "profile": f"[default]\n{settings}",
            "source profile": f"[default]\nrole_arn = {role}\nsource_profile = q\n[profile q]\n{settings}",
        }[where]
    )
    names = {"AWS_CONFIG_FILE": str(config), "AWS_EC2_METADATA_DISABLED": "true"}
    if where == "environment":
        names |= {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": role}
    kept = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", OPEN], env={**kept, **names},
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    assert SAYS[list(KINDS).index(kind)] in done.stdout
    assert str(token) in done.stdout


@pytest.mark.parametrize("variable", ["CURL_CA_BUNDLE", "SSL_CERT_FILE"])
@pytest.mark.parametrize("kind", KINDS)
def test_certificates_of_the_releases(tmp_path: Path, kind: str, variable: str) -> None:
    KINDS[kind](tmp_path / "file")
    script = "import penstock as ps; ps.census_releases('https://127.0.0.1:9/x')"
    kept = {name: text for name, text in os.environ.items() if "CA_BUNDLE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**kept, variable: str(tmp_path / "file")},
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"penstock.errors.InvalidArgument: {variable} must be a file"), last
