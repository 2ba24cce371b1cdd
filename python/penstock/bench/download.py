"""Copying a slice of an experiment into a local one with the Census's array settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.base.text import plural
from penstock.errors import InvalidArgument, NotFound, Unsupported
from penstock.synthetic.census_layout import (
    GENES_PER_TILE,
    OBS_CONFIG,
    ROWS_PER_BAND,
    VAR_CONFIG,
    X_CONFIG,
)
from penstock.synthetic.counts import Band
from penstock.synthetic.dataframe_writer import write_dataframe
from penstock.synthetic.disk_space import check_space, told_when_full
from penstock.synthetic.experiment import BYTES_PER_CELL, BYTES_PER_NONZERO
from penstock.synthetic.overwrite import check_replaceable, remove_replaced
from penstock.synthetic.x_writer import write_bands

from .measuring.page_cache import files_of
from .target import Target, local_path, soma_open

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset


def download(
    target: Target, folder: Path, overwrite: bool, say: Callable[[str], object]
) -> tuple[int, int]:
    """Write the selected cells and genes with their joinids; return numbers of cells and counts.

    X is one fragment of float32, written in bands of rows; obs and var are written in pieces. An
    incomplete slice is never left behind.

    Raises
    ------
    FileExistsError
        The folder exists, and `overwrite` is not set or it is not an experiment.
    InvalidArgument
        The folder is the source, is inside it or contains it.
    NotFound
        The measurement or layer does not exist.
    Unsupported
        A value cannot be represented as float32.
    OSError
        The disk has less space than the least size of the slice, checked before writing, or fills
        up (``errno.ENOSPC``).
    """
    check_replaceable(folder, overwrite)
    _check_outside(folder, target)
    folder = folder.absolute()  # TileDB keeps the working folder of when it was loaded
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with told_when_full(folder.parent):
            counts = _write(target, partial, say)
            remove_replaced(folder)
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return counts


def _write(target: Target, partial: Path, say: Callable[[str], object]) -> tuple[int, int]:
    import pyarrow as pa
    import tiledbsoma

    with soma_open(target.uri, target.region) as source:
        measurement = _member(source.ms, target.measurement, "measurement")
        layer = _member(measurement.X, target.layer, "layer")
        obs = _Axis(source.obs, {"value_filter": target.obs_filter}, OBS_CONFIG)
        var = _Axis(measurement.var, {"coords": (_genes(target),)}, VAR_CONFIG)
        n_vars = layer.shape[1] if target.n_vars is None else min(target.n_vars, layer.shape[1])
        say(f"{plural(obs.n_rows, 'cell')}, {plural(var.n_rows, 'gene')}")
        check_space(partial.parent, _least_bytes(target, layer, n_vars, obs))
        with tiledbsoma.Experiment.create(str(partial)) as made:
            measurement = made.add_new_collection("ms").add_new_collection(
                target.measurement, tiledbsoma.Measurement
            )
            obs.write(made, "obs")
            var.write(measurement, "var")
            measurement.add_new_collection("X").add_new_sparse_ndarray(
                target.layer,
                type=pa.float32(),
                shape=(obs.last + 1, n_vars),
                platform_config=X_CONFIG,
            ).close()
    counted = _Counted(_bands(_dataset(target)))
    uri = str(partial / "ms" / target.measurement / "X" / target.layer)
    write_bands(uri, counted, os.cpu_count() or 1)
    return obs.n_rows, counted.n_nonzeros


def _least_bytes(target: Target, layer: Any, n_vars: int, obs: _Axis) -> int:
    """Return a lower estimate of the bytes of the slice.

    Bytes per count and cell are those of the source or of the Census, whichever is less: a source
    may be compressed differently or keep overwritten data. For a source that is not local, they are
    a third of the Census's, because few genes take less. If the number of counts is unknown, half
    of the average per cell and gene is used.
    """
    import penstock

    opened = penstock.open(target.uri, storage_options=target.storage_options)
    stored = opened.x(target.measurement, target.layer).stored_cells()
    share = obs.n_rows / max(obs.n_source_rows, 1)
    if target.nonzeros is not None and n_vars == layer.shape[1]:
        counts: float = target.nonzeros
    else:
        counts = stored * share * n_vars / max(layer.shape[1], 1) / 2
    needed = int(counts * BYTES_PER_NONZERO) + obs.n_rows * BYTES_PER_CELL
    if not target.is_local:
        return needed // 3
    x_bytes = _bytes_of(layer) * counts / max(stored, 1)
    return min(needed, int(x_bytes + _bytes_of(obs.source) * share))


def _bytes_of(array: Any) -> int:
    """Return the bytes of a local array's files."""
    return sum(file.stat().st_size for file in files_of(local_path(array.uri)))


