"""Saving and resuming an epoch of several workers."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import penstock as ps
import pytest
from amounts import FEW
from hypothesis import example, given
from hypothesis import strategies as st
from resumed_cells import N_CELLS, ids, small, through_json, write_tiled
from torch.utils.data import DataLoader


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    return write_tiled(tmp_path_factory.mktemp("tiles"))


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_dataloader_with_workers_resumes(tiled, persistent: bool, context: str) -> None:
    def loader(ds):
        return ps.dataloader(
            ds, num_workers=3, persistent_workers=persistent, multiprocessing_context=context
        )

    def read(batches, count=None):
        got = []
        for _, batch in zip(range(count or 1_000), batches, strict=False):
            got.append(ids(batch))
        return got

    ds = small(tiled, memory_budget="2MiB")
    both = loader(ds)
    epochs = [read(both), read(both)]
    assert len(epochs[0]) == len(ds) == 32
    assert epochs[0] != epochs[1]
    assert sorted(sum(epochs[0], [])) == list(range(N_CELLS))

    other = small(tiled, memory_budget="2MiB")
    interrupted = loader(other)
    read(interrupted)
    batches = iter(interrupted)
    assert read(batches, 11) == epochs[1][:11]
    state = through_json(interrupted.state_dict())
    assert state == other.state_dict()
    assert state["epoch"] == 1
    assert state["segments"][-1]["batches"] == 11
    assert read(batches) == epochs[1][11:]

    resumed = small(tiled, memory_budget="2MiB")
    again = loader(resumed)
    # Workers that are kept have begun another epoch by now. Spawned ones are not left in the middle
    # of it: torch's queue thread may abort a process that ends while it copies a batch.
    read(again, 2 if context == "fork" else None)
    again.load_state_dict(state)
    assert read(again) == epochs[1][11:]
    after = read(again)
    fresh = small(tiled, memory_budget="2MiB")
    fresh.set_epoch(2)
    assert after == read(loader(fresh))

    # Without workers, or with another number of them, every cell that is left comes once.
    for num_workers in (0, 2, 4):
        other = small(tiled, memory_budget="2MiB")
        others = ps.dataloader(other, num_workers=num_workers)
        others.load_state_dict(state)
        left = [joinid for batch in others for joinid in ids(batch)]
        assert sorted(left) == sorted(sum(epochs[1][11:], []))


class Leg(NamedTuple):
    """A part of an epoch: ranks that all stop at the same batch, and which one's state is kept."""

    world: int
    workers: int
    taken: int
    saved_by: int = 0
    batch_size: int = 250
    shuffle: str | bool = True

    def loaders(self, path, state):
        """One for each rank, each where the state is."""
        made = []
        for rank in range(self.world):
            ds = small(
                path,
                rank=rank,
                world_size=self.world,
                uneven="exact",
                batch_size=self.batch_size,
                shuffle=self.shuffle,
                memory_budget="4MiB",
                compare_ranks=False,  # which would warn of every change: nothing tells it of the others
            )
            made.append(ps.dataloader(ds, num_workers=self.workers))
            if state is not None:
                made[-1].load_state_dict(state)
        return made

    def run(self, path, state):
        """The batches of all ranks, and the state of one of them."""
        loaders = self.loaders(path, state)
        iterators = [iter(loader) for loader in loaders]
        seen = []
        for _ in range(self.taken):
            batches = [next(each, None) for each in iterators]
            assert len({batch is None for batch in batches}) == 1, "equally many batches"
            seen += [joinid for batch in batches if batch is not None for joinid in ids(batch)]
        states = [through_json(loader.state_dict()) for loader in loaders]
        assert all(each == states[0] for each in states)
        return seen, states[self.saved_by % self.world]


LEGS = st.builds(
    Leg,
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 7),
    st.integers(0, 2),
    st.sampled_from([61, 250, 600]),
    st.sampled_from([True, False, "scatter", "chunks", "global"]),
)


@pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.ReadAgainWarning")
@FEW
@given(chain=st.lists(LEGS, min_size=1, max_size=3))
# Saved by workers of several ranks, whichever rank, and continued in other worlds and workers.
@example([Leg(3, 2, 5, saved_by=2), Leg(2, 0, 3, saved_by=1), Leg(4, 1, 2, saved_by=3)])
@example([Leg(2, 2, 7, saved_by=1)])
@example([Leg(1, 0, 5), Leg(3, 2, 4, saved_by=1), Leg(2, 2, 3, saved_by=1)])
@example([Leg(3, 2, 3, shuffle="global"), Leg(2, 1, 3, saved_by=1, shuffle="global")])
def test_any_chain_of_worlds_and_workers_gives_every_cell_once(tiled, chain: list[Leg]) -> None:
    """The state of any rank fits any other world with any other workers."""
    seen: list[int] = []
    state = None
    for leg in chain:
        more, state = leg.run(tiled, state)
        seen += more
        if state["epoch"] == 1:
            break
    if state["epoch"] == 0:
        last = Leg(2, 1, 1_000)
        more, state = last.run(tiled, state)
        seen += more
    assert state["epoch"] == 1
    assert sorted(seen) == list(range(N_CELLS))


@pytest.mark.parametrize(("world", "workers"), list(itertools.product([1, 2, 4], [0, 1, 2])))
def test_workers_of_several_ranks_resume_in_another_world(tiled, world: int, workers: int) -> None:
    """Each rank of three had two workers; each world of now has fewer, as many or more of both."""
    seen, state = Leg(3, 2, 5, saved_by=1).run(tiled, None)
    assert state["segments"][0]["world_size"] == 3
    assert state["segments"][0]["num_workers"] == 2
    assert state["segments"][0]["lanes"] == 2, "both had batches"
    more, state = Leg(world, workers, 1_000).run(tiled, state)
    assert state["epoch"] == 1
    assert sorted(seen + more) == list(range(N_CELLS))


def test_plain_dataloader_with_workers_says_that_it_cannot(tiled) -> None:
    ds = small(tiled)
    assert ds.state_dict()["epoch"] == 0
    list(DataLoader(ds, batch_size=None, num_workers=1))
    with pytest.raises(ps.InvalidArgument, match=r"penstock\.dataloader"):
        ds.state_dict()
    ds.set_epoch(5)
    assert ds.state_dict()["epoch"] == 5


def test_state_of_a_worker_fits_the_same_worker_only(tiled) -> None:
    """What torchdata's StatefulDataLoader does, which saves in each worker."""
    ds = small(tiled)
    next(iter(ds))
    state = ds.state_dict()
    state["worker"] = state["lane"] = 1
    with pytest.raises(ps.InvalidArgument, match="keep num_workers"):
        ds.load_state_dict(state)


def test_state_of_a_worker_needs_its_arguments(tiled) -> None:
    """One worker's count does not tell which cells the others gave."""
    from penstock.epochs.epoch import begin_run
    from penstock.epochs.resume import from_dict
    from penstock.plan.shard import Shard

    ds = small(tiled)
    next(iter(ds))
    state = ds.state_dict() | {"worker": 0, "lane": 0}
    other = small(tiled, batch_size=100)
    with pytest.raises(ps.InvalidArgument, match="the arguments that it was saved with"):
        begin_run(from_dict(state), other.reader.planner, Shard())


def identity(batch):
    return batch


@pytest.mark.parametrize("num_workers", [0, 2, 3])
def test_stateful_dataloader_of_torchdata(tiled, num_workers: int) -> None:
    """It saves in each worker, and wants as many again: ours is the error if they are not."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader(num_workers=num_workers):
        ds = small(tiled, memory_budget="4MiB")
        return stateful.StatefulDataLoader(
            ds, batch_size=None, num_workers=num_workers, collate_fn=identity
        )

    whole = [ids(batch) for batch in loader()]
    begun = loader()
    batches = iter(begun)
    assert [ids(next(batches)) for _ in range(11)] == whole[:11]
    state = begun.state_dict()
    again = loader()
    again.load_state_dict(state)
    assert [ids(batch) for batch in again] == whole[11:]
    if num_workers:
        other = loader(num_workers + 1)
        other.load_state_dict(state)
        with pytest.raises(ps.InvalidArgument, match="keep num_workers"):
            list(other)


@pytest.mark.parametrize("taken", [1, 7, 12])
@pytest.mark.parametrize("uneven", ["drop", "exact"])
def test_stateful_dataloader_on_two_ranks(tiled, uneven: str, taken: int) -> None:
    """Each with two workers, from its own state and from rank 0's, which trainers save."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader(rank: int):
        ds = small(
            tiled, rank=rank, world_size=2, uneven=uneven, batch_size=249, memory_budget="4MiB"
        )
        return stateful.StatefulDataLoader(ds, batch_size=None, num_workers=2, collate_fn=identity)

    whole, states = [], []
    for rank in range(2):
        whole.append([ids(batch) for batch in loader(rank)])
        begun = loader(rank)
        batches = iter(begun)
        assert [ids(next(batches)) for _ in range(taken)] == whole[rank][:taken]
        states.append(begun.state_dict())
    assert len(whole[0]) == len(whole[1]) == 17
    assert sorted(sum(whole[0] + whole[1], [])) == list(range(N_CELLS))
    for rank in range(2):
        for state in (states[rank], states[0]):
            again = loader(rank)
            again.load_state_dict(state)
            assert [ids(batch) for batch in again] == whole[rank][taken:]


