"""The Census loaders' method alone: blocks of shuffled chunks read by tiledbsoma.

The variants are the two conversions of a block that ``alb`` compares. ``np.array`` scatters the
Arrow table into a dense array. ``scipy.csr`` makes a CSR matrix, whose rows are made dense batch by
batch. The code follows the Census's article on its PyTorch loaders
(chanzuckerberg.github.io/cellxgene-census, articles/2024/20240709-pytorch), because no version of
cellxgene_census has both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..opened import Batch, Opened
from ..request import Work
from .soma import axis_queries, open_experiment

_CHUNK_SIZE = 64
_CHUNKS_PER_BLOCK = 2000


def imports(variant: str, work: Work) -> None:
    """Import tiledbsoma and scipy; torch is not needed."""
    import scipy.sparse  # noqa: F401
    import tiledbsoma  # noqa: F401


def open_loader(variant: str, work: Work) -> Opened:
    """Open the experiment and read joinids, as the Census's loader does."""
    experiment = open_experiment(work)
    query = experiment.axis_query(work.measurement, **axis_queries(work))
    rows = np.sort(query.obs_joinids().to_numpy())
    genes = np.sort(query.var_joinids().to_numpy())
    chunk = work.chunk_size or _CHUNK_SIZE
    block = chunk * (work.chunks_per_block or _CHUNKS_PER_BLOCK)

    def epoch(number: int) -> Iterator[Batch]:
        rng = np.random.default_rng([work.seed, number])
        x = experiment.ms[work.measurement].X[work.layer]  # closed with the experiment
        for joinids in _blocks(rows, chunk, block, rng):
            order = rng.permutation(len(joinids))
            converted = _read(x, joinids, genes, variant)
            for begin in range(0, len(joinids), work.batch_size):
                mine = order[begin : begin + work.batch_size]
                yield _batch(converted, mine, work.sparse), joinids[mine]

    return Opened(epoch)


def _blocks(
    rows: npt.NDArray[np.int64], chunk: int, block: int, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    starts = rng.permutation(-(-len(rows) // chunk)) * chunk
    per_block = block // chunk
    for begin in range(0, len(starts), per_block):
        parts = [rows[i : i + chunk] for i in starts[begin : begin + per_block]]
        yield np.concatenate(parts)


def _read(
    x: Any, joinids: npt.NDArray[np.int64], genes: npt.NDArray[np.int64], variant: str
) -> Any:
    """Return rows in the order of `joinids`."""
    import scipy.sparse as sp

    sorted_ids = np.sort(joinids)
    place = np.argsort(joinids)
    dense = np.zeros((len(joinids), len(genes)), np.float32) if variant == "np.array" else None
    parts: list[tuple[Any, Any, Any]] = []
    for table in x.read(coords=(sorted_ids, genes)).tables():
        row = place[np.searchsorted(sorted_ids, table["soma_dim_0"].to_numpy())]
        column = np.searchsorted(genes, table["soma_dim_1"].to_numpy())
        values = table["soma_data"].to_numpy()
        if dense is not None:
            dense[row, column] = values
        else:
            parts.append((values, row, column))
    if dense is not None:
        return dense
    if not parts:
        return sp.csr_matrix((len(joinids), len(genes)), dtype=np.float32)
    values, row, column = (np.concatenate(each) for each in zip(*parts, strict=True))
    return sp.csr_matrix((values, (row, column)), shape=(len(joinids), len(genes)))


def _batch(block: Any, rows: npt.NDArray[np.int64], sparse: bool) -> Any:
    import scipy.sparse as sp

    batch = block[rows]
    if sparse:
        return batch if sp.issparse(batch) else sp.csr_matrix(batch)
    return batch.toarray() if sp.issparse(batch) else batch
