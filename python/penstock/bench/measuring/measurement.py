"""A `Measurement`, and the rows that it gives."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..machine import machine_facts
from ..methods import READ_BY_TILEDBSOMA, Method
from ..schema import COLUMNS
from ..worker.reach import is_remote
from ..worker.request import Request
from . import page_cache, worker_process


@dataclass(frozen=True)
class Measurement:
    """A method with its request, and further facts for its rows."""

    method: Method
    request: Request
    python: str = sys.executable
    cache: str = "warm"
    timeout: float = 3_600.0
    expected_rows: int | None = None
    expected_joinid_sum: int | None = None
    expected_nonzeros: int | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)  # more columns of the rows
    place: str = ""  # location of the cells, if locations are compared

    @property
    def label(self) -> str:
        """The method with the settings that distinguish measurements of a run."""
        work = self.request.work
        parts = [self.method.name]
        if work.chunk_size is not None:
            parts.append(f"{work.chunks_per_block}x{work.chunk_size}")
        if work.memory_budget is not None and self.method.loader == "penstock":
            parts.append(str(work.memory_budget))
        label = " ".join(parts)
        if work.threads is not None and self.method.threads:
            label += f", {work.threads} threads" if work.threads != 1 else ", 1 thread"
        return f"{label}, {self.place}" if self.place else label


def measure(
    measurement: Measurement,
    on_row: Callable[[dict[str, Any]], None] | None = None,
    gate: Callable[[], object] | None = None,
) -> list[dict[str, Any]]:
    """Run the measurement; return a row per epoch, also for a failed one. `on_row` gets each row.

    `gate` is called when the loader is imported; loading starts when `gate` returns.
    """
    request = measurement.request
    resident = page_cache.prepare(measurement.cache, request.work.source)
    load = os.getloadavg()[0]
    begins = [_now()]
    rows: list[dict[str, Any]] = []

    def imported(told: dict[str, Any]) -> None:
        for name in ("import_seconds", "imports_rss"):
            common[name] = told[name]
        common["versions"] = json.dumps(told["versions"])
        if gate is not None:
            gate()
        begins[0] = _now()

    def note(answer: dict[str, Any]) -> None:
        begins.append(_now())
        row = {**common, **_of_epoch(measurement, answer)}
        row |= {"start_dt": begins[-2], "end_dt": begins[-1]}
        rows.append(row)
        if on_row is not None:
            on_row(row)

    common = _common(measurement) | {
        "cache_resident": resident,
        "load_average": load,
        "import_seconds": None,
        "imports_rss": None,
        "versions": "{}",
    }
    outcome = worker_process.run(request, measurement.python, measurement.timeout, note, imported)
    if outcome.status != "ok":
        row = {
            **common,
            "epoch": len(rows),
            "start_dt": begins[-1],
            "end_dt": _now(),
            "status": outcome.status,
            "error": outcome.error,
            "oom": outcome.status == "oom",
            "max_mem": outcome.peak.uss,
            "peak_uss": outcome.peak.uss,
            "peak_pss": outcome.peak.pss,
            "peak_tree_rss": outcome.peak.rss,
            "memory_samples": outcome.peak.samples,
        }
        rows.append(row)
        if on_row is not None:
            on_row(row)
    return rows


def with_labels(measurement: Measurement, **labels: Any) -> Measurement:
    """Return the measurement with more columns."""
    return replace(measurement, labels={**measurement.labels, **labels})


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def _common(measurement: Measurement) -> dict[str, Any]:
    request, work = measurement.request, measurement.request.work
    facts = {name: value for name, value in machine_facts().items() if name in COLUMNS}
    of_tiledbsoma = measurement.method.loader in READ_BY_TILEDBSOMA
    return {
        **facts,
        "method": measurement.method.name,
        "chunk_method": measurement.method.name,
        "source_kind": measurement.method.source,
        "source": work.source,
        "uri": work.source,
        "sparse": work.sparse,
        "format": "torch" if work.torch else "numpy",
        "batch_size": work.batch_size,
        "chunk_size": work.chunk_size,
        "chunks_per_block": work.chunks_per_block,
        "block_size": work.block_size,
        "py_buffer_size": work.py_buffer_size if of_tiledbsoma else None,
        "soma_buffer_size": work.soma_buffer_size if of_tiledbsoma else None,
        "memory_budget": work.memory_budget,
        "threads": work.threads,
        "seed": work.seed,
        "obs_filter": work.obs_filter,
        "n_vars": work.n_vars,
        "gc_freq": request.gc_freq,
        "device": request.device,
        "memory_limit": request.memory_limit,
        "max_batches": request.max_batches,
        "first_batch_included": request.first_batch_included,
        "cache": measurement.cache,
        **measurement.labels,
    }


def _of_epoch(measurement: Measurement, answer: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in answer.items() if name in COLUMNS}
    seconds = row["elapsed"] - row["gc"]
    row["cells_per_second"] = row["n_rows"] / seconds if seconds > 0 and row["n_rows"] else None
    seconds, cells = row["epoch_seconds"] - row["gc"], row["total_n_rows"]
    row["epoch_cells_per_second"] = cells / seconds if seconds > 0 and cells else None
    row["max_mem"] = row["peak_uss"]
    if is_remote(measurement.request.work.source):  # the kernel only counts file reads
        row["bytes_read"] = answer["statistics"].get("bytes_read")
        row["disk_bytes_read"] = None
    row["statistics"] = json.dumps(answer["statistics"])
    problem = wrong_result(measurement, answer)
    row["status"], row["error"], row["oom"] = ("wrong" if problem else "ok"), problem, False
    return row


def wrong_result(measurement: Measurement, answer: Mapping[str, Any]) -> str | None:
    """Return why a whole epoch cannot have yielded each cell once with its counts, or None."""
    if not answer["whole_epoch"]:
        return None
    rows, expected = answer["total_n_rows"], measurement.expected_rows
    if expected is not None and rows != expected:
        return f"got {rows:,} cells, not {expected:,}"
    found, wanted = answer["joinid_sum"], measurement.expected_joinid_sum
    if None not in (found, wanted) and found != wanted:
        return f"the sum of the joinids is {found}, not {wanted}: not each cell once"
    counts, stored = answer["n_nonzeros"], measurement.expected_nonzeros
    if None not in (counts, stored) and counts != stored:
        return f"got {counts:,} counts, not the {stored:,} of these cells and genes"
    return None
