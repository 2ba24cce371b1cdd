"""Datasets in torch's DataLoader, and in forked and spawned processes."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle, collect, write_small_tiles
from torch.utils.data import DataLoader, IterableDataset


def run_python(code: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        **kwargs,
    )


@pytest.mark.parametrize("first", ["penstock", "torch", "dataset"])
def test_dataloader_takes_it_in_any_order_of_imports(soma_small: Oracle, first: str) -> None:
    lines = {
        "penstock": "import penstock, torch\nds = penstock.Dataset(PATH)",
        "torch": "import torch, penstock\nds = penstock.Dataset(PATH)",
        "dataset": "import penstock\nds = penstock.Dataset(PATH)\nimport torch",
    }[first]
    done = run_python(
        f"PATH = {str(soma_small.path)!r}\n{lines}\n"
        "from torch.utils.data import DataLoader, IterableDataset\n"
        "loader = DataLoader(ds, batch_size=None)\n"
        "assert isinstance(ds, IterableDataset)\n"
        "assert len(loader) == 3, len(loader)\n"
        "print(sum(X.shape[0] for X, obs in loader))\n"
    )
    assert done.stdout == "300\n", done.stderr


def test_it_stays_what_it_is(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    assert isinstance(ds, IterableDataset)
    assert isinstance(ds, ps.Dataset)
    assert type(ds) is ds.__class__ is ps.Dataset


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_share_the_cells(census_like: Oracle, context: str, num_workers: int) -> None:
    ds = ps.Dataset(census_like.path, batch_size=100, memory_budget="256MiB")
    loader = ps.dataloader(ds, num_workers=num_workers, multiprocessing_context=context)
    orders = []
    for _ in range(2):
        joinids, X = collect(loader)
        assert sorted(joinids) == census_like.obs["soma_joinid"].tolist()
        np.testing.assert_array_equal(X, census_like.X[joinids].toarray())
        orders.append(joinids.tolist())
    assert orders[0] != orders[1]
    assert len(loader) == 60
    ds.set_epoch(0)
    assert collect(loader)[0].tolist() == orders[0]


class Wrapped(IterableDataset):
    """What users write: a dataset around ours, which torch never sees."""

    def __init__(self, dataset: ps.Dataset) -> None:
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)


LOADERS = {
    "ours": lambda ds, **workers: ps.dataloader(ds, **workers),
    "plain": lambda ds, **workers: DataLoader(ds, batch_size=None, **workers),
    "wrapped": lambda ds, **workers: DataLoader(Wrapped(ds), batch_size=None, **workers),
}


def order_of(loader) -> list[int]:
    order = collect(loader)[0].tolist()
    assert sorted(order) == list(range(300)), "workers disagree on the epoch"
    return order


@pytest.mark.parametrize(
    ("kind", "persistent", "context"),
    [(kind, persistent, "fork") for kind in LOADERS for persistent in (False, True)]
    + [(kind, persistent, "spawn") for kind in ("ours", "plain") for persistent in (False, True)]
    + [("plain", False, "forkserver")],
)
def test_epochs_with_workers(soma_small: Oracle, kind: str, persistent: bool, context: str) -> None:
    """Every bare loop is another epoch; set_epoch in this process is seen by all workers."""
    ds = ps.Dataset(soma_small.path, batch_size=10)
    loader = LOADERS[kind](
        ds, num_workers=2, persistent_workers=persistent, multiprocessing_context=context
    )
    epochs = 3 if context == "fork" else 2  # other workers take seconds to start
    orders = [order_of(loader) for _ in range(epochs)]
    assert len({tuple(order) for order in orders}) == epochs
    assert ds.epoch == epochs
    ds.set_epoch(0)
    assert order_of(loader) == orders[0]
    assert ds.epoch == 1
    if context == "fork":
        assert order_of(loader) == orders[1]
    if kind != "wrapped":
        assert len(loader) == 30


def test_epochs_are_those_of_set_epoch(soma_small: Oracle) -> None:
    """Workers read the epoch whose number they were given, kept workers and new ones."""
    orders = {}
    for persistent in (False, True):
        ds = ps.Dataset(soma_small.path, batch_size=10)
        loader = ps.dataloader(ds, num_workers=2, persistent_workers=persistent)
        for epoch in (4, 0, 2):
            ds.set_epoch(epoch)
            iterator = iter(loader)
            joinids = [next(iterator)[1]["soma_joinid"].numpy()]
            ds.set_epoch(9)  # too late for an iterator that has given a batch
            joinids += [obs["soma_joinid"].numpy() for _, obs in iterator]
            order = np.concatenate(joinids).tolist()
            assert orders.setdefault(epoch, order) == order
    assert len({tuple(order) for order in orders.values()}) == 3


@pytest.mark.parametrize("kind", LOADERS)
def test_epochs_though_torch_is_seeded_before_each(soma_small: Oracle, kind: str) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=10)
    orders = []
    for num_workers in (1, 2, 2):
        torch.manual_seed(0)
        orders.append(order_of(LOADERS[kind](ds, num_workers=num_workers)))
    assert len({tuple(order) for order in orders}) == 3
    assert ds.epoch == 3


def test_an_epoch_that_is_left_early(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=10)
    loader = DataLoader(ds, batch_size=None, num_workers=2)
    for number in range(3):
        for _ in loader:
            break
        assert ds.epoch == number + 1
    order = order_of(loader)
    ds.set_epoch(3)
    assert order_of(loader) == order


def _count_on(ds, answers) -> None:
    """A rank: iterates, with workers and without, while others have a copy of the same dataset."""
    answers.put([ds.epoch, order_of(ds), order_of(ps.dataloader(ds, num_workers=1)), ds.epoch])


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_count_by_themselves(soma_small: Oracle, start_method: str) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=10)
    ds.set_epoch(5)
    context = multiprocessing.get_context(start_method)
    answers = context.Queue()
    ranks = [context.Process(target=_count_on, args=(ds, answers)) for _ in range(2)]
    for rank in ranks:
        rank.start()
    first, second = (answers.get(timeout=120) for _ in ranks)
    for rank in ranks:
        rank.join(60)
    assert first == second
    assert (first[0], first[3], ds.epoch) == (5, 7, 5)
    assert order_of(ds) == first[1]


def test_copies_and_parts_count_by_themselves(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=10)
    ds.set_epoch(3)
    copies = [copy.copy(ds), copy.deepcopy(ds), pickle.loads(pickle.dumps(ds))]
    assert [other.epoch for other in copies] == [3, 3, 3]
    next(iter(copies[0]))
    assert [other.epoch for other in (ds, *copies)] == [3, 4, 3, 3]
    left, right = ds.random_split(0.5, 0.5)
    next(iter(left))
    assert (ds.epoch, left.epoch, right.epoch) == (3, 1, 0)


def test_many_datasets_take_one_file_descriptor(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    before = len(os.listdir("/proc/self/fd"))
    many = [copy.copy(ds) for _ in range(100)]
    for number, other in enumerate(many):
        other.set_epoch(number)
    assert [other.epoch for other in many] == list(range(100))
    assert len(os.listdir("/proc/self/fd")) == before
    del many, other
    assert copy.copy(ds).epoch == 0


def test_plain_dataloader_with_workers(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=7, drop_last=True)
    loader = DataLoader(ds, batch_size=None, num_workers=2)
    joinids = collect(loader)[0].tolist()
    assert len(joinids) == len(set(joinids)) == 300 // 7 * 7
    assert len(loader) == 300 // 7


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_dataloader_gives_tensors(soma_small: Oracle, sparse: bool, num_workers: int) -> None:
    ds = ps.Dataset(
        soma_small.path,
        sparse=sparse,
        obs_columns=["soma_joinid", "cell_type"],
        encoders=[ps.LabelEncoder("cell_type", name="label")],
    )
    for X, obs in ps.dataloader(ds, num_workers=num_workers):
        assert isinstance(X, torch.Tensor)
        assert X.layout == (torch.sparse_csr if sparse else torch.strided)
        assert isinstance(obs["soma_joinid"], torch.Tensor)
        assert obs["label"].dtype == torch.int64
        assert obs["cell_type"].dtype == object
        want = soma_small.X[obs["soma_joinid"].numpy()].toarray()
        np.testing.assert_array_equal(X.to_dense().numpy(), want)


@pytest.mark.parametrize("sparse", [False, True])
def test_torch_format(soma_small: Oracle, sparse: bool) -> None:
    ds = ps.Dataset(soma_small.path, format="torch", obs_format="torch", sparse=sparse)
    for X, obs in ds:
        want = soma_small.X[obs["soma_joinid"].numpy()].toarray()
        np.testing.assert_array_equal(X.to_dense().numpy(), want)


@pytest.mark.parametrize(("num_workers", "lanes"), [(2, 2), (3, 3), (8, 4)])
def test_a_budget_too_small_for_workers_names_what_they_need_together(
    tmp_path: Path, num_workers: int, lanes: int
) -> None:
    """In 37 fetch units, of which a worker has eight or nothing."""
    path = write_small_tiles(tmp_path / "experiment", 600, 500, per_cell=250)

    def loader(budget: int) -> DataLoader:
        ds = ps.Dataset(path, memory_budget=budget, sparse=True, threads=1)
        return ps.dataloader(ds, num_workers=num_workers)

    with pytest.raises(ps.ResourceExhausted) as error:
        next(iter(loader(100_000)))
    text = str(error.value)
    given, least = map(
        int,
        re.search(
            rf"too small: (\d+) bytes .* for {lanes} DataLoader workers, which share it, "
            r"needed at least (\d+) bytes \(",
            text,
        ).groups(),
    )
    assert given == 100_000
    with pytest.raises(ps.ResourceExhausted, match=f"needed at least {least} bytes"):
        next(iter(loader(least - 1)))
    assert sum(X.shape[0] for X, _ in loader(least)) == 600


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_plain_dataloader_gives_the_same_batches(
    soma_small: Oracle, num_workers: int, sparse: bool
) -> None:
    """torch's own default_collate takes the one batch of `batch_size=1` as it is."""
    arguments = {"sparse": sparse, "obs_columns": ["soma_joinid", "cell_type"], "batch_size": 50}
    ds = ps.Dataset(soma_small.path, **arguments)
    plain = torch.utils.data.DataLoader(ds, num_workers=num_workers)
    ours = ps.dataloader(ps.Dataset(soma_small.path, **arguments), num_workers=num_workers)
    count = 0
    for (X, obs), wanted in zip(plain, ours, strict=True):
        assert X.layout == wanted.X.layout
        assert torch.equal(X.to_dense(), wanted.X.to_dense())
        assert torch.equal(obs["soma_joinid"], wanted.obs["soma_joinid"])
        assert obs["cell_type"].tolist() == wanted.obs["cell_type"].tolist()
        count += 1
    assert count > 3


