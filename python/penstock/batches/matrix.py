"""The X half of a batch: numpy, scipy or torch over the engine's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock import _core
from penstock.base.missing_package import require

if TYPE_CHECKING:
    from penstock.transforms.chain import Chain


class Tokens(NamedTuple):
    """X of a batch of `RankTokens`, as arrays or tensors.

    Attributes
    ----------
    ids : (cells, max_tokens), int64 or int32
        Tokens of each cell, then padding.
    lengths : (cells,), int32
        How many tokens each cell has.
    """

    ids: Any
    lengths: Any


def transformed(
    format: str, sparse: str | None, chain: Chain | None
) -> Callable[[_core.Batch], Any]:
    """As `converter`, then what the transforms have left to do."""
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
    """Return what turns a batch into an ndarray or tensor, dense, "csr" or "coo".

    No values are copied; the memory goes back to the loader when the last array is gone. COO has
    row numbers beside, and in torch its indices are int64, which are made for each batch.
    """
    if sparse == "coo":
        return _coo_tensor() if format == "torch" else _scipy_coo()
    if format == "torch":
        return _sparse_tensor() if sparse else _dense_tensor()
    return _scipy_csr() if sparse else _core.Batch.dense


def _scipy_csr() -> Callable[[_core.Batch], Any]:
    require("scipy")
    from scipy.sparse import csr_matrix

    # The constructor's checks take 20 µs a batch. What it leaves in an object beside the arrays is
    # taken from one that it made.
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
    require("torch")  # now, and not within the first batch

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
    """Sparse COO tensor with int64 indices; coalesced where no gene of a cell comes twice."""
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
    """Tensor over the same memory."""
    import torch

    # The engine's 64-bit integers are C's long long, which torch does not know without a sign.
    return torch.from_numpy(array.view(array.dtype.str) if array.dtype.char in "qQ" else array)


def csr_tensor(indptr: Any, indices: Any, data: Any, shape: tuple[int, int]) -> Any:
    """Sparse CSR tensor over the same memory; that the arrays fit together is not checked again."""
    import torch

    return torch.sparse_csr_tensor(
        as_tensor(indptr), as_tensor(indices), as_tensor(data), size=shape, check_invariants=False
    )
