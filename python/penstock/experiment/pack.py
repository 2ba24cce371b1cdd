"""Packing: a copy in Penstock's own store, whose rows can be read one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.base.validation import (
    checked_bool,
    checked_int,
    checked_path,
    checked_text,
    described,
)
from penstock.errors import InvalidArgument

from .axis_query import resolve
from .experiment import Experiment, open
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
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[_core.PackProgress], Any] | None = None,
) -> Experiment:
    """Copy an experiment into a pack, of which any cell can be read by itself.

    A pack opens like any experiment, and holds what Penstock reads: obs, var and the layers of X,
    exactly as they were. X takes about 1.2 bytes a non-zero of real counts. It is for speed alone,
    and made again from the source when it is lost.

    Parameters
    ----------
    source : path, URI, Experiment or tiledbsoma Experiment
        What is packed, as of its timestamp.
    destination : str or path
        A folder that is not there yet. It appears when the pack is whole; until then the work is in
        ``destination.partial``, and resumes when the same is packed again.
    obs_query : str or AxisQuery, optional
        Only these cells; joinids stay.
    measurements, layers : str or sequence of str, optional
        Only these; all by default.
    overwrite : bool, default False
        Replace the pack that is there, whatever it holds. What is no pack is never replaced.
    threads : int, optional
        As many as cores by default.
    storage_options : dict, optional
        How a URI that is packed is reached, as for `penstock.open`.
    progress : callable, optional
        Called about ten times a second with what is done: ``rows_done``, ``rows_total`` (cells times
        layers), ``rows_kept`` from an attempt before, ``bytes_written``, ``layer``.

    Returns
    -------
    Experiment
        The pack, opened.

    Raises
    ------
    InvalidArgument
        Something else is at the destination, or it cannot be replaced, or another process packs
        there; nothing is selected.
    IoError
        obs or var was written to after the experiment was opened.
    NotFound
        No such experiment, measurement or layer.
    ResourceExhausted
        The disk is full; what is packed stays, and packing again resumes there.
    """
    experiment = open_source(source, threads, storage_options)
    if isinstance(experiment, JoinedExperiment):
        raise InvalidArgument("joined experiments are packed one by one, then the packs joined")
    path = checked_path("destination", destination)
    if "://" in path:
        raise InvalidArgument(f"destination must be a folder on this machine, got {path!r}")
    path = os.path.abspath(path)  # noqa: PTH100  (links stay)
    packer = _core.Packer(
        experiment.engine,
        path,
        None if obs_query is None else resolve(experiment.obs, obs_query, "obs_query"),
        _names("measurements", measurements),
        _names("layers", layers),
        checked_bool("overwrite", overwrite),
        0 if threads is None else checked_int("threads", threads, least=1, most=1024),
        0,
    )
    # Between two calls the interpreter looks for Ctrl-C.
    while packer.advance(_SECONDS_BETWEEN):
        if progress is not None:
            progress(packer.progress())
    if progress is not None:
        progress(packer.progress())
    return open(path, threads=threads)


def _names(what: str, names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Sequence) or not names:
        raise InvalidArgument(f"{what} must be one name or several, got {described(names)}")
    return [checked_text(what, name) for name in names]
