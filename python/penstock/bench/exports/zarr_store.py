"""Zarr stores of an experiment's cells in AnnData's layout: sharded, and as anndata writes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import Unsupported

from .cells import Cells

_CHUNK = 1 << 17  # elements: about 64 cells of the Census, what annbatch writes
_CHUNKS_PER_SHARD = 256


def write_zarr(cells: Cells, target: Path) -> None:
    """Write a complete store, or nothing, compressed like annbatch's (lz4, shuffled)."""
    import anndata
    import zarr

    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        root = zarr.open_group(str(partial), mode="w", zarr_format=3)
        root.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        _write_x(root.create_group("X"), cells)
        with anndata.settings.override(**_settings(anndata.settings)):
            anndata.io.write_elem(root, "obs", cells.obs())
            anndata.io.write_elem(root, "var", cells.var())
            for name in ("obsm", "varm", "obsp", "varp", "layers", "uns"):
                anndata.io.write_elem(root, name, {})
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# A process of its own, whose memory is free afterwards: anndata holds all cells.
_PROGRAM = """
import sys, warnings
import anndata
warnings.simplefilter("ignore")
anndata.settings.zarr_write_format = int(sys.argv[3])
anndata.read_h5ad(sys.argv[1]).write_zarr(sys.argv[2])
"""


def write_as_anndata(h5ad: Path, target: Path, zarr_format: int) -> None:
    """Write a complete store, or nothing, with anndata's own chunks and codecs.

    Raises
    ------
    Unsupported
        anndata failed; the message has the end of its output.
    """
    partial = target.with_name(f".partial.{target.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(h5ad), str(partial), str(zarr_format)],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise Unsupported(f"anndata could not write a zarr store: {done.stderr[-1500:]}")
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _settings(settings: Any) -> dict[str, Any]:
    """Set zarr version 3, and turn off AnnData's automatic sharding of obs and var."""
    chosen: dict[str, Any] = {"zarr_write_format": 3}
    if hasattr(settings, "auto_shard_zarr_v3"):
        chosen["auto_shard_zarr_v3"] = False
    return chosen


def _write_x(group: Any, cells: Cells) -> None:
    shape = cells.shape()
    writers = {
        name: _ShardWriter(group, name, dtype)
        for name, dtype in (("data", "f4"), ("indices", "i4"))
    }
    indptr = np.zeros(shape[0] + 1, np.int64)
    row = 0
    for matrix in cells.matrices():
        indptr[row + 1 : row + 1 + matrix.shape[0]] = indptr[row] + matrix.indptr[1:]
        row += matrix.shape[0]
        writers["data"].add(matrix.data)
        writers["indices"].add(matrix.indices)
    for writer in writers.values():
        writer.finish()
    group.create_array("indptr", data=indptr, chunks=(min(len(indptr), _CHUNK),))
    group.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(shape)}
    )


class _ShardWriter:
    """Append to an array in whole shards, because a partial shard would be rewritten."""

    def __init__(self, group: Any, name: str, dtype: str) -> None:
        from zarr.codecs import BloscCodec

        self._shard = _CHUNK * _CHUNKS_PER_SHARD
        self._array = group.create_array(
            name,
            shape=(0,),
            dtype=dtype,
            chunks=(_CHUNK,),
            shards=(self._shard,),
            compressors=BloscCodec(cname="lz4", clevel=3, shuffle="shuffle"),
        )
        self._waiting: list[npt.NDArray[Any]] = []
        self._n_waiting = 0
        self._written = 0

    def add(self, values: npt.NDArray[Any]) -> None:
        self._waiting.append(values)
        self._n_waiting += len(values)
        if self._n_waiting >= self._shard:
            self._write(self._n_waiting // self._shard * self._shard)

    def finish(self) -> None:
        self._write(self._n_waiting)

    def _write(self, count: int) -> None:
        if count == 0:
            return
        values = np.concatenate(self._waiting)
        end = self._written + count
        self._array.resize((end,))
        self._array[self._written : end] = values[:count]
        self._written = end
        self._waiting = [values[count:].copy()]
        self._n_waiting -= count