@pytest.mark.parametrize("context", [None, "spawn"])
def test_a_plain_dataloader_that_stacks_is_told(soma_small: Oracle, context: str | None) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=50)
    workers = {} if context is None else {"num_workers": 1, "multiprocessing_context": context}
    with pytest.raises(ps.InvalidArgument, match=r"give batch_size to the Dataset"):
        next(iter(torch.utils.data.DataLoader(ds, batch_size=3, **workers)))


def sum_and_count(batch: ps.Batch) -> tuple[float, int]:
    X, obs = batch
    return float(X.sum()), len(obs["soma_joinid"])


@pytest.mark.parametrize(
    "workers", [{}, {"num_workers": 2}, {"num_workers": 1, "multiprocessing_context": "spawn"}]
)
def test_collate_fn_gets_the_batch(soma_small: Oracle, workers: dict) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=32)
    expected = [sum_and_count(batch) for batch in ps.dataloader(ds, **workers)]
    ds.set_epoch(0)
    assert list(ps.dataloader(ds, collate_fn=sum_and_count, **workers)) == expected
    assert sum(total for total, _ in expected) == soma_small.X.sum()
    with pytest.raises(ps.InvalidArgument, match="collate_fn must be a function"):
        ps.dataloader(ds, collate_fn=3)


