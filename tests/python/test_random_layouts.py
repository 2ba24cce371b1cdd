"""X stored in random ways (order, tiles, filters, fragments, deletes), read as tiledb reads it."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp

tiledb = pytest.importorskip("tiledb")
tiledbsoma = pytest.importorskip("tiledbsoma")
from penstock import _core  # noqa: E402
from penstock.global_shuffle import ReadAgainWarning  # noqa: E402

TYPES = ["float32"] * 3 + [
    "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
]  # fmt: skip
COMPRESSIONS = [
    tiledb.ZstdFilter, tiledb.LZ4Filter, tiledb.GzipFilter, tiledb.Bzip2Filter, tiledb.RleFilter,
]  # fmt: skip
REORDERINGS = [tiledb.ByteShuffleFilter, tiledb.BitShuffleFilter, tiledb.XORFilter]
FOR_INTEGERS = [tiledb.DeltaFilter, tiledb.DoubleDeltaFilter, tiledb.BitWidthReductionFilter]
CHECKSUMS = [tiledb.ChecksumMD5Filter, tiledb.ChecksumSHA256Filter]


def chain(draw: random.Random, dtype: np.dtype) -> Any:
    """A chain that TileDB itself can write and read."""
    filters = []
    if draw.random() < 0.5:
        filters.append(draw.choice(REORDERINGS + (FOR_INTEGERS if dtype.kind in "iu" else [])))
    if draw.random() < 0.8 and tiledb.DoubleDeltaFilter not in filters:
        filters.append(draw.choice(COMPRESSIONS[: 5 if not filters else 4]))
    if draw.random() < 0.3:
        filters.append(draw.choice(CHECKSUMS))
    return tiledb.FilterList([each() for each in filters], chunksize=draw.choice([65536, 1000]))


def write_axes(uri: str, n_obs: int, n_vars: int) -> None:
    """obs, var and an empty collection of layers."""
    with tiledbsoma.Experiment.create(uri) as experiment:
        ms = experiment.add_new_collection("ms")
        rna = ms.add_new_collection("RNA", tiledbsoma.Measurement)
        for parent, name, rows in ((experiment, "obs", n_obs), (rna, "var", n_vars)):
            joinids = pa.table({"soma_joinid": pa.array(range(rows), pa.int64())})
            joinids = joinids.append_column("n", pa.array(range(rows), pa.int32()))
            table = parent.add_new_dataframe(name, schema=joinids.schema, domain=[(0, rows - 1)])
            table.write(joinids).close()
        rna.add_new_collection("X").close()


def values(draw: random.Random, rng: np.random.Generator, dtype: np.dtype, count: int) -> Any:
    kind = draw.choice(["counts", "counts", "wild"])
    if dtype.kind == "f" and kind == "wild":
        found = rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)
        found[rng.random(count) < 0.1] = np.nan
        return found.astype(dtype)
    if kind == "wild":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.integers(low, high, count, dtype=dtype, endpoint=True)
    found = rng.poisson(1, count) + 1
    rich = rng.random(count) < 0.01
    found[rich] = rng.integers(100, 127 if dtype.itemsize == 1 else 30_000, rich.sum())
    return found.astype(dtype)


def write_layer(seed: int, uri: str, n_obs: int, n_vars: int) -> tuple[np.dtype, bool, bool]:
    """A layer "raw"; returns its type, whether cells may repeat, and whether times were tied."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    dtype = np.dtype(draw.choice(TYPES))
    duplicates = draw.random() < 0.3
    cell_order = draw.choice(["row-major"] * 3 + ["col-major", "hilbert"])
    ends = [draw.choice([rows - 1, 3 * rows, 2**62]) for rows in (n_obs, n_vars)]
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            *(
                tiledb.Dim(
                    f"soma_dim_{i}", domain=(0, end), dtype=np.int64,
                    tile=min(draw.choice([1, 7, 16, 100, 2048]), end + 1),
                    filters=chain(draw, np.dtype(np.int64)),
                )
                for i, end in enumerate(ends)
            )
        ),
        attrs=[tiledb.Attr("soma_data", dtype=dtype, filters=chain(draw, dtype))],
        sparse=True,
        capacity=draw.choice([8, 64, 128, 1000, 65536]),
        cell_order=cell_order,
        tile_order="row-major" if cell_order == "hilbert" else draw.choice(["row-major", "col-major"]),
        allows_duplicates=duplicates,
    )  # fmt: skip
    layers = f"{uri}/ms/RNA/X"
    layer = f"{layers}/raw"
    tiledb.Array.create(layer, schema)
    with tiledb.open(layer, "w") as array:
        array.meta["soma_object_type"] = "SOMASparseNDArray"
        array.meta["soma_encoding_version"] = "1.1.0"
    with tiledb.Group(layers, "w") as group:
        if draw.random() < 0.5:
            group.add("raw", name="raw", relative=True)
        else:
            group.add(f"file://{layer}", name="raw", relative=False)
    tied = draw.random() < 0.3
    time = 10
    for _ in range(draw.choice([0, 1, 2, 5, 12])):
        begin = draw.choice([0, draw.randrange(n_obs)])
        end = draw.choice([n_obs, draw.randint(begin + 1, n_obs)])
        cells = rng.choice((end - begin) * n_vars, min((end - begin) * n_vars, 2000), replace=False)
        cells = cells[: draw.choice([1, 50, 2000])] + begin * n_vars
        if duplicates:
            cells = np.concatenate([cells, cells[: len(cells) // 4]])
        time += draw.choice([0, 1]) if tied else 1
        with tiledb.open(layer, "w", timestamp=time) as array:
            array[cells // n_vars, cells % n_vars] = values(draw, rng, dtype, len(cells))
        if draw.random() < 0.2:  # also of what was written at its own time
            time += draw.choice([0, 1])
            with tiledb.open(layer, "d", timestamp=time) as array:
                what = ["soma_data > 2", f"soma_dim_0 < {n_obs // 4}", "soma_dim_1 >= 40"]
                array.query(cond=" and ".join(draw.sample(what, draw.choice([1, 2])))).submit()
            time += 1
        if draw.random() < 0.2:
            tiledb.consolidate(layer)
            if draw.random() < 0.5:
                tiledb.vacuum(layer)
    for mode in ("commits", "fragment_meta"):
        if draw.random() < 0.3:
            tiledb.consolidate(layer, config=tiledb.Config({"sm.consolidation.mode": mode}))
            tiledb.vacuum(layer, config=tiledb.Config({"sm.vacuum.mode": mode}))
    return dtype, duplicates, tied


def stored_cells(layer: str, tied: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of all cells.

    Of two cells written at one time TileDB reads now one, now the other once they are consolidated
    (test_arrays.py): then what is compared with is the reader of arrays, which that file tests.
    """
    names = ["soma_dim_0", "soma_dim_1", "soma_data"]
    if tied:
        read = {column.name: column.values() for column in _core.read_array(layer, names)}
    else:
        with tiledb.open(layer) as array:
            read = array[:, :]
    return tuple(np.asarray(read[name]) for name in names)


def counted(rows: np.ndarray, columns: np.ndarray, found: np.ndarray) -> Counter:
    """Cells as a multiset, values by their bits."""
    bits = found.view(f"u{found.dtype.itemsize}")
    return Counter(zip(rows.tolist(), columns.tolist(), bits.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(24))
def test_any_layout(tmp_path: Path, seed: int) -> None:
    draw = random.Random(f"{seed} selections")
    n_obs, n_vars = draw.choice([17, 100, 300]), draw.choice([1, 40, 300])
    uri = str(tmp_path / "e")
    write_axes(uri, n_obs, n_vars)
    dtype, duplicates, tied = write_layer(seed, uri, n_obs, n_vars)
    rows, columns, found = stored_cells(f"{uri}/ms/RNA/X/raw", tied)
    experiment = ps.open(uri)
    for _ in range(4):
        cells = np.sort(draw.sample(range(n_obs), draw.randint(1, n_obs)))
        genes = np.sort(draw.sample(range(n_vars), draw.randint(1, n_vars)))
        ds = ps.Dataset(
            experiment,
            obs_query=ps.AxisQuery(coords=(cells.tolist(),)),
            var_query=ps.AxisQuery(coords=(genes.tolist(),)),
            sparse=True,
            dtype=dtype,
            shuffle=draw.choice([True, False, "chunks", "global"]),
            seed=draw.randint(0, 99),
            batch_size=draw.choice([1, 16, 128]),
            threads=draw.choice([1, 3]),
            memory_budget=draw.choice(["16MiB", "1GiB", "200GiB"]),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadAgainWarning)
            batches = list(ds)
        joinids = np.concatenate([obs["soma_joinid"] for _, obs in batches])
        assert sorted(joinids) == cells.tolist()
        assert [len(obs["soma_joinid"]) for _, obs in batches[:-1]] == [ds.batch_size] * (
            len(ds) - 1
        )
        X = sp.vstack([X for X, _ in batches], format="csr")
        chosen = np.isin(rows, cells) & np.isin(columns, genes)
        ours = np.repeat(joinids, np.diff(X.indptr)), genes[X.indices], X.data
        assert counted(*ours) == counted(rows[chosen], columns[chosen], found[chosen])
        if duplicates:
            continue
        whole = ds.with_settings(sparse=False, shuffle=False, batch_size=len(cells))
        want = np.zeros((len(cells), len(genes)), dtype)
        at = np.searchsorted(cells, rows[chosen]), np.searchsorted(genes, columns[chosen])
        want[at] = found[chosen]
        np.testing.assert_array_equal(next(iter(whole))[0], want)


@pytest.mark.parametrize("order", ["row-major", "col-major", "hilbert"])
def test_writes_of_one_time_do_not_change_with_consolidation(tmp_path: Path, order: str) -> None:
    uri = str(tmp_path / "e")
    write_axes(uri, 50, 40)
    layer = f"{uri}/ms/RNA/X/raw"
    with tiledbsoma.Collection.open(f"{uri}/ms/RNA/X", "w") as layers:
        layers.add_new_sparse_ndarray(
            "raw",
            type=pa.float32(),
            shape=(50, 40),
            platform_config={"tiledb": {"create": {"cell_order": order, "capacity": 64}}},
        ).close()
    rng = np.random.default_rng(0)
    for time in (10, 20, 20, 20, 30):
        cells = rng.choice(2000, 900, replace=False)
        with tiledb.open(layer, "w", timestamp=time) as array:
            array[cells // 40, cells % 40] = rng.random(900).astype(np.float32)

    def read() -> np.ndarray:
        return ps.Dataset(uri, shuffle=False).head(50)[0]

    before = read()
    for step in (tiledb.consolidate, tiledb.vacuum):
        step(layer)
        np.testing.assert_array_equal(read(), before)
        rows, columns, found = stored_cells(layer, tied=True)
        np.testing.assert_array_equal(before[rows, columns], found)