@pytest.mark.parametrize(("num_workers", "left"), [(0, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_stateful_dataloader_near_the_end(tiled, num_workers: int, left: int) -> None:
    """Some workers have given all of theirs; the epoch after it is the next one."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return stateful.StatefulDataLoader(
            small(tiled, memory_budget="4MiB"),
            batch_size=None,
            num_workers=num_workers,
            collate_fn=identity,
        )

    uninterrupted = loader()
    epochs = [[ids(batch) for batch in uninterrupted] for _ in range(3)]
    begun = loader()
    batches = iter(begun)
    for _ in range(len(epochs[0]) - left):
        next(batches)
    if left == 0:
        assert next(batches, None) is None
    state = begun.state_dict()
    again = loader()
    again.load_state_dict(state)
    if left:
        assert [ids(batch) for batch in again] == epochs[0][-left:]
    assert [[ids(batch) for batch in again] for _ in range(2)] == epochs[1:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_chosen_before_the_first_batch(tiled, num_workers: int) -> None:
    """As Lightning chooses it: after the iterator was made."""
    expected = {}
    for epoch in (0, 1, 5, 6):
        ds = small(tiled, memory_budget="4MiB")
        ds.set_epoch(epoch)
        expected[epoch] = [ids(batch) for batch in ps.dataloader(ds, num_workers=num_workers)]

    def epochs(chosen: int, begins: int = 1) -> list[int]:
        ds = small(tiled, memory_budget="4MiB")
        loader = ps.dataloader(ds, num_workers=num_workers)
        iterators = [iter(loader) for _ in range(begins)]
        loader.sampler.set_epoch(chosen)
        first = [ids(batch) for batch in iterators[-1]]
        second = [ids(batch) for batch in loader]
        by_order = {str(batches): epoch for epoch, batches in expected.items()}
        return [by_order[str(each)] for each in (first, second)]

    assert epochs(0) == [0, 1]
    assert epochs(5) == [5, 6]
    ds = small(tiled, memory_budget="4MiB")
    loader = ps.dataloader(ds, num_workers=num_workers)
    batches = iter(loader)
    loader.sampler.set_epoch(0)
    taken = [ids(next(batches)) for _ in range(3)]
    state = ds.state_dict()
    rest = small(tiled, memory_budget="4MiB")
    rest.load_state_dict(state)
    got = taken + [ids(batch) for batch in ps.dataloader(rest, num_workers=num_workers)]
    assert got == expected[0]


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_state_says_how_many_workers_have_batches(tiled, lanes: int) -> None:
    """Of three, two have some. Another number would say that other cells were taken."""
    ds = small(tiled, memory_budget="4MiB")
    batches = iter(ps.dataloader(ds, num_workers=3))
    for _ in range(5):
        next(batches)
    state = ds.state_dict()
    assert state["segments"][0]["lanes"] == 2
    state["segments"][0]["lanes"] = lanes
    for num_workers in (3, 2, 0):
        again = small(tiled, memory_budget="4MiB")
        again.load_state_dict(state)
        with pytest.raises(ps.InvalidArgument, match=r"does not fit what is stored|first_batch"):
            list(ps.dataloader(again, num_workers=num_workers))
