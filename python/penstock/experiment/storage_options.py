"""Access to remote stores: the `storage_options` of `penstock.open`, and tiledbsoma's settings."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from penstock.base.validation import check_regular
from penstock.errors import InvalidArgument, IoError, PenstockError

Texts = dict[str, str]

#: Variables that name trusted certificates: the first one counts. As in io/http/certificates.cc.
CERTIFICATE_VARIABLES = ("CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE")

#: Names in s3fs, fsspec and object stores to the names of our options.
ALIASES = {
    "anon": "anonymous",
    "skip_signature": "anonymous",
    "aws_skip_signature": "anonymous",
    "key": "access_key_id",
    "aws_access_key_id": "access_key_id",
    "secret": "secret_access_key",
    "aws_secret_access_key": "secret_access_key",
    "token": "session_token",
    "aws_session_token": "session_token",
    "endpoint_url": "endpoint",
    "aws_endpoint": "endpoint",
    "region_name": "region",
    "aws_region": "region",
}


def storage_texts(options: Mapping[str, Any] | None) -> Texts:
    """Return options as the engine takes them: texts under our names. The engine checks values.

    Raises
    ------
    InvalidArgument
        `options` is not a mapping of names to texts, numbers or bools, or has an option twice.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        # The value may hold secrets, so the message names only its type.
        raise InvalidArgument(f"storage_options must be a dict, got {type(options).__name__}")
    texts: Texts = {}
    for given, value in options.items():
        if not isinstance(given, str):
            raise InvalidArgument(
                f"names of storage_options must be texts, got {type(given).__name__}"
            )
        name = ALIASES.get(given, given)
        if name == "headers":
            texts.update(_headers(value))
            continue
        if value is None:
            continue
        if name in texts:
            raise InvalidArgument(f"storage_options has {name} twice, as {given!r} too")
        texts[_encodable("storage_options", name)] = _text(given, value)
    return texts


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, float)) or (isinstance(value, int) and abs(value) < 2**63):
        return _encodable(name, str(value))
    # The value may be a secret, so the message names only its type.
    raise InvalidArgument(
        f"storage option {name!r} must be a text, a number or a bool, got {type(value).__name__}"
    )


def _encodable(name: str, text: str) -> str:
    """Return the text; refuse lone surrogates (from bytes of a file) without showing the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"storage option {name!r} must be text that is UTF-8") from None
    return text


def _headers(value: Any) -> Texts:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(text, str) for name, text in value.items()
    ):
        raise InvalidArgument(
            "storage option 'headers' must be a dict of texts, as {'Authorization': 'Bearer …'}; on "
            "the command line, give each as header.NAME=VALUE"
        )
    return {
        _encodable("headers", f"header.{name}"): _encodable("headers", text)
        for name, text in value.items()
    }


def credentials_function(uri: str) -> Callable[[str], Texts] | None:
    """Return a function that finds credentials which the engine cannot (SSO, roles, processes).

    Returns None if the URI is not of S3 or botocore is not installed. The engine reports missing
    credentials if they are needed.
    """
    if not uri.startswith("s3://") or importlib.util.find_spec("botocore") is None:
        return None
    return botocore_credentials


def botocore_credentials(profile: str) -> Texts:
    """Return the credentials that botocore finds, or an empty dict."""
    import botocore.session

    try:
        session = botocore.session.Session(profile=profile or None)
        _check_files(session)
        found = session.get_credentials()
        if found is None:
            return {}
        frozen = found.get_frozen_credentials()  # refreshes them
        texts = {
            "access_key_id": frozen.access_key or "",
            "secret_access_key": frozen.secret_key or "",
            "session_token": frozen.token or "",
        }
        end = getattr(found, "_expiry_time", None)
        if end is not None:
            texts["expiration"] = end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for text in texts.values():
            text.encode()  # a credential process may give numbers and lone surrogates
        return texts
    except PenstockError:
        raise
    except Exception as error:
        # Its text may have what a credential process printed, so it is not shown.
        kind, of = type(error).__name__, f" of profile {profile!r}" if profile else ""
        do = (
            "log in by `aws sso login`"
            if "SSO" in kind
            else "`aws sts get-caller-identity` says why"
        )
        raise IoError(f"botocore cannot get credentials{of} ({kind}); {do}") from None


#: Variables that name a file which botocore reads.
_FILES_OF_BOTOCORE = (
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CREDENTIAL_FILE",
    "BOTO_CONFIG",
)  # fmt: skip


def _check_files(session: Any) -> None:
    """Refuse pipes and devices in place of files that botocore reads. It would wait or read for ever."""
    paths = {name: os.environ.get(name) for name in _FILES_OF_BOTOCORE}
    profiles = session.full_config.get("profiles", {})
    profile, seen = session.profile or "default", set()
    while isinstance(profile, str) and profile not in seen:
        seen.add(profile)
        settings = profiles.get(profile, {})
        paths[f"web_identity_token_file of profile {profile!r}"] = settings.get(
            "web_identity_token_file"
        )
        profile = settings.get("source_profile")
    for name, path in paths.items():
        if isinstance(path, str) and path not in ("", "/dev/null"):
            check_regular(name, path)


def of_context(uri: str, config: Mapping[str, Any]) -> Texts:
    """Return our options from the config of a tiledbsoma context; empty unless the URI is of S3."""
    return from_tiledb_config(config) if uri.startswith("s3://") else {}


def from_tiledb_config(config: Mapping[str, Any]) -> Texts:
    """Return our options from TileDB's ``vfs.s3.*`` settings."""
    texts: Texts = {}
    names = {
        "vfs.s3.region": "region",
        "vfs.s3.aws_access_key_id": "access_key_id",
        "vfs.s3.aws_secret_access_key": "secret_access_key",
        "vfs.s3.aws_session_token": "session_token",
    }
    for theirs, ours in names.items():
        value = str(config.get(theirs, "") or "")
        if value:
            texts[ours] = value
    if str(config.get("vfs.s3.no_sign_request", "")).lower() == "true":
        texts["anonymous"] = "true"
    if str(config.get("vfs.s3.requester_pays", "")).lower() == "true":
        texts["requester_pays"] = "true"
    endpoint = str(config.get("vfs.s3.endpoint_override", "") or "")
    if endpoint:
        scheme = str(config.get("vfs.s3.scheme", "") or "https")
        texts["endpoint"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        by_host = str(config.get("vfs.s3.use_virtual_addressing", "true")).lower() == "true"
        texts["addressing_style"] = "virtual" if by_host else "path"
    return texts
