"""h5ad files of an experiment's cells: uncompressed CSR, the fastest form of h5ad, and with gzip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .cells import Cells

_CHUNK = 1 << 17  # elements; 0.5 MiB of values


def write_h5ad(cells: Cells, target: Path) -> None:
    """Write a complete file, or nothing, in AnnData's on-disk format 0.1.0."""
    import anndata
    import h5py

    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with h5py.File(partial, "w") as file:
            file.attrs["encoding-type"] = "anndata"
            file.attrs["encoding-version"] = "0.1.0"
            _write_x(file.create_group("X"), cells)
            anndata.io.write_elem(file, "obs", cells.obs())
            anndata.io.write_elem(file, "var", cells.var())
            for name in ("obsm", "varm", "obsp", "varp", "layers", "uns"):
                anndata.io.write_elem(file, name, {})
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def write_with_gzip(h5ad: Path, target: Path) -> None:
    """Write a copy whose X has gzip level 4 and h5py's own chunks, as anndata's ``compression="gzip"`` makes them."""
    import h5py

    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with h5py.File(h5ad) as source, h5py.File(partial, "w") as file:
            file.attrs.update(source.attrs)
            for name in source:
                if name != "X":
                    source.copy(name, file)
            group = file.create_group("X")
            group.attrs.update(source["X"].attrs)
            for name, stored in source["X"].items():
                made = group.create_dataset(
                    name,
                    stored.shape,
                    stored.dtype,
                    maxshape=(None,),
                    chunks=True,
                    compression="gzip",
                )
                step = made.chunks[0] * 64
                for begin in range(0, len(stored), step):
                    made[begin : begin + step] = stored[begin : begin + step]
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _write_x(group: Any, cells: Cells) -> None:
    shape = cells.shape()
    data, indices = (
        group.create_dataset(name, (0,), maxshape=(None,), dtype=dtype, chunks=(_CHUNK,))
        for name, dtype in (("data", "f4"), ("indices", "i4"))
    )
    indptr = np.zeros(shape[0] + 1, np.int64)
    row = filled = 0
    for matrix in cells.matrices():
        end = filled + matrix.nnz
        data.resize((end,))
        indices.resize((end,))
        data[filled:end] = matrix.data
        indices[filled:end] = matrix.indices
        indptr[row + 1 : row + 1 + matrix.shape[0]] = filled + matrix.indptr[1:]
        row, filled = row + matrix.shape[0], end
    group.create_dataset("indptr", data=indptr)
    group.attrs["encoding-type"] = "csr_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = np.array(shape, np.int64)
