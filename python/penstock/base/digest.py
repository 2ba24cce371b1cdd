"""A hash that is the same on every machine."""

from __future__ import annotations

import hashlib


def digest64(*parts: bytes) -> int:
    """Hash of parts, 64 bits; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest()[:8], "little")
