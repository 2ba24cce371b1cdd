"""Cost of a global shuffle if rows are not in a pack on a disk."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from penstock import _core
from penstock.base.call_site import caller_level
from penstock.base.text import size

from .measurements import SeveralMeasurements
from .shard import Shard
from .stats import from_core

if TYPE_CHECKING:
    from .planner import Planner
    from .selection import Selection

#: Bytes read for each byte needed, from which a warning is issued.
_MUCH = 1.5
#: Where a chunk is larger than a fetch unit, from which number of times and bytes read. There are
#: few such chunks.
_MANY_TIMES, _MANY_BYTES, _FEW_CHUNKS = 4, 64 << 20, 256


class ReadAgainWarning(UserWarning):
    """An epoch reads and decodes much of the store more than once."""


class RequestPerCellWarning(UserWarning):
    """An epoch requests each cell separately from a remote store."""


def warn_of_cost(loader: _core.Loader, selection: Selection, memory_budget: int) -> None:
    """Warn if an epoch of ``shuffle="global"`` costs much more than another shuffle.

    It is cheap if rows can be read one by one from a disk. In a remote pack each row is a request.
    In other stores the cells of a block that fits in memory are spread over nearly all units, so
    these units are decoded for every block.
    """
    counts = loader.counts()
    if counts.planned_units:
        _warn_of_units(loader, selection.experiment.uri, memory_budget)
    elif counts.requests_rows and not selection.matrix.is_cached(selection.rows):
        _warn_of_requests(loader, selection.experiment.uri)


def warn_of_bands(planner: Planner) -> None:
    """Warn if measurements of a dataset lie in bands of rows that do not fit together.

    A band of one that is cut by a band of another is read and decoded for both sides.
    """
    selection = planner.selection
    if not isinstance(selection, SeveralMeasurements) or selection.matrix.addresses_rows:
        return
    stored = planner.replace_settings(shuffle=False, sampling=None, memory_budget=2**62)
    stats = from_core(stored.loader(Shard(), 0).stats())
    if not stats.bytes_needed or stats.planned_bytes_read <= _MUCH * stats.bytes_needed:
        return
    times = stats.planned_bytes_read / stats.bytes_needed
    warnings.warn(
        f"an epoch reads and decodes {times:.1f} times what the cells need, since the bands of rows in "
        f"which {selection.measurement} are stored do not end at the same rows, in "
        f"{selection.experiment.uri}. A pack (penstock pack) has them in the same bands",
        ReadAgainWarning,
        stacklevel=caller_level(),
    )


def is_decoded_many_times(matrix: _core.Matrix) -> bool:
    """Return whether chunks are so large that many fetch units decode the same one."""
    if matrix.addresses_rows or not 0 < matrix.tile_count() <= _FEW_CHUNKS:
        return False
    read = sum(unit.stored_bytes for unit in matrix.units())
    return read > max(_MANY_TIMES * matrix.stored_bytes, _MANY_BYTES)


def warn_of_chunks(selection: Selection) -> None:
    """Warn if chunks are so large that many fetch units decode the same one."""
    matrix = selection.matrix
    if not is_decoded_many_times(matrix):
        return
    warnings.warn(
        f"a chunk has the cells of many fetch units, and is decoded for each of them: {matrix.layout}, "
        f"in {matrix.uri}. A pack (penstock pack) decodes it once",
        ReadAgainWarning,
        stacklevel=caller_level(),
    )


def _warn_of_units(loader: _core.Loader, uri: str, memory_budget: int) -> None:
    stats = from_core(loader.stats())
    if not stats.bytes_needed or stats.planned_bytes_read <= _MUCH * stats.bytes_needed:
        return
    times = stats.planned_bytes_read / stats.bytes_needed
    warnings.warn(
        f'shuffle="global" reads and decodes up to {times:.1f} times what the cells need, since they do '
        f"not fit in a memory_budget of {size(memory_budget)} and can only be read with "
        f"those around them, in {uri}. A larger budget reads less, a pack on a local disk (penstock "
        'pack) or a cache_dir that holds all of them nothing twice; shuffle="scatter" mixes nearly as '
        "well and reads everything once",
        ReadAgainWarning,
        stacklevel=caller_level(),
    )


def _warn_of_requests(loader: _core.Loader, uri: str) -> None:
    cells = loader.row_count() - loader.row_count_before()
    if not cells:
        return
    warnings.warn(
        f'shuffle="global" asks for cells one by one over the network: {cells:,} of them, up to as many '
        f"requests an epoch, to {uri}. With a cache_dir, or from a copy of the pack on a local disk, "
        'later epochs need none; shuffle="scatter" mixes nearly as well and asks for many at a time',
        RequestPerCellWarning,
        stacklevel=caller_level(),
    )
