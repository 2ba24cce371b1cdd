"""A folder in a bucket, which packs and rows of an inference are written to. Needs obstore."""

from __future__ import annotations

import io
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from penstock import _core
from penstock.base.missing_package import require
from penstock.base.validation import check_no_secrets, check_regular
from penstock.errors import InvalidArgument, IoError, NotFound, PenstockError, Unsupported

from .experiment import Experiment, open_stored
from .storage_options import CERTIFICATE_VARIABLES, credentials_function, storage_texts

S = TypeVar("S")
T = TypeVar("T")

SCHEMES = ("s3", "gs", "az")
_TRIES = 4
#: Requests for small objects at a time.
_AT_ONCE = 16
#: Bytes of a request. A request that takes longer than the seconds fails and is sent again.
_REQUEST_BYTES, _REQUEST_SECONDS = 8 << 20, 60
#: S3 takes 10,000 parts of an upload.
_MOST_PARTS = 9_000
#: Nobody can listen on port 0.
_NOWHERE = "127.0.0.1:0"
#: Options of obstore's HTTP client that have a text, a number or a bool.
_CLIENT_OPTIONS = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url",
    "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
}  # fmt: skip


def is_bucket(address: Any) -> bool:
    """Whether it is the address of a bucket, such as ``s3://bucket/cells.pack``."""
    return isinstance(address, str) and address.startswith(tuple(f"{each}://" for each in SCHEMES))


