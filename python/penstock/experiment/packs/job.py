"""Content and options of a pack, checked; and packing, as a whole or a part."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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
from penstock.experiment.anndata_source import AnnDataExperiment
from penstock.experiment.axis_query import resolve
from penstock.experiment.bucket import Bucket, is_bucket
from penstock.experiment.experiment import Experiment
from penstock.experiment.globs import expanded
from penstock.experiment.joined import JoinedExperiment
from penstock.experiment.open_source import open_source

MEMORY_BUDGET = "2GiB"
ROWS_PER_FILE = 1 << 18
_SECONDS_BETWEEN = 0.1


class PackProgress(Protocol):
    """Progress of packing. Rows are cells times layers."""

    @property
    def rows_done(self) -> int:
        """Rows packed, `rows_kept` included."""

    @property
    def rows_total(self) -> int:
        """Rows to pack."""

    @property
    def rows_kept(self) -> int:
        """Rows that an earlier attempt had packed."""

    @property
    def bytes_written(self) -> int:
        """Bytes written for the others."""

    @property
    def layer(self) -> str:
        """Layer being packed: ``"RNA/X/raw"``; empty while parts are packed."""

    @property
    def passes(self) -> dict[str, int]:
        """Passes over each layer that is stored by genes, once they are known."""

    @property
    def pass_number(self) -> int:
        """Pass over the layer, from 1; 0 if it is not stored by genes."""

    @property
    def pass_share(self) -> float:
        """Share of the pass that is done."""


@dataclass(frozen=True)
class PackJob:
    """The content and options of a pack: all that a worker needs."""

    experiment: Experiment
    path: str
    rows: _core.RowSelection | None
    measurements: list[str]
    layers: list[str]
    overwrite: bool
    threads: int
    rows_per_file: int
    memory_budget: int
    bucket: Bucket | None = None
    scratch: str | None = None

    def packer(self, part: tuple[int, int, bool] | None = None) -> _core.Packer:
        """Return what packs it, or a part: number, count, and whether another packer has begun."""
        return _core.Packer(
            self.experiment.engine,
            self.path,
            self.rows,
            self.measurements,
            self.layers,
            self.overwrite,
            self.threads,
            self.rows_per_file,
            self.memory_budget,
            part,
        )


def pack_job(
    source: Any,
    destination: str | os.PathLike[str],
    *,
    obs_query: Any = None,
    measurements: Any = None,
    layers: Any = None,
    overwrite: bool = False,
    threads: int | None = None,
    memory_budget: int | str = MEMORY_BUDGET,
    rows_per_file: int = ROWS_PER_FILE,
    storage_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> PackJob:
    """Check the arguments of `penstock.pack`, and open the source."""
    bucket = None
    if is_bucket(destination):
        options = storage_options if destination_options is None else destination_options
        bucket = Bucket("destination", str(destination), options)
        if checked_bool("overwrite", overwrite):
            raise InvalidArgument(
                "overwrite=True is for packs in folders: a pack in a bucket is not replaced. Give another "
                f"address, or delete it first: {bucket.address}"
            )
        path = bucket.address
    else:
        if destination_options is not None or scratch is not None:
            raise InvalidArgument(
                "destination_options= and scratch= are for a destination in a bucket, such as "
                f"s3://bucket/cells.pack, got {described(destination)}"
            )
        path = os.path.abspath(checked_local_path("destination", destination))  # noqa: PTH100  (keeps links)
    source = expanded(source)
    if isinstance(source, (list, tuple, dict)):
        raise InvalidArgument(
            f"one experiment is packed at a time, got {count(len(source))}: pack each, then join the packs "
            "with penstock.join"
        )
    if bucket is not None and not _is_remote(source):
        storage_options = None  # they are of the bucket
    if scratch is not None:
        scratch = os.path.abspath(checked_local_path("scratch", scratch))  # noqa: PTH100  (keeps links)
        if not Path(scratch).is_dir():
            raise InvalidArgument(f"scratch must be a folder that is there, got {scratch!r}")
    experiment = open_source(source, threads, storage_options)
    if isinstance(experiment, JoinedExperiment):
        raise InvalidArgument("joined experiments are packed one by one, then the packs joined")
    if bucket is not None and f"{bucket.address}/".startswith(f"{experiment.uri.rstrip('/')}/"):
        raise InvalidArgument(
            f"the destination lies within what is packed, {experiment.uri}: {bucket.address}"
        )
    measurement_names = _names("measurements", measurements)
    layer_names = _names("layers", layers)
    if isinstance(experiment, AnnDataExperiment):
        experiment.check_all_readable(measurement_names, layer_names)
    return PackJob(
        experiment,
        path,
        None if obs_query is None else resolve(experiment.obs, obs_query, "obs_query"),
        measurement_names,
        layer_names,
        checked_bool("overwrite", overwrite),
        0 if threads is None else checked_int("threads", threads, least=1, most=1024),
        checked_int("rows_per_file", rows_per_file, least=1, most=1 << 40),
        parse_memory_size("memory_budget", memory_budget),
        bucket,
        scratch,
    )


def run_packer(packer: _core.Packer, progress: Callable[[PackProgress], Any] | None = None) -> None:
    """Pack until all is packed."""
    # The interpreter checks for Ctrl-C between two calls.
    while packer.advance(_SECONDS_BETWEEN):
        if progress is not None:
            progress(packer.progress())
    if progress is not None:
        progress(packer.progress())


def _is_remote(source: Any) -> bool:
    return isinstance(source, str) and "://" in source and not source.startswith("file://")


def _names(what: str, names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Sequence) or not names:
        raise InvalidArgument(f"{what} must be one name or several, got {described(names)}")
    return [checked_text(what, name) for name in names]
