"""The obs column that marks cells repeated by uneven="pad"."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import torch
from conftest import Oracle, write_small_tiles

N_CELLS = 101


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 40)


def padded(path, rank=0, world_size=1, **arguments) -> ps.Dataset:
    given = {"batch_size": 8, "uneven": "pad", "pad_column": "is_padding", "seed": 4}
    return ps.Dataset(path, rank=rank, world_size=world_size, **{**given, **arguments})


def marked_and_own(batches) -> tuple[list[int], list[int]]:
    """joinids of the cells that are marked, and of the others."""
    marked, own = [], []
    for _, obs in batches:
        for joinid, is_padding in zip(
            np.asarray(obs["soma_joinid"]), np.asarray(obs["is_padding"]), strict=True
        ):
            (marked if is_padding else own).append(int(joinid))
    return marked, own


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 0), (3, 2), (7, 0), (7, 3), (150, 0)])
def test_the_others_are_every_cell_once(tiled, world: int, workers: int, shuffle: bool) -> None:
    quota = -(-N_CELLS // world)
    marked, own, per_rank = [], [], []
    for rank in range(world):
        ds = padded(tiled, rank, world, shuffle=shuffle)
        loader = ps.dataloader(ds, num_workers=workers)
        batches = list(loader)
        assert len(batches) == len(ds) == len(loader) == -(-quota // 8)
        more, rest = marked_and_own(batches)
        per_rank.append(len(more))
        marked += more
        own += rest
    assert sorted(own) == list(range(N_CELLS))
    assert len(marked) == quota * world - N_CELLS
    assert max(per_rank) <= 1


def test_others_are_repeated_each_epoch(tiled) -> None:
    ds = padded(tiled, 6, 7)
    repeated = [tuple(marked_and_own(ds)[0]) for _ in range(12)]
    assert all(len(each) == 1 for each in repeated)
    assert len(set(repeated)) > 5


@pytest.mark.parametrize("uneven", ["drop", "exact"])
def test_nothing_is_marked_where_nothing_is_repeated(tiled, uneven: str) -> None:
    for rank in range(3):
        marked, own = marked_and_own(padded(tiled, rank, 3, uneven=uneven))
        assert not marked
        assert len(set(own)) == len(own)


def test_in_every_format(tiled) -> None:
    def column(**arguments):
        return [obs["is_padding"] for _, obs in padded(tiled, 6, 7, **arguments)]

    arrays = column()
    assert all(isinstance(each, np.ndarray) and each.dtype == bool for each in arrays)
    frames = column(obs_format="pandas")
    assert all(isinstance(each, pd.Series) and each.dtype == bool for each in frames)
    tensors = column(obs_format="torch")
    assert all(isinstance(each, torch.Tensor) and each.dtype == torch.bool for each in tensors)
    placed = column(obs_format="torch", format="torch", device="cpu", memory_budget="64MiB")
    # As many, in another order: the engine makes CSR for a device.
    assert sum(int(each.sum()) for each in placed) == 1
    whole = np.concatenate(arrays).tolist()
    assert sum(whole) == 1
    assert np.concatenate(frames).tolist() == torch.cat(tensors).tolist() == whole


def test_it_is_there_on_request_only(tiled, soma_small: Oracle) -> None:
    _, obs = next(iter(ps.Dataset(tiled, uneven="pad")))
    assert list(obs) == ["soma_joinid"]
    ds = ps.Dataset(tiled, uneven="pad", rank=1, world_size=2)
    assert list(next(iter(ds.with_settings(pad_column="more")))[1]) == ["soma_joinid", "more"]
    part, _ = padded(tiled, 1, 2).random_split(0.5, 0.5)
    assert list(next(iter(part))[1]) == ["soma_joinid", "is_padding"]
    with pytest.raises(ps.InvalidArgument, match="another name"):
        ps.Dataset(tiled, uneven="pad", pad_column="soma_joinid")
    with pytest.raises(ps.InvalidArgument, match="another name"):
        ps.Dataset(
            soma_small.path, pad_column="label", encoders=[ps.LabelEncoder("cell_type", "label")]
        )
    with pytest.raises(ps.InvalidArgument, match="pad_column must be a string"):
        ps.Dataset(tiled, pad_column=3)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [1, 3])
def test_resumes(tiled, workers: int, taken: int) -> None:
    """The same marks after loading a state; every unmarked cell once though the world changes."""

    def loaders(world):
        return [ps.dataloader(padded(tiled, r, world), num_workers=workers) for r in range(world)]

    whole = [[(list(obs["soma_joinid"]), list(obs["is_padding"])) for _, obs in each]
             for each in loaders(3)]  # fmt: skip
    begun = loaders(3)
    before = []
    for loader in begun:
        batches = iter(loader)
        before += [next(batches) for _ in range(taken)]
        del batches
    states = [loader.state_dict() for loader in begun]
    assert states[0] == states[1] == states[2]
    for loader, expected in zip(loaders(3), whole, strict=True):
        loader.load_state_dict(states[0])
        rest = [(list(obs["soma_joinid"]), list(obs["is_padding"])) for _, obs in loader]
        assert rest == expected[taken:]
    after = []
    for loader in loaders(4):
        loader.load_state_dict(states[0])
        after += list(loader)
    _, own = marked_and_own(before + after)
    times = Counter(own)
    assert sorted(times) == list(range(N_CELLS))
    assert set(times.values()) == {1}