def test_a_collate_fn_of_single_cells_says_what_it_gets(soma_small: Oracle) -> None:
    loader = ps.dataloader(
        ps.Dataset(soma_small.path), collate_fn=lambda cells: [each[0] for each in cells]
    )
    with pytest.raises(KeyError) as raised:
        next(iter(loader))
    assert any("one batch, (X, obs)" in note for note in raised.value.__notes__)


def test_the_loader_has_the_counts_of_the_dataset(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    loader = ps.dataloader(ds)
    for _ in loader:
        pass
    assert loader.stats == ds.stats
    assert loader.stats.cells == ds.n_obs
    assert repr(loader.stats) == str(loader.stats)


def test_how_long_the_loop_waited_for_workers(soma_small: Oracle) -> None:
    """Not how long the workers waited for cells: here each batch waits for a slow function."""
    loader = ps.dataloader(
        ps.Dataset(soma_small.path, batch_size=100), num_workers=1, collate_fn=slow
    )
    batches = iter(loader)
    begun = time.perf_counter()
    for _ in batches:  # which does nothing but wait
        pass
    took = time.perf_counter() - begun
    assert loader.stats.workers == 1
    assert took / 2 < loader.stats.loop_wait_seconds <= loader.stats.loop_seconds
    assert loader.stats.wait_share == loader.stats.loop_wait_seconds / loader.stats.loop_seconds
    assert "the loop waited" in str(loader.stats)
    assert loader.dataset.stats.loop_wait_seconds == 0
    assert "1 worker waited" in str(loader.dataset.stats)


def slow(batch):
    time.sleep(0.2)
    return batch


def test_a_batch_is_a_tuple_of_two(soma_small: Oracle) -> None:
    batch = next(iter(ps.Dataset(soma_small.path)))
    X, obs = batch
    assert batch.X is X is batch[0]
    assert batch.obs is obs
    copy = pickle.loads(pickle.dumps(batch))
    assert type(copy) is ps.Batch
    assert np.array_equal(copy.X, X)
    again = type(batch)(part for part in batch)  # as trainers move batches
    assert again == batch
    with pytest.raises(ps.InvalidArgument, match="got 1 parts"):
        ps.Batch([X])


def test_the_loader_sets_the_epoch(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path, batch_size=32, seed=5)
    loader = ps.dataloader(ds)
    loader.set_epoch(3)
    ours = [obs["soma_joinid"].tolist() for _, obs in loader]
    other = ps.Dataset(soma_small.path, batch_size=32, seed=5)
    other.set_epoch(3)
    assert ours == [obs["soma_joinid"].tolist() for _, obs in other]


def test_dataloader_takes_values_of_torch_that_do_nothing(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    assert len(ps.dataloader(ds, batch_size=None, shuffle=None, sampler=None, drop_last=False)) > 0
    with pytest.raises(ps.InvalidArgument, match="weights or balance of the Dataset"):
        ps.dataloader(ds, sampler=torch.utils.data.RandomSampler(range(3)))
    with pytest.raises(TypeError, match="no argument 'num_worker'; did you mean 'num_workers'"):
        ps.dataloader(ds, num_worker=2)


def test_dataloader_refuses_what_the_dataset_has(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "collate_fn"):
        with pytest.raises(ps.InvalidArgument, match=name):
            ps.dataloader(ds, **{name: 1})
    with pytest.raises(ps.InvalidArgument, match="num_workers"):
        ps.dataloader(ds, num_workers=-1)
    for name, value in [
        ("prefetch_factor", "x"),
        ("prefetch_factor", 0),
        ("prefetch_factor", np.array([1, 2])),
        ("timeout", "x"),
        ("timeout", -1),
        ("timeout", float("inf")),
        ("pin_memory", "x"),
        ("persistent_workers", [1]),
        ("worker_init_fn", 3),
    ]:
        with pytest.raises(ps.InvalidArgument, match=f"{name} must be "):
            ps.dataloader(ds, num_workers=1, **{name: value})
    valid = {
        "prefetch_factor": None,
        "timeout": 0.5,
        "pin_memory": np.False_,
        "worker_init_fn": None,
    }
    assert ps.dataloader(ds, **valid).timeout == 0.5
    # Resuming counts batches by turns of the workers: with it 10 of 600 cells came twice.
    with pytest.raises(ps.InvalidArgument, match=r"in_order=False.* leave it out"):
        ps.dataloader(ds, num_workers=2, in_order=False)
    with pytest.raises(ps.InvalidArgument, match="list"):
        ps.dataloader([1, 2])


def _ranks(rank: int, world_size: int, path: str, store: str, queue) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world_size
    )
    joinids = collect(ps.Dataset(path, batch_size=10))[0].tolist()
    loader = ps.dataloader(
        ps.Dataset(path, batch_size=10), num_workers=2, multiprocessing_context="spawn"
    )
    queue.put((joinids, collect(loader)[0].tolist()))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_rank_from_torch_distributed(tmp_path, soma_small: Oracle) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    arguments = (2, str(soma_small.path), str(tmp_path / "store"), queue)
    processes = [context.Process(target=_ranks, args=(rank, *arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    answers = [queue.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    for way in range(2):
        assert sorted(answers[0][way] + answers[1][way]) == list(range(300))


def _in_child(function) -> int:
    """Exit status of `function` in a forked process; it must end within 30 s."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_in_the_middle_of_an_epoch(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=50, sparse=True)
    iterator = iter(ds)
    batch, _ = next(iterator)

    def child() -> None:
        nonlocal iterator, batch
        try:
            next(iterator)
        except ps.InvalidArgument:
            pass
        else:
            raise AssertionError("the parent's iterator must be refused")
        iterator.close()
        del iterator, batch  # must not wait for threads that are not here
        assert sorted(collect(ds)[0]) == census_like.obs["soma_joinid"].tolist()

    assert _in_child(child) == 0
    assert 50 + sum(X.shape[0] for X, _ in iterator) == 6_000


INTERRUPTED = """
    import os, signal, sys, threading, time
    import penstock as ps
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for jobs in the background
    ds = ps.Dataset(sys.argv[1], batch_size=64, threads=2, memory_budget="256MiB")
    sent, taken = [], threading.Event()
    def interrupt():
        time.sleep(0.2)
        # Python ignores an interrupt that comes while an object is deleted, such as the iterator.
        while not taken.wait(2 if sent else 0):
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        while True:
            for X, obs in ds:
                pass
    except KeyboardInterrupt:
        taken.set()
        print("interrupted", len(sent))
    print(sum(len(obs["soma_joinid"]) for X, obs in ds))
"""


def test_ctrl_c(census_like: Oracle) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(census_like.path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    interrupted, times, cells = done.stdout.split()
    assert (interrupted, cells) == ("interrupted", "6000"), done.stderr
    assert 1 <= int(times) <= 3


def test_no_thread_outlives_its_epoch(soma_small: Oracle) -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    ds = ps.Dataset(soma_small.path, batch_size=10, threads=4)
    before = threads()
    iterator = iter(ds)
    assert threads() == before
    next(iterator)
    iterator.close()
    assert threads() == before
    for _ in ds:
        break
    assert threads() == before
    list(ds)
    assert threads() == before


@pytest.mark.parametrize("num_workers", [0, 1])
def test_coo(soma_small: Oracle, num_workers: int) -> None:
    numbers = ps.Dataset(soma_small.path, sparse="coo", shuffle=False, batch_size=70)
    rows = [X for X, _ in numbers]
    assert all(X.format == "coo" for X in rows)
    whole = np.concatenate([X.toarray() for X in rows])
    np.testing.assert_array_equal(whole, soma_small.X.toarray())
    tensors = ps.Dataset(
        soma_small.path, sparse="coo", format="torch", shuffle=False, batch_size=70
    )
    for loader in (ps.dataloader(numbers, num_workers=num_workers), tensors):
        got = [X for X, _ in loader]
        assert all(X.layout == torch.sparse_coo and X.is_coalesced() for X in got)
        dense = torch.cat([X.to_dense() for X in got]).numpy()
        np.testing.assert_array_equal(dense, whole)
        checked = torch.sparse_coo_tensor(
            got[0].indices(), got[0].values(), got[0].shape, check_invariants=True
        )
        assert torch.equal(checked.to_dense(), got[0].to_dense())
