"""scanpy's highly variable genes with the means and variances that it computed before 1.12."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy  # noqa: F401

HVG = sys.modules["scanpy.preprocessing._highly_variable_genes"]


def added_up_as_before(data: anndata.AnnData, by: str, func: list[str]) -> anndata.AnnData:
    """What scanpy 1.12 calls `aggregate` for, by the function that it has for one batch, as in 1.11.

    `aggregate` rounds otherwise, and the ranks of genes with equal normalised variances depend on the
    last bits (docs/guides/genes.md). Everything else is scanpy's own.
    """
    assert func == ["mean", "var"]
    groups = data.obs[by].cat.categories
    parts = [
        HVG.stats.mean_var(data.X[(data.obs[by] == each).to_numpy()], axis=0, correction=1)
        for each in groups
    ]
    layers = {name: np.stack([part[i] for part in parts]) for i, name in enumerate(func)}
    return anndata.AnnData(obs=pd.DataFrame({by: groups}), layers=layers)


@contextmanager
def adding_up_as_before() -> Iterator[None]:
    """Let scanpy add up a batch's counts as before 1.12."""
    with pytest.MonkeyPatch.context() as patched:
        if hasattr(HVG, "aggregate"):
            patched.setattr(HVG, "aggregate", added_up_as_before)
        yield
