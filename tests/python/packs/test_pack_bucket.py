"""Packs written to a bucket are those of a folder, byte for byte, whoever makes them and whatever fails."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import pickle
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import anndata
import engines
import numpy as np
import part_functions
import penstock as ps
import pytest
import scipy.sparse as sp
from loopback_http import Handler, serving
from packed_experiments import (
    contents,
    expect_same,
    put_cells,
    write_growing,
    write_many_units,
    write_random,
)
from penstock import _core
from penstock.executors import PartFailed
from penstock.experiment import bucket as buckets
from penstock.experiment import pack_bucket
from penstock.experiment.pack import pack_part

pytest.importorskip("moto.server", reason="moto[server] is not installed")
pytest.importorskip("obstore")
from remote_servers import (
    BUCKET,
    FaultProxy,
    Gate,
    authentication,
    bare_environment,
    client,
    fault_proxy,
    s3_server,
)

Objects = dict[str, str]


@pytest.fixture(scope="module", autouse=True)
def _no_credentials_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        client(endpoint).create_bucket(Bucket=BUCKET)
        yield endpoint


class Place:
    """An address of its own in the bucket."""

    def __init__(self, server: str, name: str) -> None:
        self.server, self.name = server, name
        self.address = f"s3://{BUCKET}/{name}"
        self.options = {"endpoint": server, "key": "testing", "secret": "testing"}

    def through(self, proxy: FaultProxy, **options: Any) -> dict[str, Any]:
        """Options that lead through a proxy."""
        return {**self.options, "endpoint": proxy.url, **options}

    def objects(self) -> Objects:
        """SHA-256 of each object, as boto3 reads them."""
        s3 = client(self.server)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self.name + "/")
        keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return {
            key.removeprefix(self.name + "/"): hashlib.sha256(
                s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            ).hexdigest()
            for key in keys
        }

    def put(self, path: str, body: bytes) -> None:
        client(self.server).put_object(Bucket=BUCKET, Key=f"{self.name}/{path}", Body=body)

    def open(self) -> ps.Experiment:
        return ps.open(self.address, storage_options=self.options)

    def is_pack(self) -> bool:
        try:
            self.open()
        except ps.PenstockError:
            return False
        return True


@pytest.fixture
def place(server: str, request: pytest.FixtureRequest) -> Place:
    return Place(server, re.sub(r"\W+", "-", request.node.name) + ".pack")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder that is empty in the end."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many_units(tmp_path_factory.mktemp("parts"))


@pytest.mark.parametrize("seed", range(6))
def test_random_packs(seed: int, place: Place, scratch: Path, tmp_path: Path) -> None:
    """Some parts before, some twice, and some by the last call."""
    write_random(tmp_path / "source", seed)
    rng = random.Random(seed)
    options: dict[str, Any] = {"rows_per_file": rng.choice([1, 7, 50, 1000])}
    ps.pack(tmp_path / "source", tmp_path / "whole.pack", **options)
    options |= {"destination_options": place.options, "scratch": scratch}
    count, done = rng.randint(1, 12), 0
    for number in rng.choices(range(count), k=rng.randint(0, count)):
        part = pack_part(tmp_path / "source", place.address, number, count, **options)
        assert part.rows_done == part.rows_total
        done += part.rows_done - part.rows_kept
    assert not place.is_pack()
    seen: list[Any] = []
    packed = ps.pack(tmp_path / "source", place.address, **options, progress=seen.append)
    assert place.objects() == contents(tmp_path / "whole.pack")
    assert (seen[-1].rows_kept, seen[-1].rows_done) == (done, seen[-1].rows_total)
    expect_same(ps.open(tmp_path / "source"), packed)
    before = place.objects()
    again = ps.pack(tmp_path / "source", place.address, **options, progress=seen.append)
    assert again.n_obs == packed.n_obs
    assert seen[-1].rows_kept == seen[-1].rows_total == seen[-2].rows_total
    assert place.objects() == before


@pytest.mark.parametrize("kind", engines.KINDS)
def test_on_an_executor(
    kind: str, cells: Path, place: Place, scratch: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"obs_query": "group != 3", "rows_per_file": 300}
    ps.pack(cells, tmp_path / "whole.pack", **options)
    seen: list[int] = []
    with engines.made(kind) as executor:
        packed = ps.pack(
            cells, place.address, **options, executor=executor, scratch=scratch,
            destination_options=place.options, progress=lambda now: seen.append(now.rows_done),
        )  # fmt: skip
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == packed.n_obs
    assert place.objects() == contents(tmp_path / "whole.pack")
    expect_same(ps.open(tmp_path / "whole.pack"), packed)


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_a_worker_is_killed(kind: str, cells: Path, place: Place, tmp_path: Path) -> None:
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
            ps.pack(cells, place.address, **options, executor=killing)
        else:
            with pytest.raises(PartFailed, match=r"lost part \d+ of \d+ of s3://cells/"):
                ps.pack(cells, place.address, **options, executor=killing)
            assert not place.is_pack()
    assert marker.exists(), "a worker was killed"
    if kind != "dask":
        with engines.made(kind) as executor:
            ps.pack(cells, place.address, **options, executor=executor)
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=100)
    assert place.objects() == contents(tmp_path / "whole.pack")


DRIVER = """
import json, sys
import penstock as ps
source, address, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
print("ready", flush=True)
ps.pack(source, address, rows_per_file=100, destination_options=options,
        progress=lambda now: print(now.rows_done, flush=True))
