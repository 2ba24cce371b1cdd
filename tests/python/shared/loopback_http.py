"""Small web servers on loopback, for tests."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request after the other of a connection; prints nothing."""

    def log_message(self, *arguments: Any) -> None:
        pass

    def answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # of the 64 that connect at once 5 wait else, others a second or more

    def handle_error(self, *arguments: Any) -> None:
        pass  # clients that left; a defect of the handler shows in what they get


class LoopbackServer:
    """A thread for each connection, whose handler is made of that class."""

    def __init__(self, handler: type[Handler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Before the first request."""
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = self.url.replace("http://", "https://")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(handler: type[Handler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server that answers as that handler does, as long as this lasts."""
    server = LoopbackServer(handler)
    try:
        if tls is not None:
            server.use_tls(tls)
        yield server.url
    finally:
        server.close()
