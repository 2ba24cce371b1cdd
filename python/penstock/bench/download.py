"""Slices an experiment into a local one, in the Census's array settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidArgument, NotFound, Unsupported
from ..synthetic.census_layout import (
    GENES_PER_TILE,
    OBS_CONFIG,
    ROWS_PER_BAND,
    VAR_CONFIG,
    X_CONFIG,
)
from ..synthetic.counts import Band
from ..synthetic.disk_space import told_when_full
from ..synthetic.replacing import check_replaceable, remove_replaced
from ..synthetic.x_writer import write_bands
from .target import Target, soma_open

if TYPE_CHECKING:
    import pyarrow as pa


def download(
    target: Target, folder: Path, overwrite: bool, say: Callable[[str], object]
) -> tuple[int, int]:
    """Write the selected cells and genes, joinids as they are; returns cells and counts.

    X is one fragment of float32, written band of rows by band of rows; a slice is there whole or
    not at all.

    Raises
    ------
    FileExistsError
        The folder exists and `overwrite` is not set, or it is no experiment.
    InvalidArgument
        The folder is the source, lies in it or holds it.
    NotFound
        No such measurement or layer.
    Unsupported
        A value is none that float32 holds.
    OSError
        With ``errno.ENOSPC`` when the disk fills up.
    """
    check_replaceable(folder, overwrite)
    _check_outside(folder, target)
    folder = folder.absolute()  # TileDB's working folder is that of its loading
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
        obs = source.obs.read(value_filter=target.obs_filter).concat()
        measurement = _member(source.ms, target.measurement, "measurement")
        var = measurement.var.read(coords=(_genes(target),)).concat()
        shape = _member(measurement.X, target.layer, "layer").shape
    n_vars = shape[1] if target.n_vars is None else min(target.n_vars, shape[1])
    say(f"{len(obs):,} cells, {len(var):,} genes")
    with tiledbsoma.Experiment.create(str(partial)) as made:
        measurement = made.add_new_collection("ms").add_new_collection(
            target.measurement, tiledbsoma.Measurement
        )
        _write_axis(made, "obs", obs, OBS_CONFIG)
        _write_axis(measurement, "var", var, VAR_CONFIG)
        layers = measurement.add_new_collection("X")
        last = int(np.max(obs["soma_joinid"].to_numpy(), initial=0))
        layers.add_new_sparse_ndarray(
            target.layer,
            type=pa.float32(),
            shape=(last + 1, n_vars),
            platform_config=X_CONFIG,
        ).close()
    counted = _Counted(_bands(target))
    uri = str(partial / "ms" / target.measurement / "X" / target.layer)
    write_bands(uri, counted, os.cpu_count() or 1)
    return len(obs), counted.n_nonzeros


def _member(collection: Any, name: str, what: str) -> Any:
    if name not in collection:
        there = ", ".join(sorted(collection)) or "none"
        raise NotFound(f"no {what} {name!r}; there are: {there}")
    return collection[name]


def _check_outside(folder: Path, target: Target) -> None:
    if not target.is_local:
        return
    made, source = folder.resolve(), Path(target.uri).resolve()
    if made == source or made in source.parents or source in made.parents:
        raise InvalidArgument(f"the slice would lie where its source is: {folder}, {target.uri}")


def _genes(target: Target) -> slice:
    return slice(None) if target.n_vars is None else slice(0, target.n_vars - 1)


def _write_axis(parent: Any, name: str, table: pa.Table, config: dict[str, Any]) -> None:
    """As large as its largest joinid; columns that the Census does not have go unfiltered."""
    last = int(np.max(table["soma_joinid"].to_numpy(), initial=0))
    create = config["tiledb"]["create"]
    known = {key: value for key, value in create["attrs"].items() if key in table.column_names}
    frame = parent.add_new_dataframe(
        name,
        schema=table.schema,
        index_column_names=["soma_joinid"],
        platform_config={"tiledb": {"create": {**create, "attrs": known}}},
        domain=[(0, last)],
    )
    frame.write(table)
    frame.close()


class _Counted:
    """The bands, their counts added up on the way."""

    def __init__(self, bands: Iterator[Band]) -> None:
        self._bands = bands
        self.n_nonzeros = 0

    def __iter__(self) -> Iterator[Band]:
        for band in self._bands:
            self.n_nonzeros += len(band.rows)
            yield band


def _bands(target: Target) -> Iterator[Band]:
    """Counts band of rows by band of rows, each in TileDB's global order."""
    waiting: list[tuple[npt.NDArray[np.int64], Any]] = []
    for joinids, x in _rows(target):
        begin = 0
        edges = np.flatnonzero(np.diff(joinids // ROWS_PER_BAND)) + 1
        for edge in [*edges, len(joinids)]:
            if waiting and waiting[-1][0][-1] // ROWS_PER_BAND != joinids[begin] // ROWS_PER_BAND:
                yield _in_global_order(waiting)
                waiting = []
            waiting.append((joinids[begin:edge], x[begin:edge]))
            begin = int(edge)
    if waiting:
        yield _in_global_order(waiting)


def _rows(target: Target) -> Iterator[tuple[npt.NDArray[np.int64], Any]]:
    """(joinids ascending, CSR) of some thousand cells at a time."""
    import penstock

    var_query = None if target.n_vars is None else penstock.AxisQuery(coords=(_genes(target),))
    dataset = penstock.Dataset(
        target.uri,
        measurement=target.measurement,
        layer=target.layer,
        obs_query=target.obs_filter,
        var_query=var_query,
        batch_size=ROWS_PER_BAND,
        shuffle=False,
        shard=False,
        sparse=True,
        dtype="float64",
        storage_options=target.storage_options,
    )
    for x, obs in dataset:
        yield np.asarray(obs["soma_joinid"], np.int64), x


def _in_global_order(parts: list[tuple[npt.NDArray[np.int64], Any]]) -> Band:
    rows = np.concatenate([np.repeat(ids, np.diff(x.indptr)) for ids, x in parts])
    genes = np.concatenate([x.indices for _, x in parts]).astype(np.int64)
    values = _as_float32(np.concatenate([x.data for _, x in parts]))
    order = np.argsort(genes // GENES_PER_TILE, kind="stable")  # rows and genes ascend already
    first = int(parts[0][0][0]) // ROWS_PER_BAND * ROWS_PER_BAND
    return Band(first, ROWS_PER_BAND, rows[order], genes[order], values[order])


def _as_float32(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        made = values.astype(np.float32)
    same = (made == values) | (np.isnan(made) & np.isnan(values))
    if not same.all() or np.abs(made).max(initial=0) >= 2**53:  # of integers all may not be seen
        wrong = values[~same][0] if not same.all() else made.max()
        raise Unsupported(f"a slice is written as float32, which does not hold {wrong:.17g}")
    return made