"""


def driver(cells: Path, place: Place, proxy: FaultProxy) -> subprocess.Popen[str]:
    """A process that packs, through a proxy."""
    options = json.dumps(place.through(proxy))
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(cells), place.address, options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("text", [".rows", "/obs/", "pack.json"])
def test_the_process_is_killed_and_resumes(
    text: str, cells: Path, place: Place, scratch: Path, tmp_path: Path
) -> None:
    """Killed while it writes a row file, a table, or pack.json. What is there is never a pack."""
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", text, 3 if text == ".rows" else 1)
        process = driver(cells, place, proxy)
        assert gate.reached.wait(60)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not place.is_pack(), "the request was held"
        before = place.objects()
        proxy.close()  # the request fails, and is not answered
    assert len([each for each in before if each.endswith(".rows")]) >= 2
    seen: list[Any] = []
    ps.pack(
        cells, place.address, rows_per_file=100, destination_options=place.options, scratch=scratch,
        progress=seen.append,
    )  # fmt: skip
    assert seen[-1].rows_kept >= 200
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=100)
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_ctrl_c_while_the_server_is_silent(cells: Path, place: Place) -> None:
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", ".rows")
        process = driver(cells, place, proxy)
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


def test_what_is_there_is_never_replaced(cells: Path, place: Place, tmp_path: Path) -> None:
    options = {"destination_options": place.options}
    call = (cells, place.address)
    place.put("notes.txt", b"mine")
    with pytest.raises(ps.InvalidArgument, match="something that is no pack.*" + place.address):
        ps.pack(*call, **options)
    assert set(place.objects()) == {"notes.txt"}

    begun = Place(place.server, place.name + "-begun")
    pack_part(cells, begun.address, 0, 2, rows_per_file=500, **options)
    before = begun.objects()
    other: list[dict[str, Any]] = [
        {"rows_per_file": 400}, {"rows_per_file": 500, "obs_query": [0, 1, 2]},
    ]  # fmt: skip
    for choice in other:
        with pytest.raises(ps.InvalidArgument, match="a pack of other content was begun there"):
            ps.pack(cells, begun.address, **choice, **options)
    with pytest.raises(ps.InvalidArgument, match="overwrite=True is for packs in folders"):
        ps.pack(cells, begun.address, rows_per_file=500, overwrite=True, **options)
    assert begun.objects() == before

    ps.pack(cells, begun.address, rows_per_file=500, **options)
    before = begun.objects()
    for choice in other:
        with pytest.raises(ps.InvalidArgument, match="a pack in a bucket is not replaced"):
            ps.pack(cells, begun.address, **choice, **options)
    assert begun.objects() == before


def test_another_pack_comes_meanwhile(
    cells: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pack.json is not written over."""
    came = []

    def comes(*given: Any) -> None:
        place.put("pack.json", b"another")
        came.append(True)

    monkeypatch.setattr(pack_bucket, "_check_whole", comes)
    with pytest.raises(ps.InvalidArgument, match="another pack was made there meanwhile"):
        ps.pack(cells, place.address, destination_options=place.options)
    assert came
    assert place.objects()["pack.json"] == hashlib.sha256(b"another").hexdigest()


