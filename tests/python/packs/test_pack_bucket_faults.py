"""Packing to a bucket through killed processes and requests that fail: an error, or the same pack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import engines
import numpy as np
import part_functions
import penstock as ps
import pytest
import scipy.sparse as sp
from bucket_packs import Place
from loopback_http import Handler, serving
from packed_experiments import contents
from penstock.executors import PartFailed
from penstock.experiment import bucket as buckets

pytest.importorskip("moto.server", reason="moto[server] is not installed")
pytest.importorskip("obstore")
from remote_servers import FaultProxy, Gate, fault_proxy

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_worker_is_killed(kind: str, many_units: Path, place: Place, tmp_path: Path) -> None:
    """Dask runs the part again. A pool is broken, and the same call resumes with a new one."""
    scratch, marker = tmp_path / "scratch", tmp_path / "killed"
    scratch.mkdir()
    options: dict[str, Any] = {
        "rows_per_file": 100, "destination_options": place.options, "scratch": scratch,
    }  # fmt: skip
    with engines.made(kind) as executor:
        killing = engines.Calling(
            executor, part_functions.killed_while_writing, str(marker), str(scratch)
        )
        if kind == "dask":
            ps.pack(many_units, place.address, **options, executor=killing)
        else:
            with pytest.raises(PartFailed, match=r"lost part \d+ of \d+ of s3://cells/"):
                ps.pack(many_units, place.address, **options, executor=killing)
            assert not place.is_pack()
    assert marker.exists(), "a worker was killed"
    if kind != "dask":
        with engines.made(kind) as executor:
            ps.pack(many_units, place.address, **options, executor=executor)
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=100)
    assert place.objects() == contents(tmp_path / "whole.pack")


DRIVER = """
import json, sys
import penstock as ps
many_units, address, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
print("ready", flush=True)
ps.pack(many_units, address, rows_per_file=100, destination_options=options,
        progress=lambda now: print(now.rows_done, flush=True))
"""


def driver(many_units: Path, place: Place, proxy: FaultProxy) -> subprocess.Popen[str]:
    """A process that packs, through a proxy."""
    options = json.dumps(place.through(proxy))
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(many_units), place.address, options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("text", [".rows", "/obs/", "pack.json"])
def test_the_process_is_killed_and_resumes(
    text: str, many_units: Path, place: Place, scratch: Path, tmp_path: Path
) -> None:
    """Killed while it writes a row file, a table, or pack.json. What is there is never a pack."""
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", text, 3 if text == ".rows" else 1)
        process = driver(many_units, place, proxy)
        assert gate.reached.wait(60)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not place.is_pack(), "the request was held"
        before = place.objects()
        proxy.close()  # the request fails, and is not answered
    assert len([each for each in before if each.endswith(".rows")]) >= 2
    seen: list[Any] = []
    ps.pack(
        many_units, place.address, rows_per_file=100, destination_options=place.options, scratch=scratch,
        progress=seen.append,
    )  # fmt: skip
    assert seen[-1].rows_kept >= 200
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=100)
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_ctrl_c_while_the_server_is_silent(many_units: Path, place: Place) -> None:
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", ".rows")
        process = driver(many_units, place, proxy)
        assert gate.reached.wait(60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGINT, errors
        assert not gate.open.is_set(), "the server had not answered"
        gate.open.set()
    assert "KeyboardInterrupt" in errors
    assert not place.is_pack()


#: Kinds of requests: method, and what the address has.
REQUESTS: dict[str, Callable[[str, str], bool]] = {
    "read": lambda kind, path: kind == "GET" and "?" not in path,
    "list": lambda kind, path: kind == "GET" and "list-type" in path,
    "write": lambda kind, path: kind == "PUT" and "partNumber" not in path,
    "create": lambda kind, path: kind == "PUT" and path.endswith("pack.json"),
    "begin an upload": lambda kind, path: kind == "POST" and "uploads" in path,
    "write a part": lambda kind, path: kind == "PUT" and "partNumber" in path,
    "end an upload": lambda kind, path: kind == "POST" and "uploadId" in path,
    "delete": lambda kind, path: kind == "DELETE" or (kind == "POST" and path.endswith("?delete")),
}


@pytest.fixture(scope="module")
def large_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells whose row files have more than the 5 MiB that a part of an upload has at least."""
    path = tmp_path_factory.mktemp("large") / "cells.h5ad"
    values = np.random.default_rng(1).random((2_000, 1_000), np.float32)
    anndata.AnnData(sp.csr_matrix(values)).write_h5ad(path)
    return path


