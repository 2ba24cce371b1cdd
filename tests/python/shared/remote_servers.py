"""Servers on loopback for tests of remote stores: S3 (moto), and a proxy that misbehaves."""

from __future__ import annotations

import http.client
import itertools
import json
import logging
import os
import socket
import ssl
import struct
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from loopback_http import Handler, LoopbackServer

BUCKET = "cells"
ACCESS = {"access_key_id": "testing", "secret_access_key": "testing"}


def client(endpoint: str, service: str = "s3", **keys: str):
    """A boto3 client of the server."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys.get("access_key_id", "testing"),
        aws_secret_access_key=keys.get("secret_access_key", "testing"),
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )


@contextmanager
def bare_environment(folder: Path) -> Iterator[None]:
    """Neither the machine's AWS settings nor its proxies matter."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("AWS_") or name.lower().endswith("_proxy"):
                patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of an empty S3, which moto keeps in this process."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        _ask_moto(endpoint, "reset")  # servers of other tests had the same buckets
        yield endpoint
    finally:
        server.stop()


def _ask_moto(endpoint: str, what: str, text: str = "") -> None:
    address, fields = f"{endpoint}/moto-api/{what}", {"Content-Type": "text/plain"}
    request = urllib.request.Request(address, text.encode(), fields, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(request).close()


def upload(endpoint: str, folder: Path, prefix: str, bucket: str = BUCKET) -> None:
    """All files below a folder, under their relative names; folders become nothing, as in S3."""
    s3 = client(endpoint)
    if bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=bucket)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            s3.put_object(
                Bucket=bucket,
                Key=f"{prefix}/{path.relative_to(folder).as_posix()}",
                Body=path.read_bytes(),
                ACL="public-read",
            )


