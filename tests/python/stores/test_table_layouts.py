"""obs with random layouts: filters of columns, offsets and validity, orders, enumerations."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
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
from filter_oracle import FilterOracle  # noqa: E402
from soma_tables import write_experiment  # noqa: E402
from table_oracle import assert_reads_alike, random_table  # noqa: E402

SEEDS = seeds(36)
# TileDB 2.30 and later refuse to compress values whose second differences exceed 64 bits; those before
# let them wrap around.
WIDE = ("int64", "uint64")
REFUSES_WIDE_DOUBLE_DELTAS = int(tiledbsoma.__version__.split(".")[0]) >= 2
FOR_STRINGS = [tiledb.RleFilter, tiledb.DictionaryFilter]
TEXTS = ["int32 > 0 and null_int != 3", "string == 'x' or null_string == '0'", "category == 'category 0'",
         "uint8 < 100 or null_bool == True", "null_category != 'category 1'", "seconds < 500000000"]  # fmt: skip


def filters_of(draw: random.Random, kind: pa.DataType) -> list[type]:
    text = pa.types.is_large_string(kind) or pa.types.is_string(kind)
    if text and draw.random() < 0.5:
        return [draw.choice(FOR_STRINGS), *draw.choice([[], drawn_filters(draw, False, True)])]
    plain = pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    rising = (
        pa.types.is_integer(kind) or pa.types.is_dictionary(kind) or pa.types.is_timestamp(kind)
    )
    assert text or plain or rising or pa.types.is_large_binary(kind)
    return drawn_filters(draw, rising)


def options(seed: int, schema: pa.Schema) -> dict:
    """What a platform configuration says of the array: the names of filters, by column."""
    draw = random.Random(seed)
    chains = {field.name: filters_of(draw, field.type) for field in schema}
    for name in WIDE if REFUSES_WIDE_DOUBLE_DELTAS else ():
        chains[name] = [
            tiledb.DeltaFilter if each is tiledb.DoubleDeltaFilter else each
            for each in chains[name]
        ]
    if (
        draw.random() < 0.5
    ):  # before delta, double delta or RLE TileDB loses this filter's own lengths
        chains["soma_joinid"] = [tiledb.PositiveDeltaFilter, *drawn_filters(draw, False, True)]
    names = {name: [each.__name__ for each in chain] for name, chain in chains.items()}
    joinids = names.pop("soma_joinid")
    return {
        "capacity": draw.choice([7, 37, 64, 1000]),
        "cell_order": draw.choice(["row-major", "column-major", "hilbert"]),
        "tile_order": "row-major",
        "dims": {"soma_joinid": {"tile": draw.choice([1, 50, 2048]), "filters": joinids}},
        "attrs": {name: {"filters": chain} for name, chain in names.items()},
        "offsets_filters": [each.__name__ for each in drawn_filters(draw, True)],
        "validity_filters": [each.__name__ for each in drawn_filters(draw, False)],
    }


def test_the_seeds_draw_every_filter() -> None:
    drawn = defaultdict(set)
    schema = random_table(0, 1).schema
    for seed in SEEDS:
        made = options(seed, schema)
        for name, of in made["attrs"].items():
            drawn["strings" if "string" in name else "columns"].update(of["filters"])
        drawn["joinids"].update(made["dims"]["soma_joinid"]["filters"])
        for part in ("offsets_filters", "validity_filters"):
            drawn[part].update(made[part])
    plain = {each.__name__ for each in (*COMPRESSIONS, *REORDERINGS, *CHECKSUMS)}
    whole = plain | {each.__name__ for each in FOR_INTEGERS}
    assert drawn["columns"] == whole | {"DictionaryFilter"}
    assert drawn["strings"] == plain | {"DictionaryFilter"}
    assert drawn["joinids"] > plain - {"XORFilter"} | {"PositiveDeltaFilter", "DoubleDeltaFilter"}
    assert drawn["offsets_filters"] == whole
    assert drawn["validity_filters"] == plain


@pytest.fixture(scope="module")
def oracle() -> FilterOracle:
    asked = FilterOracle()
    yield asked
    asked.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_any_layout(tmp_path: Path, oracle: FilterOracle, seed: int) -> None:
    table = random_table(seed % 7, 300)
    config = {"tiledb": {"create": options(seed, table.schema)}}
    uri = write_experiment(tmp_path / "e", table, pieces=1 + seed % 3, platform_config=config)
    frame = assert_reads_alike(uri)
    assert frame["soma_joinid"].tolist() == list(range(300))
    obs = ps.open(uri).obs
    for text in TEXTS:
        assert obs.select(text).to_numpy().tolist() == oracle.rows(f"{uri}/obs", text)


def spread(
    random: np.random.Generator, categories: list, rows: int, codes: pa.DataType
) -> pa.Array:
    """Every category's code is of the type; the last one is in the first row, some rows are null."""
    drawn = random.integers(0, len(categories), rows)
    drawn[0] = len(categories) - 1
    return pa.array(drawn, codes, mask=random.random(rows) < 0.1 * (np.arange(rows) > 0))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("codes", "count"),
    [("int8", 127), ("uint8", 255), ("int16", 200), ("uint16", 65_535), ("int32", 70_000), ("int64", 300),
     ("uint32", 70_000), ("uint64", 5)],
)  # fmt: skip
def test_enumerations(
    tmp_path: Path, oracle: FilterOracle, codes: str, count: int, ordered: bool
) -> None:
    """Codes of every type, as many categories as their type has codes for, extended after a write."""
    random = np.random.default_rng(count)
    words = [f"word {i:05}" for i in random.permutation(count)]
    numbers = random.choice(10**9, count, replace=False).tolist()
    rows = 200
    code_type = pa.type_for_alias(codes)
    columns = {"soma_joinid": pa.array(range(rows), pa.int64())}
    for name, values, kind in (("w", words, pa.large_string()), ("n", numbers, pa.int64())):
        columns[name] = pa.DictionaryArray.from_arrays(
            spread(random, values, rows, code_type), pa.array(values, kind), ordered=ordered
        )
    table = pa.table(columns)
    uri = write_experiment(tmp_path / "e", table.slice(0, 150))
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "w") as written:
        written.tiledbsoma_resize_soma_joinid_shape(rows)
        written.extend_enumeration_values(
            {"w": pa.array(words, pa.large_string()), "n": pa.array(numbers, pa.int64())},
            deduplicate=True,
        )
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "w") as written:
        written.write(table.slice(150, 50))
    frame = assert_reads_alike(uri)
    assert frame["w"][0] == words[-1]
    assert sorted(frame["w"].cat.categories) == sorted(words)
    obs = ps.open(uri).obs
    some = table["w"].to_pylist()[150:155]
    texts = [f"w == {words[-1]!r}", f"n == {numbers[-1]}", f"n != {numbers[0]}",
             f"w in {[each for each in some if each is not None]!r}"]  # fmt: skip
    if ordered:
        texts += [f"w < {words[count // 2]!r}", f"w >= {words[-1]!r}"]
    for text in texts:
        theirs = oracle.rows(f"{uri}/obs", text)
        assert theirs is not None, text
        assert obs.select(text).to_numpy().tolist() == theirs, text


