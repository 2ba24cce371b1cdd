"""A web server for ranges of files, with latency: what benchmarks/remote.py reads from.

One process, one thread: asyncio and sendfile, so that it takes little of the machine that it is
measured on. Every request waits `latency` seconds before the first byte of its answer; requests of
different connections wait at the same time, as they would on a network. Prints its port.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import signal
from pathlib import Path
from urllib.parse import unquote

_RANGE = re.compile(rb"(?im)^range:\s*bytes=(\d+)-(\d+)")


class Server:
    def __init__(self, root: Path, latency: float) -> None:
        self.root = root
        self.latency = latency
        self.requests = 0
        self.files: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                if self.latency:
                    await asyncio.sleep(self.latency)
                path = unquote(head.split(b" ", 2)[1].decode()).split("?")[0]
                if path == "/-/counts":
                    await self._counts(writer)
                    continue
                file = self._open(path)
                if file is None:
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    await writer.drain()
                    continue
                size = os.fstat(file).st_size
                asked = _RANGE.search(head)
                first, last = (int(asked[1]), int(asked[2])) if asked else (0, size - 1)
                last = min(last, size - 1)
                status = "206 Partial Content" if asked else "200 OK"
                fields = f"Content-Range: bytes {first}-{last}/{size}\r\n" if asked else ""
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Length: {last - first + 1}\r\n{fields}"
                    f'ETag: "{size}"\r\n\r\n'.encode()
                )
                await writer.drain()
                if last >= first:
                    with os.fdopen(os.dup(file), "rb") as body:
                        await loop.sendfile(writer.transport, body, first, last - first + 1)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _counts(self, writer: asyncio.StreamWriter) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        body = f"{self.requests} {usage.ru_utime + usage.ru_stime}".encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()

    def _open(self, path: str) -> int | None:
        if path not in self.files:
            place = (self.root / path.lstrip("/")).resolve()
            if not place.is_relative_to(self.root) or not place.is_file():
                return None
            self.files[path] = os.open(place, os.O_RDONLY)
        return self.files[path]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds for each request")
    parsed = parser.parse_args()
    server = Server(parsed.folder.resolve(), parsed.latency)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=256)
    print(listening.sockets[0].getsockname()[1], flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
