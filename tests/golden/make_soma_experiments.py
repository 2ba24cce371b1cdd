"""Writes tests/data/soma-VERSION-small.tar.gz: an experiment of the installed tiledbsoma, and what it reads.

    python tests/golden/make_soma_experiments.py OUTPUT_FOLDER
    python tests/golden/make_soma_experiments.py OUTPUT_FOLDER --upgrade soma-1.2.5-small.tar.gz  # 2.3.0

Run it with each version in an environment of its own. Wheels for Python 3.11 exist for all of them;
scanpy and numba, which the old ones ask for, are not needed:

    pip install --no-deps tiledbsoma==1.2.5
    pip install tiledb==0.21.6 somacore==1.0.3 attrs typing-extensions pyarrow-hotfix numpy==1.23.5 \
        scipy==1.10.1 pandas==1.5.3 pyarrow==12.0.1 anndata==0.9.2

and the same with 1.4.4 (tiledb 0.22.3, somacore 1.0.4), 1.5.3 (tiledb 0.23.4, somacore 1.0.4), and
`pip install tiledbsoma==2.3.0` as it is. TileDB's format version goes by the tiledbsoma version.

An archive has
    soma-VERSION/               300 cells x 400 genes, X of three fragments that write over each other
    soma-VERSION.expected.npz   X as this tiledbsoma read it, scipy.sparse CSR
    soma-VERSION.obs.csv        obs as this tiledbsoma read it; times as integers, nulls empty
    soma-VERSION.answers.json   2.x: what its filters keep; the experiment between deletes and writes

With --upgrade, soma-1.2.5-upgraded.tar.gz: the shapes of an older experiment upgraded, which gives its arrays
schemas of today's format, and a fragment of today's written over the older ones.

Fragment names hold times and random UUIDs, so a new run gives other files with the same cells.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tarfile
import tempfile
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
import tiledbsoma

N_OBS, N_VARS = 300, 400
VERSION = tuple(int(part) for part in tiledbsoma.__version__.split(".")[:2])
HAS_CATEGORIES = VERSION >= (1, 5)
HAS_NULLS = HAS_DELETES = VERSION >= (2, 0)
PIECES = [(0, 140), (100, 220), (200, 300)]  # rows of each fragment: the later ones win

ZSTD = {"_type": "ZstdFilter", "level": 9}
SHUFFLED = ["ByteShuffleFilter", ZSTD]
X_CONFIG = {
    "capacity": 1024,
    "dims": {
        "soma_dim_0": {"tile": 64, "filters": [ZSTD]},
        "soma_dim_1": {"tile": 128, "filters": SHUFFLED},
    },
    "attrs": {"soma_data": {"filters": SHUFFLED}},
    "cell_order": "row-major",
    "tile_order": "row-major",
}
# Dates go through windowed filters: before format 20 these let them through.
OBS_CONFIG = {
    "capacity": 64,
    "dims": {"soma_joinid": {"tile": 64, "filters": ["DoubleDeltaFilter", ZSTD]}},
    "attrs": {
        "raw_sum": {"filters": SHUFFLED},
        "n_genes": {"filters": ["BitWidthReductionFilter", ZSTD]},
        "collected": {"filters": ["BitWidthReductionFilter", ZSTD]},
        "measured": {"filters": ["PositiveDeltaFilter", "BitWidthReductionFilter", ZSTD]},
    },
    "offsets_filters": ["DoubleDeltaFilter", ZSTD],
}

CELL_TYPES = ["T cell", "B cell", "macrophage", "neuron", "\u03b2 cell"]
STAGES = ["low", "mid", "high"]
FILTERS = [
    "cell_type == 'T cell'",
    "cell_type != 'neuron' and n_genes > 30",
    "cell_type in ['B cell', '\u03b2 cell', 'unheard of']",
    "cell_type not in ['B cell', 'macrophage']",
    "donor_id == 'd3' or donor_id == 'e3'",
    "donor_id < 'd5'",
    "is_primary_data == True",
    "raw_sum >= 60.5",
    "age < 0.25",
    "soma_joinid >= 37 and soma_joinid < 222",
    "(n_genes < 20 or n_genes > 40) and is_primary_data == False",
    "collected < 1600000000",
    "stage == 'mid'",
    "stage > 'low'",
    "stage != 'low'",
    "score == 3",
    "score != 3",
    "score in [1, 2]",
    "remark == 'seen'",
    "remark != 'seen'",
    "score == None",
    "score != None",
    "remark == None",
    "remark != None",
    "stage == None",
    "stage != None",
    "score is None",
    "score == 3 or score == None",
    "remark != None and n_genes > 30",
    "n_genes == None",
    "score > None",
    "not score == 3",
]


def config(create: dict) -> dict:
    return {"tiledb": {"create": create}}


def category(values: list[str | None], categories: list[str], ordered: bool = False) -> pa.Array:
    codes = [None if value is None else categories.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int8()), pa.array(categories, pa.large_string()), ordered=ordered
    )


def counts(random: np.random.Generator, rows: tuple[int, int]) -> pa.Table:
    """Cells of X for these rows, sorted: about 30 genes a row, at other genes in every fragment."""
    begin, end = rows
    at = np.flatnonzero(random.random((end - begin) * N_VARS) < 30 / N_VARS)
    return pa.table(
        {
            "soma_dim_0": pa.array(at // N_VARS + begin),
            "soma_dim_1": pa.array(at % N_VARS),
            "soma_data": pa.array(random.geometric(0.4, len(at)).astype(np.float32)),
        }
    )


def obs_rows(
    random: np.random.Generator,
    rows: tuple[int, int],
    donor: str,
    categories: bool = HAS_CATEGORIES,
    nulls: bool = HAS_NULLS,
) -> pa.Table:
    begin, end = rows
    n = end - begin
    types = [CELL_TYPES[i] for i in random.integers(0, len(CELL_TYPES), n)]
    columns = {
        "soma_joinid": pa.array(np.arange(begin, end)),
        "cell_type": category(types, CELL_TYPES)
        if categories
        else pa.array(types, pa.large_string()),
        "donor_id": pa.array([f"{donor}{i}" for i in random.integers(0, 8, n)], pa.large_string()),
        "is_primary_data": pa.array(random.random(n) < 0.7),
        "raw_sum": pa.array(random.gamma(4, 16, n)),
        "n_genes": pa.array(random.integers(10, 50, n)),
        "age": pa.array(random.random(n).astype(np.float32)),
        # days of seven years; ascending for positive delta
        "collected": pa.array(
            1_500_000_000 + 86_400 * random.integers(0, 2500, n), pa.int64()
        ).cast(pa.timestamp("s")),
        "measured": pa.array(
            1_600_000_000_000_000_000 + np.cumsum(random.integers(0, 10**9, n)), pa.int64()
        ).cast(pa.timestamp("ns")),
    }
    if nulls:
        scores = [int(s) if s < 5 else None for s in random.integers(0, 8, n)]
        remarks = [[None, "seen", "doubt"][i] for i in random.integers(0, 3, n)]
        stages = [[None, *STAGES][i] for i in random.integers(0, 4, n)]
        columns["score"] = pa.array(scores, pa.int32())
        columns["remark"] = pa.array(remarks, pa.large_string())
        columns["stage"] = category(stages, STAGES, ordered=True)
    nullable = {"score", "remark", "stage"}
    fields = [pa.field(name, c.type, nullable=name in nullable) for name, c in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def new_millisecond() -> int:
    """A time after all writes before, and before all that follow."""
    time.sleep(0.02)
    now = time.time_ns() // 1_000_000
    time.sleep(0.02)
    return now


def write_rows(uri: str, table: pa.Table) -> None:
    """One fragment of a time of its own."""
    new_millisecond()
    with tiledbsoma.open(uri, "w") as opened:
        opened.write(table)


def bounds(**keywords: object) -> dict[str, object]:
    """Domains, which the old versions do not need: their arrays take any joinid."""
    return keywords if VERSION >= (1, 15) else {}


def create(uri: str, obs: pa.Schema) -> None:
    """An experiment without cells, of the genes only."""
    with tiledbsoma.Experiment.create(uri) as experiment:
        experiment.add_new_dataframe(
            "obs", schema=obs, index_column_names=["soma_joinid"],
            platform_config=config(OBS_CONFIG), **bounds(domain=[(0, N_OBS - 1)]),
        ).close()  # fmt: skip
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        genes = pa.table(
            {
                "soma_joinid": pa.array(np.arange(N_VARS)),
                "feature_name": pa.array([f"G{i}" for i in range(N_VARS)], pa.large_string()),
            }
        )
        var = rna.add_new_dataframe(
            "var", schema=genes.schema, index_column_names=["soma_joinid"],
            **bounds(domain=[(0, N_VARS - 1)]),
        )  # fmt: skip
        var.write(genes)
        var.close()
        layers = rna.add_new_collection("X")
        layers.add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=(N_OBS, N_VARS), platform_config=config(X_CONFIG)
        ).close()


def read_x(uri: str, timestamp: int | None = None) -> sp.csr_matrix:
    at = {} if timestamp is None else {"tiledb_timestamp": timestamp}
    with tiledbsoma.open(f"{uri}/ms/RNA/X/raw", **at) as layer:
        cells = layer.read().tables().concat()
    place = (cells["soma_dim_0"].to_numpy(), cells["soma_dim_1"].to_numpy())
    return sp.csr_matrix((cells["soma_data"].to_numpy(), place), shape=(N_OBS, N_VARS))


def read_obs(uri: str, timestamp: int | None = None, value_filter: str | None = None) -> pa.Table:
    at = {} if timestamp is None else {"tiledb_timestamp": timestamp}
    with tiledbsoma.open(f"{uri}/obs", **at) as obs:
        table = obs.read(value_filter=value_filter).concat()
    return table.take(pa.array(np.argsort(table["soma_joinid"].to_numpy(), kind="stable")))


def plain(table: pa.Table) -> pd.DataFrame:
    """Categories as strings, times as integers."""
    columns = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        kind = pd.Int64Dtype() if pa.types.is_integer(column.type) else None
        columns[name] = pd.Series(column.to_pylist(), dtype=kind or object)
        if pa.types.is_floating(column.type):
            columns[name] = pd.Series(column.to_numpy())
    return pd.DataFrame(columns)


def state(uri: str, timestamp: int) -> dict:
    """The experiment at a time: rows of obs, and of X how many cells a row has and their sum."""
    x = read_x(uri, timestamp)
    return {
        "timestamp": timestamp,
        "rows": read_obs(uri, timestamp)["soma_joinid"].to_pylist(),
        "cells": np.diff(x.indptr).tolist(),
        "sums": np.asarray(x.sum(axis=1)).ravel().tolist(),
    }


def delete_and_write(uri: str, random: np.random.Generator) -> list[dict]:
    """Rows deleted by filter and by joinid, cells of X alone, and rows written again; all states."""
    states = [state(uri, new_millisecond())]

    def experiment(mode: str) -> tiledbsoma.Experiment:
        return tiledbsoma.Experiment.open(uri, mode)

    with experiment("d") as opened:
        opened.obs_axis_delete(value_filter="cell_type == 'neuron' and n_genes < 25")
    states.append(state(uri, new_millisecond()))
    with experiment("d") as opened:
        opened.obs_axis_delete(coords=([3, 101, 102, 250],))
    states.append(state(uri, new_millisecond()))
    write_rows(f"{uri}/obs", obs_rows(random, (100, 110), "f"))
    write_rows(f"{uri}/ms/RNA/X/raw", counts(random, (100, 110)))
    states.append(state(uri, new_millisecond()))
    with tiledbsoma.SparseNDArray.open(f"{uri}/ms/RNA/X/raw", "d") as layer:
        layer.delete_cells((slice(60, 90), slice(100, 150)))
    states.append(state(uri, new_millisecond()))
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "d") as obs:
        obs.delete_cells((slice(290, 299),), value_filter="score == 3 or remark == 'seen'")
    states.append(state(uri, new_millisecond()))
    return states


def answer(uri: str, text: str) -> dict:
    """The rows that a filter keeps, or null where this tiledbsoma refuses it."""
    try:
        return {"filter": text, "rows": read_obs(uri, None, text)["soma_joinid"].to_pylist()}
    except Exception as error:  # it raises whatever comes up
        print("  refused:", text, "-", str(error).splitlines()[0][:90])
        return {"filter": text, "rows": None}


def make(uri: str) -> dict | None:
    """A new experiment; the answers of a version that can delete."""
    random = np.random.default_rng(12)
    pieces = [obs_rows(random, rows, donor) for rows, donor in zip(PIECES, "def", strict=True)]
    create(uri, pieces[0].schema)
    for rows, table in zip(PIECES, pieces, strict=True):
        write_rows(f"{uri}/obs", table)
        write_rows(f"{uri}/ms/RNA/X/raw", counts(random, rows))
    if not HAS_DELETES:
        return None
    states = delete_and_write(uri, random)
    return {"states": states, "filters": [answer(uri, text) for text in FILTERS]}


def upgrade(uri: str) -> None:
    """Schemas of today's format for obs, var and X, and a fragment of obs and of X after them."""
    with tiledbsoma.open(f"{uri}/obs", "w") as obs:
        obs.tiledbsoma_upgrade_soma_joinid_shape(N_OBS)
    with tiledbsoma.open(f"{uri}/ms/RNA/var", "w") as var:
        var.tiledbsoma_upgrade_soma_joinid_shape(N_VARS)
    with tiledbsoma.open(f"{uri}/ms/RNA/X/raw", "w") as layer:
        layer.tiledbsoma_upgrade_shape((N_OBS, N_VARS))
    random = np.random.default_rng(13)
    rows = (250, 290)
    write_rows(f"{uri}/obs", obs_rows(random, rows, "g", categories=False, nulls=False))
    write_rows(f"{uri}/ms/RNA/X/raw", counts(random, rows))


