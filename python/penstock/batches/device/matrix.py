"""Make X from CSR arrays on a device. Imports torch."""

from __future__ import annotations

import torch

#: Dtypes for which duplicate values of a gene in a cell are summed as float32, to limit the loss.
_SUMMED_AS_FLOAT32 = (torch.float16, torch.bfloat16)


def widened(narrow: torch.Tensor) -> torch.Tensor:
    """Return unsigned 16-bit numbers, given as int16, as int32."""
    return narrow.to(torch.int32).bitwise_and_(0xFFFF)


def place_matrix(
    layout: str | None,
    indptr: torch.Tensor,
    columns: torch.Tensor,
    values: torch.Tensor,
    shape: tuple[int, int],
    dtype: torch.dtype,
    is_coalesced: bool,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return X (dense, "csr" or "coo") of a dtype, and the tensors that own its memory.

    Nothing is read back from the device, so the caller does not wait.

    Parameters
    ----------
    layout : {None, "csr", "coo"}
        Layout of X; None is dense.
    indptr, columns : Tensor of int32
        Row pointers and gene numbers.
    values : Tensor
        Values, of any dtype.
    shape : tuple of int
        (cells, genes).
    dtype : torch.dtype
        Type of X.
    is_coalesced : bool
        Whether no gene comes twice in a cell.
    """
    if layout == "csr":
        X = torch.sparse_csr_tensor(
            indptr, columns, values.to(dtype), size=shape, check_invariants=False
        )
        return X, [X.crow_indices(), X.col_indices(), X.values()]
    rows = torch.repeat_interleave(
        torch.arange(shape[0], device=indptr.device), indptr.diff(), output_size=len(values)
    )
    if layout == "coo":
        X = torch.sparse_coo_tensor(
            torch.stack([rows, columns.to(torch.int64)]),
            values.to(dtype),
            size=shape,
            check_invariants=False,
            is_coalesced=is_coalesced,
        )
        return X, [X._indices(), X._values()]
    summed = torch.float32 if dtype in _SUMMED_AS_FLOAT32 else dtype
    flat = torch.zeros(shape[0] * shape[1], dtype=summed, device=values.device)
    flat.scatter_add_(0, rows.mul_(shape[1]).add_(columns), values.to(summed))
    X = flat.to(dtype).view(shape)
    return X, [X]
