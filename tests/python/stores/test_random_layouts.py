"""X with random layouts (order, tiles, filters, fragments, deletes), against tiledb."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp
from amounts import seeds

tiledb = pytest.importorskip("tiledb")
tiledbsoma = pytest.importorskip("tiledbsoma")
from filter_chains import (  # noqa: E402
    CHECKSUMS,
    COMPRESSIONS,
    FOR_INTEGERS,
    REORDERINGS,
    drawn_filters,
)  # fmt: skip
from penstock import _core  # noqa: E402
from penstock.plan.shuffle_cost import ReadAgainWarning  # noqa: E402
from tiledb_layers import create_layer, write_axes  # noqa: E402

TYPES = ["float32"] * 3 + [
    "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
]  # fmt: skip


def chain(draw: random.Random, dtype: np.dtype, first: Any = None) -> Any:
    """A chain of filters, after a first one where there is one."""
    integers = dtype.kind in "iu" or isinstance(first, tiledb.FloatScaleFilter)
    filters = drawn_filters(draw, integers, first is not None)
    made = [first] * (first is not None) + [each() for each in filters]
    return tiledb.FilterList(made, chunksize=draw.choice([65536, 1000]))


def scale(draw: random.Random) -> Any:
    """Floats stored as integers: counts up to 30,000 fit, and are not read as they were written."""
    factor, offset = draw.choice([1.0, 0.3, 7.5]), draw.choice([0.0, -3.25])
    return tiledb.FloatScaleFilter(factor, offset, draw.choice([4, 8]))


def values(
    draw: random.Random, rng: np.random.Generator, dtype: np.dtype, count: int, kinds: list[str]
) -> Any:
    kind = draw.choice(kinds)
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


class Schema(NamedTuple):
    """A schema that was drawn."""

    array: Any
    kinds: list[str]  # of values that it can hold
    exact: bool  # values are read as they were written


def kinds_of(attribute: Any, scaled: Any) -> list[str]:
    """Kinds of values that an attribute can hold. TileDB writes no double delta beyond 64 bits."""
    doubled = any(isinstance(each, tiledb.DoubleDeltaFilter) for each in attribute.filters)
    wide = attribute.dtype.itemsize == 8
    return ["counts"] if scaled or (doubled and wide) else ["counts", "wild"]


class Layer(NamedTuple):
    """What a test needs to know of a layer that was written."""

    dtype: np.dtype
    duplicates: bool  # cells may repeat
    #: What was written where two writes of one time met: there TileDB reads now one, now the other.
    contested: dict[tuple[int, int], set[int]]
    last_time: int


def draw_schema(draw: random.Random, n_obs: int, n_vars: int) -> Schema:
    """A sparse array in any order, with any tiles and filters."""
    dtype = np.dtype(draw.choice(TYPES))
    scaled = scale(draw) if dtype.kind == "f" and draw.random() < 0.25 else None
    cell_order = draw.choice(["row-major"] * 3 + ["col-major", "hilbert"])
    tile_order = "row-major" if cell_order == "hilbert" else draw.choice(["row-major", "col-major"])
    ends = [draw.choice([rows - 1, 3 * rows, 2**62]) for rows in (n_obs, n_vars)]
    extents = [min(draw.choice([1, 7, 16, 100, 2048]), end + 1) for end in ends]
    # Positive delta takes what never falls: rows of cells in row-major order, one column of tiles.
    rising = cell_order == tile_order == "row-major" and extents[1] >= n_vars
    rise = tiledb.PositiveDeltaFilter() if rising and draw.random() < 0.5 else None
    dimension_filters = [chain(draw, np.dtype(np.int64), first) for first in (rise, None)]
    array = tiledb.ArraySchema(
        domain=tiledb.Domain(
            *(
                tiledb.Dim(
                    f"soma_dim_{i}", domain=(0, ends[i]), dtype=np.int64, tile=extents[i],
                    filters=dimension_filters[i],
                )
                for i in range(2)
            )
        ),
        attrs=[tiledb.Attr("soma_data", dtype=dtype, filters=chain(draw, dtype, scaled))],
        sparse=True,
        capacity=draw.choice([8, 64, 128, 1000, 65536]),
        cell_order=cell_order,
        tile_order=tile_order,
        allows_duplicates=draw.random() < 0.3,
    )  # fmt: skip
    kinds = ["counts", *kinds_of(array.attr("soma_data"), scaled)]
    return Schema(array, kinds, exact=scaled is None)


def consolidate(draw: random.Random, layer: str) -> None:
    """Fragments, with or without their cells' times, cells that were deleted kept or not."""
    config = {"sm.consolidation.purge_deleted_cells": draw.choice(["false", "true"])}
    tiledb.consolidate(layer, config=tiledb.Config(config))
    if draw.random() < 0.5:
        tiledb.vacuum(layer)


