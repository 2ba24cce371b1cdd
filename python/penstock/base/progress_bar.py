"""A progress bar for an epoch."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable
from typing import Any, TextIO, TypeVar

from penstock.errors import InvalidArgument

from .text import count, plural
from .validation import described

Batch = TypeVar("Batch")

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


def progress(batches: Iterable[Batch], file: TextIO | None = None) -> Generator[Batch, None, None]:
    """Yield the batches, and show progress on one line.

    Parameters
    ----------
    batches : Dataset or DataLoader
        Or another iterable of tuples ``(X, …)`` whose ``len`` is the number of batches.
    file : text stream, optional
        Stream for the line. By default ``sys.stderr`` if it is a terminal or a notebook, otherwise
        nothing is shown.

    Yields
    ------
    tuple
        The batches, unchanged.

    Raises
    ------
    InvalidArgument
        `batches` has no ``len``.

    Examples
    --------
    ``for X, obs in ps.progress(ds): ...``
    """
    try:
        total = len(batches)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgument(
            f"progress takes a Dataset or a DataLoader, got {described(batches)}"
        ) from None
    return _shown(batches, total, _Line(total, _stream(file)))


def _shown(batches: Iterable[Batch], total: int, line: _Line) -> Generator[Batch, None, None]:
    try:
        for batch in batches:
            line.add(_cells(batch))
            yield batch
    finally:
        line.end()


class _Line:
    """A line that is overwritten in place."""

    def __init__(self, total: int, file: TextIO | None) -> None:
        self._total = total
        self._file = file
        self._begin = self._shown_at = time.monotonic()
        self._batches = self._cells = self._length = 0

    def add(self, cells: int) -> None:
        self._batches += 1
        self._cells += cells
        now = time.monotonic()
        if now - self._shown_at >= _SECONDS_BETWEEN:
            self._shown_at = now
            self._write(now)

    def end(self) -> None:
        self._write(time.monotonic())
        if self._file is not None:
            self._file.write("\n")
            self._file.flush()

    def _write(self, now: float) -> None:
        if self._file is None:
            return
        text = self._text(now - self._begin)
        self._file.write("\r" + text.ljust(self._length))
        self._file.flush()
        self._length = len(text)

    def _text(self, seconds: float) -> str:
        share = self._batches / self._total if self._total else 1.0
        full = min(_WIDTH, int(share * _WIDTH))
        parts = [
            f"{min(share, 1):4.0%} {'█' * full}{'░' * (_WIDTH - full)}",
            f"{count(self._batches)} of {plural(self._total, 'batch')}",
        ]
        if self._cells:
            parts.append(plural(self._cells, "cell"))
            parts.append(f"{count(round(self._cells / max(seconds, 1e-9)))} cells/s")
        if 0 < share < 1:
            parts.append(f"{_clock(seconds / share - seconds)} left")
        else:
            parts.append(_clock(seconds))
        return ", ".join(parts)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _cells(batch: Any) -> int:
    shape = getattr(batch[0], "shape", None) if isinstance(batch, (tuple, list)) and batch else None
    return int(shape[0]) if shape else 0


def _stream(file: TextIO | None) -> TextIO | None:
    if file is not None:
        return file
    seen = sys.stderr is not None and (sys.stderr.isatty() or _in_notebook())
    return sys.stderr if seen else None


def _in_notebook() -> bool:
    """Whether this process is a Jupyter kernel, not just one that has imported IPython."""
    ipython: Any = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython is not None else False
