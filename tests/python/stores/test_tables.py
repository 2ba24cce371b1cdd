"""obs and var as tables: generated DataFrames of many shapes, against tiledbsoma."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import penstock as ps
import pyarrow as pa
import pytest
from amounts import seeds

tiledbsoma = pytest.importorskip("tiledbsoma")
tiledb = pytest.importorskip("tiledb")
from conftest import DATA, STORED, Oracle  # noqa: E402
from soma_tables import dictionary, tick, write_experiment  # noqa: E402
from table_oracle import (  # noqa: E402
    assert_reads_alike,
    assert_same,
    delete_rows,
    random_table,
    write_rows,
)  # fmt: skip


@pytest.fixture(scope="module", params=STORED)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    archive = DATA / f"{request.param}.tar.gz"
    if not archive.exists():
        pytest.skip(f"no {archive.name}")
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(archive) as tar:
        # Debian 12's Python has no filters, a newer one wants one named.
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, **filters)
    return str(next(path.parent for path in sorted(folder.rglob("obs")) if path.is_dir()))


def test_stored_experiments(stored: str) -> None:
    assert_reads_alike(stored)
    experiment = ps.open(stored)
    with tiledbsoma.open(stored) as theirs:
        assert experiment.measurements == sorted(theirs.ms.keys())
        for name in experiment.measurements:
            assert experiment.layers(name) == sorted(theirs.ms[name].X.keys())
            assert_same(experiment.var(name).to_pandas(), theirs.ms[name].var.read().concat())
            for layer in experiment.layers(name):
                assert experiment.x(name, layer).shape == theirs.ms[name].X[layer].shape


@pytest.mark.parametrize("seed", seeds(6))
def test_every_type(tmp_path: Path, seed: int) -> None:
    rows = [0, 1, 7, 100, 1000, 2500][seed % 6]
    uri = write_experiment(tmp_path / "e", random_table(seed, rows), pieces=1 + seed % 6)
    assert_reads_alike(uri)


@pytest.mark.parametrize("filters", ["dictionary", "dictionary, zstd", "rle", "zstd"])
def test_strings_with_offsets_inside(tmp_path: Path, filters: str) -> None:
    """Strings as older releases stored them: codes in memory, strings to the user."""
    random = np.random.default_rng(1)
    words = np.array([f"word {i}" for i in range(40)] + ["e"], dtype=object)
    columns = {
        "ascii": words[random.integers(0, 41, 500)],
        "utf8": words[random.integers(0, 41, 500)],
        "unique": np.array([f"cell {i}" for i in range(500)], dtype=object),
    }
    uri = write_experiment(tmp_path / "e", random_table(1, 10))
    shutil.rmtree(f"{uri}/obs")
    made = {
        "dictionary": tiledb.DictionaryFilter,
        "rle": tiledb.RleFilter,
        "zstd": tiledb.ZstdFilter,
    }
    chain = tiledb.FilterList([made[name]() for name in filters.split(", ")])
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(
            tiledb.Dim("soma_joinid", domain=(0, 10**6), tile=100, dtype=np.int64)
        ),
        attrs=[
            tiledb.Attr(name, dtype="ascii" if name == "ascii" else "U0", var=True, filters=chain)
            for name in columns
        ],
        sparse=True,
        capacity=64,
    )
    tiledb.Array.create(f"{uri}/obs", schema)
    for begin in range(0, 500, 170):
        rows = np.arange(begin, min(begin + 170, 500))
        with tiledb.open(f"{uri}/obs", "w") as obs:
            obs[rows] = {name: values[rows] for name, values in columns.items()}
            obs.meta["soma_object_type"] = "SOMADataFrame"
            obs.meta["soma_encoding_version"] = "1"
    frame = assert_reads_alike(uri)
    for text, mask in [
        (
            "utf8 >= 'word 3' and ascii != 'word 7'",
            (frame.utf8 >= "word 3") & (frame.ascii != "word 7"),
        ),
        ("unique in ['cell 3', 'cell 499']", frame.unique.isin(["cell 3", "cell 499"])),
    ]:
        kept = ps.open(uri).obs.to_pandas(value_filter=text)
        for name in frame.columns:
            assert kept[name].tolist() == frame[name][mask].tolist()


@pytest.mark.parametrize(
    ("index", "domain"),
    [
        (("soma_joinid", "int64"), [(0, 10**4), (-(2**62), 2**62)]),
        (("ascii",), None),
        (("ascii", "soma_joinid"), [None, (0, 10**4)]),
        (("int32",), [(-(2**30), 2**30)]),
        (("int16", "uint8"), [(-1000, 1000), (0, 250)]),
        (("seconds",), [(np.datetime64(0, "s"), np.datetime64(10**6, "s"))]),
        (("float",), [(-100.0, 100.0)]),
    ],
)
def test_index_columns(tmp_path: Path, index: tuple[str, ...], domain: list | None) -> None:
    """soma_joinid as one index of several, or as a plain column; rows are in its order still."""
    table = random_table(3, 400)
    random = np.random.default_rng(5)
    columns = {
        "soma_joinid": pa.array(random.permutation(400) * 3),
        "ascii": pa.array([f"cell {i}" for i in random.permutation(400)], pa.large_string()),
        "int32": pa.array(random.permutation(400).astype(np.int32) - 200),
        "int16": pa.array(random.permutation(400).astype(np.int16) - np.int16(200)),
        "uint8": pa.array((random.permutation(400) % 250).astype(np.uint8)),
        "int64": pa.array(random.integers(-(2**61), 2**61, 400)),
        "seconds": pa.array(random.permutation(400)).cast(pa.timestamp("s")),
        "float": pa.array(random.permutation(400).astype(np.float32) / 7),
    }
    for name, column in columns.items():
        table = table.set_column(
            table.column_names.index(name), pa.field(name, column.type, nullable=False), column
        )
    names = ["soma_joinid", *index, "category", "null_int", "uint8", "string"]
    table = table.select(list(dict.fromkeys(names)))
    uri = write_experiment(tmp_path / "e", table, pieces=2, index_column_names=index, domain=domain)
    frame = assert_reads_alike(uri)
    assert frame["soma_joinid"].is_monotonic_increasing
    obs = ps.open(uri).obs
    assert {info.name for info in obs.schema if info.is_index} == set(index)
    kept = obs.to_pandas(value_filter="soma_joinid < 300 and uint8 > 100", columns=["uint8"])
    mask = (frame["soma_joinid"] < 300) & (frame["uint8"] > 100)
    assert kept["uint8"].tolist() == frame["uint8"][mask].tolist()
    rows = ps._core.RowSelection.from_unsorted(np.array([0, 9, 33, 600]))
    some = obs._core.read(["soma_joinid"], "", rows)
    assert some[0].values().tolist() == [0, 9, 33, 600]


@pytest.mark.parametrize("consolidate", ["no", "yes", "vacuumed", "twice"])
def test_rows_written_over_and_time_travel(tmp_path: Path, consolidate: str) -> None:
    """Overlapping fragments: the newest row wins, at every time, consolidated or not."""
    times = [tick()]
    uri = write_experiment(tmp_path / "e", random_table(1, 200), pieces=2)
    for seed in (11, 12, 13):
        times.append(tick())
        rows = np.sort(np.random.default_rng(seed).choice(200, 60, replace=False))
        newer = random_table(seed * 2 + 1, 200).drop_columns(["category", "null_category"])
        for name in ("category", "null_category"):
            newer = newer.append_column(
                random_table(1, 200).schema.field(name), random_table(1, 200)[name]
            )
        write_rows(uri, newer.select(random_table(1, 1).column_names).take(pa.array(rows)))
        if consolidate == "twice" and seed == 12:
            tiledb.consolidate(f"{uri}/obs")
    times.append(tick())
    if consolidate != "no":
        tiledb.consolidate(f"{uri}/obs")
    if consolidate == "vacuumed":
        tiledb.vacuum(f"{uri}/obs")
    assert_reads_alike(uri)
    for timestamp in times[1:]:
        assert_reads_alike(uri, timestamp)


@pytest.mark.parametrize("mode", ["fragment_meta", "commits"])
def test_consolidated_metadata(tmp_path: Path, mode: str) -> None:
    uri = write_experiment(tmp_path / "e", random_table(4, 300), pieces=7)
    config = tiledb.Config({"sm.consolidation.mode": mode, "sm.vacuum.mode": mode})
    tiledb.consolidate(f"{uri}/obs", config=config)
    tiledb.vacuum(f"{uri}/obs", config=config)
    assert_reads_alike(uri)


DELETES = [
    "int32 > 0",
    "null_int == 3",
    "string == 'x' or uint8 < 100",
    "soma_joinid < 20 and float > 0",
]


@pytest.mark.parametrize("delete", DELETES)
@pytest.mark.parametrize("after", ["nothing", "writes", "consolidation", "both"])
def test_deleted_rows(tmp_path: Path, delete: str, after: str) -> None:
    table = random_table(5, 200)
    uri = write_experiment(tmp_path / "e", table, pieces=3)
    array = f"{uri}/obs"
    before = assert_reads_alike(uri)
    times = [tick()]
    delete_rows(uri, delete)
    times.append(tick())
    if after in ("writes", "both"):
        write_rows(uri, table.slice(10, 50))
        times.append(tick())
    if after in ("consolidation", "both"):
        tiledb.consolidate(array)
    frame = assert_reads_alike(uri)
    assert len(frame) < len(before)
    delete_rows(uri, "int64 < 0")
    times.append(tick())
    write_rows(uri, table.slice(0, 30))
    times.append(tick())
    for timestamp in times:
        assert_reads_alike(uri, timestamp)
    assert_reads_alike(uri)
    if after == "both":
        tiledb.consolidate(array)
        tiledb.vacuum(array)
        assert_reads_alike(uri)


def test_evolved_schema(tmp_path: Path) -> None:
    """Columns added (filled where older fragments lack them), dropped, enumerations extended."""
    table = random_table(3, 100)
    uri = write_experiment(tmp_path / "e", table, pieces=2)
    array = f"{uri}/obs"
    before = tick()
    evolution = tiledb.ArraySchemaEvolution(tiledb.default_ctx())
    evolution.add_attribute(tiledb.Attr("added", dtype=np.int32, nullable=True))
    evolution.add_attribute(tiledb.Attr("plain", dtype=np.float64))
    evolution.add_attribute(tiledb.Attr("words", dtype="U0", var=True, nullable=True))
    evolution.drop_attribute("uint16")
    evolution.array_evolve(array)
    assert_reads_alike(uri)
    newer = table.slice(30, 20).drop_columns(["uint16"])
    newer = newer.append_column("added", pa.array([None, 5] * 10, pa.int32()))
    newer = newer.append_column("plain", pa.array(np.arange(20.0)))
    newer = newer.append_column("words", pa.array(["w", None] * 10, pa.large_string()))
    write_rows(uri, newer)
    assert_reads_alike(uri)
    assert_reads_alike(uri, before)
    with tiledbsoma.DataFrame.open(array) as theirs:
        ours = ps.open(uri).obs
        frame = ours.to_pandas()
        added, plain, words = frame["added"], frame["plain"], frame["words"]
        masks = {
            "added == 5": (added == 5).fillna(False),
            "plain > 3.0": plain > 3.0,
            # A row whose fragment lacks the column is in no comparison with it.
            "plain != 1.0": plain.notna() & (plain != 1.0),
            "words == 'w'": words == "w",
            "words != 'q' or int8 > 0": (words.notna() & (words != "q")) | (frame["int8"] > 0),
            "int8 > 0 or added == 5": (frame["int8"] > 0) | (added == 5).fillna(False),
        }
        for text, mask in masks.items():
            rows = frame["soma_joinid"][mask.to_numpy(bool)].tolist()
            assert ours.select(text).to_numpy().tolist() == rows != [], text
            # TileDB forgets what stood before an `or` where a fragment lacks the column after it.
            if " or " not in text:
                kept = theirs.read(value_filter=text, column_names=["soma_joinid"]).concat()
                assert sorted(kept["soma_joinid"].to_pylist()) == rows, text


def test_extended_enumeration(tmp_path: Path) -> None:
    table = random_table(2, 50).select(["soma_joinid", "category"])
    uri = write_experiment(tmp_path / "e", table.slice(0, 25))
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "w") as obs:
        obs.tiledbsoma_resize_soma_joinid_shape(50)
    more = dictionary(["new", "category 0"] * 12 + ["new"], ["new", "category 0"],
                      pa.large_string(), True)  # fmt: skip
    rest = pa.table({"soma_joinid": pa.array(np.arange(25, 50)), "category": more})
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "w") as obs:
        obs.write(rest)
    frame = assert_reads_alike(uri)
    assert frame["category"].tolist()[25:27] == ["new", "category 0"]
    assert ps.open(uri).obs.select("category == 'new'").to_numpy().tolist() == list(
        range(25, 50, 2)
    )


@pytest.mark.parametrize("nulls", [False, True])
def test_filters_before_an_enumeration_was_extended(tmp_path: Path, nulls: bool) -> None:
    """Consolidated fragments have cells of later times, too, with codes of later categories."""
    cells = pa.array(np.arange(40))
    first = ["a", None if nulls else "b"] * 20

    def part(values: list, categories: list, rows: slice) -> pa.Table:
        labels = dictionary(values, categories, pa.large_string(), False)
        field = pa.field("label", labels.type, nullable=nulls)
        return pa.table([cells, labels], schema=pa.schema([("soma_joinid", pa.int64()), field]))[
            rows
        ]

    uri = write_experiment(tmp_path / "e", part(first, ["a", "b"], slice(0, 40)))
    before = tick()
    with tiledbsoma.DataFrame.open(f"{uri}/obs", "w") as obs:
        obs.write(part(["c", "a"] * 20, ["a", "b", "c"], slice(10, 30)))
    after = tick()
    tiledb.consolidate(f"{uri}/obs")
    tiledb.vacuum(f"{uri}/obs")
    for timestamp in (before, after, None):
        frame = assert_reads_alike(uri, timestamp)
        for label in ("a", "b", "c"):
            rows = ps.open(uri, timestamp=timestamp).obs.select(f"label == '{label}'")
            assert rows.to_numpy().tolist() == np.flatnonzero(frame["label"] == label).tolist()


def test_what_is_not_there(tmp_path: Path) -> None:
    uri = write_experiment(tmp_path / "e", random_table(1, 10))
    experiment = ps.open(uri)
    with pytest.raises(ps.NotFound, match="RNA"):
        experiment.var("protein")
    with pytest.raises(ps.NotFound, match="no collection 'X' nor any other, in"):
        experiment.x("RNA", "raw")
    with pytest.raises(ps.NotFound, match="null_category"):
        experiment.obs.to_pandas(columns=["categry"])
    with pytest.raises(ps.InvalidArgument, match="SOMADataFrame"):
        ps.open(f"{uri}/obs")
    with pytest.raises(ps.InvalidArgument, match="SOMACollection"):
        ps.open(f"{uri}/ms")
    with pytest.raises(ps.NotFound):
        ps.open(f"{uri}/nothing")
    (tmp_path / "file.h5ad").write_bytes(b"\x89HDF")
    with pytest.raises(ps.InvalidArgument, match="file"):
        ps.open(tmp_path / "file.h5ad")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ps.InvalidArgument, match="the folder is empty"):
        ps.open(tmp_path / "folder")
    with pytest.raises(ps.Unsupported, match="ftp"):
        ps.open("ftp://host/e")
    assert ps.open(f"{uri}/").obs.shape == ps.open(f"file://{uri}").obs.shape


def test_absolute_members(tmp_path: Path) -> None:
    uri = write_experiment(tmp_path / "e", random_table(1, 10))
    with tiledb.Group(uri, "w") as group:
        group.remove("obs")
    with tiledb.Group(uri, "w") as group:
        group.add(f"file://{uri}/obs", name="obs", relative=False)
    assert len(ps.open(uri).obs) == 10


def test_no_columns(soma_small: Oracle) -> None:
    """None asked for, none read; the rows are counted still. (tiledbsoma reads all of them.)"""
    obs = ps.open(soma_small.path).obs
    assert obs.read([]) == {}
    for text in (None, "soma_joinid < 7"):
        frame = obs.to_pandas([], text)
        want = obs.to_pandas(value_filter=text)
        assert frame.shape == (len(want), 0)
        pd.testing.assert_index_equal(frame.index, want.index)
    with pytest.raises(ps.NotFound, match="nope"):
        obs.read([], "nope == 1")
    (_, batch) = next(iter(ps.Dataset(soma_small.path, obs_columns=[])))
    assert batch == {}


@pytest.mark.parametrize("large", [2**53 - 1, 2**53 + 1, -(2**60) - 1])
def test_large_integers_with_missing_ones_stay_what_they_are(tmp_path: Path, large: int) -> None:
    values = [large, None, 3]
    table = pa.table(
        {
            "soma_joinid": pa.array(range(3), pa.int64()),
            "identifier": pa.array(values, pa.int64()),
        }
    )
    uri = write_experiment(tmp_path / "e", table)
    obs = ps.open(uri).obs
    read = obs.read(["identifier"])["identifier"].to_numpy()
    assert read.dtype == (object if abs(large) > 2**53 else np.float64)
    assert [None if value is None or value != value else int(value) for value in read] == values
    for read in (obs.to_pandas()["identifier"],):
        assert [None if pd.isna(value) else int(value) for value in read] == values
    encoder = ps.LabelEncoder("identifier")
    encoder.fit({"identifier": obs.read(["identifier"])["identifier"].distinct()})
    assert sorted(encoder.classes_.tolist()) == sorted([large, 3])
