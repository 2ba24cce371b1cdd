"""Small cells to try things on."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.base.missing_package import require
from penstock.base.validation import checked_choice, checked_path
from penstock.dataset.dataset import Dataset
from penstock.experiment.experiment import open_stored

from .bundled import ARCHIVES, unpack
from .made_once import made_once

FORMATS = ("soma", "h5ad", "zarr")


def example(
    name: str = "pbmc3k",
    *,
    format: str = "soma",
    folder: str | os.PathLike[str] | None = None,
) -> str:
    """Return the path of example cells that the package ships, unpacked once.

    Parameters
    ----------
    name : {"pbmc3k", "census-like"}, default "pbmc3k"
        "pbmc3k" has 2,638 real blood cells of a donor × 13,714 genes, with ``cell_type`` in obs.
        "census-like" has 6,000 made-up cells × 1,500 genes, with the columns of the CELLxGENE
        Census: ``cell_type``, ``tissue_general``, ``donor_id``, ``dataset_id`` and more.
    format : {"soma", "h5ad", "zarr"}, default "soma"
        A SOMA experiment, or the same counts as AnnData. anndata writes these.
    folder : str or path, optional
        Where the cells are unpacked. By default a folder of the user's cache
        (``$XDG_CACHE_HOME/penstock`` or ``~/.cache/penstock``).

    Returns
    -------
    str
        Path for `penstock.Dataset` and `penstock.open`.

    Raises
    ------
    InvalidArgument
        There is no such example or format.
    MissingPackage
        The format needs anndata, which is not installed.

    Examples
    --------
    >>> ds = ps.Dataset(ps.example())
    >>> X, obs = ds.head()
    """
    checked_choice("name", name, tuple(ARCHIVES))
    checked_choice("format", format, FORMATS)
    place = _cache() if folder is None else Path(checked_path("folder", folder))
    stored = unpack(place, name)
    if format == "soma":
        return str(stored)
    require("anndata")

    def write(path: Path) -> None:
        adata = Dataset(open_stored(stored)).to_anndata()
        adata.write_h5ad(path) if format == "h5ad" else adata.write_zarr(path)

    return str(made_once(place / f"{name}.{format}", write))


def _cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock" / "examples"