def consolidate_metadata(draw: random.Random, layer: str) -> None:
    for mode in ("commits", "fragment_meta"):
        if draw.random() < 0.3:
            tiledb.consolidate(layer, config=tiledb.Config({"sm.consolidation.mode": mode}))
            tiledb.vacuum(layer, config=tiledb.Config({"sm.vacuum.mode": mode}))


def write_layer(seed: int, uri: str, n_obs: int, n_vars: int) -> Layer:
    """A layer "raw", written at times from 10."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    schema = draw_schema(draw, n_obs, n_vars)
    duplicates, dtype = schema.array.allows_duplicates, schema.array.attr(0).dtype
    layer = create_layer(draw, uri, schema.array, "SOMASparseNDArray")
    tied = schema.exact and seed % 3 == 0
    time, written, contested = 10, {}, {}
    for _ in range(draw.choice([0, 1, 2, 5, 12])):
        begin = draw.choice([0, draw.randrange(n_obs)])
        end = draw.choice([n_obs, draw.randint(begin + 1, n_obs)])
        cells = rng.choice((end - begin) * n_vars, min((end - begin) * n_vars, 2000), replace=False)
        cells = cells[: draw.choice([1, 50, 2000])] + begin * n_vars
        if duplicates:
            cells = np.concatenate([cells, cells[: len(cells) // 4]])
        time += draw.choice([0, 1]) if tied else 1
        found = values(draw, rng, dtype, len(cells), schema.kinds)
        with tiledb.open(layer, "w", timestamp=time) as array:
            array[cells // n_vars, cells % n_vars] = found
        bits = found.view(f"u{dtype.itemsize}").tolist()
        for cell, value in zip(cells.tolist(), bits, strict=True):
            before = written.setdefault((time, cell), [])
            before.append(value)
            if len(before) > 1 and not duplicates:
                contested.setdefault((cell // n_vars, cell % n_vars), set()).update(before)
        if draw.random() < 0.2:  # also of what was written at its own time
            time += draw.choice([0, 1])
            with tiledb.open(layer, "d", timestamp=time) as array:
                what = ["soma_data > 2", f"soma_dim_0 < {n_obs // 4}", "soma_dim_1 >= 40"]
                array.query(cond=" and ".join(draw.sample(what, draw.choice([1, 2])))).submit()
            time += 1
        if draw.random() < 0.2:
            consolidate(draw, layer)
    consolidate_metadata(draw, layer)
    for place, possible in contested.items():  # of other times, too
        cell = place[0] * n_vars + place[1]
        possible.update(*(found for (_, at), found in written.items() if at == cell))
    return Layer(dtype, duplicates, contested, time)


Cells = tuple[np.ndarray, np.ndarray, np.ndarray]


def stored_cells(layer: str, timestamp: int | None = None) -> Cells:
    """Rows, columns and values of all cells, as of a time, as tiledb reads them."""
    with tiledb.open(layer, timestamp=timestamp) as array:
        read = array[:, :]
    return tuple(np.asarray(read[name]) for name in ["soma_dim_0", "soma_dim_1", "soma_data"])


def settled(
    cells: Cells, contested: dict[tuple[int, int], set[int]], *, check: bool = False
) -> Cells:
    """The cells that were not contested; what was read of the others must have been written."""
    rows, columns, found = cells
    if not contested:
        return cells
    bits = found.view(f"u{found.dtype.itemsize}").tolist()
    places = list(zip(rows.tolist(), columns.tolist(), strict=True))
    keep = np.array([place not in contested for place in places], bool)
    if check:
        for place, value in zip(places, bits, strict=True):
            assert place not in contested or value in contested[place]
    return rows[keep], columns[keep], found[keep]


def counted(rows: np.ndarray, columns: np.ndarray, found: np.ndarray) -> Counter:
    """Cells as a multiset, values by their bits."""
    bits = found.view(f"u{found.dtype.itemsize}")
    return Counter(zip(rows.tolist(), columns.tolist(), bits.tolist(), strict=True))


SEEDS = seeds(36)


def sizes(seed: int) -> tuple[random.Random, int, int]:
    """A source of selections, cells and genes."""
    draw = random.Random(f"{seed} selections")
    return draw, draw.choice([17, 100, 300]), draw.choice([1, 40, 300])


def test_the_seeds_draw_every_filter() -> None:
    drawn: set[str] = set()
    lengths = set()
    for seed in SEEDS:
        _, n_obs, n_vars = sizes(seed)
        schema = draw_schema(random.Random(seed), n_obs, n_vars).array
        for of in (schema.domain.dim(0), schema.domain.dim(1), schema.attr(0)):
            drawn.update(type(each).__name__ for each in of.filters)
            lengths.add(len(of.filters))
    every = [*COMPRESSIONS, *REORDERINGS, *FOR_INTEGERS, *CHECKSUMS]
    every += [tiledb.PositiveDeltaFilter, tiledb.FloatScaleFilter]
    assert drawn == {each.__name__ for each in every}
    assert lengths >= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("seed", SEEDS)
def test_any_layout(tmp_path: Path, seed: int) -> None:
    draw, n_obs, n_vars = sizes(seed)
    uri = str(tmp_path / "e")
    write_axes(uri, n_obs, n_vars)
    dtype, duplicates, contested, last_time = write_layer(seed, uri, n_obs, n_vars)
    for _ in range(6):
        timestamp = draw.choice([None, None, draw.randint(9, last_time + 1)])
        cells_stored = stored_cells(f"{uri}/ms/RNA/X/raw", timestamp)
        rows, columns, found = settled(cells_stored, contested)
        cells = np.sort(draw.sample(range(n_obs), draw.randint(1, n_obs)))
        genes = np.sort(draw.sample(range(n_vars), draw.randint(1, n_vars)))
        ds = ps.Dataset(
            ps.open(uri, timestamp=timestamp),
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
        ours = np.repeat(joinids, np.diff(X.indptr)), genes[X.indices], X.data
        chosen = np.isin(rows, cells) & np.isin(columns, genes)
        assert counted(*settled(ours, contested, check=True)) == counted(
            rows[chosen], columns[chosen], found[chosen]
        )
        if duplicates or contested:
            continue
        whole = ds.with_settings(sparse=False, shuffle=False, batch_size=len(cells))
        want = np.zeros((len(cells), len(genes)), dtype)
        at = np.searchsorted(cells, rows[chosen]), np.searchsorted(genes, columns[chosen])
        want[at] = found[chosen]
        np.testing.assert_array_equal(next(iter(whole))[0], want)


def test_the_seeds_write_twice_at_one_time(tmp_path: Path) -> None:
    met = 0
    for seed in (seed for seed in SEEDS if seed % 3 == 0):
        _, n_obs, n_vars = sizes(seed)
        uri = str(tmp_path / str(seed))
        write_axes(uri, n_obs, n_vars)
        met += bool(write_layer(seed, uri, n_obs, n_vars).contested)
    assert met >= 2


def write_block(layer: str, time: int, rows: slice, columns: slice, block: np.ndarray) -> None:
    """Write a block; nothing where TileDB's gzip gives up, on the metadata of about one fragment in a thousand."""
    try:
        with tiledb.open(layer, "w", timestamp=time) as array:
            array[rows, columns] = block
    except tiledb.TileDBError as error:
        if "Cannot compress with GZIP; output buffer too small" not in str(error):
            raise


