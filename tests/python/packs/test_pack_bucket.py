"""Packs written to a bucket are those of a folder, byte for byte, whoever makes them."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import struct
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import anndata
import engines
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
from bucket_packs import Place, rows_in
from loopback_http import Handler, serving
from packed_experiments import contents, expect_same, write_random
from penstock import _core
from penstock.experiment import bucket as buckets
from penstock.experiment.packs.pack import pack_part

pytest.importorskip("moto.server", reason="moto[server] is not installed")
pytest.importorskip("obstore")
from remote_servers import BUCKET, authentication, fault_proxy

pytestmark = pytest.mark.usefixtures("no_credentials")


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


@pytest.mark.parametrize(
    ("kind", "workers"), [("threads", 2), ("processes", 4), ("loky", 2), ("dask", 2)]
)
def test_on_an_executor(
    kind: str, workers: int, many_units: Path, place: Place, scratch: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"obs_query": "group != 3", "rows_per_file": 300}
    ps.pack(many_units, tmp_path / "whole.pack", **options)
    seen: list[int] = []
    with engines.made(kind, workers) as executor:
        packed = ps.pack(
            many_units, place.address, **options, executor=executor, scratch=scratch,
            destination_options=place.options, progress=lambda now: seen.append(now.rows_done),
        )  # fmt: skip
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == packed.n_obs
    assert place.objects() == contents(tmp_path / "whole.pack")
    expect_same(ps.open(tmp_path / "whole.pack"), packed)


def test_what_is_there_is_never_replaced(many_units: Path, place: Place, tmp_path: Path) -> None:
    options = {"destination_options": place.options}
    call = (many_units, place.address)
    place.put("notes.txt", b"mine")
    with pytest.raises(ps.InvalidArgument, match="something that is no pack.*" + place.address):
        ps.pack(*call, **options)
    assert set(place.objects()) == {"notes.txt"}

    begun = Place(place.server, place.name + "-begun")
    pack_part(many_units, begun.address, 0, 2, rows_per_file=500, **options)
    before = begun.objects()
    other: list[dict[str, Any]] = [
        {"rows_per_file": 400}, {"rows_per_file": 500, "obs_query": [0, 1, 2]},
    ]  # fmt: skip
    for choice in other:
        with pytest.raises(ps.InvalidArgument, match="a pack of other content was begun there"):
            ps.pack(many_units, begun.address, **choice, **options)
    with pytest.raises(ps.InvalidArgument, match="overwrite=True is for packs in folders"):
        ps.pack(many_units, begun.address, rows_per_file=500, overwrite=True, **options)
    assert begun.objects() == before

    ps.pack(many_units, begun.address, rows_per_file=500, **options)
    before = begun.objects()
    for choice in other:
        with pytest.raises(ps.InvalidArgument, match="a pack in a bucket is not replaced"):
            ps.pack(many_units, begun.address, **choice, **options)
    assert begun.objects() == before


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
    how: str, many_units: Path, place: Place, scratch: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"rows_per_file": 500, "destination_options": place.options}
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=500)
    pack_part(many_units, place.address, 0, 2, **options)
    files = sorted((tmp_path / "whole.pack").rglob("*.rows"))
    path = files[1].relative_to(tmp_path / "whole.pack").as_posix()
    place.put(path, damaged(files[1].read_bytes(), how))
    seen: list[Any] = []
    ps.pack(many_units, place.address, **options, scratch=scratch, progress=seen.append)
    assert seen[-1].rows_kept == sum(rows_in(files[i]) for i in (0, 2))
    assert place.objects() == contents(tmp_path / "whole.pack")


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


def test_a_source_in_the_same_bucket(many_units: Path, place: Place, tmp_path: Path) -> None:
    """The options are for both; and a pack cannot lie in its own source."""
    ps.pack(many_units, place.address, storage_options=place.options, rows_per_file=500)
    again = Place(place.server, place.name + "-again")
    ps.pack(place.address, again.address, storage_options=place.options, rows_per_file=500)
    ps.pack(place.open(), tmp_path / "local.pack", rows_per_file=500)
    assert again.objects() == contents(tmp_path / "local.pack")
    before = place.objects()
    for inside in (place.address, f"{place.address}/obs/a.pack"):
        with pytest.raises(ps.InvalidArgument, match="lies within what is packed"):
            ps.pack(place.address, inside, storage_options=place.options)
    assert place.objects() == before


def test_wrong_arguments(many_units: Path, place: Place, tmp_path: Path) -> None:
    to = {"destination_options": place.options}
    for address, said in {
        f"s3://{BUCKET}": "must name a folder in a bucket",
        f"s3://{BUCKET}/": "must name a folder in a bucket",
        f"s3://{BUCKET}/a/../b": "must name a folder in a bucket",
        "s3:///a": "must name a folder in a bucket",
        "https://host/a.pack": "must be a folder on this machine",
    }.items():
        with pytest.raises(ps.InvalidArgument, match=said):
            ps.pack(many_units, address, **(to if address.startswith("s3") else {}))
    with pytest.raises(ps.InvalidArgument) as caught:
        ps.pack(many_units, f"s3://user:hidden@{BUCKET}/a.pack", **to)
    assert "hidden" not in str(caught.value)
    for option, said in {
        "endpont": "no storage option 'endpont' for s3://cells/.*; choose from .*endpoint",
        "max_attempts": "storage option max_attempts must be a number from 1 to 1000",
        "anonymous": "storage option anonymous must be true or false",
    }.items():
        with pytest.raises(ps.InvalidArgument, match=said):
            ps.pack(
                many_units, place.address, destination_options={**place.options, option: "many"}
            )
    with pytest.raises(ps.InvalidArgument, match="are for a destination in a bucket"):
        ps.pack(many_units, tmp_path / "a.pack", **to)
    with pytest.raises(ps.InvalidArgument, match="are for a destination in a bucket"):
        ps.pack(many_units, tmp_path / "a.pack", scratch=tmp_path)
    with pytest.raises(ps.InvalidArgument, match="scratch must be a folder that is there"):
        ps.pack(many_units, place.address, **to, scratch=tmp_path / "nowhere")
    for options in (
        {"account_name": "hidden", "allow_http": "hidden"},
        {"use_emulator": "hidden"},
        {"nothing": "hidden"},
        {"token": ["hidden"]},
        "hidden",
    ):
        with pytest.raises(ps.InvalidArgument, match="options") as caught:
            ps.pack(many_units, "az://bucket/a.pack", destination_options=options)
        assert "hidden" not in str(caught.value)
    with pytest.raises(ps.NotFound, match=r"there is no bucket nowhere at .* s3://nowhere/a\.pack"):
        ps.pack(many_units, "s3://nowhere/a.pack", **to)
    assert not place.objects()


def test_keys_that_may_not_write(many_units: Path, place: Place) -> None:
    """The error comes first, names the place, and shows no key."""
    with authentication(place.server) as (_, keys):
        options = {"endpoint": place.server, **keys}
        with pytest.raises(ps.IoError, match="access is denied; check the keys") as caught:
            ps.pack(many_units, place.address, destination_options=options)
    text = f"{caught.value} {caught.value.__cause__!r}"
    assert place.address in text
    assert keys["secret_access_key"] not in text
    bucket = buckets.Bucket("destination", place.address, options)
    assert keys["secret_access_key"] not in repr(bucket)
    assert pickle.loads(pickle.dumps(bucket)).address == place.address


def test_keys_of_the_environment_and_of_a_profile(
    many_units: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            ps.pack(many_units, f"{place.address}/{key}", destination_options=options)
            signed = {each["authorization"].split("/")[0] for each in proxy.fields}
            assert signed == {f"AWS4-HMAC-SHA256 Credential={key}"}
            tokens = {each.get("x-amz-security-token") for each in proxy.fields}
            assert tokens == {"of-the-environment" if key == "ENVIRONMENT" else None}


def test_the_command(many_units: Path, place: Place, scratch: Path, tmp_path: Path) -> None:
    """Parts by a job array, then the plain command."""
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=500)
    options = [f"-o={name}={text}" for name, text in place.options.items()]
    base = [
        sys.executable, "-m", "penstock", "pack", str(many_units), place.address, *options,
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


def test_forked_workers_are_refused(many_units: Path, place: Place) -> None:
    """They would wait for threads that their parent has."""
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor,
        pytest.raises(ps.Unsupported, match=r'multiprocessing\.get_context\("spawn"\)'),
    ):
        ps.pack(many_units, place.address, executor=executor, destination_options=place.options)


def test_an_empty_folder_of_a_console(many_units: Path, place: Place, tmp_path: Path) -> None:
    """It is an object whose key ends in a slash."""
    place.put("", b"")
    ps.pack(many_units, place.address, destination_options=place.options)
    ps.pack(many_units, tmp_path / "whole.pack")
    objects = place.objects()
    del objects[""]
    assert objects == contents(tmp_path / "whole.pack")


@pytest.mark.parametrize("name", ["allow_http", "azure_allow_http"])
def test_options_of_the_client(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """obstore takes them apart from those of a store, or Rust panics."""
    seen: list[str] = []

    class Refusing(Handler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.answer(b"<Error><Code>No</Code></Error>", 403)

    with serving(Refusing) as url:
        options = {"account_name": "a", "skip_signature": True, "endpoint": url, name: True}
        bucket = buckets.Bucket("destination", "az://container/a.pack", options)
        with pytest.raises(ps.IoError, match="403 Forbidden"):
            bucket.sizes()
    assert seen
    assert "panicked" not in capfd.readouterr().err


def test_certificates_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    with pytest.raises(ps.IoError, match=r"AWS_CA_BUNDLE must name a file .*none\.pem"):
        buckets.Bucket("destination", "az://container/a.pack", {"account_name": "a"})


def test_a_store_that_is_written_but_not_read(many_units: Path, tmp_path: Path) -> None:
    """gs:// and az:// are obstore's; here its store of a folder stands for theirs."""
    from obstore.store import LocalStore

    folder = tmp_path / "store"
    folder.mkdir()

    class Local(buckets.Bucket):
        def _open(self) -> Any:
            return LocalStore(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.experiment.packs.job.Bucket", Local)
        made = ps.pack(many_units, "gs://bucket/cells.pack", rows_per_file=500)
    assert made is None
    ps.pack(many_units, tmp_path / "whole.pack", rows_per_file=500)
    assert contents(folder) == contents(tmp_path / "whole.pack")
