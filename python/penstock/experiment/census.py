"""Open a release of the CELLxGENE Census by its name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.base.suggestions import nearest, suggests
from penstock.base.validation import check_no_secrets, check_regular, checked_text
from penstock.errors import CorruptData, InvalidArgument, IoError, NotFound

from .experiment import Experiment, open_stored
from .storage_options import CERTIFICATE_VARIABLES, storage_texts

if TYPE_CHECKING:
    import ssl

#: Release directory of the Census; PENSTOCK_CENSUS_DIRECTORY or `directory` replaces it.
#: Source: chanzuckerberg/cellxgene-census, _release_directory.py.
RELEASE_DIRECTORY = "https://census.cellxgene.cziscience.com/cellxgene-census/v1/release.json"

_TIMEOUT_SECONDS = 30
_MOST_BYTES = 16 << 20  # the Census's own directory has about 10 KB


@dataclass(frozen=True)
class CensusRelease:
    """Address of a release, and the region of its bucket."""

    version: str
    uri: str
    region: str | None = None

    def experiment(self, organism: str) -> str:
        """Return the address of an organism's experiment."""
        return f"{self.uri.rstrip('/')}/census_data/{organism}"


def census_releases(directory: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the releases of the Census by name.

    Parameters
    ----------
    directory : str, optional
        URL of a release directory (JSON). It maps a name to another name, or to an object whose
        ``soma`` has ``uri`` and ``s3_region``. By default PENSTOCK_CENSUS_DIRECTORY, or the
        directory of the Census.

    Returns
    -------
    dict of str to dict
        Entry of each release, as the directory has it. An alias such as ``stable`` has the entry
        of its release.

    Raises
    ------
    IoError
        The server does not answer, or the answer is incomplete.
    CorruptData
        The answer is not a release directory.
    InvalidArgument
        `directory` is not an ``https://`` or ``http://`` URL, or has a user, password, query or
        fragment.
    """
    # Imported here: it would double the time of `import penstock`.
    import json

    url = directory or os.environ.get("PENSTOCK_CENSUS_DIRECTORY") or RELEASE_DIRECTORY
    check_no_secrets("the address of a release directory", url)
    text = _fetch(url)
    try:
        listed = json.loads(text) if len(text) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, dict):
        raise CorruptData(f"not a release directory: {url}")
    releases = {}
    for name, entry in listed.items():
        seen = set()
        while isinstance(entry, str) and entry not in seen:  # an alias, perhaps of an alias
            seen.add(entry)
            entry = listed.get(entry)
        if isinstance(entry, dict):
            releases[name] = entry
    return releases


def _fetch(url: str) -> bytes:
    """Return the content of a URL, at most one byte more than the limit.

    Redirects are followed, but never from https to http: the answer says where the data are.
    """
    import http.client
    import urllib.error
    import urllib.parse
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(
            self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str
        ) -> Any:
            if req.full_url.startswith("https:") and not newurl.lower().startswith("https:"):
                raise urllib.error.URLError("it redirects from https:// to another scheme")
            if not newurl.lower().startswith(("http:", "https:")):
                raise urllib.error.URLError("it redirects to neither http:// nor https://")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    try:
        request = urllib.request.Request(url)
        if request.type not in ("http", "https"):  # "file" may be a pipe
            raise ValueError("it must start with https:// or http://")
        _ = urllib.parse.urlsplit(url).port  # checks the port, which is parsed on access only
    except ValueError as error:
        raise InvalidArgument(f"not a URL of a release directory ({error}): {url!r}") from None
    reason: object
    try:
        https = urllib.request.HTTPSHandler(context=_named_certificates())
        opener = urllib.request.build_opener(Redirects, https)
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
            text: bytes = answer.read(_MOST_BYTES + 1)
            missing = getattr(answer, "length", None)  # bytes missing from Content-Length
        if len(text) > _MOST_BYTES or not missing:
            return text
        reason = f"{missing} bytes are missing"
    except http.client.InvalidURL as error:
        raise InvalidArgument(f"not a URL of a release directory ({error}): {url!r}") from None
    except InvalidArgument:  # of the certificates
        raise
    except OSError as error:
        reason = getattr(error, "reason", error)
    except (http.client.HTTPException, ValueError) as error:  # ValueError: the target of a redirect
        reason = f"{type(error).__name__}: {str(error)[:100]!r}"
    if set("@?") & set(str(reason)):  # address of a proxy or redirect, which may hold a secret
        reason = type(reason).__name__
    raise IoError(f"the Census's release directory does not answer ({reason}): {url}")


def _named_certificates() -> ssl.SSLContext | None:
    """Return what the engine trusts if the environment names it, else None."""
    import ssl

    named = [(name, os.environ.get(name)) for name in CERTIFICATE_VARIABLES]
    folder = os.environ.get("SSL_CERT_DIR") or None
    for name, path in named:
        if path:
            check_regular(name, path)
            return ssl.create_default_context(cafile=path, capath=folder)
    return None


def find_release(version: str, directory: str | None = None) -> CensusRelease:
    """Look a release up by its name or alias.

    Raises
    ------
    NotFound
        The release does not exist; the message lists those that do.
    CorruptData
        The entry has no URI.
    IoError, InvalidArgument
        See `census_releases`.
    """
    releases = census_releases(directory)
    release = releases.get(version)
    if release is None:
        raise NotFound(
            f"there is no Census release {version!r}; choose from {', '.join(sorted(releases))}"
        )
    place = release.get("soma")
    uri = place.get("uri") if isinstance(place, dict) else None
    if not isinstance(place, dict) or not isinstance(uri, str):
        raise CorruptData(f"release {version!r} of the Census has no soma uri")
    region = place.get("s3_region")
    return CensusRelease(
        str(release.get("release_build", version)), uri, str(region) if region else None
    )


#: What people call the organisms of all releases.
_COMMON_NAMES = {"human": "homo_sapiens", "mouse": "mus_musculus"}


@suggests(
    {"version": "census_version=", "context": "storage_options=", "uri": "penstock.open(uri)"}
)
def open_census(
    organism: str = "homo_sapiens",
    census_version: str = "stable",
    *,
    timestamp: datetime | int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    directory: str | None = None,
) -> Experiment:
    """Open an experiment of a Census release from the public bucket, without credentials.

    Parameters
    ----------
    organism : str
        ``"homo_sapiens"``, ``"mus_musculus"``, or another experiment of the release.
    census_version : str
        A release such as ``"2025-01-30"``, or ``"stable"`` or ``"latest"``.
    timestamp, threads
        As for `penstock.open`.
    storage_options : dict, optional
        As for `penstock.open`. By default ``anonymous`` is True and ``region`` is that of the
        release.
    directory : str, optional
        URL of another release directory; see `census_releases`.

    Returns
    -------
    Experiment
        The experiment of the organism.

    Raises
    ------
    NotFound
        The release or organism does not exist; the message lists those that do.
    IoError, CorruptData, InvalidArgument
        See `census_releases`.
    """
    checked_text("organism", organism)
    if re.fullmatch(r"stable|latest|\d{4}-\d{2}-\d{2}", organism):
        raise InvalidArgument(
            f"the organism comes first, such as 'homo_sapiens'; a release is census_version={organism!r}"
        )
    name = organism.strip().lower().replace(" ", "_")
    meant = _COMMON_NAMES.get(name) or nearest(name, _COMMON_NAMES.values())
    if meant not in (None, name):
        raise NotFound(f"the Census has no organism {organism!r}; did you mean {meant!r}?")
    checked_text("census_version", census_version)
    release = find_release(census_version, directory)
    options = dict(storage_texts(storage_options))
    if release.uri.startswith("s3://"):
        if not {"access_key_id", "profile"} & options.keys():
            options.setdefault("anonymous", "true")
        if release.region and "endpoint" not in options:
            options.setdefault("region", release.region)
    return open_stored(release.experiment(name), timestamp, threads, storage_options=options)
