"""Versions of what is installed where the worker runs."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = (
    "penstock", "tiledbsoma", "tiledbsoma-ml", "cellxgene-census", "annbatch", "scDataset",
    "anndata", "zarr", "h5py", "torch", "torchdata", "numpy", "scipy", "pandas", "pyarrow",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Of Python and of each package that is there."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
