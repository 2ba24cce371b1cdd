"""A folder as an S3 bucket on loopback, with a given latency and bandwidth.

The server supports what readers need: GetObject with ranges, HeadObject, HeadBucket and both
versions of ListObjects. It checks no signatures and is read-only. `served` starts it in its own
process, with one thread. Each answer waits `latency` before its first byte, independently on each
connection. All bodies share `bandwidth`, like that of a network card.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from .worker.parent import end_with_parent

BUCKET = "bench"
REGION = "us-east-1"
_RANGE = re.compile(r"(?im)^range:\s*bytes=(\d+)-(\d*)")
_PIECE = 1 << 16
_LEAST_PIECE = 1 << 10
_PIECE_SECONDS = 0.05  # at most per piece at a low bandwidth, so that clients do not time out
_MOST_KEYS = 1000
_SENT = "-/sent"  # not a key of the bucket: bytes of all bodies sent, and answered requests


@contextmanager
def served(folder: Path, latency: float, bandwidth: float | None, below: str = "") -> Iterator[str]:
    """Serve the folder's files and yield the address; `latency` is in seconds.

    `bandwidth` is in bytes a second. Only files below `below` are served; it does not change keys.

    Raises
    ------
    OSError
        The server cannot be started.
    """
    command = [sys.executable, "-m", __name__, str(folder), "--latency", str(latency)]
    if bandwidth is not None:
        command += ["--bandwidth", str(bandwidth)]
    if below:
        command += ["--below", below]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            if not port:
                raise OSError("the S3 server on loopback did not start")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


class Sent(NamedTuple):
    """Counts of the server since its start."""

    bytes: int  #: of bodies
    requests: int  #: that were answered


def sent(endpoint: str) -> Sent:
    """Return what the server has sent since its start."""
    import urllib.request

    here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with here.open(f"{endpoint}/{BUCKET}/{_SENT}", timeout=60) as answer:
        return Sent(*map(int, answer.read().split()))


@dataclass(frozen=True)
class _Request:
    verb: str
    key: str  # empty for the bucket
    query: dict[str, str]
    asked: tuple[int, int | None] | None  # bytes

    @staticmethod
    def parse(head: str) -> _Request:
        verb, target, _ = head.split(" ", 2)
        parts = urlsplit(target)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, True).items()}
        found = _RANGE.search(head)
        asked = (int(found[1]), int(found[2]) if found[2] else None) if found else None
        return _Request(verb, key if bucket == BUCKET else f"/{bucket}", query, asked)


class _Server:
    def __init__(self, root: Path, latency: float, bandwidth: float | None, below: str) -> None:
        self._root, self._latency, self._bandwidth = root, latency, bandwidth
        self._below = (root / below).resolve()
        self._free = 0.0  # when the network has sent all requested bytes
        self._sent = self._answered = 0
        self._piece = _PIECE
        if bandwidth is not None:
            self._piece = min(_PIECE, max(_LEAST_PIECE, int(bandwidth * _PIECE_SECONDS)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                request = _Request.parse(head)
                if request.key == _SENT:  # not in the bucket: no latency, no bandwidth limit
                    body = f"{self._sent} {self._answered}".encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                    writer.write(body)
                    await writer.drain()
                    continue
                await asyncio.sleep(self._latency)
                self._answered += 1
                await self._answer(request, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        if request.verb not in ("GET", "HEAD"):
            return await self._send(writer, request, 405, {}, _error("MethodNotAllowed"))
        if request.key == "":
            body = b"" if request.verb == "HEAD" else self._listing(request.query)
            return await self._send(writer, request, 200, {"Content-Type": "application/xml"}, body)
        file = (self._root / request.key).resolve()
        if not file.is_relative_to(self._below) or not file.is_file():
            return await self._send(writer, request, 404, {}, _error("NoSuchKey"))
        facts = file.stat()
        size = facts.st_size
        fields = {
            "ETag": f'"{size:x}-{facts.st_mtime_ns:x}"',
            "Last-Modified": formatdate(facts.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if request.asked is None:
            return await self._send(writer, request, 200, fields, file, 0, size)
        first, last = request.asked
        last = size - 1 if last is None else min(last, size - 1)
        if first > last:
            return await self._send(writer, request, 416, {}, _error("InvalidRange"))
        fields["Content-Range"] = f"bytes {first}-{last}/{size}"
        return await self._send(writer, request, 206, fields, file, first, last + 1)

    async def _send(
        self, writer: asyncio.StreamWriter, request: _Request, status: int, fields: dict[str, str],
        content: bytes | Path, begin: int = 0, end: int | None = None,
    ) -> None:  # fmt: skip
        length = (len(content) if isinstance(content, bytes) else 0) if end is None else end - begin
        lines = [f"HTTP/1.1 {status} {'OK' if status < 300 else 'Error'}",
                 f"Content-Length: {length}", f"x-amz-bucket-region: {REGION}",
                 *(f"{name}: {value}" for name, value in fields.items())]  # fmt: skip
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if request.verb == "HEAD":
            return await writer.drain()
        if isinstance(content, bytes):
            await self._paced(writer, content)
            return None
        with content.open("rb") as file:
            file.seek(begin)
            for at in range(begin, begin + length, self._piece):
                await self._paced(writer, file.read(min(self._piece, begin + length - at)))
        return None

    async def _paced(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        if self._bandwidth is not None:
            now = asyncio.get_running_loop().time()
            self._free = max(self._free, now) + len(piece) / self._bandwidth
            if self._free > now:
                await asyncio.sleep(self._free - now)
        self._sent += len(piece)
        writer.write(piece)
        await writer.drain()

    def _listing(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = (
            query.get("continuation-token") or query.get("start-after") or query.get("marker", "")
        )
        most = min(int(query.get("max-keys", _MOST_KEYS)), _MOST_KEYS)
        entries = {name: size for name, size in self._entries(prefix, delimiter) if name > after}
        page = sorted(entries)[:most]
        contents, prefixes = [], []
        for name in page:
            if entries[name] is None:
                prefixes.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                continue
            contents.append(
                f"<Contents><Key>{escape(name)}</Key><Size>{entries[name]}</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        more = len(page) < len(entries)
        token = ""
        if more and page:
            last = escape(page[-1])
            token = f"<NextContinuationToken>{last}</NextContinuationToken><NextMarker>{last}</NextMarker>"
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
            f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
            f"{''.join(contents)}{''.join(prefixes)}</ListBucketResult>"
        ).encode()

    def _entries(self, prefix: str, delimiter: str) -> Iterator[tuple[str, int | None]]:
        """Yield keys with sizes, and common prefixes with None, in folders of the prefix."""
        folder = (self._root / prefix.rpartition("/")[0]).resolve()
        if not folder.is_relative_to(self._root) or not folder.is_dir():
            return
        files = folder.iterdir() if delimiter == "/" else folder.rglob("*")
        for path in files:
            key = path.relative_to(self._root).as_posix()
            if not key.startswith(prefix) or not self._is_served(path):
                continue
            if path.is_file():
                yield key, path.stat().st_size
            elif delimiter == "/" and any(each.is_file() for each in path.rglob("*")):
                yield f"{key}/", None

    def _is_served(self, path: Path) -> bool:
        """Whether the path is below the served folder or a parent of it."""
        return path.is_relative_to(self._below) or self._below.is_relative_to(path)


def _error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code></Error>'.encode()


async def _run(parsed: argparse.Namespace) -> None:
    root = parsed.folder.resolve()
    server = _Server(root, parsed.latency, parsed.bandwidth, parsed.below)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=256)
    print(listening.sockets[0].getsockname()[1], flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


def main() -> None:
    """Print the port, then serve until SIGTERM or until the parent process ends."""
    end_with_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--bandwidth", type=float, help="bytes a second")
    parser.add_argument("--below", default="", help="all that is served of the folder")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
