"""SOMA experiments around a given obs table, for tests against tiledbsoma."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import tiledbsoma

NEVER = 2**62


def write_experiment(
    path: Path,
    table: pa.Table,
    *,
    pieces: int = 1,
    index_column_names: tuple[str, ...] = ("soma_joinid",),
    domain: list[tuple[object, object] | None] | None = None,
    platform_config: dict | None = None,
    genes: Sequence[str] = ("a", "b"),
) -> str:
    """Write an experiment whose obs is `table`, in `pieces` fragments; returns its URI."""
    uri = str(path)
    with tiledbsoma.Experiment.create(uri) as experiment:
        rows = table.num_rows
        if domain is None:
            domain = [(0, max(rows - 1, 0))] if index_column_names == ("soma_joinid",) else None
        obs = experiment.add_new_dataframe(
            "obs",
            schema=table.schema,
            index_column_names=list(index_column_names),
            domain=domain or [None] * len(index_column_names),
            platform_config=platform_config,
        )
        obs.close()
        cuts = np.linspace(0, rows, pieces + 1).astype(int)
        for begin, end in itertools.pairwise(cuts):
            if end > begin:
                write_piece(obs.uri, table.slice(begin, end - begin))
        ms = experiment.add_new_collection("ms")
        rna = ms.add_new_collection("RNA", tiledbsoma.Measurement)
        var = rna.add_new_dataframe(
            "var",
            schema=pa.schema([("soma_joinid", pa.int64()), ("name", pa.large_string())]),
            index_column_names=["soma_joinid"],
            domain=[(0, len(genes) - 1)],
        )
        names = pa.array(genes, pa.large_string())
        var.write(pa.table({"soma_joinid": range(len(genes)), "name": names}))
        var.close()
    return uri


def write_piece(
    uri: str, table: pa.Table, context: tiledbsoma.SOMATileDBContext | None = None
) -> None:
    """Write through a handle of its own: tiledbsoma 2.x loses categories through one that made the dataframe.

    It also mixes them up where a handle writes two tables of which the second has new ones.
    """
    with tiledbsoma.DataFrame.open(uri, "w", context=context) as frame:
        frame.write(table)


def tick() -> int:
    """A time in milliseconds at which nothing is written: later than all before, not of what follows.

    tiledbsoma extends enumerations at the clock's time whatever time a write is given, so that
    tests of time travel write at the clock's time too.
    """
    time.sleep(0.002)
    now = time.time_ns() // 1_000_000
    time.sleep(0.002)
    return now


def dictionary(values: list, categories: list, value_type: pa.DataType, ordered: bool) -> pa.Array:
    """An Arrow dictionary array of values (None for null) over the given categories."""
    codes = [None if v is None else categories.index(v) for v in values]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int8()), pa.array(categories, value_type), ordered=ordered
    )


def as_objects(column: pd.Series | pa.ChunkedArray | np.ndarray) -> list:
    """Values as Python objects, None for whatever means missing; floats by their repr."""
    if isinstance(column, (pa.ChunkedArray, pa.Array)):
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int64())
        values = column.to_pylist()
    elif getattr(column.dtype, "kind", "") == "M":
        column = np.asarray(column)
        values = [None if np.isnat(v) else int(v.astype("int64")) for v in column]
    else:
        values = list(column)
    return [_plain(value) for value in values]


def _plain(value: object) -> object:
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else float(value)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    return value
