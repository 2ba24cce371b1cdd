"""A generated obs table with a column of every type, and tiledbsoma's reads of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import penstock as ps
import pyarrow as pa
import tiledb
import tiledbsoma
from soma_tables import as_objects, dictionary


def assert_same(frame: pd.DataFrame, read: pa.Table, ordered: bool = True) -> None:
    """Same columns, types of categories, values and nulls; rows in ascending joinid order."""
    assert sorted(frame.columns) == sorted(read.column_names)
    order = np.argsort(read["soma_joinid"].to_numpy(), kind="stable")
    for name in read.column_names:
        theirs = as_objects(read[name].take(pa.array(order)) if ordered else read[name])
        assert as_objects(frame[name]) == theirs, name
        if pa.types.is_dictionary(read.schema.field(name).type):
            assert isinstance(frame[name].dtype, pd.CategoricalDtype), name
            assert frame[name].cat.ordered == read.schema.field(name).type.ordered, name


def assert_reads_alike(uri: str, timestamp: int | None = None) -> pd.DataFrame:
    ours = ps.open(uri, timestamp=timestamp).obs
    with tiledbsoma.DataFrame.open(f"{uri}/obs", tiledb_timestamp=timestamp) as theirs:
        frame = ours.to_pandas()
        read = theirs.read().concat()
        assert_same(frame, read)
        joinids = np.sort(read["soma_joinid"].to_numpy())
        assert ours.select().to_numpy().tolist() == joinids.tolist()
        assert len(ours) == len(joinids)
        for name in read.column_names:
            if name != "soma_joinid":
                alone = ours.to_pandas(columns=[name])
                assert as_objects(alone[name]) == as_objects(frame[name])
    return frame


def random_table(seed: int, rows: int, first: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)

    def nulls(values: list, share: float) -> list:
        return [None if random.random() < share else value for value in values]

    words = ["", "x", "été", "a longer string than most", "\u4e2d\u6587", "0"]
    drawn = [words[i] for i in random.integers(0, len(words), rows)]
    categories = [f"category {i}" for i in range(1 + seed * 40 % 117)]
    labels = [categories[i] for i in random.integers(0, len(categories), rows)]
    columns: dict[str, pa.Array] = {
        "soma_joinid": pa.array(np.arange(first, first + rows), pa.int64()),
        "string": pa.array(drawn, pa.large_string()),
        "null_string": pa.array(nulls(drawn, 0.3), pa.large_string()),
        "ascii": pa.array(drawn, pa.string()),
        "binary": pa.array([w.encode() for w in drawn], pa.large_binary()),
        "category": dictionary(labels, categories, pa.large_string(), seed % 2 == 0),
        "null_category": dictionary(nulls(labels, 0.4), categories, pa.large_string(), False),
        "all_null": pa.array([None] * rows, pa.float64()),
        "bool": pa.array(random.random(rows) < 0.5, pa.bool_()),
        "null_bool": pa.array(nulls((random.random(rows) < 0.5).tolist(), 0.3), pa.bool_()),
        "null_int": pa.array(nulls(random.integers(-9, 9, rows).tolist(), 0.5), pa.int32()),
        "float": pa.array(random.standard_normal(rows).astype(np.float32)),
        "seconds": pa.array(random.integers(0, 10**9, rows)).cast(pa.timestamp("s")),
        "nanoseconds": pa.array(random.integers(0, 10**18, rows)).cast(pa.timestamp("ns")),
        "int_category": dictionary(
            random.integers(0, 3, rows).tolist(), [0, 1, 2], pa.int64(), False
        ),
    }
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        info = np.iinfo(dtype)
        columns[dtype] = pa.array(random.integers(info.min, info.max, rows, dtype, endpoint=True))
    nullable = {"null_string", "null_category", "all_null", "null_bool", "null_int"}
    return pa.table(
        list(columns.values()),
        schema=pa.schema([pa.field(n, c.type, nullable=n in nullable) for n, c in columns.items()]),
    )


def write_rows(uri: str, table: pa.Table) -> None:
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "w") as obs:
        obs.write(table)


def delete_rows(uri: str, condition: str) -> None:
    with tiledb.open(f"{uri}/obs", "d") as obs:
        obs.query(cond=condition).submit()
