"""The real cells that the package ships; README.md beside this file gives their source."""

from __future__ import annotations

import tarfile
from importlib import resources
from pathlib import Path
from typing import Any

NAME = "pbmc3k-soma"


def unpack(folder: Path) -> Path:
    """Unpack the experiment into `folder`, unless it exists there, and return its path."""
    target = folder / NAME
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{NAME}.partial"
        archive = resources.files(__package__) / f"{NAME}.tar.gz"
        with archive.open("rb") as file, tarfile.open(fileobj=file) as tar:
            # Debian 12's Python has no filters, but newer ones require the argument.
            filters: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(partial, **filters)
        (group,) = partial.iterdir()
        group.rename(target)
        partial.rmdir()
    return target
