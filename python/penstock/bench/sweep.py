"""Making and running measurements of methods with several block sizes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.errors import InvalidArgument, Unsupported

from .block_spec import BlockSpec
from .measuring.measurement import Measurement, measure, with_labels
from .methods import Method
from .peers import interpreter
from .reports.results_file import append, check_writable
from .sources import Sources
from .worker.request import Request, Work

#: Default block of `alb`: 2,000 chunks of 64 cells.
DEFAULT_BLOCKS = (BlockSpec(2000, 64),)

#: Largest resident share of a source's pages with a cold cache.
_NEARLY_NONE = 0.05


@dataclass(frozen=True)
class Settings:
    """Settings that all measurements of a run share."""

    work: Work
    request: Mapping[str, Any] = field(default_factory=dict)
    cache: str = "warm"
    timeout: float = 3_600.0
    labels: Mapping[str, Any] = field(default_factory=dict)


def measurements(
    methods: Iterable[Method],
    blocks: Sequence[BlockSpec | None],
    sources: Sources,
    settings: Settings,
    say: Callable[[str], object],
) -> Iterator[Measurement]:
    """Yield each method with each block, or once if it does not use blocks.

    A method whose peer or source is missing is left out with a line. A block of None means the
    method's default.
    """
    for method in methods:
        try:
            python, source = interpreter(method), sources.path(method)
        except (ModuleNotFoundError, Unsupported) as missing:
            say(str(missing))
            continue
        work = replace(settings.work, source=source, **sources.selection(method))
        if method.loader != "penstock":
            work = replace(work, memory_budget=None)
        if not method.threads:
            work = replace(work, threads=None)
        for block in blocks if method.blocks else (None,):
            mine = work
            if block is not None:
                mine = replace(
                    work, chunk_size=block.chunk_size, chunks_per_block=block.chunks_per_block
                )
            target = sources.target
            yield Measurement(
                method,
                Request(method.loader, method.variant, mine, **settings.request),
                python,
                settings.cache if target.is_local else "as-is",
                settings.timeout,
                target.n_obs,
                target.joinid_sum,
                None if work.genes_path or target.n_vars else target.nonzeros,
                {**target.labels, "n_vars": target.n_vars, "obs_filter": target.obs_filter,
                 **settings.labels},
            )  # fmt: skip


def run(
    planned: Iterable[Measurement],
    results: str | Path | None,
    command: str,
    say: Callable[[str], object],
    on_row: Callable[[Measurement, dict[str, Any]], object] | None = None,
    gate: Callable[[], object] | None = None,
) -> list[dict[str, Any]]:
    """Measure one after the other, and append rows to the file when each process has ended.

    If a measurement is interrupted, rows of its finished epochs are kept. All measurements load the
    same cells and genes: a whole epoch with another number of counts than the ones before is wrong.
    For `gate`, see `measure`.
    """
    if results is not None:
        check_writable(results)
    begin = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    rows: list[dict[str, Any]] = []
    agreement = _Agreement()
    for each in planned:
        labelled = with_labels(each, alb_start_dt=begin, command=command)
        mine: list[dict[str, Any]] = []
        try:
            measure(labelled, mine.append, gate)
        finally:
            for row in mine:
                agreement.check(each.label, row)
                if on_row is not None:
                    on_row(each, row)
            if results is not None and mine:
                append(results, mine)
        for row in mine:
            say(f"{each.label:32} {line(row)}")
        rows += mine
    return rows


class _Agreement:
    """Check that all whole epochs of a run yield the same counts as the first one."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, str]] = {}  # by column: value and label

    def check(self, label: str, row: dict[str, Any]) -> None:
        """Mark a row that differs as `wrong`."""
        if row["status"] != "ok" or not row["whole_epoch"]:
            return
        for column, what in (("n_cols", "genes"), ("n_nonzeros", "counts")):
            mine = row[column]
            if mine is None:
                continue
            first, whose = self._first.setdefault(column, (mine, label))
            if mine != first:
                row["status"] = "wrong"
                row["error"] = (
                    f"{mine:,} {what} came, but {first:,} by {whose}: one of them is wrong"
                )
                return


def require_some(rows: Sequence[Mapping[str, Any]], results: str | Path | None) -> None:
    """Raise if every row is a failure. Out of memory and out of time are results, not failures.

    Raises
    ------
    InvalidArgument
        Nothing was measured; the message has the first failure.
    """
    if not rows:
        raise InvalidArgument("no method is left to measure")
    if all(row["status"] in ("failed", "wrong") for row in rows):
        kept = f"; the rows in {results} say so, too" if results is not None else ""
        raise InvalidArgument(f"nothing could be measured: {rows[0]['error']}{kept}")


def line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of text."""
    if row["status"] not in ("ok", "wrong"):
        return f"{row['status']}: {row['error']}"
    speed = row["cells_per_second"]
    part = "" if row["whole_epoch"] else f" (the first {row['total_n_rows']:,} cells)"
    wrong = f"; WRONG: {row['error']}" if row["status"] == "wrong" else ""
    copied = f", copies {row['copy_seconds']:.2f} s" if row["device"] else ""
    cache = _cache(row)
    read = "-" if row["bytes_read"] is None else f"{row['bytes_read'] / 1e6:,.0f}"
    collected = f", gc {row['gc']:.2f} s" if row["gc_freq"] else ""
    return (
        f"{'-' if speed is None else f'{speed:,.0f}'} cells/s{part}, first batch "
        f"{row['first_batch_seconds']:.2f} s, epoch {row['epoch_seconds']:.2f} s{collected}{copied}, "
        f"USS {row['max_mem'] / 2**20:,.0f} MiB, RSS {row['peak_rss'] / 2**20:,.0f} MiB, "
        f"CPU {row['cpu_seconds']:.1f} s, read {read} MB{cache}{wrong}"
    )


def _cache(row: Mapping[str, Any]) -> str:
    """Return a note if the page cache was not in the requested state."""
    resident = row["cache_resident"]
    if resident is None:
        return "; WHETHER THE CACHE WAS COLD IS NOT KNOWN" if row["cache"] == "cold" else ""
    if row["cache"] == "cold" and resident > _NEARLY_NONE:
        return f"; THE CACHE STAYED WARM: {resident:.0%} of the source"
    if row["cache"] == "warm" and resident < 1 - _NEARLY_NONE:
        return f"; THE CACHE IS NOT WARM: {resident:.0%} of the source"
    return ""
