"""Saving a state while an epoch starts: in another thread, a signal handler or a callback."""

from __future__ import annotations

import signal
import threading
from typing import Any

import penstock as ps
import pytest
from conftest import Oracle
from penstock.dataset.reader import Reader
from penstock.epochs import state as epoch_state


def dataset(oracle: Oracle) -> ps.Dataset:
    return ps.Dataset(oracle.path, sparse=True, batch_size=64)


def begin_and_wait(
    monkeypatch: pytest.MonkeyPatch, begin: Any
) -> tuple[threading.Thread, threading.Event]:
    """A thread that begins an epoch and stops in the middle of that, until the event."""
    within, proceed = threading.Event(), threading.Event()
    plan = epoch_state.begin_run

    def waiting(*arguments: Any) -> Any:
        within.set()
        assert proceed.wait(60)
        return plan(*arguments)

    monkeypatch.setattr(epoch_state, "begin_run", waiting)
    thread = threading.Thread(target=begin)
    thread.start()
    assert within.wait(60)  # the overlap: the epoch is begun, and not done with it
    return thread, proceed


def test_a_state_saved_while_the_first_epoch_begins(
    soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = dataset(soma_small)
    before = ds.state_dict()
    thread, proceed = begin_and_wait(monkeypatch, lambda: iter(ds))
    assert thread.is_alive()
    assert ds.epoch == 1  # the counter has moved
    assert ds.state_dict() == before
    proceed.set()
    thread.join()
    assert ds.state_dict()["epoch"] == 0  # begun, no batch was taken


def test_it_skips_no_epoch_and_loses_no_loaded_state(
    soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = dataset(soma_small)
    other = dataset(soma_small)
    batches = iter(other)
    next(batches)
    saved = other.state_dict()
    ds.load_state_dict(saved)
    thread, proceed = begin_and_wait(monkeypatch, lambda: iter(ds))
    assert thread.is_alive()
    assert ds.state_dict() == saved
    proceed.set()
    thread.join()
    assert ds.state_dict() == saved  # of the iterator, which has given no batch


def test_a_state_saved_while_workers_start(
    soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = dataset(soma_small)
    loader = ps.dataloader(ds, num_workers=1)
    before = loader.state_dict()
    saved: list[Any] = []
    choose = Reader.prepare_for_workers

    def choosing(self: Reader, *arguments: Any) -> None:
        assert self.epochs.next == 1  # the counter has moved
        saved.append(loader.state_dict())
        choose(self, *arguments)

    monkeypatch.setattr(Reader, "prepare_for_workers", choosing)
    assert sum(len(obs["soma_joinid"]) for _, obs in loader) == ds.n_obs
    assert saved == [before]


def test_many_epochs_begun_by_threads_and_states_saved(soma_small: Oracle) -> None:
    """No order of threads gives an error, and the numbers of epochs continue."""
    ds = dataset(soma_small)
    done = threading.Event()
    errors: list[BaseException] = []

    def begin() -> None:
        try:
            for _ in range(100):
                iter(ds)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    threading.Thread(target=lambda: [each.join() for each in threads] and done.set()).start()
    overlapped = 0
    while not done.is_set():
        overlapped += any(each.is_alive() for each in threads)
        ds.state_dict()
    assert not errors
    assert overlapped
    assert ds.epoch == 200
    assert ds.state_dict()["epoch"] == 199


def test_an_epoch_that_is_planned_later_than_the_next_one_is_not_the_current(
    soma_small: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = dataset(soma_small)
    thread, proceed = begin_and_wait(monkeypatch, lambda: iter(ds))
    monkeypatch.undo()
    batches = iter(ds)  # epoch 1, while the other thread plans epoch 0
    assert thread.is_alive()
    next(batches)
    proceed.set()
    thread.join()
    state = ds.state_dict()
    assert (state["epoch"], state["segments"][-1]["batches"]) == (1, 1)


def test_plain_workers_are_still_told_of(soma_small: Oracle) -> None:
    from torch.utils.data import DataLoader

    ds = dataset(soma_small)
    for _ in DataLoader(ds, batch_size=None, num_workers=1):
        pass
    with pytest.raises(ps.InvalidArgument, match=r"workers of a plain DataLoader"):
        ds.state_dict()


def test_a_signal_handler_saves_a_state_while_the_epoch_is_set(soma_small: Oracle) -> None:
    """The signal comes between any two instructions of its own thread."""
    ds = ps.Dataset(soma_small.path, sparse=True)
    epochs = []

    def save(*_) -> None:
        epochs.append(ds.state_dict()["epoch"])

    before = signal.signal(signal.SIGALRM, save)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        while len(epochs) < 3_000:
            for epoch in range(5):
                ds.set_epoch(epoch)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(epochs) <= set(range(5))
    assert len(set(epochs)) > 1
