"""Writing bands into ``X/raw``: one fragment per range of rows, in memory for a few bands.

A fragment is one global-order write. tiledbsoma finishes a fragment with every call, so a fragment
must be in memory; tiledb (tiledb-py) can write a fragment band by band. tiledb is used if it is
installed; without it, a fragment may have at most `MAX_ROWS_WITHOUT_TILEDB` rows.
"""

from __future__ import annotations

import importlib.util
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .axes import AxisStatistics
from .census_layout import ROWS_PER_BAND
from .counts import Band, CountModel

MAX_ROWS_WITHOUT_TILEDB = 16_384


def can_stream() -> bool:
    """Whether fragments of any size can be written in bounded memory."""
    return importlib.util.find_spec("tiledb") is not None


def _bands(model: CountModel, row_begin: int, row_end: int) -> Iterator[Band]:
    for number in range(row_begin // ROWS_PER_BAND, -(-row_end // ROWS_PER_BAND)):
        yield model.band(number).between(row_begin, row_end)


def _drawn_ahead(bands: Iterator[Band]) -> Iterator[Band]:
    """Draw the bands in a thread, one ahead of the consumer (numpy releases the GIL)."""
    finished: queue.Queue[Band | BaseException | None] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def put(item: Band | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                finished.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def draw() -> None:
        try:
            for band in bands:
                if not put(band):
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        while (item := finished.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def write_fragment(
    uri: str,
    model: CountModel,
    row_begin: int,
    row_end: int,
    statistics: AxisStatistics,
    threads: int,
    on_rows: Callable[[int], None],
) -> None:
    """Write rows [row_begin, row_end) as one fragment; `on_rows` gets the rows of each band."""
    bands = _bands(model, row_begin, row_end)
    if threads > 1:
        bands = _drawn_ahead(bands)
    try:
        write_bands(uri, _counted(bands, statistics, on_rows), threads)
    finally:
        bands.close()  # type: ignore[attr-defined]


def write_bands(uri: str, bands: Iterable[Band], threads: int) -> None:
    """Write bands in ascending order as one fragment, with tiledb in bounded memory."""
    write = _stream if can_stream() else _write_from_memory
    write(uri, bands, threads)


def _counted(
    bands: Iterator[Band], statistics: AxisStatistics, on_rows: Callable[[int], None]
) -> Iterator[Band]:
    for band in bands:
        statistics.add(band)
        if len(band.rows):
            yield band
        on_rows(band.n_rows)


def _config(threads: int) -> dict[str, Any]:
    return {"sm.compute_concurrency_level": threads, "sm.io_concurrency_level": threads}


def _stream(uri: str, bands: Iterable[Band], threads: int) -> None:
    import tiledb
    import tiledb.libtiledb as lt

    context = tiledb.Ctx(_config(threads))
    with tiledb.open(uri, "w", ctx=context) as array:
        query = lt.Query(context, lt.Array(context, array), lt.QueryType.WRITE)
        query.layout = lt.LayoutType.GLOBAL_ORDER
        wrote = False
        for band in bands:
            columns = _columns(band)
            for name, values in columns.items():
                query.set_data_buffer(name, values, len(values))
            query._submit()
            wrote = True
        if wrote:
            query.finalize()


def _write_from_memory(uri: str, bands: Iterable[Band], threads: int) -> None:
    import pyarrow as pa
    import tiledbsoma

    parts = [_columns(band) for band in bands]
    if not parts:
        return
    batch = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    del parts
    context = tiledbsoma.SOMATileDBContext(tiledb_config=_config(threads))
    options = tiledbsoma.TileDBWriteOptions(sort_coords=False)
    with tiledbsoma.SparseNDArray.open(uri, "w", context=context) as array:
        array.write(pa.table(batch), platform_config=options)


def _columns(band: Band) -> dict[str, np.ndarray[Any, Any]]:
    return {"soma_dim_0": band.rows, "soma_dim_1": band.genes, "soma_data": band.values}
