"""Certificates and proxies from the environment, each in a separate process."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopback_http import Handler, serving
from mounts import with_mount
from penstock.experiment.web_index import write_index
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


def opened(
    url: str, within: list[str] | None = None, script: str = OPEN, **environment: str
) -> str:
    """What a process says that opens the address; it has no proxies or certificates but those."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and "CA_BUNDLE" not in name and "SSL_" not in name
    }
    done = subprocess.run(
        [*(within or []), sys.executable, "-c", script, url],
        env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_certificate(folder: Path, address: str, days: tuple[int, int]) -> tuple[Path, Path]:
    """Certificate, valid between two days from now, and key; nobody but itself has signed it."""
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
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    kind = serialization.PrivateFormat.TraditionalOpenSSL
    (folder / "key.pem").write_bytes(key.private_bytes(pem, kind, plain))
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"), "127.0.0.1", (-1, 1))


@pytest.fixture
def served(soma_small, tmp_path: Path) -> Path:
    shutil.copytree(soma_small.path, tmp_path / "www" / "exp")
    write_index(tmp_path / "www")
    return tmp_path / "www"


@contextmanager
def connect_proxy(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """A proxy, and what it was asked for: whole URLs, or CONNECT and a host."""
    asked: list[str] = []

    class Proxy(Handler):
        protocol_version = "HTTP/1.1"

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
                    if isinstance(side, ssl.SSLSocket):  # has more that select does not see
                        piece += side.recv(side.pending()) if side.pending() else b""
                    sides[side].sendall(piece)

    with serving(Proxy, tls) as url:
        yield url, asked


def tls_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@contextmanager
def tls_server(folder: Path, certificate: tuple[Path, Path]) -> Iterator[str]:
    with fault_proxy(folder=folder) as server:
        server.use_tls(tls_context(certificate))
        yield server.url


def hashed_folder(path: Path, certificate: Path) -> Path:
    """A folder with the certificate under the name at which OpenSSL looks, as `openssl rehash`."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command, which knows the hashes, is not installed")
    path.mkdir(parents=True)
    shutil.copy(certificate, path / "of-a-test.pem")
    subprocess.run(["openssl", "rehash", str(path)], check=True, capture_output=True)
    (link,) = (each for each in path.iterdir() if each.is_symlink())
    assert link.suffix == ".0"
    return path


def machine_with(etc: Path) -> list[str]:
    """What a command is prefixed with to see these files as its /etc, and the network as it is."""
    if (cache := Path("/etc/ld.so.cache")).exists():
        shutil.copy(cache, etc)  # libraries stay where they are
    return with_mount('mount --bind "$0" /etc', etc)


def test_certificates_are_those_of_the_environment(
    served: Path, certificate, tmp_path: Path
) -> None:
    with tls_server(served, certificate) as url:
        said = opened(f"{url}/exp")
        assert said.startswith("IoError no connection")
        assert "certificate" in said
        assert "SSL_CERT_FILE" in said
        for name in ("CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"):
            assert opened(f"{url}/exp", **{name: str(certificate[0])}) == "cells 300\n", name
            said = opened(f"{url}/exp", **{name: str(tmp_path / "none.pem")})
            assert said.startswith("IoError no connection")
            assert f"none.pem certifies, as {name} says" in said


@pytest.mark.parametrize(
    ("address", "days", "why"),
    [
        ("127.0.0.1", (-9, -2), "certificate has expired"),
        ("127.0.0.1", (2, 9), "certificate is not yet valid"),
        ("127.0.0.2", (-1, 1), "does not match target|no alternative certificate subject name"),
    ],
)
def test_what_is_trusted_is_said_only_where_it_matters(
    served: Path, tmp_path: Path, address: str, days: tuple[int, int], why: str
) -> None:
    """Other certificates would not help against a wrong date or name."""
    made = make_certificate(tmp_path, address, days)
    with tls_server(served, made) as url:
        said = opened(f"{url}/exp", SSL_CERT_FILE=str(made[0]))
    assert said.startswith("IoError no connection")
    assert re.search(why, said)
    assert "certifies" not in said


def test_certificates_are_those_of_a_folder(served: Path, certificate, tmp_path: Path) -> None:
    hashed = hashed_folder(tmp_path / "hashed", certificate[0])
    (tmp_path / "other").mkdir()
    shutil.copy(certificate[0], tmp_path / "other")  # under a name that says nothing
    with tls_server(served, certificate) as url:
        assert opened(f"{url}/exp", SSL_CERT_DIR=str(hashed)) == "cells 300\n"
        both = f"{tmp_path / 'other'}:{hashed}"
        assert opened(f"{url}/exp", SSL_CERT_DIR=both) == "cells 300\n"
        said = opened(f"{url}/exp", SSL_CERT_DIR=str(tmp_path / "other"))
        assert said.startswith("IoError no connection")
        assert "other certifies, as SSL_CERT_DIR says" in said


@pytest.mark.parametrize(
    "kept_at",
    [
        "pki/tls/certs/ca-bundle.crt",
        "ssl/ca-bundle.pem",
        "ssl/certs/",
        "pki/tls/certs/",
    ],
)
def test_certificates_are_where_this_system_keeps_them(
    served: Path, certificate, tmp_path: Path, kept_at: str
) -> None:
    """Wherever the libcurl in use was built to look."""
    etc = tmp_path / "etc"
    if kept_at.endswith("/"):
        hashed_folder(etc / kept_at, certificate[0])
    else:
        (etc / kept_at).parent.mkdir(parents=True)
        shutil.copy(certificate[0], etc / kept_at)
    with tls_server(served, certificate) as url:
        assert opened(f"{url}/exp", within=machine_with(etc)) == "cells 300\n"


def test_certificates_of_the_environment_where_the_system_has_none(
    served: Path, certificate, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    bare = machine_with(tmp_path / "etc")
    hashed = str(hashed_folder(tmp_path / "hashed", certificate[0]))
    with tls_server(served, certificate) as url:
        said = opened(f"{url}/exp", within=bare)
        assert said.startswith("IoError no connection")
        assert "install ca-certificates, or set SSL_CERT_FILE" in said
        assert opened(f"{url}/exp", within=bare, SSL_CERT_DIR=hashed) == "cells 300\n"
        file = str(certificate[0])
        assert opened(f"{url}/exp", within=bare, SSL_CERT_FILE=file) == "cells 300\n"


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
            # A proxy that is itself reached by TLS.
            with connect_proxy(tls_context(certificate)) as (secret_proxy, asked_of_it):
                said = opened(f"{url}/exp", https_proxy=secret_proxy)
                assert said.startswith("IoError no connection")
                assert not asked_of_it
                file = str(certificate[0])
                said = opened(f"{url}/exp", https_proxy=secret_proxy, SSL_CERT_FILE=file)
                assert said == "cells 300\n"
                assert set(asked_of_it) == {"CONNECT " + url.removeprefix("https://")}


RELEASES = """
import sys
import penstock as ps
try:
    print("releases", len(ps.census_releases(sys.argv[1] + "/release.json")))
except ps.IoError as error:
    print("IoError", error)
"""


@pytest.mark.parametrize("variable", ["CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_certificates_of_the_releases(served: Path, certificate, variable: str) -> None:
    (served / "release.json").write_text("{}")
    with tls_server(served, certificate) as url:
        named = {variable: str(certificate[0])}
        assert opened(url, script=RELEASES, **named) == "releases 0\n"
        assert "IoError" in opened(url, script=RELEASES)
        assert "IoError" in opened(url, script=RELEASES, **{variable: str(certificate[1])})


REDIRECTED = """
import sys
import penstock as ps
headers = {"X-Api-Key": "SECRET", "Authorization": "Bearer SECRET"}
keys = {"key": "AKIA", "secret": "SECRET", "token": "SECRET", "endpoint": sys.argv[1]}
for take in (
    lambda: ps.open(sys.argv[1] + "/exp", storage_options={"headers": headers}),
    lambda: ps.open("s3://bucket/exp", storage_options=keys),
    lambda: ps.census_releases(sys.argv[1] + "/release.json"),
):
    try:
        take()
        print("opened")
    except ps.PenstockError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_redirect_leads_from_https_to_http(served: Path, certificate, host: str) -> None:
    """To whichever host: neither the files of a web server, nor a bucket, nor the releases."""
    (served / "release.json").write_text("{}")
    answered: list[str] = []
    with fault_proxy(folder=served) as plain:
        elsewhere = plain.url.replace("127.0.0.1", host)

        class Redirect(Handler):
            def do_GET(self) -> None:
                answered.append(self.path)
                self.send_response(302)
                self.send_header("Location", f"{elsewhere}{self.path.partition('?')[0]}?sig=SECRET")
                self.send_header("Content-Length", "0")
                self.end_headers()

        with serving(Redirect, tls_context(certificate)) as url:
            said = opened(url, script=REDIRECTED, SSL_CERT_FILE=str(certificate[0])).splitlines()
        assert len(answered) == 3
        assert plain.requests == []
    web, bucket, releases = said
    assert f"redirects (HTTP 302) to {elsewhere}/exp/.penstock-index.json, from https:// to" in web
    assert f"redirects to {elsewhere}/bucket/, from https:// to http://" in bucket
    assert "it redirects from https:// to another scheme" in releases
    for line in said:
        assert line.startswith("IoError")
        assert "SECRET" not in line


WRITE = """
import sys
import penstock as ps
from penstock.experiment.bucket import Bucket
options = {"endpoint": sys.argv[1], "key": "a", "secret": "b", "token": "c", "max_attempts": 1}
bucket = Bucket("destination", "s3://bucket/a.pack", options)
for path in ("there", "moved"):
    try:
        print(bucket.read(path))
    except ps.IoError as error:
        print(error)
"""


@contextmanager
def tls_bucket(certificate: tuple[Path, Path], moved: str) -> Iterator[str]:
    """An S3 with an object that is there, and one that is moved to another server."""

    class Endpoint(Handler):
        def do_GET(self) -> None:
            if "delimiter" in self.path:
                self.answer(
                    b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                )
            elif self.path.endswith("/there"):
                self.send_response(200)
                for name, value in (
                    ("Content-Length", "7"), ("ETag", '"1"'),
                    ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
                ):  # fmt: skip
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"content")
            else:
                self.send_response(307)
                self.send_header("Location", moved + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

    with serving(Endpoint, tls_context(certificate)) as url:
        yield url


def signed_by_an_authority(folder: Path) -> tuple[Path, Path, Path]:
    """Certificate and key of a server, and the certificate of the authority; rustls wants two."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = serialization.Encoding.PEM
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in ("ca", "server")
    ]
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    for name, key, is_authority in ((names[0], authority, True), (names[1], own, False)):
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(1 + is_authority)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, path_length=None), critical=True)
            .add_extension(address, critical=False)
            .sign(authority, hashes.SHA256())
        )
        file = folder / ("authority.pem" if is_authority else "server.pem")
        file.write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        own.private_bytes(
            pem,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return folder / "server.pem", folder / "key.pem", folder / "authority.pem"


@pytest.mark.parametrize("variable", ["CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_writing_to_a_bucket_trusts_what_reading_does(tmp_path: Path, variable: str) -> None:
    """And follows no redirect from https to http, even on the same host."""
    pytest.importorskip("obstore")
    *certificate, authority = signed_by_an_authority(tmp_path)
    seen: list[str] = []

    class Plain(Handler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.answer(b"")

    with serving(Plain) as plain, tls_bucket((certificate[0], certificate[1]), plain) as url:
        environment = {"AWS_EC2_METADATA_DISABLED": "true", variable: str(authority)}
        there, moved = opened(url, script=WRITE, **environment).splitlines()
    assert there == "b'content'"
    assert "redirects to another host, or from https:// to http://" in moved
    assert seen == []


def test_an_error_of_writing_says_that_the_certificate_is_not_trusted(tmp_path: Path) -> None:
    """The engine looks for certificates once, obstore for each bucket."""
    pytest.importorskip("obstore")
    *certificate, authority = signed_by_an_authority(tmp_path)
    change = "import penstock.experiment.bucket as b; b._named_certificates = lambda: None\n"
    with tls_bucket((certificate[0], certificate[1]), "http://127.0.0.1:9") as url:
        said = opened(url, script=change + WRITE, CURL_CA_BUNDLE=str(authority)).splitlines()
    assert "the server's certificate is not valid (UnknownIssuer); CURL_CA_BUNDLE" in said[0]
