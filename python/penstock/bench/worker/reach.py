"""How a source is reached: the settings of S3, for Penstock and for tiledbsoma."""

from __future__ import annotations

from typing import Any

#: Of TileDB, for a server that is told to be late: its own 3 seconds are less than that may be.
_PATIENCE_MS = "120000"
_PUBLIC = "s3://cellxgene-"  # buckets of the Census: a stranger's signature is refused there


def is_remote(source: str) -> bool:
    """Whether it lies elsewhere, so that the kernel does not count what is read of it."""
    return "://" in source and not source.startswith("file://")


def storage_options(
    source: str, region: str | None = None, endpoint: str | None = None
) -> dict[str, Any] | None:
    """``storage_options`` of Penstock; of `endpoint` requests are not signed."""
    if endpoint is not None:
        return {"endpoint": endpoint, "anonymous": True}
    if not source.startswith("s3://"):
        return None
    options: dict[str, Any] = {} if region is None else {"region": region}
    if source.startswith(_PUBLIC):
        options["anonymous"] = True
    return options or None


def tiledb_config(
    source: str, region: str | None = None, endpoint: str | None = None
) -> dict[str, Any]:
    """The same as entries of a TileDB configuration."""
    config: dict[str, Any] = {}
    if region is not None:
        config["vfs.s3.region"] = region
    if endpoint is not None:
        scheme, _, place = endpoint.partition("://")
        config |= {
            "vfs.s3.scheme": scheme,
            "vfs.s3.endpoint_override": place,
            "vfs.s3.use_virtual_addressing": "false",
            "vfs.s3.region": "us-east-1",
            "vfs.s3.request_timeout_ms": _PATIENCE_MS,
        }
    if endpoint is not None or source.startswith(_PUBLIC):
        config["vfs.s3.no_sign_request"] = "true"
    return config
