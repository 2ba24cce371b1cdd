"""S3 settings of a source, for Penstock and for tiledbsoma."""

from __future__ import annotations

from typing import Any

#: Timeout of TileDB, whose default of 3 seconds is less than a server's latency may be.
_PATIENCE_MS = "120000"
_PUBLIC = "s3://cellxgene-"  # buckets of the Census, which refuse foreign signatures


def is_remote(source: str) -> bool:
    """Whether the source is remote, so that the kernel does not count its bytes as read."""
    return "://" in source and not source.startswith("file://")


def storage_options(
    source: str, region: str | None = None, endpoint: str | None = None
) -> dict[str, Any] | None:
    """Return ``storage_options`` of Penstock; requests to `endpoint` are not signed."""
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
    """Return the same as entries of a TileDB configuration."""
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
