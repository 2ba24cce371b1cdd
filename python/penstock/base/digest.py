"""A hash that is equal on every machine."""

from __future__ import annotations

import hashlib


def digest64(*parts: bytes) -> int:
    """Return a 64-bit hash of the parts; their boundaries count."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest()[:8], "little")
