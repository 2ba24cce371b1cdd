"""Packs in parts: on an executor, or by the tasks of a job array."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock import _core
from penstock.base.text import count as text_count
from penstock.base.validation import checked_int
from penstock.errors import InvalidArgument, Unsupported
from penstock.executors.parts import Executor, Part, fitting, results
from penstock.experiment.anndata_source import AnnDataExperiment

from .job import PackJob, PackProgress, run_packer

MOST_PARTS = 1 << 20


@dataclass(frozen=True)
class PartsProgress:
    """Progress of parts, for their caller."""

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
    parts = counted_parts(job, packer, parts)
    now = packer.progress()
    if now.rows_done < now.rows_total:
        job.packer((0, parts, True)).close()  # raises if it cannot be packed in parts
        packer.begin()
        run_parts(job, packer, executor, parts, _pack_joined, progress)
    elif progress is not None:  # the pack is there
        progress(now)


def counted_parts(job: PackJob, packer: _core.Packer, parts: int | None) -> int:
    """Return the number of parts for an executor: by default each file of X is one."""
    if isinstance(job.experiment, AnnDataExperiment):
        raise Unsupported(
            "an AnnData object in memory is packed by this process alone: leave executor= out, or write "
            "the object to a file and pack that"
        )
    if parts is not None:
        parts = checked_int("parts", parts, least=1, most=MOST_PARTS)
    files = len(packer.files())
    if parts is None and files > 1 and packer.stored_by_columns():
        raise InvalidArgument(
            "a layer is stored by genes, and each part reads it as a whole: give the number of parts, such as "
            f"that of the workers, with parts=; it has {text_count(files)} files of rows, {job.experiment.uri}"
        )
    return min(parts or files, files)


def run_parts(
    job: PackJob,
    packer: _core.Packer,
    executor: Executor,
    parts: int,
    function: Callable[[PackJob, int, int], tuple[int, int, int]],
    progress: Callable[[PackProgress], Any] | None,
) -> None:
    """Have the workers pack all files of X: `function` takes job, number of the part and count."""
    now = packer.progress()
    done, kept, written = now.rows_done, now.rows_kept, 0
    given = [
        Part(f"part {number + 1} of {parts} of {job.path}", (job, number, parts))
        for number in range(parts)
    ]
    # A choice of cells can be megabytes.
    at_once = fitting(len(pickle.dumps(job)), most=parts)
    for _, part_rows in results(executor, function, given, at_once):
        done, kept, written = (a + b for a, b in zip((done, kept, written), part_rows, strict=True))
        if progress is not None:
            progress(PartsProgress(done, now.rows_total, kept, written))


def _pack_joined(job: PackJob, number: int, parts: int) -> tuple[int, int, int]:
    """Pack a part, on a worker. Return rows done, rows kept and bytes written."""
    packer = job.packer((number, parts, True))
    try:
        run_packer(packer)
    finally:
        packer.close()
    now = packer.progress()
    return now.rows_done, now.rows_kept, now.bytes_written
