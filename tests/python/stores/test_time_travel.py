"""Experiments at a timestamp, with growth and consolidation; tiledbsoma is the oracle."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp

tiledb = pytest.importorskip("tiledb")
tiledbsoma = pytest.importorskip("tiledbsoma")


def _joinids(first: int, end: int) -> pa.Table:
    return pa.table({"soma_joinid": pa.array(range(first, end), pa.int64())})


def _cells(dense: np.ndarray) -> pa.SparseCOOTensor:
    return pa.SparseCOOTensor.from_scipy(sp.coo_matrix(dense))


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """10 x 5 at time 1, resized to 20 x 8 at time 2, written again at time 3."""
    path = str(tmp_path / "experiment")
    rng = np.random.default_rng(5)
    schema = pa.schema([("soma_joinid", pa.int64())])

    def at(timestamp: int) -> tiledbsoma.SOMATileDBContext:
        return tiledbsoma.SOMATileDBContext(timestamp=timestamp)

    with tiledbsoma.Experiment.create(path, context=at(1)) as experiment:
        obs = experiment.add_new_dataframe(
            "obs", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 9]]
        )
        obs.write(_joinids(0, 10))
        rna = experiment.add_new_collection("ms").add_new_collection("RNA", tiledbsoma.Measurement)
        var = rna.add_new_dataframe(
            "var", schema=schema, index_column_names=["soma_joinid"], domain=[[0, 4]]
        )
        var.write(_joinids(0, 5))
        layer = rna.add_new_collection("X").add_new_sparse_ndarray(
            "raw", type=pa.float32(), shape=(10, 5)
        )
        layer.write(_cells(rng.poisson(1.0, (10, 5)).astype(np.float32)))
    with tiledbsoma.open(path, "w", context=at(2)) as experiment:
        experiment.obs.change_domain([[0, 19]])
        experiment.ms["RNA"].var.change_domain([[0, 7]])
        experiment.ms["RNA"].X["raw"].resize((20, 8))
    with tiledbsoma.open(path, "w", context=at(3)) as experiment:
        experiment.obs.write(_joinids(10, 20))
        experiment.ms["RNA"].var.write(_joinids(5, 8))
        experiment.ms["RNA"].X["raw"].write(_cells(rng.poisson(1.0, (20, 8)).astype(np.float32)))
    return Path(path)


@pytest.mark.parametrize("timestamp", [1, 2, 3, 4, None])
@pytest.mark.parametrize("state", ["fragments", "consolidated", "vacuumed"])
def test_an_experiment_before_it_grew(grown: Path, timestamp: int | None, state: str) -> None:
    """Cells beyond the domain of that time, newer ones too, lie in the fragments that are read."""
    for uri in (grown / "obs", grown / "ms/RNA/var", grown / "ms/RNA/X/raw"):
        if state != "fragments":
            tiledb.consolidate(str(uri))
        if state == "vacuumed":
            tiledb.vacuum(str(uri))
    context = tiledbsoma.SOMATileDBContext(timestamp=timestamp)
    with tiledbsoma.open(str(grown), context=context) as experiment:
        layer = experiment.ms["RNA"].X["raw"]
        obs = experiment.obs.read().concat().to_pandas()
        var = experiment.ms["RNA"].var.read().concat().to_pandas()
        stored = layer.read().tables().concat().to_pandas()
    expected = np.zeros((len(obs), len(var)), np.float32)
    expected[stored["soma_dim_0"], stored["soma_dim_1"]] = stored["soma_data"]

    dataset = ps.Dataset(ps.open(grown, timestamp=timestamp), shuffle=False, batch_size=7)
    read = [(X, batch["soma_joinid"]) for X, batch in dataset]
    np.testing.assert_array_equal(np.concatenate([ids for _, ids in read]), obs["soma_joinid"])
    np.testing.assert_array_equal(np.concatenate([X for X, _ in read]), expected)


@pytest.mark.parametrize("timestamp", [1, 2, 3, 4, None])
@pytest.mark.parametrize("consolidated", [False, True])
def test_a_table_has_the_domain_of_its_time(
    tmp_path: Path, timestamp: int | None, consolidated: bool
) -> None:
    """Growing is stamped with the clock, so earlier times see the new cells but not their domain."""
    path = str(tmp_path / "experiment")

    def at(time: int | None) -> tiledbsoma.SOMATileDBContext:
        return tiledbsoma.SOMATileDBContext(timestamp=time)

    def rows(first: int, end: int) -> pa.Table:
        numbers = range(first, end)
        return pa.table(
            {
                "name": pa.array([f"{'abc'[i % 3]}{i % 7}" for i in numbers], pa.large_string()),
                "depth": pa.array([i / 2 for i in numbers], pa.float32()),
                "soma_joinid": pa.array(numbers, pa.int64()),
                "value": pa.array([i % 5 for i in numbers], pa.int16()),
            }
        )

    with tiledbsoma.Experiment.create(path, context=at(1)) as experiment:
        obs = experiment.add_new_dataframe(
            "obs",
            schema=rows(0, 0).schema,
            index_column_names=["name", "depth", "soma_joinid"],
            domain=[None, [0, 10], [0, 29]],
        )
        obs.write(rows(0, 15))
        experiment.add_new_collection("ms")
    with tiledbsoma.open(path, "w", context=at(2)) as experiment:
        experiment.obs.change_domain([None, [0, 40], [0, 99]])
    with tiledbsoma.open(path, "w", context=at(3)) as experiment:
        experiment.obs.write(rows(15, 70))
    if consolidated:
        tiledb.consolidate(f"{path}/obs")

    query = "value > 1 and soma_joinid >= 4"
    with tiledbsoma.open(path, context=at(timestamp)) as experiment:
        whole = experiment.obs.read().concat().to_pandas().sort_values("soma_joinid")
        some = experiment.obs.read(value_filter=query).concat().to_pandas()
    # tiledbsoma 1.x dates the change of the domain by the clock, 2.x by the context: at 3 it holds there.
    dated = int(tiledbsoma.__version__.split(".")[0]) >= 2
    assert len(whole) == (15 if timestamp in (1, 2) else 21 if timestamp and not dated else 70)

    read = ps.open(path, timestamp=timestamp)
    assert read.n_obs == len(whole)
    table = read.obs.to_pandas()
    for column in whole:
        np.testing.assert_array_equal(table[column], whole[column])
    found = read.obs.to_pandas(value_filter=query, columns=["soma_joinid"])["soma_joinid"]
    assert sorted(found) == sorted(some["soma_joinid"])


def test_a_datetime_is_cut_to_milliseconds() -> None:
    from penstock.experiment.experiment import _milliseconds

    time = datetime(2024, 1, 1, 0, 0, 0, 123_600, tzinfo=UTC)
    assert _milliseconds(time) == tiledbsoma.SOMATileDBContext(timestamp=time).timestamp_ms


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("uneven", ["drop", "pad", "exact"])
@pytest.mark.parametrize("cells", [1, 2, 63, 64, 65, 130])
def test_len_is_the_number_of_batches_of_one_process(
    pbmc3k: object, cells: int, uneven: str, drop_last: bool
) -> None:
    dataset = ps.Dataset(
        pbmc3k.path,  # type: ignore[attr-defined]
        obs_query=f"soma_joinid < {cells}",
        batch_size=64,
        sparse=True,
        uneven=uneven,
        drop_last=drop_last,
    )
    if drop_last and cells < 64 and uneven != "exact":  # which drops nothing
        for ask in (len, list):
            with pytest.raises(ps.InvalidArgument, match=r"the epoch has no batch: there (is|are)"):
                ask(dataset)
        return
    assert len(dataset) == sum(1 for _ in dataset)
