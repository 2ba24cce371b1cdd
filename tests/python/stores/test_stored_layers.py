"""Layers by other writers or old versions, dense, in hundreds of fragments, or damaged."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import tiledb
import tiledbsoma
from conftest import STORED, Oracle, write_small_tiles
from numpy.typing import NDArray
from soma_tables import dictionary, tick, write_experiment
from tiledb_layers import create_layer, write_axes

N_OBS, N_VARS, PIECES = 600, 50, 300


@pytest.mark.parametrize("archive", STORED)
def test_every_layer_is_tiledbsoma_s(archive: str, unpacked: Callable[[str], Path]) -> None:
    path = unpacked(archive)
    seen = 0
    with tiledbsoma.open(str(path)) as theirs:
        ours = ps.open(path)
        for name in ours.measurements:
            for layer in ours.layers(name):
                X = theirs.ms[name].X[layer]
                expected = X.read().coos(shape=X.shape).concat().to_scipy().tocsr()
                ds = ps.Dataset(
                    ours, measurement=name, layer=layer, dtype="float64", sparse=True,
                    batch_size=100, shuffle=False,
                )  # fmt: skip
                cells = 0
                for x, obs in ds:
                    rows = expected[obs["soma_joinid"]].astype(np.float64)
                    assert (x != rows).nnz == 0
                    cells += x.shape[0]
                assert cells == ds.n_obs > 0
                seen += expected.nnz
    assert seen > 0


@pytest.fixture(scope="module")
def counts() -> NDArray[np.float32]:
    return np.random.default_rng(0).poisson(0.5, (N_OBS, N_VARS)).astype(np.float32)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, counts: NDArray[np.float32]) -> str:
    """obs and X in 300 fragments each, and the same counts as a dense array."""
    obs = pa.table({
        "soma_joinid": pa.array(range(N_OBS)),
        "text": pa.array([f"c{i % 7}" for i in range(N_OBS)], pa.large_string()),
        "kind": dictionary([f"k{i % 3}" for i in range(N_OBS)], ["k0", "k1", "k2"], pa.large_string(),
                           False),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("many") / "experiment"
    uri = write_experiment(path, obs, pieces=PIECES, genes=[f"g{i}" for i in range(N_VARS)])
    with tiledbsoma.open(uri, "w") as experiment:
        layers = experiment.ms["RNA"].add_new_collection("X")
        dense = layers.add_new_dense_ndarray("dense", type=pa.float32(), shape=counts.shape)
        everything = (slice(0, N_OBS - 1), slice(0, N_VARS - 1))
        dense.write(everything, pa.Tensor.from_numpy(counts))
        layers.add_new_sparse_ndarray("raw", type=pa.float32(), shape=counts.shape).close()
    step = N_OBS // PIECES
    for begin in range(0, N_OBS, step):
        rows, genes = np.nonzero(counts[begin : begin + step])
        with tiledb.open(f"{uri}/ms/RNA/X/raw", "w") as array:
            array[rows + begin, genes] = counts[rows + begin, genes]
    return uri


def test_hundreds_of_fragments(many: str) -> None:
    for array in ("obs", "ms/RNA/X/raw"):
        assert len(list(Path(many, array, "__fragments").iterdir())) == PIECES
    frame = ps.open(many).obs.to_pandas()
    assert frame["text"].tolist() == [f"c{i % 7}" for i in range(N_OBS)]
    assert frame["kind"].tolist() == [f"k{i % 3}" for i in range(N_OBS)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("layer", ["raw", "dense"])
def test_shuffled_from_hundreds_and_from_dense(
    layer: str, sparse: bool, many: str, counts: NDArray[np.float32]
) -> None:
    came: list[int] = []
    for x, obs in ps.Dataset(many, layer=layer, sparse=sparse, batch_size=64):
        joinids = np.asarray(obs["soma_joinid"])
        np.testing.assert_array_equal(x.toarray() if sparse else x, counts[joinids])
        came += joinids.tolist()
    assert sorted(came) == list(range(N_OBS)) != came


@pytest.mark.filterwarnings("ignore::penstock.NoGenesWarning")
@pytest.mark.parametrize("sparse", [False, True])
def test_no_genes_are_batches_without_columns(many: str, sparse: bool) -> None:
    ds = ps.Dataset(
        many, var_query=ps.AxisQuery(coords=([],)), batch_size=64, sparse=sparse, drop_last=True
    )
    shapes = [x.shape for x, _ in ds]
    assert shapes == [(64, 0)] * (N_OBS // 64)
    assert (len(ds), ds.n_vars) == (N_OBS // 64, 0)


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_a_filter_that_keeps_nothing_with_workers(many: str) -> None:
    pytest.importorskip("torch")
    ds = ps.Dataset(many, obs_query="text == 'none of them'", batch_size=64)
    loader = ps.dataloader(ds, num_workers=2)
    assert (len(ds), len(loader)) == (0, 0)
    assert list(loader) == []


def test_batches_are_the_engine_s_own_memory(many: str) -> None:
    """A copy of a batch would own its memory; what the engine filled does not."""
    x, _ = next(iter(ps.Dataset(many, sparse=True, batch_size=64)))
    assert not any(each.flags.owndata for each in (x.data, x.indices, x.indptr))
    dense, _ = next(iter(ps.Dataset(many, batch_size=64)))
    assert not dense.flags.owndata


def test_files_of_obs_that_end_early_are_errors(soma_small: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "experiment"
    shutil.copytree(soma_small.path, path)
    files = sorted((path / "obs" / "__fragments").rglob("*.tdb"))
    assert len(files) > 5
    for file in files:
        stored = file.read_bytes()
        for kept in {0, len(stored) // 2, len(stored) - 1} - {len(stored)}:
            file.write_bytes(stored[:kept])
            with pytest.raises(ps.PenstockError, match="obs"):
                ps.open(path).obs.to_pandas()
        file.write_bytes(stored)
    assert len(ps.open(path).obs.to_pandas()) == len(soma_small.obs)


@pytest.mark.parametrize("capacity", [16, 128])
def test_coordinates_beyond_the_tile_are_errors(tmp_path: Path, capacity: int) -> None:
    """Unfiltered coordinates of which a high bit is flipped."""
    genes = [f"g{i}" for i in range(100)]
    obs = pa.table({"soma_joinid": pa.array(range(100))})
    uri = write_experiment(tmp_path / "e", obs, genes=genes)
    with tiledbsoma.open(uri, "w") as experiment:
        layers = experiment.ms["RNA"].add_new_collection("X")
        layers.add_new_sparse_ndarray("raw", type=pa.float32(), shape=(100, 100)).close()
    layer = f"{uri}/ms/RNA/X/raw"
    with tiledb.open(layer) as array:
        meta = dict(array.meta)
    tiledb.remove(layer)
    dims = [
        tiledb.Dim(f"soma_dim_{i}", domain=(0, 99), tile=100, dtype=np.int64, filters=tiledb.FilterList())
        for i in (0, 1)
    ]  # fmt: skip
    attr = tiledb.Attr("soma_data", dtype=np.float32)
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(*dims), attrs=[attr], sparse=True, capacity=capacity,
        coords_filters=tiledb.FilterList(),
    )  # fmt: skip
    tiledb.Array.create(layer, schema)
    cells = np.arange(256)
    with tiledb.open(layer, "w") as array:
        array.meta.update(meta)
        array[cells // 8, cells % 8 * 3] = np.ones(len(cells), np.float32)

    def read() -> int:
        return sum(x.nnz for x, _ in ps.Dataset(ps.open(uri), sparse=True))

    assert read() == len(cells)
    flipped = 0
    for name in ("d0.tdb", "d1.tdb"):
        (file,) = Path(layer, "__fragments").rglob(name)
        stored = file.read_bytes()
        for number in range(0, len(cells), 5):
            at = stored.index(_tile(cells, name, number, capacity)) + number % capacity * 8
            damaged = bytearray(stored)
            damaged[at + 1 + number % 7] ^= 0x80
            file.write_bytes(damaged)
            with pytest.raises(ps.CorruptData, match="raw"):
                read()
            flipped += 1
        file.write_bytes(stored)
    assert flipped > 100
    assert read() == len(cells)


def _tile(cells: NDArray[np.int64], name: str, number: int, capacity: int) -> bytes:
    """The coordinates of the tile in which a cell lies, as they are stored."""
    mine = cells[number // capacity * capacity :][:capacity]
    values = mine // 8 if name == "d0.tdb" else mine % 8 * 3
    return values.astype("<i8").tobytes()


def test_a_code_without_its_category_says_where(tmp_path: Path) -> None:
    """A write of a code that the enumeration has not got yet, as tiledbsoma 1.x does, whose extension is later."""
    categories = ["a", "b", "c"]
    first = dictionary(["a", "b"] * 2, categories[:2], pa.large_string(), False)
    uri = write_experiment(
        tmp_path / "e", pa.table({"soma_joinid": pa.array(range(4)), "k": first})
    )
    time = tick()
    with tiledb.open(f"{uri}/obs", "w", timestamp=time) as obs:  # tiledbsoma 2.x dates both alike
        obs[np.arange(2)] = {"k": np.full(2, 2, np.int8)}
    evolution = tiledb.ArraySchemaEvolution(tiledb.Ctx())
    with tiledb.open(f"{uri}/obs") as obs:
        evolution.extend_enumeration(
            obs.enum(obs.schema.attr("k").enum_label).extend(categories[2:])
        )
    evolution.array_evolve(f"{uri}/obs")
    with pytest.raises(ps.CorruptData, match=r"column 'k'.*/obs") as caught:
        ps.open(uri, timestamp=time).obs.to_pandas()
    assert "categories" in str(caught.value)
    assert ps.open(uri).obs.to_pandas()["k"].tolist() == ["c", "c", "a", "b"]


def test_only_the_columns_that_are_needed_are_read(soma_small: Oracle, tmp_path: Path) -> None:
    """All other columns' files are empty, which would be errors."""
    path = tmp_path / "experiment"
    shutil.copytree(soma_small.path, path)
    with tiledb.open(str(path / "obs")) as array:
        schema = array.schema
    names = [schema.attr(i).name for i in range(schema.nattr)]
    wanted = next(name for name in names if schema.attr(name).enum_label is not None)
    other = next(name for name in names if schema.attr(name).dtype.kind == "f")
    kept = {f"a{names.index(wanted)}", f"a{names.index(other)}", "d0", "__fragment_metadata"}
    emptied = 0
    for file in (path / "obs" / "__fragments").rglob("*.tdb"):
        if file.name.split(".")[0].removesuffix("_var").removesuffix("_validity") not in kept:
            file.write_bytes(b"")
            emptied += 1
    assert emptied > 3
    obs = ps.open(path).obs
    values = soma_small.obs[wanted].astype(str)
    assert obs.to_pandas(columns=[wanted])[wanted].astype(str).tolist() == values.tolist()
    some = obs.to_pandas(columns=["soma_joinid"], value_filter=f"{wanted} == '{values[0]}'")
    assert len(some) == int((values == values[0]).sum())
    above = soma_small.obs[other].median()
    ds = ps.Dataset(path, obs_query=f"{other} > {above}", obs_columns=[wanted])
    assert ds.n_obs == int((soma_small.obs[other] > above).sum()) > 0
    assert sum(len(batch[wanted]) for _, batch in ds) == ds.n_obs
    with pytest.raises(ps.PenstockError):
        obs.to_pandas()