class Bucket:
    """A folder in a bucket. It pickles, with its options.

    Calls that wait for the network end on Ctrl-C. Failed requests are sent again, as `storage_options`
    say.

    Parameters
    ----------
    name : str
        Argument that has the address, for messages.
    address : str
        ``s3://bucket/key``, ``gs://…`` or ``az://…``.
    options : dict, optional
        Of S3 those of `penstock.open`, and the same keys are found; of the others the configuration of
        obstore.

    Raises
    ------
    InvalidArgument
        The address names no folder in a bucket, or it or the options are wrong.
    MissingPackage
        obstore is not installed.
    """

    def __init__(self, name: str, address: str, options: Mapping[str, Any] | None = None) -> None:
        check_no_secrets(name, address)
        self.scheme, _, place = address.partition("://")
        self._container, _, key = place.partition("/")
        self._key = key.strip("/")
        parts = self._key.split("/")
        if not self._container or not all(parts) or {".", ".."} & set(parts):
            raise InvalidArgument(
                f"{name} must name a folder in a bucket, such as {self.scheme}://bucket/cells.pack, "
                f"got {address!r}"
            )
        self.address = f"{self.scheme}://{self._container}/{self._key}"
        require("obstore")
        self._options = storage_texts(options) if self.scheme == "s3" else _texts(options)
        self._store: Any = None
        _ = self.store  # wrong options are told at once

    def __repr__(self) -> str:
        return f"Bucket({self.address!r})"  # the options may hold keys

    def __getstate__(self) -> dict[str, Any]:
        # A worker opens it when it is used: an error then is one of the part.
        return {**self.__dict__, "_store": None}

    @property
    def store(self) -> Any:
        """The store of obstore."""
        _check_process()
        if self._store is None:
            with self._errors("use"):
                self._store = self._open()
        return self._store

    def _open(self) -> Any:
        import obstore.store

        stores: Any = obstore.store  # its types list the names of all options
        if self.scheme != "s3":
            options = self._options.items()
            config = {name: value for name, value in options if not _of_client(name)}
            client: dict[str, Any] = {
                bare: value for name, value in options if (bare := _of_client(name))
            }
            if certificates := _named_certificates():
                client.setdefault("root_certificate", certificates)
            try:
                return stores.from_url(self.address, config=config, client_options=client)
            except BaseException as error:  # a panic of Rust is no Exception
                if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                    raise
                # Its text may show a value.
                raise InvalidArgument(
                    f"obstore does not take these options for {self.address}: "
                    f"{', '.join(self._options) or 'none'} ({type(error).__name__})"
                ) from None
        # What the engine finds for reading, whatever obstore would find in the environment.
        access = _core.S3Access(self.address, self._options, credentials_function(self.address))
        key = access.key()
        has_tls = access.url.lower().startswith("https://")
        config = {
            "endpoint": access.url,
            "aws_endpoint_url_s3": access.url,  # which comes before the other in the environment
            "virtual_hosted_style_request": "true",  # the URL has the bucket
            "region": access.region,
            "request_payer": str(access.requester_pays).lower(),
            "skip_signature": "true" if key is None else "false",
            "disable_bulk_delete": "true",  # which not all servers have
        }
        client = {
            "timeout": timedelta(seconds=_REQUEST_SECONDS),
            "connect_timeout": timedelta(seconds=float(self._options.get("connect_timeout") or 10)),
            "allow_http": not has_tls,  # nor is a redirect from https to http followed
            **_no_other_host(access.url),
        }
        if has_tls and (certificates := _named_certificates()):
            client["root_certificate"] = certificates
        retry = {
            "max_retries": int(float(self._options.get("max_attempts") or 8)) - 1,
            # With the time of three requests without an answer.
            "retry_timeout": timedelta(
                seconds=float(self._options.get("retry_timeout") or 60) + 3 * _REQUEST_SECONDS
            ),
        }
        return stores.S3Store(
            self._container,
            prefix=self._key,
            config=config,
            client_options=client,
            retry_config=retry,
            credential_provider=None if key is None else partial(_keys, access),
        )

    def opened(self, threads: int | None = None) -> Experiment | Any:
        """Open what was packed there; None where Penstock does not read (gs, az)."""
        if self.scheme != "s3":
            return None
        return open_stored(self.address, threads=threads, storage_options=self._options)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes of an object, None if it is not there."""
        import obstore

        store = self.store

        def get() -> bytes:
            if length is None:
                return bytes(obstore.get(store, path).bytes())
            return bytes(obstore.get_range(store, path, start=start, length=length))

        with self._errors("read", path):
            try:
                return in_thread(get).result()
            except FileNotFoundError:
                return None

    def sizes(self) -> dict[str, int]:
        """Return the objects by path below the folder, with their bytes."""
        import obstore

        store = self.store

        def all_sizes() -> dict[str, int]:
            pages = obstore.list(store, chunk_size=1000)
            # An empty path is what a console makes of an empty folder.
            return {each["path"]: each["size"] for page in pages for each in page if each["path"]}

        with self._errors("list"):
            return in_thread(all_sizes).result()

    def put(self, path: str, source: bytes | Path) -> None:
        """Write an object, whole or not at all."""
        self.wait_for(path, self.begin_to_put(path, source))

    def put_files(self, folder: Path, paths: Iterable[str]) -> None:
        """Write files of a folder as objects of the same paths, several at a time."""
        for _ in in_threads(lambda path: self.put(path, folder / path), paths):
            pass

    def begin_to_put(self, path: str, source: bytes | Path) -> Future[Any]:
        """Begin to write an object, for `wait_for`. A file may be removed at once."""
        import obstore

        store = self.store
        file = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        # The size follows from the file, so that a copy of the object has the same ETag.
        part = max(_REQUEST_BYTES, -(-size // _MOST_PARTS))

        def put() -> None:
            with file:
                obstore.put(store, path, file, chunk_size=part, max_concurrency=4)

        return in_thread(put)

    def wait_for(self, path: str, put: Future[Any]) -> None:
        """Wait until an object is written."""
        with self._errors("write", path):
            put.result()

    def create(self, path: str, content: bytes) -> bool:
        """Write an object that is not there. Return False if it is there with other content."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        store = self.store

        def put() -> None:
            obstore.put(store, path, content, mode="create", use_multipart=False)

        with self._errors("write", path):
            for _ in range(_TRIES):
                try:
                    self._tried(put)
                    return True
                except AlreadyExistsError:
                    found = self.read(path)
                    if found is not None:  # maybe by an attempt of ours whose answer was lost
                        return found == content
        raise IoError(f"it comes and goes while it is written: {self.address}/{path}")

    def delete(self, path: str) -> None:
        """Delete an object, if it is there."""
        import obstore

        store = self.store
        with self._errors("delete", path):
            self._tried(lambda: obstore.delete(store, path))

    def _tried(self, call: Callable[[], None]) -> None:
        """Call again if a connection is lost: then obstore sends these requests only once."""
        from obstore.exceptions import GenericError

        tries = min(_TRIES, int(float(self._options.get("max_attempts") or _TRIES)))
        for number in range(1, tries + 1):
            try:
                return in_thread(call).result()
            except GenericError as error:
                if number == tries or "HTTP error" not in str(error):
                    raise
                time.sleep(0.1 * 5**number)
        return None

    @contextmanager
    def _errors(self, action: str, path: str = "") -> Iterator[None]:
        """Raise an error of ours in place of obstore's."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        place = f"{self.address}/{path}" if path else self.address
        try:
            yield
        except PenstockError:
            raise
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise IoError(
                f"cannot {action}: access is denied; check the keys, and what they may do: {place}: "
                + _told(error)
            ) from None
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) or "NoSuchBucket" in str(error):
                raise NotFound(f"there is no such bucket: {self.address}") from None
            if self.scheme == "s3" and any(each in str(error) for each in (_NOWHERE, "BadScheme")):
                raise IoError(
                    f"cannot {action}: the S3 endpoint redirects to another host, or from https:// to "
                    "http://, which is not followed; if it is the right one, give it as endpoint in "
                    f"storage_options: {place}"
                ) from None
            raise IoError(f"cannot {action}: {place}: {_told(error)}") from None


def _no_other_host(url: str) -> dict[str, str]:
    """Return settings by which obstore connects to the host of a URL alone.

    obstore follows redirects, with the session token in a header. So all other hosts get a proxy that
    cannot be reached. Nothing is set if the environment names a proxy for the host.
    """
    # Imported here: it would double the time of `import penstock`.
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    host = parts.hostname or ""
    if {parts.scheme, "all"} & getproxies().keys() and not proxy_bypass(host):
        return {}
    return {"proxy_url": f"http://{_NOWHERE}", "proxy_excludes": host}


def _named_certificates() -> bytes | None:
    """Return the certificates of a variable that the engine knows, but obstore does not."""
    for name in CERTIFICATE_VARIABLES[:-1]:
        if path := os.environ.get(name):
            check_regular(name, path)
            try:
                return Path(path).read_bytes()
            except OSError as error:
                raise IoError(
                    f"{name} must name a file of certificates: {error.strerror}: {path}"
                ) from None
    return None


def _of_client(name: str) -> str | None:
    """Return the name of an option of obstore's HTTP client, None for an option of a store.

    obstore panics if it finds one among the options of a store.
    """
    for prefix in ("", "azure_", "google_"):
        if name.startswith(prefix) and (bare := name.removeprefix(prefix)) in _CLIENT_OPTIONS:
            return bare
    return None


def _told(error: BaseException) -> str:
    """Return what an error of obstore says, without the answer's body, which may repeat a token."""
    text = str(error)
    line = (text.strip().splitlines() or [type(error).__name__])[0]
    said = [
        found[1] for tag in ("Code", "Message") if (found := re.search(f"<{tag}>([^<]*)<", text))
    ]
    if invalid := re.search(r"InvalidCertificate\(\s*(\w+)", text):
        line += f": the server's certificate is not valid ({invalid[1]})"
        if invalid[1] == "UnknownIssuer":
            line += (
                "; CURL_CA_BUNDLE, AWS_CA_BUNDLE or SSL_CERT_FILE must name a file with the certificate of "
                "its authority"
            )
    return " ".join([line.split("<", 1)[0].rstrip(": "), *([": ".join(said)] if said else [])])


#: The first process that used obstore, whose threads a forked one does not have.
_process: int | None = None


def _check_process() -> None:
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise Unsupported(
            "obstore does not work in a forked process: start workers by "
            'multiprocessing.get_context("spawn")'
        )


def _texts(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return options for Google's or Azure's stores as texts."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(
        isinstance(name, str) and isinstance(value, (str, bool, int))
        for name, value in options.items()
    ):
        raise InvalidArgument("options of a bucket must be a dict of texts, numbers and bools")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def _keys(access: _core.S3Access) -> dict[str, Any]:
    key = access.key()
    assert key is not None
    return {
        "access_key_id": key[0],
        "secret_access_key": key[1],
        "token": key[2] or None,
        "expires_at": datetime.now(UTC) + timedelta(minutes=5),  # then the engine looks again
    }


def in_threads(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Call for each item, some at a time, and yield the results in order."""
    running: deque[Future[T]] = deque()
    for item in items:
        if len(running) == _AT_ONCE:
            yield running.popleft().result()
        running.append(in_thread(partial(function, item)))
    while running:
        yield running.popleft().result()


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Call in a thread of its own, which does not keep the process from ending."""
    # The main thread then waits for a lock, which Ctrl-C ends; a call of obstore it does not.
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future
