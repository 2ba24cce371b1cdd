"""shuffle="chunks": the Census's own scheme, with both its knobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle, write_small_tiles
from hypothesis import given
from hypothesis import strategies as st

ID = "soma_joinid"
N_CELLS = 3000


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 60)


def dataset(path: Path, **arguments: Any) -> ps.Dataset:
    return ps.Dataset(path, layer="raw", sparse=True, shuffle="chunks", **arguments)


def joinids(ds: ps.Dataset) -> list[int]:
    return [int(each) for _, obs in ds for each in obs[ID]]


@given(
    chunk_size=st.integers(1, 200),
    chunks_per_block=st.integers(1, 30),
    seed=st.integers(0, 2**32),
    least=st.integers(0, N_CELLS - 1),
)
def test_blocks_are_shuffled_chunks(
    stored: Path, chunk_size: int, chunks_per_block: int, seed: int, least: int
) -> None:
    ds = dataset(
        stored,
        chunk_size=chunk_size,
        chunks_per_block=chunks_per_block,
        seed=seed,
        obs_query=f"soma_joinid >= {least}",
        batch_size=100,
    )
    first, second = joinids(ds), joinids(ds)
    assert sorted(first) == list(range(least, N_CELLS))
    if len(first) > 3 * chunk_size:
        assert first != second
    size = chunk_size * chunks_per_block
    chunks = (np.array(first) - least) // chunk_size
    blocks = np.split(chunks, _block_ends(chunks, chunks_per_block))
    assert sum(len(np.unique(block)) for block in blocks) == len(np.unique(chunks))
    assert all(len(block) <= size for block in blocks)


def _block_ends(chunks: np.ndarray, chunks_per_block: int) -> list[int]:
    """Where a new set of `chunks_per_block` chunks begins."""
    ends, seen = [], set()
    for i, chunk in enumerate(chunks.tolist()):
        if chunk not in seen and len(seen) == chunks_per_block:
            ends.append(i)
            seen = set()
        seen.add(chunk)
    return ends


def test_X_is_that_of_the_cells(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k.path, chunk_size=16, chunks_per_block=8)
    seen = 0
    for X, obs in ds:
        assert (pbmc3k.X[obs[ID]] != X).nnz == 0
        seen += X.shape[0]
    assert seen == len(pbmc3k.obs)


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_and_workers(stored: Path, workers: int) -> None:
    got: list[int] = []
    for rank in range(3):
        ds = dataset(stored, chunk_size=20, chunks_per_block=10, rank=rank, world_size=3)
        loader = ps.dataloader(ds, num_workers=workers)
        batches = [obs[ID].tolist() for _, obs in loader]
        assert len(batches) == len(loader) == -(-1000 // 128)
        got += [each for batch in batches for each in batch]
    assert sorted(got) == list(range(N_CELLS))


def test_resume_in_the_same_and_in_another_shape(stored: Path) -> None:
    arguments = {"chunk_size": 20, "chunks_per_block": 10}
    whole = [obs[ID].tolist() for _, obs in dataset(stored, **arguments)]
    first = dataset(stored, **arguments)
    batches = iter(first)
    for _ in range(6):
        next(batches)
    state = first.state_dict()
    same = dataset(stored, **arguments)
    same.load_state_dict(state)
    assert [obs[ID].tolist() for _, obs in same] == whole[6:]
    for other in (
        dataset(stored, chunk_size=33),
        ps.Dataset(stored, layer="raw", sparse=True),
    ):
        other.load_state_dict(state)
        assert sorted(joinids(other)) == sorted(each for batch in whole[6:] for each in batch)


def test_it_reads_units_again(stored: Path) -> None:
    ds = dataset(stored, chunk_size=4, chunks_per_block=8, keep=False)
    report = ds.shuffle_report(ID)
    joinids(ds)
    stats = ds.stats
    assert stats.units == report.units > 50
    assert report.read_amplification >= stats.read_amplification > 3  # whole units are planned for
    scatter = ds.with_settings(shuffle=True)
    joinids(scatter)
    assert scatter.stats.read_amplification < 1.1


def test_blocks_must_fit(stored: Path) -> None:
    with pytest.raises(ps.ResourceExhausted, match="memory_budget is too small"):
        joinids(dataset(stored, memory_budget="300KB"))
    assert len(joinids(dataset(stored, memory_budget="1MB", chunks_per_block=4))) == N_CELLS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shuffle": "blocks"}, "'scatter', 'global' or 'chunks', got 'blocks'"),
        ({"shuffle": 2}, r"'global' or 'chunks', got 2 \(int\)"),
        ({"shuffle": True, "chunk_size": 64}, "chunk_size needs shuffle='chunks'"),
        ({"shuffle": False, "chunks_per_block": 64}, "chunks_per_block needs"),
        ({"shuffle": "chunks", "chunk_size": 0}, "chunk_size must be 1 or more"),
        ({"shuffle": "chunks", "chunks_per_block": 1.5}, "chunks_per_block must be an integer"),
        (
            {"shuffle": "chunks", "num_samples": 10},
            "shuffle must be True or 'scatter', got 'chunks'",
        ),
    ],
)
def test_bad_arguments(stored: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        ps.Dataset(stored, layer="raw", **arguments)


def test_settings_change(stored: Path) -> None:
    ds = dataset(stored, chunk_size=10, chunks_per_block=5)
    assert joinids(ds.with_settings(batch_size=77)) == joinids(ds.with_settings())
    assert joinids(ds.with_settings(shuffle=False)) == list(range(N_CELLS))
    assert joinids(ds.with_settings(shuffle="chunks")) != joinids(ds.with_settings())
