"""Experiments whose layer is an array with any TileDB schema."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import tiledb
import tiledbsoma


def write_axes(uri: str, n_obs: int, n_vars: int) -> None:
    """obs, var and an empty collection of layers, all of time 1."""
    context = tiledbsoma.SOMATileDBContext(timestamp=1)
    with tiledbsoma.Experiment.create(uri, context=context) as experiment:
        ms = experiment.add_new_collection("ms")
        rna = ms.add_new_collection("RNA", tiledbsoma.Measurement)
        for parent, name, rows in ((experiment, "obs", n_obs), (rna, "var", n_vars)):
            joinids = pa.table({"soma_joinid": pa.array(range(rows), pa.int64())})
            joinids = joinids.append_column("n", pa.array(range(rows), pa.int32()))
            table = parent.add_new_dataframe(name, schema=joinids.schema, domain=[(0, rows - 1)])
            table.write(joinids).close()
        rna.add_new_collection("X").close()


def create_layer(draw: random.Random, uri: str, schema: Any, kind: str) -> str:
    """An empty layer "raw" of time 1, by a relative or an absolute address."""
    layers = f"{uri}/ms/RNA/X"
    layer = f"{layers}/raw"
    tiledb.Array.create(layer, schema)
    with tiledb.open(layer, "w", timestamp=1) as array:
        array.meta["soma_object_type"] = kind
        array.meta["soma_encoding_version"] = "1.1.0"
    with tiledb.Group(layers, "w", tiledb.Config({"sm.group.timestamp_end": 2})) as group:
        if draw.random() < 0.5:
            group.add("raw", name="raw", relative=True)
        else:
            group.add(f"file://{layer}", name="raw", relative=False)
    return layer
