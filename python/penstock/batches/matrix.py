"""Make X of a batch: numpy, scipy or torch, over the engine's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock import _core
from penstock.base.missing_package import require

if TYPE_CHECKING:
    from penstock.plan.x_array import XArrays


class Tokens(NamedTuple):
    """X of a batch with `RankTokens`, as arrays or tensors.

    Attributes
    ----------
    ids : ndarray or tensor of int64 or int32
        Tokens of each cell, then padding; shape (cells, max_tokens).
    lengths : ndarray or tensor of int32
        Number of tokens of each cell, shape (cells,).
    """

    ids: Any
    lengths: Any


def transformed(format: str, arrays: XArrays) -> Callable[[_core.Batch], Any]:
    """Return a function that makes X of a batch, then applies the callables of the transforms."""
    if isinstance(arrays, dict):
        made = {name: transformed(format, array) for name, array in arrays.items()}
        return lambda batch: {
            name: each(batch.part(i)) for i, (name, each) in enumerate(made.items())
        }
    sparse, chain = arrays.sparse, arrays.chain
    if chain is None:
        return converter(format, sparse)
    convert = converter(format, sparse) if chain.max_tokens is None else _tokens(format)
    callables = chain.callables
    if not callables:
        return convert

    def convert_and_call(batch: _core.Batch) -> Any:
        X = convert(batch)
        for call in callables:
            X = call(X)
        return X

    return convert_and_call


def _tokens(format: str) -> Callable[[_core.Batch], Any]:
    if format == "torch":
        require("torch")
        return lambda batch: Tokens(as_tensor(batch.dense()), as_tensor(batch.lengths()))
    return lambda batch: Tokens(batch.dense(), batch.lengths())


def converter(format: str, sparse: str | None) -> Callable[[_core.Batch], Any]:
    """Return a function that makes an ndarray, scipy matrix or tensor of a batch.

    Values are not copied. The loader gets the memory back when the last array is deleted. For COO
    the row numbers are made for each batch, and in torch also the int64 indices.
    """
    if sparse == "coo":
        return _coo_tensor() if format == "torch" else _scipy_coo()
    if format == "torch":
        return _sparse_tensor() if sparse else _dense_tensor()
    return _scipy_csr() if sparse else _core.Batch.dense


def _scipy_csr() -> Callable[[_core.Batch], Any]:
    require("scipy")
    from scipy.sparse import csr_matrix

    # The constructor's checks take 20 µs a batch. They are skipped by copying the other attributes
    # from a matrix that the constructor made.
    model = csr_matrix((1, 1)).__dict__

    def convert(batch: _core.Batch) -> Any:
        matrix = csr_matrix.__new__(csr_matrix)
        indptr, indices, data = batch.csr()
        matrix.__dict__.update(
            model,
            _shape=(batch.rows, batch.columns),
            indptr=indptr,
            indices=indices,
            data=data,
        )
        matrix.has_sorted_indices = True
        return matrix

    def convert_checked(batch: _core.Batch) -> Any:
        indptr, indices, data = batch.csr()
        return csr_matrix((data, indices, indptr), shape=(batch.rows, batch.columns), copy=False)

    return convert if {"_shape", "indptr", "indices", "data"} <= model.keys() else convert_checked


def _dense_tensor() -> Callable[[_core.Batch], Any]:
    require("torch")  # raises here, not at the first batch

    def convert(batch: _core.Batch) -> Any:
        return as_tensor(batch.dense())

    return convert


def _sparse_tensor() -> Callable[[_core.Batch], Any]:
    require("torch")

    def convert(batch: _core.Batch) -> Any:
        return csr_tensor(*batch.csr(), (batch.rows, batch.columns))

    return convert


def _scipy_coo() -> Callable[[_core.Batch], Any]:
    require("scipy")
    from scipy.sparse import coo_matrix

    def convert(batch: _core.Batch) -> Any:
        indptr, indices, data = batch.csr()
        rows = np.repeat(np.arange(batch.rows, dtype=np.int32), np.diff(indptr))
        return coo_matrix((data, (rows, indices)), shape=(batch.rows, batch.columns), copy=False)

    return convert


def _coo_tensor() -> Callable[[_core.Batch], Any]:
    require("torch")

    def convert(batch: _core.Batch) -> Any:
        return coo_tensor(*batch.csr(), (batch.rows, batch.columns))

    return convert


def coo_tensor(indptr: Any, indices: Any, data: Any, shape: tuple[int, int]) -> Any:
    """Return a COO tensor with int64 indices, coalesced unless a gene comes twice in a cell."""
    import torch

    where = np.empty((2, len(data)), np.int64)
    where[0] = np.repeat(np.arange(shape[0]), np.diff(indptr))
    where[1] = indices
    ascending = (where[1, 1:] > where[1, :-1]) | (where[0, 1:] > where[0, :-1])
    return torch.sparse_coo_tensor(
        torch.from_numpy(where),
        as_tensor(data),
        size=shape,
        check_invariants=False,
        is_coalesced=bool(ascending.all()),
    )


def as_tensor(array: Any) -> Any:
    """Return a tensor over the memory of an array."""
    import torch

    # The engine's 64-bit integers are C's long long; torch does not know its unsigned type.
    return torch.from_numpy(array.view(array.dtype.str) if array.dtype.char in "qQ" else array)


def csr_tensor(indptr: Any, indices: Any, data: Any, shape: tuple[int, int]) -> Any:
    """Return a CSR tensor over the memory of the arrays, which are not checked again."""
    import torch

    return torch.sparse_csr_tensor(
        as_tensor(indptr), as_tensor(indices), as_tensor(data), size=shape, check_invariants=False
    )