def pack(folder: pathlib.Path, uri: str, answers: dict | None, archive: pathlib.Path) -> None:
    """What the experiment holds beside it, and all of it in an archive."""
    if answers is not None:
        pathlib.Path(f"{uri}.answers.json").write_text(json.dumps(answers))
    sp.save_npz(f"{uri}.expected.npz", read_x(uri))
    plain(read_obs(uri)).to_csv(f"{uri}.obs.csv", index=False)
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)
    formats = {f.name.rsplit("_", 1)[1] for f in pathlib.Path(uri).rglob("__fragments/__*")}
    print(f"{archive}: formats {sorted(formats)}, {archive.stat().st_size} bytes")


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if sys.argv[2:3] == ["--upgrade"]:
            older = pathlib.Path(sys.argv[3]).name.removesuffix("-small.tar.gz")
            with tarfile.open(sys.argv[3]) as tar:
                tar.extractall(folder, [m for m in tar if m.name.split("/")[0] == older])
            uri = str((folder / older).rename(folder / f"{older}-upgraded"))
            upgrade(uri)
            pack(folder, uri, None, out / f"{older}-upgraded.tar.gz")
        else:
            name = f"soma-{tiledbsoma.__version__}"
            uri = str(folder / name)
            pack(folder, uri, make(uri), out / f"{name}-small.tar.gz")


if __name__ == "__main__":
    main()
