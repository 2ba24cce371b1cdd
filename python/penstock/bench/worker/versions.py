"""Versions of the packages in the worker's environment."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = (
    "penstock", "tiledbsoma", "tiledbsoma-ml", "cellxgene-census", "annbatch", "scDataset", "scvi-tools",
    "tiledb", "anndata", "zarr", "zarrs", "h5py", "torch", "torchdata", "numpy", "scipy", "numba",
    "pandas", "pyarrow",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of Python and of each installed package."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
