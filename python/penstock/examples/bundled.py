"""Archives of the package: experiments as tar.gz; README.md beside this file gives their source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .made_once import made_once

#: Archive of each example, and the folder in it.
ARCHIVES = {"pbmc3k": "pbmc3k-soma", "census-like": "census-like-soma"}


def unpack(folder: Path, name: str = "pbmc3k") -> Path:
    """Unpack an experiment into `folder`, unless it exists there, and return its path."""
    inner = ARCHIVES[name]

    def extract(target: Path) -> None:
        import tarfile  # imported here, as most who import penstock need neither
        from importlib import resources

        partial = target.with_name(f"{target.name}.tar")
        archive = resources.files(__package__) / f"{inner}.tar.gz"
        with archive.open("rb") as file, tarfile.open(fileobj=file) as tar:
            # Debian 12's Python has no filters, but newer ones require the argument.
            filters: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(partial, **filters)
        (group,) = partial.iterdir()
        group.rename(target)

    return made_once(folder / inner, extract)