@pytest.mark.parametrize("what", ["lost", "replaced"])
def test_objects_that_vanish_meanwhile(
    what: str, cells: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, key = pack_bucket._check_whole, f"{place.name}/ms/RNA/X/raw/"

    def vanishing(*given: Any) -> None:
        s3 = client(place.server)
        row_file = s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"][1]["Key"]
        if what == "lost":
            s3.delete_object(Bucket=BUCKET, Key=row_file)
        else:
            s3.put_object(Bucket=BUCKET, Key=row_file, Body=b"other")
        real(*given)

    options: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    with monkeypatch.context() as patch:
        patch.setattr(pack_bucket, "_check_whole", vanishing)
        with pytest.raises(ps.IoError, match="1 object of the pack was deleted or replaced"):
            ps.pack(cells, place.address, **options)
    assert not place.is_pack()
    seen: list[Any] = []
    ps.pack(cells, place.address, **options, progress=seen.append)
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=500)
    files = sorted((tmp_path / "whole.pack").rglob("*.rows"))
    assert seen[-1].rows_kept == 3_000 - rows_in(files[1])
    assert place.objects() == contents(tmp_path / "whole.pack")


def rows_in(path: Path) -> int:
    """Of a row file, by its name."""
    first, end = path.stem.split("-")
    return int(end) - int(first)


def damaged(body: bytes, how: str) -> bytes:
    """A row file with another header, another index, or a part of it."""
    middle = len(body) // 2
    return {
        "cut": body[:middle],
        "empty": b"",
        "header": body[:20] + b"xx" + body[22:],
        "index": body[:-3] + bytes([body[-3] ^ 1]) + body[-2:],
        "far index": body[:88] + (1 << 60).to_bytes(8, "little") + body[96:],
        "all index": body[:88] + struct.pack("<QQ", 112, len(body) - 112) + body[104:],
        "text": b"text" * middle,
    }[how]


@pytest.mark.parametrize(
    "how", ["cut", "empty", "header", "index", "far index", "all index", "text"]
)
def test_row_files_of_no_use_are_made_again(
    how: str, cells: Path, place: Place, scratch: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=500)
    pack_part(cells, place.address, 0, 2, **options)
    files = sorted((tmp_path / "whole.pack").rglob("*.rows"))
    path = files[1].relative_to(tmp_path / "whole.pack").as_posix()
    place.put(path, damaged(files[1].read_bytes(), how))
    seen: list[Any] = []
    ps.pack(cells, place.address, **options, scratch=scratch, progress=seen.append)
    assert seen[-1].rows_kept == sum(rows_in(files[i]) for i in (0, 2))
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_a_part_of_a_pack_that_was_given_up(cells: Path, place: Place) -> None:
    """It stops after the file that was on its way. Whoever reads that is told: it has another key."""
    options: dict[str, Any] = {"rows_per_file": 500}
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", ".rows")
        errors: list[BaseException] = []

        def late() -> None:
            try:
                through = place.through(proxy)
                pack_part(cells, place.address, 0, 1, **options, destination_options=through)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=late)
        thread.start()
        assert gate.reached.wait(60)
        s3 = client(place.server)
        for path in place.objects():
            s3.delete_object(Bucket=BUCKET, Key=f"{place.name}/{path}")
        # At a timestamp it is another pack, whose files have the same names.
        other = ps.open(cells, timestamp=2**42)
        ps.pack(other, place.address, **options, destination_options=place.options)
        before = place.objects()
        gate.open.set()
        thread.join()
    assert re.search("was deleted meanwhile", str(errors[0])), errors
    after = place.objects()
    assert after.keys() == before.keys()
    (changed,) = [path for path in after if after[path] != before[path]]
    assert changed.endswith(".rows")
    with pytest.raises(ps.CorruptData, match=changed):
        for _ in ps.Dataset(place.open(), batch_size=100):
            pass


