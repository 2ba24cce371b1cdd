"""A patch with which `tiledbsoma.io.from_anndata` can write objects of anndata 0.13."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any
from unittest.mock import patch

import anndata
import tiledbsoma.io


def let_tiledbsoma_write_it() -> None:
    """Hide X, layer None there: tiledbsoma 2.3 takes it for a layer with a name and ends in a TypeError."""
    if tuple(map(int, version("anndata").split(".")[:2])) < (0, 13):
        return
    write = tiledbsoma.io.from_anndata

    @functools.wraps(write)
    def from_anndata(uri: str, data: anndata.AnnData, *arguments: Any, **more: Any) -> Any:
        def named(layers: Any) -> list[tuple[str, Any]]:
            return [(name, layers[name]) for name in layers if name is not None]

        with patch.object(type(data.layers), "items", named):
            return write(uri, data, *arguments, **more)

    tiledbsoma.io.from_anndata = from_anndata