def write_dense_layer(seed: int, uri: str, n_obs: int, n_vars: int) -> tuple[np.dtype, int]:
    """A dense layer "raw" of overlapping blocks; returns its type and the last time."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    dtype = np.dtype(draw.choice(TYPES))
    scaled = scale(draw) if dtype.kind == "f" and draw.random() < 0.25 else None
    orders = ["row-major", "col-major"]
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            *(
                tiledb.Dim(
                    f"soma_dim_{i}", domain=(0, rows - 1), dtype=np.int64,
                    tile=min(draw.choice([1, 7, 16, 100]), rows),
                )
                for i, rows in enumerate((n_obs, n_vars))
            )
        ),
        attrs=[
            tiledb.Attr(
                "soma_data", dtype=dtype, filters=chain(draw, dtype, scaled), fill=draw.choice([0, 0, 3])
            )
        ],
        cell_order=draw.choice(orders),
        tile_order=draw.choice(orders),
    )  # fmt: skip
    layer = create_layer(draw, uri, schema, "SOMADenseNDArray")
    kinds = kinds_of(schema.attr("soma_data"), scaled)
    time = 10
    for _ in range(draw.choice([0, 1, 3, 8])):
        time += 1
        (top, bottom), (left, right) = (
            (begin, draw.randint(begin + 1, rows))
            for rows in (n_obs, n_vars)
            for begin in [draw.choice([0, draw.randrange(rows)])]
        )
        block = values(draw, rng, dtype, (bottom - top) * (right - left), kinds)
        block = block.reshape(bottom - top, right - left)
        write_block(layer, time, slice(top, bottom), slice(left, right), block)
        if draw.random() < 0.2:
            consolidate(draw, layer)
    consolidate_metadata(draw, layer)
    return dtype, time


@pytest.mark.parametrize("seed", seeds(16))
def test_any_dense_layout(tmp_path: Path, seed: int) -> None:
    draw, n_obs, n_vars = sizes(seed)
    uri = str(tmp_path / "e")
    write_axes(uri, n_obs, n_vars)
    dtype, last_time = write_dense_layer(seed, uri, n_obs, n_vars)
    for _ in range(4):
        timestamp = draw.choice([None, None, draw.randint(9, last_time + 1)])
        with tiledb.open(f"{uri}/ms/RNA/X/raw", timestamp=timestamp) as array:
            stored = np.asarray(array[:, :]["soma_data"])
        cells = np.sort(draw.sample(range(n_obs), draw.randint(1, n_obs)))
        genes = np.sort(draw.sample(range(n_vars), draw.randint(1, n_vars)))
        ds = ps.Dataset(
            ps.open(uri, timestamp=timestamp),
            obs_query=ps.AxisQuery(coords=(cells.tolist(),)),
            var_query=ps.AxisQuery(coords=(genes.tolist(),)),
            dtype=dtype,
            shuffle=draw.choice([True, False]),
            seed=draw.randint(0, 99),
            batch_size=draw.choice([1, 16, 128]),
            threads=draw.choice([1, 3]),
        )
        batches = list(ds)
        joinids = np.concatenate([obs["soma_joinid"] for _, obs in batches])
        assert sorted(joinids) == cells.tolist()
        got = np.concatenate([X for X, _ in batches])
        np.testing.assert_array_equal(got, stored[np.ix_(joinids, genes)])


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
        names = ["soma_dim_0", "soma_dim_1", "soma_data"]
        read_as_table = {column.name: column.values() for column in _core.read_array(layer, names)}
        rows, columns, found = (read_as_table[name] for name in names)
        np.testing.assert_array_equal(before[rows, columns], found)