def test_a_part_that_runs_on_after_the_end(cells: Path, place: Place) -> None:
    """Changes nothing, and is no error: it was a copy of one that is done."""
    options: dict[str, Any] = {"rows_per_file": 500}
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, "PUT", ".rows")
        done: list[Any] = []
        thread = threading.Thread(
            target=lambda: done.append(
                pack_part(
                    cells, place.address, 0, 1, **options, destination_options=place.through(proxy)
                )
            )
        )
        thread.start()
        assert gate.reached.wait(60)
        ps.pack(cells, place.address, **options, destination_options=place.options)
        before = place.objects()
        gate.open.set()
        thread.join()
    assert done[0].rows_done == done[0].rows_total == 3_000
    assert place.objects() == before
    again = pack_part(cells, place.address, 0, 1, **options, destination_options=place.options)
    assert again.rows_total == 3_000
    assert place.objects() == before


def test_two_callers_at_once(cells: Path, place: Place, tmp_path: Path) -> None:
    """Both begin before either has written a file: both end with the one pack."""
    together = threading.Barrier(2)
    ends: list[Any] = []

    def call() -> None:
        waited = False

        def progress(now: Any) -> None:
            nonlocal waited
            if not waited:
                together.wait(60)
                waited = True

        ends.append(
            ps.pack(
                cells, place.address, rows_per_file=500, destination_options=place.options,
                progress=progress,
            ).n_obs
        )  # fmt: skip

    threads = [threading.Thread(target=call) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ends == [3_000, 3_000]
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=500)
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_the_source_grows_meanwhile(place: Place, tmp_path: Path) -> None:
    path = write_growing(tmp_path / "cells")
    options: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    pack_part(path, place.address, 0, 2, **options)
    put_cells(path, np.arange(3_000, 3_100))
    with pytest.raises(ps.InvalidArgument, match="or the source was written to since"):
        ps.pack(path, place.address, **options)


def test_layers_by_genes_and_objects_in_memory(place: Place, scratch: Path, tmp_path: Path) -> None:
    """One process packs them as a whole, and resumes from what is there, if it can tell what it reads."""
    rng = np.random.default_rng(3)
    X = sp.random(700, 50, 0.2, format="csc", dtype=np.float32, random_state=rng)
    X.data = np.ceil(X.data * 9)
    adata = anndata.AnnData(X)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    options: dict[str, Any] = {"rows_per_file": 100}
    ps.pack(tmp_path / "cells.h5ad", tmp_path / "whole.pack", **options)
    to = {"destination_options": place.options, "scratch": scratch}
    pack_part(tmp_path / "cells.h5ad", place.address, 1, 3, **options, **to)
    seen: list[Any] = []
    ps.pack(tmp_path / "cells.h5ad", place.address, **options, **to, progress=seen.append)
    assert seen[-1].rows_kept == 200
    assert place.objects() == contents(tmp_path / "whole.pack")

    held = anndata.AnnData(X.tocsr())
    other = Place(place.server, place.name + "-memory")
    packed = ps.pack(held, other.address, **options, **to)
    read = np.vstack([X for X, _ in ps.Dataset(packed, batch_size=64, shuffle=False)])
    assert np.array_equal(read, X.toarray())
    with pytest.raises(ps.Unsupported, match="nothing tells whether each part reads"):
        pack_part(held, Place(place.server, place.name + "-parts").address, 0, 2, **to)


