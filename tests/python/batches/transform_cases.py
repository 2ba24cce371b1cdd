"""Transformed X of cells, with expected values."""

from __future__ import annotations

import anndata
import numpy as np
import penstock as ps
import scipy.sparse as sp
from conftest import Oracle, collect


def all_cells(oracle: Oracle, transforms, **arguments):
    """X of all cells in the order of joinids."""
    ds = ps.Dataset(oracle.path, shuffle=False, transforms=transforms, **arguments)
    _, X = collect(ds)
    assert X.shape == ds.shape
    return X


def annotated(oracle: Oracle, dtype: str = "float64") -> anndata.AnnData:
    return anndata.AnnData(sp.csr_matrix(oracle.X.astype(dtype)))


def close(got, expected, dtype: str) -> None:
    assert got.dtype == np.dtype(dtype)
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def names_of(oracle: Oracle) -> np.ndarray:
    return ps.Dataset(oracle.path).var_names


def tokenize(X: sp.csr_matrix, medians, tokens, most: int, target: float = 1e4) -> list[np.ndarray]:
    """The published rule on counts (Geneformer, Methods), equal values by column."""
    has_token = medians > 0
    X = X.tocsr().astype(np.float64)
    cells = []
    for i in range(X.shape[0]):
        row = X[i].toarray().ravel()
        values = row / row.sum() * target
        normalised = np.zeros_like(values)
        normalised[has_token] = values[has_token] / medians[has_token]
        nonzero = np.flatnonzero(normalised)
        order = np.argsort(-normalised[nonzero], kind="stable")
        cells.append(tokens[nonzero[order]][:most])
    return cells


def gene_tokens(oracle: Oracle, seed: int = 0):
    """Medians and tokens of most genes, as arrays and as mappings."""
    random = np.random.default_rng(seed)
    n = oracle.X.shape[1]
    medians = np.where(random.random(n) < 0.9, random.choice([0.5, 1.0, 1.7, 2.5], n), 0)
    tokens = random.permutation(n) + 4
    names = ps.Dataset(oracle.path).var_names
    known = np.flatnonzero(medians)
    by_name = {names[i]: medians[i] for i in known}, {names[i]: int(tokens[i]) for i in known}
    return medians, tokens, *by_name
