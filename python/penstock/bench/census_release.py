"""The Census's release directory: from the name of a release to the address of its experiments.

The directory is a JSON object of release names to what they are, or to the name of another release
(``stable``, ``latest``); its address and form are public
(chanzuckerberg/cellxgene-census, ``api/python/cellxgene_census/_release_directory.py``).
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgument, IoError

DIRECTORY = "https://census.cellxgene.cziscience.com/cellxgene-census/v1/release.json"
VARIABLE = "PENSTOCK_CENSUS_DIRECTORY"
COLLECTION = "283d65eb-dd53-496d-adb7-7570c7caa443"  # what alb slices, 138 human datasets
ORGANISMS = ("homo_sapiens", "mus_musculus")


@dataclass(frozen=True)
class Release:
    """A release of the Census: the address of its SOMA and the region of its bucket."""

    version: str
    uri: str
    region: str | None = None

    def experiment(self, organism: str) -> str:
        """Address of an organism's experiment."""
        return f"{self.uri.rstrip('/')}/census_data/{organism}"


def resolve(version: str, directory: str | None = None) -> Release:
    """Look a release up.

    Parameters
    ----------
    version
        ``2023-12-15``, ``stable``, ``latest``: any name in the directory.
    directory
        Its address; by default what PENSTOCK_CENSUS_DIRECTORY says, else the Census's own.

    Raises
    ------
    IoError
        The directory cannot be read.
    InvalidArgument
        It has no such release.
    """
    address = directory or os.environ.get(VARIABLE) or DIRECTORY
    entries = _read(address)
    name, seen = version, set()
    while isinstance(entries.get(name), str) and name not in seen:
        seen.add(name)
        name = entries[name]
    entry = entries.get(name)
    if not isinstance(entry, dict):
        known = ", ".join(sorted(entries)[-12:]) or "none"
        raise InvalidArgument(
            f"the Census has no release {version!r}; it has {known}, in {address}"
        )
    try:
        soma = entry["soma"]
        return Release(entry.get("release_build", name), soma["uri"], soma.get("s3_region"))
    except (KeyError, TypeError):
        raise InvalidArgument(
            f"release {name!r} has no address of its SOMA, in {address}"
        ) from None


def _read(address: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            entries = json.load(answer)
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise IoError(f"cannot read the Census's release directory: {reason}, {address}") from None
    except ValueError:
        raise IoError(f"the Census's release directory is no JSON, {address}") from None
    if not isinstance(entries, dict):
        raise IoError(f"the Census's release directory is no JSON object, {address}")
    return entries
