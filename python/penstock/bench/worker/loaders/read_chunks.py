"""Bare reads of chunks of rows by tiledbsoma: an upper bound for loaders on top of it.

The variants are those of ``alb read-chunks``: ``table``, ``blockwise_table``, ``blockwise_coo``,
``blockwise_csr``; with ``+chunk`` rows of a chunk in random order, with ``+global`` all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..opened import Batch, Opened
from ..request import Work
from .soma import axis_queries, open_experiment


def imports(variant: str, work: Work) -> None:
    """Import tiledbsoma, and the parts of scipy that it imports."""
    import tiledbsoma  # noqa: F401


class _Chunk:
    """A chunk that was read: its shape and number of counts."""

    layout = ""

    def __init__(self, rows: int, columns: int, nnz: int) -> None:
        self.shape, self.nnz = (rows, columns), nnz


def open_loader(variant: str, work: Work) -> Opened:
    """Open the experiment; a batch is a chunk of `chunk_size` rows."""
    experiment = open_experiment(work)
    query = experiment.axis_query(work.measurement, **axis_queries(work))
    rows = np.sort(query.obs_joinids().to_numpy())
    n_genes = len(query.var_joinids())
    genes = slice(None) if work.n_vars is None else slice(0, work.n_vars - 1)
    kind, _, shuffle = variant.partition("+")
    size = work.chunk_size or 10_000

    def epoch(number: int) -> Iterator[Batch]:
        x = experiment.ms[work.measurement].X[work.layer]
        for joinids in _chunks(rows, size, shuffle, np.random.default_rng([work.seed, number])):
            nnz = _read(x, joinids, genes, kind)
            yield _Chunk(len(joinids), n_genes, nnz), joinids

    return Opened(epoch, -(-len(rows) // size))


def _chunks(
    rows: npt.NDArray[np.int64], size: int, shuffle: str, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    if shuffle == "global":
        rows = rng.permutation(rows)
    for begin in range(0, len(rows), size):
        chunk = rows[begin : begin + size]
        yield rng.permutation(chunk) if shuffle == "chunk" else chunk


def _read(x: Any, joinids: npt.NDArray[np.int64], genes: slice, kind: str) -> int:
    """Read a chunk, and return its number of counts."""
    read = x.read(coords=(joinids, genes))
    if kind == "table":
        return sum(len(table) for table in read.tables())
    blocks = read.blockwise(axis=0, size=len(joinids), eager=False)
    if kind == "blockwise_table":
        return sum(len(table) for table, _ in blocks.tables())
    return sum(int(x.nnz) for x, _ in blocks.scipy(compress=kind == "blockwise_csr"))