@pytest.mark.parametrize("order", ["row-major", "column-major", "hilbert"])
def test_string_dimensions(tmp_path: Path, oracle: FilterOracle, order: str) -> None:
    random = np.random.default_rng(1)
    rows = 250
    words = [f"{'ab' * (i % 3)}{i}" for i in random.permutation(rows)]
    table = pa.table({
        "soma_joinid": pa.array(random.permutation(rows)),
        "cell": pa.array(words, pa.large_string()),
        "batch": pa.array([f"b{i % 5}" for i in range(rows)], pa.large_string()),
        "taken": pa.array(random.integers(0, 10**12, rows)).cast(pa.timestamp("ms")),
    })  # fmt: skip
    create = {"capacity": 16, "cell_order": order, "tile_order": "row-major"}
    uri = write_experiment(
        tmp_path / "e", table, pieces=3, index_column_names=("batch", "cell"),
        domain=[None, None], platform_config={"tiledb": {"create": create}},
    )  # fmt: skip
    assert_reads_alike(uri)
    obs = ps.open(uri).obs
    for text in ("batch == 'b1'", "cell > 'ab' and batch in ['b0', 'b3']", "taken < 500000000000"):
        ours = obs.select(text).to_numpy().tolist()
        assert 0 < len(ours) < rows
        assert ours == oracle.rows(f"{uri}/obs", text), text


def test_members_elsewhere(tmp_path: Path) -> None:
    """Members whose absolute URIs lie outside the experiment's folder."""
    uri = write_experiment(tmp_path / "e", random_table(1, 10))
    for name, kind in (("obs", tiledbsoma.DataFrame), ("ms", tiledbsoma.Collection)):
        elsewhere = tmp_path / "elsewhere" / name
        elsewhere.parent.mkdir(exist_ok=True)
        (tmp_path / "e" / name).rename(elsewhere)
        with tiledb.Group(uri, "w") as group:
            group.remove(name)
        with tiledb.Group(uri, "w") as group:
            group.add(f"file://{elsewhere}", name=name, relative=False)
        kind.open(str(elsewhere)).close()
    ours = ps.open(uri)
    with tiledbsoma.open(uri) as theirs:
        assert len(ours.obs) == theirs.obs.count == 10
        assert ours.measurements == list(theirs.ms)
        assert len(ours.var("RNA")) == theirs.ms["RNA"].var.count
