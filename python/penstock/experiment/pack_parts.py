"""Packs in parts: on an executor, or by the tasks of a job array."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock import _core
from penstock.base.text import count as text_count
from penstock.base.validation import checked_int
from penstock.errors import InvalidArgument, Unsupported
from penstock.executors.parts import Executor, Part, results

from .anndata_source import AnnDataExperiment
from .pack_job import PackJob, PackProgress, pack_job, run_packer

MOST_PARTS = 1 << 20


def pack_part(
    source: Any,
    destination: str | os.PathLike[str],
    number: int,
    count: int,
    *,
    progress: Callable[[PackProgress], Any] | None = None,
    **options: Any,
) -> PackProgress:
    """Pack the files of one of `count` parts, for a task of a job array. `penstock.pack` then finishes.

    `number` counts from 0; `options` are those of `penstock.pack`, the same for all parts. Nothing
    happens if the pack is there.
    """
    count = checked_int("count", count, least=1, most=MOST_PARTS)
    number = checked_int("number", number, least=0, most=count - 1)
    packer = pack_job(source, destination, **options).packer((number, count, False))
    try:
        run_packer(packer, progress)
    finally:
        packer.close()
    return packer.progress()


@dataclass(frozen=True)
class _PartsProgress:
    rows_done: int
    rows_total: int
    rows_kept: int = 0
    bytes_written: int = 0
    layer: str = ""
    passes: dict[str, int] = field(default_factory=dict)
    pass_number: int = 0
    pass_share: float = 0.0


def pack_parts(
    job: PackJob, packer: _core.Packer, executor: Executor, parts: int | None,
    progress: Callable[[PackProgress], Any] | None,
) -> None:  # fmt: skip
    """Have the workers write all files of X into the folder of `packer`, which then finds them."""
    if isinstance(job.experiment, AnnDataExperiment):
        raise Unsupported(
            "an AnnData object in memory is packed by this process alone: leave executor= out, or write "
            "the object to a file and pack that"
        )
    if parts is not None:
        parts = checked_int("parts", parts, least=1, most=MOST_PARTS)
    files = packer.file_count()
    if parts is None and files > 1 and packer.stored_by_columns():
        raise InvalidArgument(
            "a layer is stored by genes, and each part reads it as a whole: give the number of parts, such as "
            f"that of the workers, with parts=; it has {text_count(files)} files of rows, {job.experiment.uri}"
        )
    parts = min(parts or files, files)
    now = packer.progress()
    done, kept, written = now.rows_done, now.rows_kept, 0
    if done < now.rows_total:  # else the pack is there
        job.packer((0, parts, True)).close()  # raises if it cannot be packed in parts
        packer.begin()
        given = [
            Part(f"part {number + 1} of {parts} of {job.path}", (job, number, parts))
            for number in range(parts)
        ]
        for _, part_rows in results(executor, _pack_joined, given, at_once=max(1, parts)):
            done, kept, written = (
                a + b for a, b in zip((done, kept, written), part_rows, strict=True)
            )
            if progress is not None:
                progress(_PartsProgress(done, now.rows_total, kept, written))
    elif progress is not None:
        progress(now)


def _pack_joined(job: PackJob, number: int, parts: int) -> tuple[int, int, int]:
    """Pack a part, on a worker. Return rows done, rows kept and bytes written."""
    packer = job.packer((number, parts, True))
    try:
        run_packer(packer)
    finally:
        packer.close()
    now = packer.progress()
    return now.rows_done, now.rows_kept, now.bytes_written
