"""Fixtures of conftest.py for packs in a bucket of moto's S3."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps
import pytest
from remote_servers import BUCKET, FaultProxy, bare_environment, client, s3_server


@pytest.fixture(scope="module")
def no_credentials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """None of this machine's."""
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="module")
def bucket_server(no_credentials: None) -> Iterator[str]:
    """The address of an S3 with one empty bucket."""
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

    def objects(self) -> dict[str, str]:
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
def place(bucket_server: str, request: pytest.FixtureRequest) -> Place:
    """An address for this test."""
    return Place(bucket_server, re.sub(r"\W+", "-", request.node.name) + ".pack")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder that is empty in the end."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def many_units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 cells whose pack can have many row files."""
    from packed_experiments import write_many_units

    return write_many_units(tmp_path_factory.mktemp("parts"))


def rows_in(path: Path) -> int:
    """Of a row file, by its name."""
    first, end = path.stem.split("-")
    return int(end) - int(first)
