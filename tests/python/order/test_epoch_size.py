"""Empty epochs cause a warning or an error, and every reader of an epoch has its length."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import penstock as ps
import pytest
from conftest import Oracle, cache_in, collect, write_small_tiles
from hypothesis import given
from hypothesis import strategies as st
from penstock.plan.shard import Shard


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 300, 60)


def dataset(path: Path, cells: int, **arguments: Any) -> ps.Dataset:
    query = ps.AxisQuery(coords=(list(range(cells)),))
    return ps.Dataset(path, obs_query=query, sparse=True, **arguments)


@pytest.mark.parametrize(
    ("cells", "arguments", "message"),
    [
        (
            200,
            {"batch_size": 250, "min_batch": 220},
            "there are 200 cells, fewer than min_batch=220; use min_batch=200 or less",
        ),
        (
            8,
            {"min_batch": 2, "rank": 0, "world_size": 8},
            "a rank has 1 of 8 cells, fewer than min_batch=2; use min_batch=1 or less, or fewer ranks",
        ),
        (
            200,
            {"batch_size": 250, "drop_last": True},
            "fewer than batch_size=250, .* use a smaller batch_size or drop_last=False",
        ),
        (3, {"rank": 1, "world_size": 4}, '3 cells are too few for 4 ranks.*uneven="pad"'),
    ],
)
def test_an_epoch_without_a_batch_is_an_error(
    tiled: Path, cells: int, arguments: Any, message: str
) -> None:
    ds = dataset(tiled, cells, **arguments)
    for read in (iter, len, lambda ds: list(ps.dataloader(ds, num_workers=1)), ps.Dataset.plan):
        with pytest.raises(ps.InvalidArgument, match=message):
            read(ds)
    assert "batches" in repr(ds)


@given(data=st.data())
def test_it_is_an_error_where_the_engine_plans_no_batch(tiled: Path, data: st.DataObject) -> None:
    cells = data.draw(st.integers(1, 40), "cells")
    world = data.draw(st.integers(1, 8), "world")
    size = data.draw(st.integers(1, 40), "batch size")
    ds = dataset(
        tiled,
        cells,
        batch_size=size,
        min_batch=data.draw(st.integers(1, size), "min_batch"),
        uneven=data.draw(st.sampled_from(["drop", "pad"]), "uneven"),
        drop_last=data.draw(st.booleans(), "drop_last"),
    )
    ranks = [ds.reader.planner.loader(Shard(r, world), 0).size() for r in range(world)]
    assert len(set(ranks)) == 1
    told = []
    for rank in range(world):
        try:
            told.append(len(ds.with_settings(rank=rank, world_size=world)))
        except ps.InvalidArgument:
            told.append(0)
    assert told == ranks


@pytest.mark.parametrize("query", ["soma_joinid < 0", ps.AxisQuery(coords=([],))])
def test_no_cell_selected_is_a_warning(soma_small: Oracle, query: Any) -> None:
    with pytest.warns(ps.NoCellsWarning, match=r"obs_query .* keeps none of 300, in ") as record:
        ds = ps.Dataset(soma_small.path, obs_query=query)
    assert record[0].filename == __file__
    assert (len(ds), list(ds)) == (0, [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.Dataset(soma_small.path, obs_query="soma_joinid < 1")


def test_an_axis_query_that_selects_nothing_is_a_warning(soma_small: Oracle) -> None:
    import tiledbsoma

    with tiledbsoma.open(str(soma_small.path)) as experiment:
        query = experiment.axis_query("RNA", obs_query=tiledbsoma.AxisQuery(coords=([],)))
        with pytest.warns(ps.NoCellsWarning, match="the source selects none"):
            ps.Dataset(query)


def test_no_gene_selected_is_a_warning(soma_small: Oracle) -> None:
    with pytest.warns(
        ps.NoGenesWarning, match=r"var_query 'soma_.*' \(str\) keeps none of 400, in "
    ):
        ds = ps.Dataset(soma_small.path, var_query="soma_joinid < 0", batch_size=300)
    assert [(X.shape, len(obs["soma_joinid"])) for X, obs in ds] == [((300, 0), 300)]
    with pytest.warns(ps.NoGenesWarning, match="the transforms keep none of 400") as record:
        ds = ps.Dataset(soma_small.path, transforms=[ps.SelectGenes([])])
    assert record[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.with_settings(batch_size=8)  # of the same genes
        whole = ps.Dataset(soma_small.path, var_query="soma_joinid < 1")
    with pytest.warns(ps.NoGenesWarning, match="the transforms keep none of 1"):
        whole.with_settings(transforms=[ps.SelectGenes([])])


@pytest.mark.parametrize(
    "arguments", [{"uneven": "exact"}, {"min_batch": 2}, {"rank": 0, "world_size": 2}]
)
def test_a_full_cache_needs_no_memory_for_units_to_tell_the_length(
    census_like: Oracle, tmp_path: Path, arguments: Any
) -> None:
    given = {**cache_in(tmp_path / "cache"), "sparse": True, "compare_ranks": False}
    for _ in ps.Dataset(census_like.path, **given):
        pass
    ds = ps.Dataset(census_like.path, memory_budget="20MiB", **given, **arguments)
    with pytest.raises(ps.ResourceExhausted):  # too little for units
        iter(ds.with_settings(shuffle="scatter"))
    if "rank" in arguments:  # alone it cannot know whether the other's cache is full
        assert len(ds) == 24
        return
    length = len(ds)
    assert f"batches  {length} of" in repr(ds)
    assert len(ps.dataloader(ds)) == length
    assert sum(1 for _ in ds) == length
    assert ds.shuffle == "global"
    assert len(collect(ds)[0]) == 6000


def test_counts_of_workers_where_memory_is_too_little_for_units(
    census_like: Oracle, tmp_path: Path
) -> None:
    given = {**cache_in(tmp_path / "cache"), "sparse": True}
    for _ in ps.Dataset(census_like.path, **given):
        pass
    ds = ps.Dataset(census_like.path, memory_budget="20MiB", **given)
    assert sum(1 for _ in ps.dataloader(ds, num_workers=1)) == len(ds)
    assert ds.shuffle == "global"
    assert ds.stats.cells == 6000
