"""Properties of the epoch plan, for shapes that hypothesis finds and shrinks."""

from __future__ import annotations

import penstock as ps
import pytest
from conftest import write_small_tiles
from hypothesis import given
from hypothesis import strategies as st
from penstock.plan.shard import Shard

N_CELLS = 900


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    """900 cells in 56 fetch units of some 16 rows."""
    path = tmp_path_factory.mktemp("tiles") / "experiment"
    return write_small_tiles(path, N_CELLS, 500, per_cell=250)


def batches(dataset: ps.Dataset, shard: Shard, epoch: int = 0) -> list[list[int]]:
    """Joinids of each batch that a worker of a rank gets."""
    loader = dataset.reader.planner.loader(shard, epoch)
    got = []
    while (batch := loader.next()) is not None:
        got.append(batch.joinids().tolist())
    assert len(got) == loader.size()
    return got


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
@given(data=st.data())
def test_every_shape(tiled, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, N_CELLS - 1), "begin")
    count = data.draw(st.integers(0, min(400, N_CELLS - begin)), "count")
    cells = range(begin, begin + count)
    world = data.draw(st.integers(1, 5), "world")
    workers = data.draw(st.integers(1, 4), "workers")
    size = data.draw(st.integers(1, 3) | st.integers(1, 90), "batch size")
    least = data.draw(st.integers(1, min(3, size)), "min_batch")
    uneven = data.draw(st.sampled_from(["drop", "pad", "exact"]), "uneven")
    drop_last = data.draw(st.booleans(), "drop_last")
    dataset = ps.Dataset(
        tiled,
        obs_query=ps.AxisQuery(coords=([*cells],)),
        batch_size=size,
        min_batch=1 if uneven == "exact" else least,
        uneven=uneven,
        drop_last=drop_last,
        shuffle=data.draw(st.booleans(), "shuffle"),
        seed=data.draw(st.integers(0, 2**64 - 1), "seed"),
        sparse=True,
        threads=2,
    )
    ranks = [
        [batches(dataset, Shard(rank, world, worker, workers)) for worker in range(workers)]
        for rank in range(world)
    ]
    counts = [sum(len(worker) for worker in rank) for rank in ranks]
    assert len(set(counts)) == 1, "every rank has as many batches"
    lanes = {
        dataset.reader.planner.loader(Shard(rank, world, 0, workers), 0).active_workers()
        for rank in range(world)
    }
    assert len(lanes) == 1, "as many workers of each rank have batches"
    (lane_count,) = lanes
    assert 1 <= lane_count <= workers
    for rank in ranks:  # a DataLoader takes from workers in turns until the first has no more
        lengths = [len(worker) for worker in rank[:lane_count]]
        assert max(lengths) - min(lengths) <= 1
        assert lengths == sorted(lengths, reverse=True)
        assert rank[lane_count:] == [[]] * (workers - lane_count)
    flat = [batch for rank in ranks for worker in rank for batch in worker]
    read = sorted(joinid for batch in flat for joinid in batch)
    sizes = {len(batch) for batch in flat}
    assert set(read) <= set(cells)
    if uneven == "exact":
        assert read == list(cells)
        assert not sizes or max(sizes) - min(sizes) <= 1
        assert count < world or 0 not in sizes
        assert not sizes or max(sizes) <= (max(size, 2) if count > world else size)
        return
    assert all(least <= each < size + least for each in sizes)
    if uneven == "drop":
        assert len(set(read)) == len(read)
    quota = -(-count // world) if uneven == "pad" else count // world
    if not drop_last and quota >= least:
        assert len(read) == quota * world
        if uneven == "pad":
            assert set(read) == set(cells)
    if drop_last:
        assert sizes <= {size}
