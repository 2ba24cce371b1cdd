"""A progress bar for an epoch, or for any other iterable of batches."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Generator, Iterable
from typing import Any, Protocol, TextIO, TypeVar

from penstock.errors import InvalidArgument

from .text import count, plural
from .validation import checked_int, checked_text, described

Batch = TypeVar("Batch")

_WIDTH = 24
_SECONDS_BETWEEN = 0.1


def progress(
    batches: Iterable[Batch],
    file: TextIO | None = None,
    *,
    desc: str | None = None,
    total: int | None = None,
) -> Generator[Batch, None, None]:
    """Yield the batches, and show progress on one line.

    Parameters
    ----------
    batches : Dataset, DataLoader or another iterable
        Tuples ``(X, …)`` also have their cells counted.
    file : text stream, optional
        Stream for the line. By default the line is an output of the cell in a notebook, and
        written to ``sys.stderr`` if that is a terminal. Otherwise nothing is shown.
    desc : str, optional
        Text in front of the line.
    total : int, optional
        Number of batches; by default ``len(batches)``. Without a length, as of a generator, the
        line has no bar.

    Yields
    ------
    tuple
        The batches, unchanged.

    Raises
    ------
    InvalidArgument
        `batches` is not iterable, or `total` is not a number of batches.

    Examples
    --------
    ``for X, obs in ps.progress(ds, desc="epoch 1"): ...``
    """
    if not hasattr(batches, "__iter__") and not hasattr(batches, "__getitem__"):
        raise InvalidArgument(
            "progress takes a Dataset, a DataLoader or another iterable, got " + described(batches)
        )
    total = _length(batches) if total is None else checked_int("total", total, least=0)
    text = "" if desc is None else f"{checked_text('desc', desc)}: "
    return _shown(batches, _Line(text, total, _place(file)))


def _length(batches: Iterable[Any]) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:
        return None


def _shown(batches: Iterable[Batch], line: _Line) -> Generator[Batch, None, None]:
    line.begin()
    try:
        for batch in batches:
            line.add(_cells(batch))
            yield batch
    finally:
        line.end()


class _Place(Protocol):
    """A place that shows the line."""

    def show(self, text: str) -> None:
        """Replace the line."""

    def end(self) -> None:
        """Leave the line as it is."""


class _Stream:
    """A line of a text stream that is overwritten in place."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._length = 0

    def show(self, text: str) -> None:
        self._file.write("\r" + text.ljust(self._length))
        self._file.flush()
        self._length = len(text)

    def end(self) -> None:
        self._file.write("\n")
        self._file.flush()


class _Output:
    """An output of a notebook's cell that is updated in place."""

    def __init__(self) -> None:
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None

    def show(self, text: str) -> None:
        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def end(self) -> None:
        pass


class _Line:
    """The text of the line, shown again when it is due."""

    def __init__(self, before: str, total: int | None, place: _Place | None) -> None:
        self._before = before
        self._total = total
        self._place = place
        self._batches = self._cells = 0

    def begin(self) -> None:
        self._begin = self._shown_at = time.monotonic()

    def add(self, cells: int) -> None:
        self._batches += 1
        self._cells += cells
        now = time.monotonic()
        if now - self._shown_at >= _SECONDS_BETWEEN:
            self._shown_at = now
            self._show(now)

    def end(self) -> None:
        self._show(time.monotonic())
        if self._place is not None:
            self._place.end()

    def _show(self, now: float) -> None:
        if self._place is not None:
            self._place.show(self._text(now - self._begin))

    def _text(self, seconds: float) -> str:
        parts = []
        share = 1.0
        if self._total is None:
            parts.append(plural(self._batches, "batch"))
        else:
            share = self._batches / self._total if self._total else 1.0
            full = min(_WIDTH, int(share * _WIDTH))
            parts.append(f"{min(share, 1):4.0%} {'█' * full}{'░' * (_WIDTH - full)}")
            parts.append(f"{count(self._batches)} of {plural(self._total, 'batch')}")
        if self._cells:
            parts.append(plural(self._cells, "cell"))
            parts.append(f"{count(round(self._cells / max(seconds, 1e-9)))} cells/s")
        if 0 < share < 1:
            parts.append(f"{_clock(seconds / share - seconds)} left")
        else:
            parts.append(_clock(seconds))
        return self._before + ", ".join(parts)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _cells(batch: Any) -> int:
    shape = getattr(batch[0], "shape", None) if isinstance(batch, (tuple, list)) and batch else None
    return int(shape[0]) if shape else 0


def _place(file: TextIO | None) -> _Place | None:
    if file is not None:
        return _Stream(file)
    if _in_notebook():
        return _Output()
    seen = sys.stderr is not None and sys.stderr.isatty()
    return _Stream(sys.stderr) if seen else None


def _in_notebook() -> bool:
    """Whether this process is a Jupyter kernel, not just one that has imported IPython."""
    ipython: Any = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython is not None else False
