"""Import a loader, open it, iterate over epochs, and report their costs."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from . import batch_times
from .device_copy import DeviceCopy
from .opened import Opened, nonzeros
from .process_facts import bytes_read, cpu_seconds, peak_rss, reset_peak_rss, rss
from .request import Request
from .versions import versions

Answer = Callable[[dict[str, Any]], None]


#: CPU seconds that imports may take under a limit of memory.
_IMPORT_SECONDS = 60


@contextmanager
def _limited(memory: int | None) -> Iterator[None]:
    """Limit memory for good, and CPU time until the end of the block.

    OpenBLAS, which comes with scipy, asks for memory again and again where there is none.
    """
    if memory is None:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    before = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _IMPORT_SECONDS, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CPU, before)


def measure(request: Request, answer: Answer, wait: Callable[[], object] | None = None) -> None:
    """Answer ``imported``, call `wait`, then answer ``epoch`` for each epoch."""
    clock = time.perf_counter
    begin = clock()
    with _limited(request.memory_limit):
        loader = import_module(f"..loaders.{request.loader}", __name__)
        loader.imports(request.variant, request.work)
        copy = DeviceCopy(request.device)
    answer(
        {
            "event": "imported",
            "import_seconds": clock() - begin,
            "imports_rss": rss(),
            "versions": versions(),
        }
    )
    if wait is not None:
        wait()
    begin = clock()
    before = _Counters()
    opened: Opened = loader.open_loader(request.variant, request.work)
    open_seconds = clock() - begin
    for number in range(request.epochs):
        if number > 0:
            begin, before, open_seconds = clock(), _Counters(), 0.0
        epoch = _Epoch(request, copy, begin)
        epoch.take(opened, number)
        epoch.keep_joinids()
        epoch.result["whole_epoch"] &= opened.n_batches in (None, epoch.result["n_batches"])
        answer(
            {
                "event": "epoch",
                "epoch": number,
                "open_seconds": open_seconds,
                **epoch.result,
                **before.since(),
                "statistics": opened.statistics(),
            }
        )


class _Counters:
    """Counters of the process at a moment, and the peak of memory since then."""

    def __init__(self) -> None:
        self._peak_is_ours = reset_peak_rss()
        self._read, self._from_disk = bytes_read()
        self._user, self._system = cpu_seconds()

    def since(self) -> dict[str, Any]:
        read, from_disk = bytes_read()
        user, system = cpu_seconds()
        return {
            "peak_rss": peak_rss(),
            "bytes_read": read - self._read,
            "disk_bytes_read": from_disk - self._from_disk,
            "cpu_seconds": user - self._user + system - self._system,
            "system_seconds": system - self._system,
        }


class _Epoch:
    """One pass over the batches."""

    def __init__(self, request: Request, copy: DeviceCopy, begin: float) -> None:
        self._request = request
        self._copy = copy
        self._begin = begin
        self._joinids: list[Any] = []
        self.result: dict[str, Any] = {}

    def keep_joinids(self) -> None:
        """Write the joinids to the file of the request."""
        if self._request.joinids_path is not None and self._joinids:
            sizes = np.array([len(part) for part in self._joinids])
            np.savez(self._request.joinids_path, joinids=np.concatenate(self._joinids), sizes=sizes)

    def take(self, opened: Opened, number: int) -> None:
        """Set `result`; a cut pass has `whole_epoch` False."""
        request, clock = self._request, time.perf_counter
        first_seconds = 0.0
        counted_from = self._begin if request.first_batch_included else 0.0
        n_batches = rows = counted_rows = joinid_sum = joinid_count = nnz = columns = 0
        nnz_known, joinids_known, whole = True, True, True
        gc_seconds = 0.0
        self._copy.seconds = 0.0
        limit = request.max_batches + (0 if request.first_batch_included else 1)
        end = self._begin
        waited: list[float] = []  # for each batch but the first
        for x, joinids in opened.epoch(number):
            if n_batches:
                waited.append(clock() - end)
            x = self._copy(x)
            n_batches += 1
            size, columns = int(x.shape[0]), int(x.shape[1])
            rows += size
            if n_batches == 1:
                first_seconds = clock() - self._begin
                if not request.first_batch_included:
                    counted_from, counted_rows = clock(), -size
                    self._copy.seconds = 0.0
            if joinids is None:
                joinids_known = False
            else:
                joinid_sum += int(joinids.sum())
                joinid_count += len(joinids)
                if request.joinids_path is not None:
                    self._joinids.append(joinids.copy())
            found = nonzeros(x)
            if found is None:
                nnz_known = False
            else:
                nnz += found
            del x
            if request.gc_freq and n_batches % request.gc_freq == 0:
                before = clock()
                gc.collect()
                gc_seconds += clock() - before
            end = clock()
            if (request.max_batches and n_batches >= limit) or (
                request.max_seconds is not None and end - self._begin > request.max_seconds
            ):
                whole = False
                break
        else:
            end = clock()
        self.result = {
            "n_batches": n_batches,
            "total_n_rows": rows,
            "n_rows": max(rows + counted_rows, 0),
            "n_cols": columns,
            "first_batch_seconds": first_seconds,
            "elapsed": max(end - counted_from, 0.0) if n_batches else 0.0,
            "epoch_seconds": end - self._begin,
            "gc": gc_seconds,
            "copy_seconds": self._copy.seconds,
            **batch_times.summary(waited),
            "whole_epoch": whole,
            "n_nonzeros": nnz if nnz_known and n_batches else None,
            "joinid_sum": joinid_sum if joinids_known and joinid_count == rows else None,
        }
