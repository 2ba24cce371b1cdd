"""Cache of cells on a local disk, for sources that are slow to read."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock import _core
from penstock.base.text import count, size
from penstock.base.validation import checked_local_path, parse_memory_size
from penstock.errors import InvalidArgument

_SECONDS_BETWEEN = 0.25


class LocalCache:
    """Cache of a Dataset, from its arguments ``cache_dir`` and ``cache_bytes``. Picklable."""

    def __init__(self, folder: str, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._core: _core.Cache | None = None
        self._warned = self._looked_at_size = False
        self._next_look = 0.0

    @classmethod
    def checked(cls, cache_dir: Any, cache_bytes: Any) -> LocalCache | None:
        """Check the arguments; return None without a cache."""
        if cache_dir is None:
            if cache_bytes is not None:
                raise InvalidArgument("cache_bytes is the size of a cache; give its cache_dir")
            return None
        folder = checked_local_path("cache_dir", cache_dir)
        limit = 0 if cache_bytes is None else parse_memory_size("cache_bytes", cache_bytes)
        return cls(os.path.abspath(folder), limit)  # noqa: PTH100  (links stay links)

    def check_outside(self, uris: Iterable[str]) -> None:
        """Check that the folder is not inside a source that it caches.

        Raises
        ------
        InvalidArgument
            The folder is inside a source; a listing or copy of the source would include the cache.
        """
        folder = Path(self._folder).resolve()
        for uri in uris:
            place = uri.removeprefix("file://")
            if "://" in place or not folder.is_relative_to(Path(place).resolve()):
                continue
            raise InvalidArgument(
                f"cache_dir lies within what is read, {uri}; give a folder outside of it, got "
                f"{self._folder!r}"
            )

    def warn_if_too_small(self, matrix: _core.Matrix) -> None:
        """Warn once if some fetch units are larger than the whole cache."""
        if self._looked_at_size or not self._limit_bytes or matrix.addresses_rows:
            return
        self._looked_at_size = True
        stored = [unit.stored_bytes for unit in matrix.units()]
        too_large = sum(each > self._limit_bytes for each in stored)
        if not too_large:
            return
        warnings.warn(
            f"cache_bytes={self._limit_bytes:,} is too small to ever keep {count(too_large)} of "
            f"{count(len(stored))} fetch units of {matrix.uri}: give {size(max(stored), up=True)} or "
            f"more, about {size(sum(stored), up=True)} for all",
            RuntimeWarning,
            stacklevel=2,
        )

    def through(self, matrix: _core.Matrix) -> _core.Matrix:
        """Return the matrix, read through the cache."""
        if self._core is None:
            self._core = _core.Cache(self._folder, self._limit_bytes)
        return self._core.through(matrix)

    def warn(self, at_once: bool = False) -> None:
        """Warn once if the cache cannot store cells any more; check at most every 0.25 s."""
        if self._warned or self._core is None:
            return
        if not at_once and time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _SECONDS_BETWEEN
        problem = self._core.problem()
        if problem:
            self._warned = True
            warnings.warn(
                f"cells are no longer kept in cache_dir, but read from the source: {problem}",
                RuntimeWarning,
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "_limit_bytes": self._limit_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        LocalCache.__init__(self, state["_folder"], state["_limit_bytes"])