def test_a_source_in_the_same_bucket(cells: Path, place: Place, tmp_path: Path) -> None:
    """The options are for both; and a pack cannot lie in its own source."""
    ps.pack(cells, place.address, storage_options=place.options, rows_per_file=500)
    again = Place(place.server, place.name + "-again")
    ps.pack(place.address, again.address, storage_options=place.options, rows_per_file=500)
    ps.pack(place.open(), tmp_path / "local.pack", rows_per_file=500)
    assert again.objects() == contents(tmp_path / "local.pack")
    before = place.objects()
    for inside in (place.address, f"{place.address}/obs/a.pack"):
        with pytest.raises(ps.InvalidArgument, match="lies within what is packed"):
            ps.pack(place.address, inside, storage_options=place.options)
    assert place.objects() == before


def test_wrong_arguments(cells: Path, place: Place, tmp_path: Path) -> None:
    to = {"destination_options": place.options}
    for address, said in {
        f"s3://{BUCKET}": "must name a folder in a bucket",
        f"s3://{BUCKET}/": "must name a folder in a bucket",
        f"s3://{BUCKET}/a/../b": "must name a folder in a bucket",
        "s3:///a": "must name a folder in a bucket",
        "https://host/a.pack": "must be a folder on this machine",
    }.items():
        with pytest.raises(ps.InvalidArgument, match=said):
            ps.pack(cells, address, **(to if address.startswith("s3") else {}))
    with pytest.raises(ps.InvalidArgument) as caught:
        ps.pack(cells, f"s3://user:hidden@{BUCKET}/a.pack", **to)
    assert "hidden" not in str(caught.value)
    for option, said in {
        "endpont": "no storage option 'endpont' for s3://cells/.*; choose from .*endpoint",
        "max_attempts": "storage option max_attempts must be a number from 1 to 1000",
        "anonymous": "storage option anonymous must be true or false",
    }.items():
        with pytest.raises(ps.InvalidArgument, match=said):
            ps.pack(cells, place.address, destination_options={**place.options, option: "many"})
    with pytest.raises(ps.InvalidArgument, match="are for a destination in a bucket"):
        ps.pack(cells, tmp_path / "a.pack", **to)
    with pytest.raises(ps.InvalidArgument, match="are for a destination in a bucket"):
        ps.pack(cells, tmp_path / "a.pack", scratch=tmp_path)
    with pytest.raises(ps.InvalidArgument, match="scratch must be a folder that is there"):
        ps.pack(cells, place.address, **to, scratch=tmp_path / "nowhere")
    for options in (
        {"use_emulator": "hidden"},
        {"nothing": "hidden"},
        {"token": ["hidden"]},
        "hidden",
    ):
        with pytest.raises(ps.InvalidArgument, match="options") as caught:
            ps.pack(cells, "az://bucket/a.pack", destination_options=options)
        assert "hidden" not in str(caught.value)
    with pytest.raises(ps.NotFound, match=r"there is no bucket nowhere at .* s3://nowhere/a\.pack"):
        ps.pack(cells, "s3://nowhere/a.pack", **to)
    assert not place.objects()


def test_keys_that_may_not_write(cells: Path, place: Place) -> None:
    """The error comes first, names the place, and shows no key."""
    with authentication(place.server) as (_, keys):
        options = {"endpoint": place.server, **keys}
        with pytest.raises(ps.IoError, match="access is denied; check the keys") as caught:
            ps.pack(cells, place.address, destination_options=options)
    text = f"{caught.value} {caught.value.__cause__!r}"
    assert place.address in text
    assert keys["secret_access_key"] not in text
    bucket = buckets.Bucket("destination", place.address, options)
    assert keys["secret_access_key"] not in repr(bucket)
    assert pickle.loads(pickle.dumps(bucket)).address == place.address


