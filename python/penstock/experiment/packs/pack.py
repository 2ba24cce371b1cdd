"""Packing: copy an experiment into Penstock's own format, whose rows can be read one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.base.validation import checked_int, described
from penstock.errors import InvalidArgument
from penstock.executors.parts import checked_executor
from penstock.experiment.experiment import Experiment, open_stored

from .job import MEMORY_BUDGET, ROWS_PER_FILE, PackProgress, pack_job, run_packer
from .parts import MOST_PARTS, pack_parts
from .to_bucket import pack_part_to_bucket, pack_to_bucket

if TYPE_CHECKING:
    from penstock.executors.parts import Executor
    from penstock.experiment.axis_query import AxisQuery


def pack(
    source: str | os.PathLike[str] | Experiment | Any,
    destination: str | os.PathLike[str],
    *,
    obs_query: str | AxisQuery | Any | None = None,
    measurements: str | Sequence[str] | None = None,
    layers: str | Sequence[str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    memory_budget: int | str = MEMORY_BUDGET,
    rows_per_file: int = ROWS_PER_FILE,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: Callable[[PackProgress], Any] | None = None,
    executor: Executor | None = None,
    parts: int | None = None,
) -> Experiment | Any:
    """Copy an experiment into a pack, in which each cell can be read by itself.

    A pack opens like any experiment. It holds exact copies of obs, var and the layers of X. X takes
    about 1.2 bytes for each non-zero of real counts. A pack only serves speed: keep the source.

    Parameters
    ----------
    source : path, URI, AnnData, Experiment or tiledbsoma Experiment
        Experiment to pack, at its timestamp.
    destination : str or path
        A folder that does not exist yet. It appears when the pack is complete. Until then the data
        are in ``destination.partial``; packing the same again resumes there.
        Or the address of a folder in a bucket: ``s3://bucket/cells.pack``, ``gs://…``, ``az://…``,
        which needs obstore. It is a pack once ``pack.json`` is there, which is written last.
    obs_query : str, AxisQuery or sequence, optional
        Cells to pack, as for `Dataset`; they keep their joinids. By default all.
    measurements, layers : str or sequence of str, optional
        Names to pack. By default all.
    overwrite : bool, default False
        Replace an existing pack, whatever it holds. Anything but a pack is never replaced. Not in a
        bucket.
    threads : int, optional
        As many as cores by default.
    memory_budget : int or str, default "2GiB"
        Memory for decoded chunks. Each pass over a layer that is stored by genes (CSC) packs as many
        cells as fit, so a larger budget needs fewer passes. Chunks that do not fit, or that many
        fetch units share, are decoded piece by piece, on one thread, if they are deflated (gzip,
        with or without shuffle). Others need the memory for a whole chunk.
    rows_per_file : int, default 262144
        About how many cells a file of X has. Packs of the same cells with another number are other
        packs: their bytes differ.
    storage_options : dict, optional
        Access to a remote source, as for `penstock.open`, and to a bucket that is written to.
    destination_options : dict, optional
        Access to the bucket, if it is not that of `storage_options`. For S3 the same options; for
        others the configuration of obstore's GCSStore and AzureStore, by its names.
    scratch : str or path, optional
        A folder on a local disk, for a bucket: two files of X lie there at a time, and obs and var. By
        default the folder for temporary files.
    progress : callable, optional
        Called about ten times a second with an object of counts: ``rows_done``, ``rows_total``
        (cells times layers), ``rows_kept`` (from an earlier attempt), ``bytes_written``, ``layer``.
        For layers stored by genes also ``passes`` (a dict from layer to number), ``pass_number``
        and ``pass_share`` (done of the current pass). With `executor` called after each part.
    executor : concurrent.futures.Executor, optional
        Packs the files of X in parts (docs/how-to/executors.md). Its workers must reach `source`, and
        `destination` under the same path or address. The pack is the same, byte for byte, as without.
    parts : int, optional
        Number of parts for `executor`. By default each file of X is a part. For layers stored by
        genes it must be given, since each part reads such a layer as a whole.

    Returns
    -------
    Experiment
        The pack, opened. None for ``gs://`` and ``az://``, which Penstock does not read.

    Raises
    ------
    InvalidArgument
        The destination exists and cannot be replaced, another process packs there, or nothing is
        selected. Or `parts` is missing for a layer that is stored by genes.
    PartFailed
        The executor lost a part. The same call again resumes with the files that are there.
    IoError
        obs or var was written to after the experiment was opened. Or a bucket refuses, or does not
        answer.
    MissingPackage
        The destination is in a bucket, but obstore is not installed.
    NotFound
        The experiment, a measurement or a layer does not exist.
    Unsupported
        A chosen layer is of a kind that is not read, such as float16. Or it is stored by genes
        (CSC) in an AnnData object in memory. Or an AnnData object in memory is packed by an executor.
    ResourceExhausted
        The disk is full, or `memory_budget` is too small; the message says how much is needed. The
        packed data stay, and packing again resumes there.
    """
    _check_progress(progress)
    job = pack_job(
        source,
        destination,
        obs_query=obs_query,
        measurements=measurements,
        layers=layers,
        overwrite=overwrite,
        threads=threads,
        memory_budget=memory_budget,
        rows_per_file=rows_per_file,
        storage_options=storage_options,
        destination_options=destination_options,
        scratch=scratch,
    )
    if executor is None and parts is not None:
        raise InvalidArgument("parts= is the number of parts for an executor: give executor=, too")
    if executor is not None:
        checked_executor(executor)
    if job.bucket is not None:
        pack_to_bucket(job, job.bucket, executor, parts, progress)
        return job.bucket.opened(threads)
    packer = job.packer()
    try:
        if executor is not None:
            pack_parts(job, packer, executor, parts, progress)
            progress = None
        run_packer(packer, progress)
    finally:
        packer.close()  # an error that is held would hold the lock
    return open_stored(job.path, threads=threads)


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
    _check_progress(progress)
    job = pack_job(source, destination, **options)
    if job.bucket is not None:
        return pack_part_to_bucket(job, job.bucket, number, count, progress)
    packer = job.packer((number, count, False))
    try:
        run_packer(packer, progress)
    finally:
        packer.close()
    return packer.progress()


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise InvalidArgument(f"progress must be a function, got {described(progress)}")