def _member(collection: Any, name: str, what: str) -> Any:
    if name not in collection:
        there = ", ".join(sorted(collection)) or "none"
        raise NotFound(f"no {what} {name!r}; choose from {there}")
    return collection[name]


def _check_outside(folder: Path, target: Target) -> None:
    if not target.is_local:
        return
    made, source = folder.resolve(), Path(target.uri).resolve()
    if made == source or made in source.parents or source in made.parents:
        raise InvalidArgument(f"the slice would lie where its source is: {folder}, {target.uri}")


def _genes(target: Target) -> slice:
    return slice(None) if target.n_vars is None else slice(0, target.n_vars - 1)


class _Axis:
    """The selected rows of obs or var, read in pieces of some 16 MiB a column (`soma_open`)."""

    def __init__(self, source: Any, selected: dict[str, Any], config: dict[str, Any]) -> None:
        self.source = source
        self.n_source_rows: int = source.count
        self._selected = selected
        self._config = config
        self.n_rows, self.last = 0, 0
        for table in source.read(**selected, column_names=["soma_joinid"]):
            joinids = table["soma_joinid"].to_numpy()
            self.n_rows += len(joinids)
            self.last = max(self.last, int(np.max(joinids, initial=0)))

    def write(self, parent: Any, name: str) -> None:
        """Write the rows, sized for the largest joinid; only columns of the Census get filters."""
        tables = self.source.read(**self._selected)
        write_dataframe(parent, name, tables, self.last + 1, self._config)


class _Counted:
    """Iterator of bands that sums their counts."""

    def __init__(self, bands: Iterator[Band]) -> None:
        self._bands = bands
        self.n_nonzeros = 0

    def __iter__(self) -> Iterator[Band]:
        for band in self._bands:
            self.n_nonzeros += len(band.rows)
            yield band


def _bands(dataset: Dataset) -> Iterator[Band]:
    """Yield counts in bands of rows, each in TileDB's global order."""
    genes = dataset.var.to_pandas(columns=["soma_joinid"])["soma_joinid"].to_numpy()
    waiting: list[tuple[npt.NDArray[np.int64], Any]] = []
    for x, obs in dataset:
        joinids = np.asarray(obs["soma_joinid"], np.int64)
        begin = 0
        edges = np.flatnonzero(np.diff(joinids // ROWS_PER_BAND)) + 1
        for edge in [*edges, len(joinids)]:
            if waiting and waiting[-1][0][-1] // ROWS_PER_BAND != joinids[begin] // ROWS_PER_BAND:
                yield _in_global_order(waiting, genes)
                waiting = []
            waiting.append((joinids[begin:edge], x[begin:edge]))
            begin = int(edge)
    if waiting:
        yield _in_global_order(waiting, genes)


def _dataset(target: Target) -> Dataset:
    """Return a Dataset with batches of some thousand cells, in joinid order."""
    import penstock

    var_query = None if target.n_vars is None else penstock.AxisQuery(coords=(_genes(target),))
    return penstock.Dataset(
        target.uri,
        measurement=target.measurement,
        layer=target.layer,
        obs_query=target.obs_filter,
        obs_columns=["soma_joinid"],
        var_query=var_query,
        batch_size=ROWS_PER_BAND,
        shuffle=False,
        shard=False,
        sparse=True,
        dtype="float64",
        storage_options=target.storage_options,
    )


def _in_global_order(
    parts: list[tuple[npt.NDArray[np.int64], Any]], gene_ids: npt.NDArray[np.int64]
) -> Band:
    rows = np.concatenate([np.repeat(ids, np.diff(x.indptr)) for ids, x in parts])
    genes = gene_ids[np.concatenate([x.indices for _, x in parts])]
    values = _as_float32(np.concatenate([x.data for _, x in parts]))
    order = np.argsort(
        genes // GENES_PER_TILE, kind="stable"
    )  # rows and genes are already in ascending order
    first = int(parts[0][0][0]) // ROWS_PER_BAND * ROWS_PER_BAND
    return Band(first, ROWS_PER_BAND, rows[order], genes[order], values[order])


def _as_float32(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        made = values.astype(np.float32)
    same = (made == values) | (np.isnan(made) & np.isnan(values))
    if (
        not same.all() or np.abs(made).max(initial=0) >= 2**53
    ):  # larger integers may have been rounded unnoticed
        wrong = values[~same][0] if not same.all() else made.max()
        raise Unsupported(f"a slice is written as float32, which does not hold {wrong:.17g}")
    return made