def test_the_next_units_are_fetched_while_the_consumer_works(tmp_path: Path) -> None:
    """Nobody asks for another batch, yet the units after the first one's come; waiting is counted."""
    write_small_tiles(tmp_path / "experiment", 4_000, 50)
    ds = ps.Dataset(tmp_path / "experiment", batch_size=8, shuffle=False, threads=1)
    assert ds.plan().planned_units == 8
    batches = iter(ds)
    next(batches)
    begin = time.monotonic()
    while ds.stats.units < 2 and time.monotonic() - begin < 60:
        time.sleep(0.01)
    assert ds.stats.units >= 2
    assert sum(1 for _ in batches) == len(ds) - 1
    assert 0 < ds.stats.consumer_wait_seconds < 60


@pytest.mark.parametrize(
    "compression", [tiledb.ZstdFilter, tiledb.LZ4Filter, tiledb.GzipFilter, tiledb.Bzip2Filter]
)
def test_double_deltas_of_compressed_bytes(tmp_path: Path, compression: type) -> None:
    """Bytes that are no whole number of values. TileDB loses the rest of some, and reads others whole."""
    rng = np.random.default_rng(list(compression.__name__.encode()))
    read = 0
    for trial, kind in enumerate(["int32", "uint32", "uint16"] * 4):
        values = rng.integers(1, np.iinfo(kind).max, 300, dtype=kind)
        joinids, genes = np.divmod(np.sort(rng.choice(10_000, 300, replace=False)), 100)
        uri = str(tmp_path / str(trial))
        chain = [compression(), tiledb.DoubleDeltaFilter()]
        if not write_cells(uri, joinids, genes, values, tiledb.FilterList(chain, chunksize=1000)):
            continue
        read += 1
        (X,) = [X for X, _ in ps.Dataset(uri, shuffle=False, batch_size=100, dtype=kind)]
        np.testing.assert_array_equal(X[joinids, genes], values)
    assert read >= 2


def write_cells(
    uri: str, joinids: NDArray, genes: NDArray, values: NDArray, filters: tiledb.FilterList
) -> bool:
    """An experiment of 100 cells and genes; whether tiledb writes the cells and reads them as they are."""
    write_axes(uri, 100, 100)
    dimensions = [
        tiledb.Dim(f"soma_dim_{i}", domain=(0, 99), tile=50, dtype=np.int64) for i in range(2)
    ]
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(*dimensions),
        attrs=[tiledb.Attr("soma_data", dtype=values.dtype, filters=filters)],
        sparse=True,
    )
    layer = create_layer(random.Random(0), uri, schema, "SOMASparseNDArray")
    try:
        with tiledb.open(layer, "w") as array:
            array[joinids, genes] = values
        with tiledb.open(layer) as array:
            cells = array[:]
    except tiledb.TileDBError:
        return False
    at = np.searchsorted(joinids * 100 + genes, cells["soma_dim_0"] * 100 + cells["soma_dim_1"])
    return bool((values[at] == cells["soma_data"]).all())
