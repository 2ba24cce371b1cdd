"""What a global shuffle costs where only whole units can be read."""

from __future__ import annotations

import warnings

from . import _core
from .loader_stats import from_core

#: Bytes read for each one needed from which it is worth a word.
_MUCH = 1.5


class ReadAgainWarning(UserWarning):
    """An epoch reads and decodes much of the store more than once."""


def warn_of_cost(loader: _core.Loader, uri: str, memory_budget: int) -> None:
    """Warn where an epoch of ``shuffle="global"`` reads much of the store again and again.

    Where rows can be read one by one it does not. Elsewhere the cells of a block that fits in memory
    lie in nearly all units, and each of them is decoded for every block.
    """
    if not loader.counts().planned_units:
        return
    stats = from_core(loader.stats())
    if not stats.bytes_needed or stats.planned_bytes_read <= _MUCH * stats.bytes_needed:
        return
    times = stats.planned_bytes_read / stats.bytes_needed
    warnings.warn(
        f'shuffle="global" reads and decodes up to {times:.1f} times what the cells need, since they do '
        f"not fit in a memory_budget of {memory_budget / 2**20:,.0f} MiB and can only be read with "
        f"those around them, in {uri}. A larger budget reads less, a pack (penstock pack) nothing "
        'twice; shuffle="scatter" mixes nearly as well and reads everything once',
        ReadAgainWarning,
        stacklevel=4,
    )
