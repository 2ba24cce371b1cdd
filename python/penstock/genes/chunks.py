"""Passes over the cells of a Dataset that sum by gene or by cell, here or in parts on an executor.

Cells are summed in chunks of a fixed number, which are merged in order. So the bits do not depend on
who reads the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.errors import InvalidArgument
from penstock.executors.parts import Executor, Part, checked_executor, fitting, results
from penstock.plan.measurements import SeveralMeasurements
from penstock.plan.shard import Shard

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset
    from penstock.plan.settings import LoaderSettings

Array = npt.NDArray[Any]

#: Cells of a chunk. The last bits of sums of fractions depend on it.
CHUNK_CELLS = 1 << 18
#: Bytes of the sums of a gene in a group, with its limit.
_GENE_BYTES = 64
_SINGLE = ("float32", "int8", "uint8", "int16", "uint16", "bool")


def column_sums(
    ds: Dataset,
    codes: npt.NDArray[np.uint32] | None,
    group_count: int,
    upper: npt.NDArray[np.float64] | None,
    executor: Executor | None,
) -> tuple[list[int], tuple[Array, Array, Array]]:
    """Sum each group and gene.

    Parameters
    ----------
    codes : ndarray of uint32, optional
        Group of each cell, below `group_count`. By default all are in group 0.
    upper : ndarray of float64, optional
        Larger values are clipped, shape (`group_count`, genes).

    Returns
    -------
    sizes : list of int
        Cells of each group.
    sums : tuple of ndarray
        Non-zeros, totals and squared deviations, by group, then gene.
    """
    if executor is None:
        statistics = _pass(ds, codes, group_count, upper)
        return statistics.group_sizes(), statistics.columns()
    _options(ds, by_row=False)  # raises what a part would raise
    sums_bytes = _GENE_BYTES * ds.n_vars * min(group_count, CHUNK_CELLS)
    whole: _core.StatisticsSum | None = None
    done = results(
        checked_executor(executor),
        _sum_columns,
        _parts(ds, codes, group_count, upper),
        fitting(sums_bytes),
        in_order=True,
    )
    for _, (columns, sums, sizes, groups) in done:
        if whole is None:
            limits = None if upper is None else np.ascontiguousarray(upper, np.float64).ravel()
            whole = _core.StatisticsSum(columns, group_count, limits)
        whole.add(sums, sizes, groups)
    if whole is None:  # no cell
        return column_sums(ds, codes, group_count, upper, None)
    return whole.group_sizes(), whole.columns()


def row_sums(ds: Dataset, executor: Executor | None) -> tuple[int, tuple[Array, Array, Array]]:
    """Return the number of genes, and non-zeros, totals and squared deviations of each cell."""
    if executor is not None:
        checked_executor(executor)
        _options(ds, by_row=True)  # raises what a part would raise
    if executor is None or ds.n_obs == 0:
        return _sum_rows(ds)
    parts = (Part(name, (cells,)) for name, cells, _, _ in _chunks(ds))
    done = [each for _, each in results(executor, _sum_rows, parts, in_order=True)]
    sums = zip(*(each for _, each in done), strict=True)
    nonzeros, total, squared_deviation = (np.concatenate(each) for each in sums)
    return done[0][0], (nonzeros, total, squared_deviation)


def _chunks(ds: Dataset) -> Iterator[tuple[str, Dataset, int, int]]:
    """Yield name, cells, first and end of each chunk."""
    rows = ds.reader.selection.rows
    for first in range(0, ds.n_obs, CHUNK_CELLS):
        end = min(first + CHUNK_CELLS, ds.n_obs)
        places = np.arange(first, end, dtype=np.uint64)
        yield f"cells {first:,} to {end - 1:,}", ds.with_rows(rows.take(places)), first, end


def _parts(
    ds: Dataset,
    codes: npt.NDArray[np.uint32] | None,
    group_count: int,
    upper: npt.NDArray[np.float64] | None,
) -> Iterator[Part]:
    """Yield the chunks, each with its own groups alone."""
    for name, cells, first, end in _chunks(ds):
        if codes is None:
            yield Part(name, (cells, [0], None, upper))
            continue
        groups, own = np.unique(codes[first:end], return_inverse=True)
        limits = None if upper is None else upper[groups]
        yield Part(name, (cells, groups.tolist(), own.ravel().astype(np.uint32), limits))


def _sum_columns(
    cells: Dataset,
    groups: list[int],
    codes: npt.NDArray[np.uint32] | None,
    upper: npt.NDArray[np.float64] | None,
) -> tuple[int, bytes, list[int], list[int]]:
    """Sum a chunk, on a worker: genes, sums, and the groups with their sizes."""
    statistics = _pass(cells, codes, len(groups), upper)
    return statistics.column_count, statistics.sums(), statistics.group_sizes(), groups


def _sum_rows(cells: Dataset) -> tuple[int, tuple[Array, Array, Array]]:
    options = _options(cells, by_row=True)
    statistics = _core.StatisticsPass(cells.reader.selection.matrix, options)
    statistics.run()
    return statistics.column_count, statistics.rows()


def _pass(
    ds: Dataset,
    codes: npt.NDArray[np.uint32] | None,
    group_count: int,
    upper: npt.NDArray[np.float64] | None,
) -> _core.StatisticsPass:
    options = _options(ds, by_row=False)
    options.chunk_rows = CHUNK_CELLS
    if codes is not None:
        options.group(codes, group_count)
    if upper is not None:
        options.clip(np.ascontiguousarray(upper, np.float64).ravel())
    statistics = _core.StatisticsPass(ds.reader.selection.matrix, options)
    statistics.run()
    return statistics


def _is_one_of_several_ranks(settings: LoaderSettings) -> bool:
    try:
        return settings.find_shard().world_size != 1
    except InvalidArgument:  # of the environment; only epochs need to know the rank
        return True


def _options(ds: Dataset, *, by_row: bool) -> _core.StatisticsOptions:
    selection, settings = ds.reader.selection, ds.reader.settings
    if isinstance(selection, SeveralMeasurements):
        selection.refuse("statistics")
    chain = selection.transforms
    if chain is not None and (chain.max_tokens is not None or chain.is_centred or chain.callables):
        raise InvalidArgument(
            "statistics are streamed by the engine from sparse values: transforms must hold no "
            "RankTokens, no Scale with mean= and no callables; use ds.with_settings(transforms=…)"
        )
    options = _core.StatisticsOptions()
    loader = ds.reader.planner.options(Shard(), 0)
    # Each of several ranks reads all cells. Epochs of a pack read rows one by one and keep none.
    if selection.matrix.addresses_rows or _is_one_of_several_ranks(settings):
        loader.kept = None
    single = settings.engine_dtype == "float32" if chain else selection.matrix.value_type in _SINGLE
    loader.dtype = "float32" if single else "float64"
    options.from_loader(loader)
    options.by_row, options.by_column = by_row, not by_row
    return options
