"""Packing: copy an experiment into Penstock's own format, whose rows can be read one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.base.text import count
from penstock.base.validation import (
    checked_bool,
    checked_int,
    checked_local_path,
    checked_text,
    described,
    parse_memory_size,
)
from penstock.errors import InvalidArgument

from .anndata_source import AnnDataExperiment
from .axis_query import resolve
from .experiment import Experiment, open_stored
from .globs import expanded
from .joined import JoinedExperiment
from .open_source import open_source

if TYPE_CHECKING:
    from .axis_query import AxisQuery

_SECONDS_BETWEEN = 0.1


def pack(
    source: str | os.PathLike[str] | Experiment | Any,
    destination: str | os.PathLike[str],
    *,
    obs_query: str | AxisQuery | Any | None = None,
    measurements: str | Sequence[str] | None = None,
    layers: str | Sequence[str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    memory_budget: int | str = "2GiB",
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[_core.PackProgress], Any] | None = None,
) -> Experiment:
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
    obs_query : str, AxisQuery or sequence, optional
        Cells to pack, as for `Dataset`; they keep their joinids. By default all.
    measurements, layers : str or sequence of str, optional
        Names to pack. By default all.
    overwrite : bool, default False
        Replace an existing pack, whatever it holds. Anything but a pack is never replaced.
    threads : int, optional
        As many as cores by default.
    memory_budget : int or str, default "2GiB"
        Memory for layers that are stored by genes (CSC). Each pass over such a layer packs as many
        cells as fit, so a larger budget needs fewer passes. Other layers do not use it.
    storage_options : dict, optional
        Access to a remote source, as for `penstock.open`.
    progress : callable, optional
        Called about ten times a second with an object of counts: ``rows_done``, ``rows_total``
        (cells times layers), ``rows_kept`` (from an earlier attempt), ``bytes_written``, ``layer``.
        For layers stored by genes also ``passes`` (a dict from layer to number), ``pass_number``
        and ``pass_share`` (done of the current pass).

    Returns
    -------
    Experiment
        The pack, opened.

    Raises
    ------
    InvalidArgument
        The destination exists and cannot be replaced, another process packs there, or nothing is
        selected.
    IoError
        obs or var was written to after the experiment was opened.
    NotFound
        The experiment, a measurement or a layer does not exist.
    Unsupported
        A chosen layer is of a kind that is not read, such as float16. Or it is stored by genes
        (CSC) in an AnnData object in memory.
    ResourceExhausted
        The disk is full, or `memory_budget` is too small; the message says how much is needed. The
        packed data stay, and packing again resumes there.
    """
    path = checked_local_path("destination", destination)
    source = expanded(source)
    if isinstance(source, (list, tuple, dict)):
        raise InvalidArgument(
            f"one experiment is packed at a time, got {count(len(source))}: pack each, then join the packs "
            "with penstock.join"
        )
    experiment = open_source(source, threads, storage_options)
    if isinstance(experiment, JoinedExperiment):
        raise InvalidArgument("joined experiments are packed one by one, then the packs joined")
    measurement_names = _names("measurements", measurements)
    layer_names = _names("layers", layers)
    if isinstance(experiment, AnnDataExperiment):
        experiment.check_all_readable(measurement_names, layer_names)
    path = os.path.abspath(path)  # noqa: PTH100  (keeps links)
    packer = _core.Packer(
        experiment.engine,
        path,
        None if obs_query is None else resolve(experiment.obs, obs_query, "obs_query"),
        measurement_names,
        layer_names,
        checked_bool("overwrite", overwrite),
        0 if threads is None else checked_int("threads", threads, least=1, most=1024),
        0,
        parse_memory_size("memory_budget", memory_budget),
    )
    # The interpreter checks for Ctrl-C between two calls.
    while packer.advance(_SECONDS_BETWEEN):
        if progress is not None:
            progress(packer.progress())
    if progress is not None:
        progress(packer.progress())
    return open_stored(path, threads=threads)


def _names(what: str, names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Sequence) or not names:
        raise InvalidArgument(f"{what} must be one name or several, got {described(names)}")
    return [checked_text(what, name) for name in names]
