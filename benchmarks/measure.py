"""One measurement in one fresh process: ``python benchmarks/measure.py`` with a request on stdin.

The request is the JSON of a `Request`, the answer the JSON of a `Measurement` on the last line of
standard output. The clock starts before the experiment is opened and stops when the last batch has
been handed over; imports come before and are timed apart. Memory is VmHWM of this process, from the
operating system; ru_maxrss would carry over the parent's peak. Bytes read are ``rchar``.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from loaders import Method, Opened, Work, imports, n_nonzeros, open_loader


@dataclasses.dataclass(frozen=True)
class Request:
    """What to measure."""

    method: Method
    work: Work
    epochs: int = 1
    max_batches: int | None = None  # 1 measures the first batch alone
    max_seconds: float | None = None  # cut the epoch there or later; the answer says so
    cut_cells: int = 1  # cut after a multiple of these cells: what the loader reads at once

    @staticmethod
    def from_json(text: str) -> Request:
        raw = json.loads(text)
        return Request(Method(**raw.pop("method")), Work(**raw.pop("work")), **raw)


@dataclasses.dataclass
class Measurement:
    """The answer. Seconds are wall time; bytes are bytes."""

    import_seconds: float = 0.0
    seconds: float = 0.0
    open_seconds: float = 0.0
    first_batch_seconds: float = 0.0  # from opening
    cells: int = 0
    nonzeros: int | None = None
    joinid_sum: int = 0
    whole_epoch: bool = False
    peak_bytes: int = 0
    imports_bytes: int = 0
    rchar_open: int = 0
    rchar_epoch: int = 0
    cpu_seconds: float = 0.0
    load_average: float = 0.0
    epochs: list[dict[str, float]] = dataclasses.field(default_factory=list)
    statistics: dict[str, Any] = dataclasses.field(default_factory=dict)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _rchar() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(request: Request) -> Measurement:
    """Import, open, iterate."""
    result = Measurement(load_average=os.getloadavg()[0])
    clock = time.perf_counter
    begin = clock()
    imports(request.method)
    result.import_seconds = clock() - begin
    result.imports_bytes = _status("VmHWM")
    cpu = _cpu_seconds()
    rchar = _rchar()

    begin = clock()
    opened = open_loader(request.method, request.work)
    result.open_seconds = clock() - begin
    result.rchar_open = _rchar() - rchar
    rchar = _rchar()
    result.whole_epoch = _run_epoch(opened, request, result, begin)
    result.seconds = clock() - begin
    result.rchar_epoch = _rchar() - rchar
    result.cpu_seconds = _cpu_seconds() - cpu
    result.statistics = opened.statistics()
    result.epochs.append(_memory_now(result.seconds))
    for _ in range(1, request.epochs):
        again = clock()
        for _ in opened.epochs():
            pass
        result.epochs.append(_memory_now(clock() - again))
    result.peak_bytes = _status("VmHWM")
    return result


def _memory_now(seconds: float) -> dict[str, float]:
    gc.collect()
    return {"seconds": seconds, "rss": _status("VmRSS"), "peak": _status("VmHWM")}


def _run_epoch(opened: Opened, request: Request, result: Measurement, begin: float) -> bool:
    """Take the batches of an epoch; whether it came to its end."""
    clock = time.perf_counter
    limit = float("inf") if request.max_seconds is None else begin + request.max_seconds
    nonzeros = 0
    counted = True
    n_batches = 0
    for x, joinids in opened.batches:
        n_batches += 1
        if n_batches == 1:
            result.first_batch_seconds = clock() - begin
        result.cells += int(x.shape[0])
        result.joinid_sum += int(joinids.sum())
        batch_nonzeros = n_nonzeros(x)
        if batch_nonzeros is None:
            counted = False
        else:
            nonzeros += batch_nonzeros
        if n_batches == request.max_batches:
            break
        if clock() > limit and result.cells % request.cut_cells < x.shape[0]:
            break
    result.nonzeros = nonzeros if counted else None
    return n_batches == opened.n_batches


def main() -> None:
    request = Request.from_json(sys.stdin.read())
    print(json.dumps(dataclasses.asdict(measure(request))), flush=True)
    os._exit(0)  # a cut epoch leaves loader threads behind that nobody waits for


if __name__ == "__main__":
    main()
