"""The S3 server that `penstock bench remote` reads from, as boto3 sees it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

boto3 = pytest.importorskip("boto3")
from botocore import UNSIGNED  # noqa: E402
from botocore.config import Config  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from penstock.bench.loopback_s3 import BUCKET, sent, served  # noqa: E402


def client(endpoint: str):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, proxies={}),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for i in range(25):
        (root / "a" / "b & c").mkdir(parents=True, exist_ok=True)
        (root / "a" / "b & c" / f"file {i:02d}").write_bytes(bytes(range(i)))
    (root / "a" / "top").write_bytes(bytes(range(256)) * 1000)
    (root / "empty").mkdir()
    (tmp_path / "outside").write_text("not to be read")
    return root


def test_listings(folder: Path) -> None:
    files = {
        p.relative_to(folder).as_posix(): p.stat().st_size for p in folder.rglob("*") if p.is_file()
    }
    with served(folder, 0.0, None) as endpoint:
        s3 = client(endpoint)
        for kind in ("list_objects_v2", "list_objects"):
            pages = s3.get_paginator(kind).paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 7})
            listed = [each for page in pages for each in page.get("Contents", ())]
            assert {each["Key"]: each["Size"] for each in listed} == files
            assert [each["Key"] for each in listed] == sorted(files)
            (page,) = s3.get_paginator(kind).paginate(Bucket=BUCKET, Prefix="a/", Delimiter="/")
            assert [each["Key"] for each in page["Contents"]] == ["a/top"]
            assert [each["Prefix"] for each in page["CommonPrefixes"]] == ["a/b & c/"]
            (page,) = s3.get_paginator(kind).paginate(Bucket=BUCKET, Prefix="a/b & c/file 1")
            assert len(page["Contents"]) == 10
            (page,) = s3.get_paginator(kind).paginate(Bucket=BUCKET, Prefix="empty/")
            assert "Contents" not in page


def test_objects_and_ranges(folder: Path) -> None:
    body = (folder / "a" / "top").read_bytes()
    with served(folder, 0.0, None) as endpoint:
        s3 = client(endpoint)
        assert s3.head_object(Bucket=BUCKET, Key="a/top")["ContentLength"] == len(body)
        got = s3.get_object(Bucket=BUCKET, Key="a/top")
        assert got["Body"].read() == body
        for asked, expected in (("0-0", body[:1]), ("5-900", body[5:901]), ("255999-", body[-1:]),
                                ("255990-999999", body[255_990:])):  # fmt: skip
            part = s3.get_object(Bucket=BUCKET, Key="a/top", Range=f"bytes={asked}")
            assert (part["Body"].read(), part["ETag"]) == (expected, got["ETag"])
        for key, status in (("none", 404), ("../outside", 404), ("a", 404)):
            with pytest.raises(ClientError) as failure:
                s3.head_object(Bucket=BUCKET, Key=key)
            assert failure.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        with pytest.raises(ClientError, match="InvalidRange"):
            s3.get_object(Bucket=BUCKET, Key="a/top", Range="bytes=256000-256001")
        with pytest.raises(ClientError, match="MethodNotAllowed"):
            s3.put_object(Bucket=BUCKET, Key="new", Body=b"x")
        before = sent(endpoint)
        s3.get_object(Bucket=BUCKET, Key="a/top")["Body"].read()
        after = sent(endpoint)
        assert 0 <= after.bytes - before.bytes - len(body) < 100
        assert after.requests == before.requests + 1


def test_no_answer_is_sooner_than_latency_and_bandwidth_allow(folder: Path) -> None:
    with served(folder, 0.2, 1e6) as endpoint:
        s3 = client(endpoint)
        begin = time.monotonic()
        s3.get_object(Bucket=BUCKET, Key="a/top")["Body"].read()
        assert (
            time.monotonic() - begin > 0.2 + 0.2
        )  # 256,000 bytes at a million a second, the last not waited for
