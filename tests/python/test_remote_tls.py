"""Certificates and proxies, as the environment says them; each in a process of its own."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import os
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from penstock.index_manifest import write_index
from remote_servers import fault_proxy

x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")

OPEN = """
import sys
import penstock as ps
try:
    options = {"max_attempts": 2, "connect_timeout": 5}
    print("cells", ps.open(sys.argv[1], storage_options=options).n_obs)
except ps.IoError as error:
    print("IoError", error)
"""


def opened(url: str, **environment: str) -> str:
    """What a process says that opens the address; it has no proxies or certificates but those."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and "CA_BUNDLE" not in name and "SSL_" not in name
    }
    done = subprocess.run(
        [sys.executable, "-c", OPEN, url],
        env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of 127.0.0.1, which nobody but itself has signed."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificate")
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    kind = serialization.PrivateFormat.TraditionalOpenSSL
    (folder / "key.pem").write_bytes(key.private_bytes(pem, kind, plain))
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def served(soma_small, tmp_path: Path) -> Path:
    shutil.copytree(soma_small.path, tmp_path / "www" / "exp")
    write_index(tmp_path / "www")
    return tmp_path / "www"


@contextmanager
def connect_proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy, and what it was asked for: whole URLs, or CONNECT and a host."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments) -> None:
            pass

        def _connected(self, address: str) -> socket.socket:
            host, port = address.rsplit(":", 1)
            return socket.create_connection((host, int(port)), timeout=30)

        def do_CONNECT(self) -> None:
            asked.append(f"CONNECT {self.path}")
            with self._connected(self.path) as there:
                self.send_response(200)
                self.end_headers()
                self._carry(there)
            self.close_connection = True

        def do_GET(self) -> None:
            asked.append(self.path)
            host, _, path = self.path.removeprefix("http://").partition("/")
            fields = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            with self._connected(host) as there:
                there.sendall(f"GET /{path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n".encode())
                while piece := there.recv(65_536):
                    self.connection.sendall(piece)
            self.close_connection = True

        def _carry(self, there: socket.socket) -> None:
            sides = {self.connection: there, there: self.connection}
            while ready := select.select(list(sides), [], [], 30)[0]:
                for side in ready:
                    piece = side.recv(65_536)
                    if not piece:
                        return
                    sides[side].sendall(piece)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def tls_server(folder: Path, certificate: tuple[Path, Path]) -> Iterator[str]:
    with fault_proxy(folder=folder) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.use_tls(context)
        yield server.url.replace("http://", "https://")


def test_certificates_are_those_of_the_environment(served: Path, certificate) -> None:
    with tls_server(served, certificate) as url:
        said = opened(f"{url}/exp")
        assert said.startswith("IoError no connection")
        assert "certificate" in said
        for name in ("CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"):
            assert opened(f"{url}/exp", **{name: str(certificate[0])}) == "cells 300\n", name


def test_proxies_are_those_of_the_environment(served: Path, certificate) -> None:
    with connect_proxy() as (proxy, asked):
        with fault_proxy(folder=served) as server:
            assert opened(f"{server.url}/exp", http_proxy=proxy) == "cells 300\n"
            assert asked
            assert set(asked) == {server.url + path for path in server.requests}
            asked.clear()
            assert opened(f"{server.url}/exp", http_proxy=proxy, no_proxy="127.0.0.1") == (
                "cells 300\n"
            )
            assert not asked
        with tls_server(served, certificate) as url:
            said = opened(f"{url}/exp", https_proxy=proxy, SSL_CERT_FILE=str(certificate[0]))
            assert said == "cells 300\n"
            assert set(asked) == {"CONNECT " + url.removeprefix("https://")}
