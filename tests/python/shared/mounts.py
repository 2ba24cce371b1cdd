"""Commands that run with their own private mounts of file systems."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def with_mount(mount: str, place: Path) -> list[str]:
    """What a command is prefixed with to run after `mount`, in whose text ``$0`` is the place."""
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              f'{mount} && exec "$@"', str(place)]  # fmt: skip
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("the unshare command is not installed")
    if tried.returncode != 0:
        pytest.skip(f"no mount namespaces here: {tried.stderr.strip()}")
    return prefix
