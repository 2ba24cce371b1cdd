"""Parts of cells for an executor, whose rows come back and are written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from penstock.errors import Internal
from penstock.executors.parts import AT_ONCE, Executor, Part, fitting, results

#: Most bytes of rows in a part, if its call has no more.
_PART_BYTES = 8 << 20
#: Bytes of a call that take about as long to send as a cell takes to read.
_CELL_BYTES = 4096


class Parts:
    """Ranges of cells of about equal size, which begin where batches begin.

    The larger the call, the fewer they are: each part is sent with it.

    Parameters
    ----------
    call : tuple
        Arguments of the function of a part after the first and the last cell. They pickle; what is large, such as a
        model, is bytes.
    cells, batch_size : int
        Cells in all, and in a batch.
    row_bytes : int
        Bytes of the row of a cell.
    begin : int, default 0
        First cell, where a batch begins.
    """

    def __init__(
        self, call: tuple[Any, ...], cells: int, batch_size: int, row_bytes: int, begin: int = 0
    ) -> None:
        batches = -(-(cells - begin) // batch_size)
        call_bytes = sum(len(each) for each in call if isinstance(each, bytes))
        least = call_bytes // (_CELL_BYTES * batch_size)
        most = max(_PART_BYTES, call_bytes) // max(1, row_bytes * batch_size)
        self.step = batch_size * max(1, min(max(-(-batches // AT_ONCE), least), most))
        self.at_once = fitting(call_bytes + self.step * row_bytes)
        self._call = call
        self._cells = cells
        self._begin = begin

    def __iter__(self) -> Iterator[Part]:
        for first in range(self._begin, self._cells, self.step):
            end = min(first + self.step, self._cells)
            yield Part(f"cells {first:,} to {end - 1:,}", (first, end, *self._call))


def fill_parts(values: Any, executor: Executor, function: Callable[..., Any], parts: Parts) -> None:
    """Write to `values` the rows that ``function(first, end, *call)`` returns for each part.

    Raises
    ------
    PartFailed
        The executor lost a part.
    """
    for part, rows in results(executor, function, parts, parts.at_once):
        first, end = part.arguments[:2]
        if np.shape(rows) != (end - first, *values.shape[1:]):
            raise Internal(f"{part.name} gave rows of shape {np.shape(rows)}")
        values[first:end] = rows