def test_keys_of_the_environment_and_of_a_profile(
    cells: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto takes any keys; the requests show which came."""
    credentials = tmp_path / "credentials"
    credentials.write_text("[lab]\naws_access_key_id = PROFILE\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-environment")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    given: dict[str, dict[str, Any]] = {
        "ENVIRONMENT": {}, "PROFILE": {"profile": "lab"}, "GIVEN": {"key": "GIVEN", "secret": "x"},
    }  # fmt: skip
    with fault_proxy(place.server) as proxy:
        for key, options in given.items():
            proxy.fields.clear()
            options["endpoint"] = proxy.url
            ps.pack(cells, f"{place.address}/{key}", destination_options=options)
            signed = {each["authorization"].split("/")[0] for each in proxy.fields}
            assert signed == {f"AWS4-HMAC-SHA256 Credential={key}"}
            tokens = {each.get("x-amz-security-token") for each in proxy.fields}
            assert tokens == {"of-the-environment" if key == "ENVIRONMENT" else None}


def test_the_command(cells: Path, place: Place, scratch: Path, tmp_path: Path) -> None:
    """Parts by a job array, then the plain command."""
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=500)
    options = [f"-o={name}={text}" for name, text in place.options.items()]
    base = [
        sys.executable, "-m", "penstock", "pack", str(cells), place.address, *options,
        "--rows-per-file", "500", "--scratch", str(scratch),
    ]  # fmt: skip
    files = sorted((tmp_path / "whole.pack").rglob("*.rows"))
    rows = [rows_in(files[i]) + rows_in(files[i + 1]) for i in (0, 4)]
    for number, count in zip((1, 3), rows, strict=True):
        told = subprocess.run([*base, "--part", f"{number}/3"], capture_output=True, text=True)
        assert f"part {number} of 3 is done: {count:,} rows" in told.stdout, told.stderr
    told = subprocess.run(base, capture_output=True, text=True)
    late = subprocess.run([*base, "--part", "2/3"], capture_output=True, text=True)
    assert "part 2 of 3 is done" in late.stdout, late.stderr
    assert f"{place.address}: 3,000 cells, 1 layer" in told.stdout, told.stderr
    assert f"{sum(rows):,} rows had been packed before" in told.stdout
    assert place.objects() == contents(tmp_path / "whole.pack")


def test_where_a_bucket_is() -> None:
    """The region that the bucket answers with; and the address by host or by path."""
    signed: list[str] = []

    class Elsewhere(Handler):
        def do_GET(self) -> None:
            signed.append(self.headers["Authorization"].split("/")[2])
            if signed[-1] != "eu-west-3":
                self.send_response(400)
                self.send_header("x-amz-bucket-region", "eu-west-3")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.answer(
                    b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                )

    with serving(Elsewhere) as endpoint:
        keys = {"access_key_id": "a", "secret_access_key": "b", "endpoint": endpoint}
        access = _core.S3Access("s3://bucket/a.pack", keys, None)
        assert (access.region, access.url) == ("eu-west-3", f"{endpoint}/bucket")
        assert signed == ["us-east-1", "eu-west-3"]
        assert access.key() == ("a", "b", "")
        local = endpoint.replace("127.0.0.1", "localhost")
        by_host = {**keys, "endpoint": local, "addressing_style": "virtual", "region": "eu-west-3"}
        access = _core.S3Access("s3://bucket/a.pack", by_host, None)
        assert access.url == local.replace("localhost", "bucket.localhost")


@pytest.mark.parametrize("round_", range(3))
def test_parts_that_begin_at_once(round_: int, cells: Path, place: Place, tmp_path: Path) -> None:
    """All of a job array, before there is anything."""
    together = threading.Barrier(4)
    rows: list[int] = []
    errors: list[BaseException] = []

    def part(number: int) -> None:
        together.wait(60)
        try:
            to = {"rows_per_file": 500, "destination_options": place.options}
            rows.append(pack_part(cells, place.address, number, 4, **to).rows_total)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=part, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors
    assert sum(rows) == 3_000
    ps.pack(cells, place.address, rows_per_file=500, destination_options=place.options)
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=500)
    assert place.objects() == contents(tmp_path / "whole.pack")


@pytest.mark.parametrize("after", ["the listing", "pack.json was looked for"])
def test_the_pack_ends_while_a_part_begins(after: str, cells: Path, place: Place) -> None:
    """The part has nothing to do, and leaves nothing."""
    to: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    pack_part(cells, place.address, 0, 2, **to)
    kind, text = ("GET", "pack.json") if after == "the listing" else ("PUT", "pack.partial")
    with fault_proxy(place.server) as proxy:
        gate = Gate(proxy, kind, text)
        done: list[Any] = []

        def late() -> None:
            through = place.through(proxy)
            done.append(
                pack_part(cells, place.address, 1, 2, **{**to, "destination_options": through})
            )

        thread = threading.Thread(target=late)
        thread.start()
        assert gate.reached.wait(60)
        ps.pack(cells, place.address, **to)
        before = place.objects()
        gate.open.set()
        thread.join()
        assert not [path for path in proxy.requests if ".rows" in path]
    assert done[0].rows_kept == done[0].rows_total > 0
    assert place.objects() == before


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


def test_forked_workers_are_refused(cells: Path, place: Place) -> None:
    """They would wait for threads that their parent has."""
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor,
        pytest.raises(ps.Unsupported, match=r'multiprocessing\.get_context\("spawn"\)'),
    ):
        ps.pack(cells, place.address, executor=executor, destination_options=place.options)


def test_an_error_shows_no_token(cells: Path) -> None:
    """S3 repeats it in the body of its answer."""

    class Refusing(Handler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "delimiter" in self.path:  # the engine's
                self.answer(
                    b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                )
                return
            body = "<?xml version='1.0'?>\n<Error><Code>InvalidToken</Code><Message>It is bad.</Message>"
            self.answer(f"{body}<Token-0>{token}</Token-0></Error>".encode(), 400)

    token = "TheTokenItself"
    with serving(Refusing) as endpoint:
        options = {"endpoint": endpoint, "key": "a", "secret": "b", "token": token}
        with pytest.raises(ps.IoError, match="InvalidToken: It is bad") as caught:
            ps.pack(cells, "s3://bucket/a.pack", destination_options=options)
    assert token not in "".join(traceback.format_exception(caught.value))


def test_one_attempt_is_one(cells: Path, place: Place) -> None:
    with fault_proxy(place.server) as proxy:
        proxy.fault = lambda number, path: "reset" if proxy.kinds[number] == "PUT" else None
        with pytest.raises(ps.IoError, match=r"cannot write: .*pack\.partial"):
            ps.pack(cells, place.address, destination_options=place.through(proxy, max_attempts=1))
        assert proxy.injected["reset"] == 1


def test_an_empty_folder_of_a_console(cells: Path, place: Place, tmp_path: Path) -> None:
    """It is an object whose key ends in a slash."""
    place.put("", b"")
    ps.pack(cells, place.address, destination_options=place.options)
    ps.pack(cells, tmp_path / "whole.pack")
    objects = place.objects()
    del objects[""]
    assert objects == contents(tmp_path / "whole.pack")


def test_a_store_that_is_written_but_not_read(cells: Path, tmp_path: Path) -> None:
    """gs:// and az:// are obstore's; here its store of a folder stands for theirs."""
    from obstore.store import LocalStore

    folder = tmp_path / "store"
    folder.mkdir()

    class Local(buckets.Bucket):
        def _open(self) -> Any:
            return LocalStore(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.experiment.pack_job.Bucket", Local)
        made = ps.pack(cells, "gs://bucket/cells.pack", rows_per_file=500)
    assert made is None
    ps.pack(cells, tmp_path / "whole.pack", rows_per_file=500)
    assert contents(folder) == contents(tmp_path / "whole.pack")
