"""beside.py: penstock, tiledb, pyarrow and pycurl read a file by https at the same time, in one process.

Each brings a TLS library and a libcurl of its own, or the system's. Which one is loaded first must not matter, so
the process runs once with each of them first.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NAMES = ("penstock", "tiledb", "pyarrow.fs", "pycurl")
TIMES = 8
FILE = "pbmc3k.h5ad"


def by_penstock(url: str, certificate: str) -> str:
    import penstock as ps

    digest = hashlib.sha256()
    for X, _ in ps.Dataset(url, batch_size=512, seed=1):
        digest.update(X.tobytes())
    return digest.hexdigest()


def by_tiledb(url: str, certificate: str) -> str:
    import tiledb

    host = url.removeprefix("https://").split("/")[0]
    vfs = tiledb.VFS(
        {
            "vfs.s3.endpoint_override": host, "vfs.s3.scheme": "https", "vfs.s3.ca_file": certificate,
            "vfs.s3.use_virtual_addressing": "false", "vfs.s3.region": "us-east-1",
            "vfs.s3.no_sign_request": "true",
        }
    )  # fmt: skip
    with vfs.open(f"s3://bucket/{FILE}") as file:
        return hashlib.sha256(file.read()).hexdigest()


def by_pyarrow(url: str, certificate: str) -> str:
    from pyarrow import fs

    host = url.removeprefix("https://").split("/")[0]
    s3 = fs.S3FileSystem(
        endpoint_override=host, scheme="https", tls_ca_file_path=certificate, anonymous=True, region="us-east-1"
    )  # fmt: skip
    with s3.open_input_file(f"bucket/{FILE}") as file:
        return hashlib.sha256(file.read()).hexdigest()


def by_pycurl(url: str, certificate: str) -> str:
    import pycurl

    body, curl = io.BytesIO(), pycurl.Curl()
    curl.setopt(curl.URL, url)
    curl.setopt(curl.CAINFO, certificate)
    curl.setopt(curl.WRITEDATA, body)
    curl.perform()
    curl.close()
    return hashlib.sha256(body.getvalue()).hexdigest()


READERS: tuple[Callable[[str, str], str], ...] = (by_penstock, by_tiledb, by_pyarrow, by_pycurl)


def process(first: str, path: str, url: str, certificate: str) -> None:
    """Import all, `first` first; then all read at once, `TIMES` times."""
    for name in sorted(NAMES, key=lambda each: each != first):
        importlib.import_module(name)
    of_file = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    expected = [by_penstock(path, certificate), of_file, of_file, of_file]
    with ThreadPoolExecutor(len(READERS)) as pool:
        for _ in range(TIMES):
            running = [pool.submit(read, url, certificate) for read in READERS]
            found = [each.result() for each in running]
            assert found == expected, (found, expected)
    print(
        f"{first} first: {TIMES} times the right bytes from each of {', '.join(NAMES)}", flush=True
    )


def main() -> None:
    import penstock as ps

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ps.example("pbmc3k", format="h5ad", folder=folder)
        certificate, key = folder / "cert.pem", folder / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=a test", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", key, "-out", certificate],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("serve_https.py"), folder, certificate, key],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            url = f"https://127.0.0.1:{server.stdout.readline().strip()}/{FILE}"
            for first in NAMES:
                subprocess.run(
                    [sys.executable, __file__, first, folder / FILE, url, certificate],
                    check=True, env={**os.environ, "CURL_CA_BUNDLE": str(certificate)},
                )  # fmt: skip
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    process(*sys.argv[1:]) if len(sys.argv) > 1 else main()