def new_access_key(iam, user: str) -> dict[str, str]:
    """Another key of that user, as storage options."""
    key = iam.create_access_key(UserName=user)["AccessKey"]
    return {"access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}


@contextmanager
def authentication(endpoint: str) -> Iterator[tuple[str, dict[str, str]]]:
    """A user who may read and his keys; moto checks signatures and policies as long as this lasts."""
    iam = client(endpoint, "iam")
    user = f"reader{time.time_ns()}"
    iam.create_user(UserName=user)
    allowed = ["s3:GetObject", "s3:ListBucket", "iam:CreateAccessKey", "iam:DeleteAccessKey"]
    statement = {"Action": allowed, "Effect": "Allow", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=user, PolicyName="read", PolicyDocument=policy)
    keys = new_access_key(iam, user)
    _ask_moto(endpoint, "reset-auth", "0")
    try:
        yield user, keys
    finally:
        _ask_moto(endpoint, "reset-auth", "inf")


class MetadataService:
    """Gives keys as the metadata of a container (/keys) and of an instance (IMDSv2) do."""

    def __init__(self, keys: dict[str, str]) -> None:
        self.tokens: list[str] = []  #: what the requests were allowed by
        self.answers = 0  #: how often keys were given
        self.seconds_left = 3600.0
        self.give(keys)
        service = self

        class Metadata(Handler):
            def do_PUT(self) -> None:
                service.tokens.append(self.headers["X-aws-ec2-metadata-token-ttl-seconds"])
                self.answer(b"the-token")

            def do_GET(self) -> None:
                token = self.headers.get("X-aws-ec2-metadata-token")
                service.tokens.append(token or self.headers["Authorization"])
                role = self.path.endswith("security-credentials/")
                self.answer(b"reader" if role else service._keys())

        self._server = LoopbackServer(Metadata)
        self.url = self._server.url

    def give(self, keys: dict[str, str]) -> None:
        self._given = keys

    def _keys(self) -> bytes:
        self.answers += 1
        end = datetime.now(UTC) + timedelta(seconds=self.seconds_left)
        return json.dumps(
            {
                "AccessKeyId": self._given["access_key_id"],
                "SecretAccessKey": self._given["secret_access_key"],
                "Token": "",
                "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        ).encode()

    def close(self) -> None:
        self._server.close()


@contextmanager
def metadata_service(keys: dict[str, str]) -> Iterator[MetadataService]:
    service = MetadataService(keys)
    try:
        yield service
    finally:
        service.close()


class FaultProxy:
    """Passes requests on to a server, or to files of a folder, after what `fault` says.

    `fault(number, path)` gives the name of a fault or None: "reset", "500", "slowdown", "short",
    "stall", "range", "forbidden", "expired" (the keys), "late" (0.05 s), "slow" (64 KiB a second),
    "lost" (the server has done what was asked, and the answer is lost).
    """

    def __init__(self, upstream: str | None = None, folder: Path | None = None) -> None:
        self.fault = lambda number, path: None
        self.before_answer: Callable[[str], None] = lambda path: None  #: may wait
        self.requests: list[str] = []
        self.kinds: list[str] = []  #: of the requests: "GET", "PUT", …
        self.fields: list[dict[str, str]] = []  #: of each request, with names in lower case
        self.injected: Counter[str] = Counter()  #: faults that an answer really had
        self.etag = '"one"'
        self.upstream = upstream
        self._folder = folder
        self._stop = threading.Event()
        proxy = self

        class Proxy(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                proxy._serve(self)

            def do_HEAD(self) -> None:
                proxy._serve(self)

            def do_PUT(self) -> None:
                proxy._serve(self)

            def do_POST(self) -> None:
                proxy._serve(self)

            def do_DELETE(self) -> None:
                proxy._serve(self)

        self._lock = threading.Lock()
        self._server = LoopbackServer(Proxy)
        self.url = self._server.url

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Before the first request."""
        self._server.use_tls(context)
        self.url = self._server.url

    def close(self) -> None:
        self._stop.set()
        self._server.close()

    def _serve(self, handler) -> None:
        asked = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        with self._lock:
            number = len(self.requests)
            self.kinds.append(handler.command)
            self.requests.append(handler.path)
            self.fields.append({name.lower(): text for name, text in handler.headers.items()})
            fault = self.fault(number, handler.path)
        self.before_answer(handler.path)
        if fault in ("reset", "500", "slowdown", "forbidden", "expired", "late", "lost"):
            self._count(fault)
        if fault == "lost":
            self._real(handler, asked)
        if fault in ("reset", "lost"):
            handler.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            handler.close_connection = True
            handler.connection.close()
            return None
        if fault == "500":
            return self._answer(handler, 500, {}, b"")
        if fault == "slowdown":
            body = b"<Error><Code>SlowDown</Code></Error>"
            return self._answer(handler, 503, {"Retry-After": "0"}, body)
        if fault == "forbidden":
            body = b"<Error><Code>AccessDenied</Code></Error>"
            return self._answer(handler, 403, {}, body)
        if fault == "expired":
            body = b"<Error><Code>ExpiredToken</Code></Error>"
            return self._answer(handler, 400, {}, body)
        if fault == "late":
            time.sleep(0.05)
        status, fields, body = self._real(handler, asked)
        if fault == "stall":
            handler.send_response(status)
            self._count(fault)
            self._fields(handler, fields, len(body))
            handler.wfile.write(body[: len(body) // 2])
            self._stop.wait(30)
            handler.close_connection = True
            return None
        if fault == "range" and "Content-Range" in fields:
            first, rest = fields["Content-Range"].removeprefix("bytes ").split("-", 1)
            fields["Content-Range"] = f"bytes {int(first) + 1}-{rest}"
            self._count(fault)
        if fault == "short" and body:
            self._count(fault)
            handler.send_response(status)
            self._fields(handler, fields, len(body))
            handler.wfile.write(body[:-1])
            handler.close_connection = True
            return None
        if fault == "slow" and body:
            self._count(fault)
        return self._answer(handler, status, fields, body, slow=fault == "slow")

    def _count(self, fault: str) -> None:
        with self._lock:
            self.injected[fault] += 1

    def _real(self, handler, asked: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._folder is not None:
            return self._file(handler)
        connection = http.client.HTTPConnection(self.upstream.removeprefix("http://"), timeout=30)
        connection.putrequest(
            handler.command, handler.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in handler.headers.items():
            connection.putheader(name, value)
        connection.endheaders(asked or None)
        answer = connection.getresponse()
        body = answer.read()
        if handler.command == "HEAD":  # the length alone
            body = bytes(int(answer.headers["Content-Length"]))
        kept = {"etag", "content-range", "content-type", "location"}
        fields = {
            name.title().replace("Etag", "ETag"): value
            for name, value in answer.getheaders()
            if name.lower() in kept or name.lower().startswith("x-amz-bucket")
        }
        connection.close()
        return answer.status, fields, body

    def _file(self, handler) -> tuple[int, dict[str, str], bytes]:
        path = self._folder / handler.path.lstrip("/")
        if not path.is_file():
            return 404, {}, b""
        body = path.read_bytes()
        fields = {"ETag": self.etag}
        asked = handler.headers.get("Range")
        if asked is None:
            return 200, fields, body
        first, last = (int(each) for each in asked.removeprefix("bytes=").split("-"))
        fields["Content-Range"] = f"bytes {first}-{min(last, len(body) - 1)}/{len(body)}"
        return 206, fields, body[first : last + 1]

    @staticmethod
    def _fields(handler, fields: dict[str, str], length: int) -> None:
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()

    def _answer(self, handler, status, fields, body, slow=False) -> None:
        handler.send_response(status)
        self._fields(handler, fields, len(body))
        step = 8192 if slow else max(len(body), 1)
        for begin in range(0, 0 if handler.command == "HEAD" else len(body), step):
            handler.wfile.write(body[begin : begin + step])
            if slow:
                time.sleep(step / 65_536)


class Gate:
    """Holds the n-th request of a kind, whose path has a text, until it is let go."""

    def __init__(self, proxy: FaultProxy, kind: str, text: str, number: int = 1) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._proxy, self._kind, self._text, self._left = proxy, kind, text, number
        self._held: set[str] = set()
        proxy.fault = self._fault
        proxy.before_answer = self._before

    def _fault(self, number: int, path: str) -> None:
        if self._proxy.kinds[number] == self._kind and self._text in path:
            self._left -= 1
            if self._left == 0:
                self._held.add(path)

    def _before(self, path: str) -> None:
        if path in self._held:
            self.reached.set()
            self.open.wait(60)


@contextmanager
def fault_proxy(upstream: str | None = None, folder: Path | None = None) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream, folder)
    try:
        yield proxy
    finally:
        proxy.close()


def every_tenth(kinds: list[str]) -> Callable[[int, str], str | None]:
    """A fault at every tenth request, each of the kinds in turn."""
    numbers = itertools.count(1)
    turns = itertools.cycle(kinds)
    return lambda number, path: next(turns) if next(numbers) % 10 == 0 else None


def check_injected(proxy: FaultProxy, kinds: list[str], requests: int) -> None:
    """Each of the kinds came, and about a tenth of the requests were faulty."""
    assert set(proxy.injected) == set(kinds), proxy.injected
    assert 0.07 * requests <= proxy.injected.total() <= 0.1 * requests