@pytest.mark.parametrize("request_kind", REQUESTS)
@pytest.mark.parametrize("fault", ["500", "slowdown", "reset", "lost"])
def test_faults_of_each_request(
    request_kind: str, fault: str, large_rows: Path, place: Place, scratch: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each such request fails once, and what comes is the same pack."""
    monkeypatch.setattr(buckets, "_REQUEST_BYTES", 5 << 20)
    is_meant, failed = REQUESTS[request_kind], set()
    ps.pack(large_rows, tmp_path / "whole.pack")
    with fault_proxy(place.server) as proxy:

        def once(number: int, path: str) -> str | None:
            kind = proxy.kinds[number]
            if not is_meant(kind, path) or (kind, path) in failed:
                return None
            failed.add((kind, path))
            return fault

        proxy.fault = once
        options = place.through(proxy, retry_timeout=60)
        ps.pack(large_rows, place.address, destination_options=options, scratch=scratch)
        assert proxy.injected[fault] == len(failed) > 0
    assert place.objects() == contents(tmp_path / "whole.pack")


@pytest.mark.parametrize("request_kind", REQUESTS)
def test_faults_that_stay(
    request_kind: str, large_rows: Path, place: Place, scratch: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """An error that says where; there is no pack; and the same call then completes."""
    monkeypatch.setattr(buckets, "_REQUEST_BYTES", 5 << 20)
    is_meant = REQUESTS[request_kind]
    with fault_proxy(place.server) as proxy:
        proxy.fault = lambda number, path: "500" if is_meant(proxy.kinds[number], path) else None
        options = place.through(proxy, max_attempts=2)
        call = (large_rows, place.address)
        told = f"(cannot (read|write|delete): |listing of ){place.address}"
        with pytest.raises(ps.IoError, match=told):
            ps.pack(*call, destination_options=options, scratch=scratch)
        assert proxy.injected["500"] >= 2
        assert place.is_pack() == (request_kind == "delete"), "only the last step is missing"
        proxy.fault = lambda number, path: None
        ps.pack(*call, destination_options=options, scratch=scratch)
    ps.pack(large_rows, tmp_path / "whole.pack")
    assert place.objects() == contents(tmp_path / "whole.pack")


@pytest.mark.parametrize("request_kind", ["list", "write", "create", "write a part", "delete"])
def test_requests_without_an_answer_are_sent_again(
    request_kind: str,
    large_rows: Path,
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(buckets, "_REQUEST_BYTES", 5 << 20)
    monkeypatch.setattr(buckets, "_REQUEST_SECONDS", 2)
    is_meant = REQUESTS[request_kind]
    with fault_proxy(place.server) as proxy:
        release, held = threading.Event(), set()

        def hold(number: int, path: str) -> None:
            # The first list request is the engine's, with a patience of its own.
            # A marker that comes when all is done stays: the next call deletes it.
            not_meant = (
                "delimiter" in path or proxy.kinds[number] + path[-13:] == "PUT/pack.partial"
            )
            if is_meant(proxy.kinds[number], path) and not not_meant and not held:
                held.add(threading.get_ident())

        def before(path: str) -> None:
            if threading.get_ident() in held:
                release.wait(60)

        proxy.fault, proxy.before_answer = hold, before
        ps.pack(large_rows, place.address, destination_options=place.through(proxy))
        assert held
        assert not release.is_set()
        release.set()
    ps.pack(large_rows, tmp_path / "whole.pack")
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_one_attempt_is_one(many_units: Path, place: Place) -> None:
    with fault_proxy(place.server) as proxy:
        proxy.fault = lambda number, path: "reset" if proxy.kinds[number] == "PUT" else None
        with pytest.raises(ps.IoError, match=r"cannot write: .*pack\.partial"):
            ps.pack(
                many_units, place.address, destination_options=place.through(proxy, max_attempts=1)
            )
        assert proxy.injected["reset"] == 1


def answers_the_engine(handler: Handler) -> bool:
    """Answer a listing of the engine, which comes before what obstore asks."""
    handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    if "delimiter" not in handler.path:
        return False
    handler.answer(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
    return True


def test_an_error_shows_no_token(many_units: Path) -> None:
    """S3 repeats it in the body of its answer."""

    class Refusing(Handler):
        def do_GET(self) -> None:
            if answers_the_engine(self):
                return
            body = "<?xml version='1.0'?>\n<Error><Code>InvalidToken</Code><Message>It is bad.</Message>"
            self.answer(f"{body}<Token-0>{token}</Token-0></Error>".encode(), 400)

    token = "TheTokenItself"
    with serving(Refusing) as endpoint:
        options = {"endpoint": endpoint, "key": "a", "secret": "b", "token": token}
        with pytest.raises(ps.IoError, match="InvalidToken: It is bad") as caught:
            ps.pack(many_units, "s3://bucket/a.pack", destination_options=options)
    assert token not in "".join(traceback.format_exception(caught.value))


#: What a bucket does, each as one request.
CALLS: dict[str, Callable[[buckets.Bucket], Any]] = {
    "read": lambda bucket: bucket.read("a"),
    "list": lambda bucket: bucket.sizes(),
    "write": lambda bucket: bucket.put("a", b"content"),
    "create": lambda bucket: bucket.create("a", b"content"),
    "delete": lambda bucket: bucket.delete("a"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [303, 307])
def test_no_redirect_leads_to_another_host(
    status: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other host would see the session token."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    seen: list[str] = []

    class Other(Handler):
        def do_GET(self) -> None:
            seen.append(self.command)
            self.answer(b"")

        do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

    class Redirecting(Handler):
        def do_GET(self) -> None:
            if answers_the_engine(self):
                return
            self.send_response(status)
            self.send_header("Location", other.replace("127.0.0.1", "localhost") + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

    with serving(Other) as other, serving(Redirecting) as endpoint:
        options = {
            "endpoint": endpoint, "key": "a", "secret": "b", "token": "c", "max_attempts": 1,
        }  # fmt: skip
        bucket = buckets.Bucket("destination", "s3://bucket/a.pack", options)
        with pytest.raises(ps.IoError, match=r"redirects to another host|307 Temporary Redirect"):
            CALLS[call](bucket)
    assert seen == []
