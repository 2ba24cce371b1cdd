"""Batches that are made on a device: order of operations.

A stream that records its calls replaces a stream.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

import device_stores as stores
import penstock as ps
import pytest
import torch
from device_stores import LAYOUTS, of

copier = pytest.importorskip("penstock.batches.device.copier")

tiled = stores.tiled


class NotingStream:
    """Notes what it is asked; its work is done by the time that it is waited for."""

    pins_memory = False
    runs_beside = True

    def __init__(self) -> None:
        self.notes: list[tuple] = []
        self.inside = False

    @contextmanager
    def queue(self):
        self.inside = True
        yield
        self.inside = False

    def mark(self):
        assert self.inside
        self.notes.append(("mark", len(self.notes)))
        return len(self.notes) - 1

    def wait(self, mark) -> None:
        self.notes.append(("wait", mark))

    def hand_over(self, mark, tensors) -> None:
        self.notes.append(("hand over", mark, list(tensors)))


@pytest.fixture
def stream(monkeypatch) -> NotingStream:
    noting = NotingStream()
    monkeypatch.setattr(copier, "stream_of", lambda device: noting)
    return noting


@pytest.fixture
def all_ready(monkeypatch):
    """The loader always has the next batch by the time that one is asked for."""
    from penstock.epochs.iterator import EpochProgress

    monkeypatch.setattr(
        EpochProgress, "is_ready", property(lambda progress: progress.loader is not None)
    )


def test_the_next_batch_is_sent_before_one_is_handed_over(tiled, stream, all_ready) -> None:
    ds = of(tiled)
    assert len(list(ds)) == 13
    kinds = [note[0] for note in stream.notes]
    # Each batch: its copy's end, its work's end. The second is sent before the first is handed over,
    # and memory is filled again from the third on, once its copy is done.
    assert kinds[:5] == ["mark", "mark", "mark", "mark", "hand over"]
    rest = ["wait", "mark", "mark", "hand over"]
    assert kinds[5:] == [*(rest * 11), "hand over"]
    copied = [note[1] for note in stream.notes if note[0] == "mark"][::2]
    waited = [note[1] for note in stream.notes if note[0] == "wait"]
    assert waited == copied[:-2], "each piece of memory waits for its own copy"
    handed = [note[1] for note in stream.notes if note[0] == "hand over"]
    assert handed == [note[1] for note in stream.notes if note[0] == "mark"][1::2]


@pytest.mark.parametrize("sparse", LAYOUTS)
def test_all_memory_of_a_batch_is_handed_over(tiled, stream, all_ready, sparse) -> None:
    for number, (X, obs) in enumerate(of(tiled, sparse=sparse)):
        if sparse == "csr":
            parts = [X.crow_indices(), X.col_indices(), X.values()]
        elif sparse == "coo":
            parts = [X.indices(), X.values()]
        else:
            parts = [X]
        handed = [note for note in stream.notes if note[0] == "hand over"][number][2]
        told = {each.untyped_storage().data_ptr() for each in handed}
        assert {each.untyped_storage().data_ptr() for each in [*parts, obs["soma_joinid"]]} <= told


def test_batches_do_not_share_memory_that_is_filled_again(tiled, stream, all_ready) -> None:
    kept = list(of(tiled, shuffle=False, sparse="csr"))
    plain = list(of(tiled, None, shuffle=False, sparse="csr"))
    for (X, obs), (expected, expected_obs) in zip(kept, plain, strict=True):
        assert torch.equal(X.to_dense(), expected.to_dense())
        assert torch.equal(obs["soma_joinid"], expected_obs["soma_joinid"])
        assert obs["soma_joinid"].untyped_storage().nbytes() == 8 * len(X)  # labels may be kept


def test_what_is_ahead_is_not_counted(tiled, stream, all_ready) -> None:
    ds = of(tiled)
    whole = [obs["soma_joinid"].tolist() for _, obs in ds]
    ds.set_epoch(0)
    batches = iter(ds)
    for taken in range(1, 13):
        next(batches)
        state = ds.state_dict()
        assert state["segments"][-1]["batches"] == taken
        again = of(tiled)
        again.load_state_dict(state)
        assert [obs["soma_joinid"].tolist() for _, obs in again] == whole[taken:]
    next(batches)
    assert ds.state_dict()["epoch"] == 1
    assert next(batches, None) is None


def test_an_error_comes_in_its_turn(tiled, stream, all_ready, monkeypatch) -> None:
    send, sent = copier.DeviceCopier.send, []

    def failing(self, X, obs):
        sent.append(X)
        if len(sent) == 3:
            raise ps.InvalidArgument("the third")
        return send(self, X, obs)

    monkeypatch.setattr(copier.DeviceCopier, "send", failing)
    batches = iter(of(tiled))
    next(batches)
    next(batches)
    with pytest.raises(ps.InvalidArgument, match="the third"):
        next(batches)
    assert next(batches, None) is None


def test_a_batch_that_is_not_there_is_not_waited_for(tiled, stream, monkeypatch) -> None:
    from penstock.epochs.iterator import EpochProgress

    monkeypatch.setattr(EpochProgress, "is_ready", False)
    assert len(list(of(tiled))) == 13
    kinds = [note[0] for note in stream.notes if note[0] != "wait"]
    assert kinds == ["mark", "mark", "hand over"] * 13


def test_the_loader_says_when_it_is_ready(tiled) -> None:
    iterator = iter(of(tiled, None))
    progress = iterator._progress
    assert not progress.is_ready  # nothing runs yet
    next(iterator)
    for _ in range(13):
        waited = 0
        while not progress.is_ready and waited < 10_000:
            gc.collect()
            waited += 1
        assert progress.is_ready
        next(iterator, None)
    assert not progress.is_ready


def test_it_says_where(tiled) -> None:
    assert "float32 torch.Tensor on cpu" in repr(of(tiled))
    assert "bfloat16 torch.Tensor (sparse CSR)" in repr(
        of(tiled, None, dtype="bfloat16", sparse=True)
    )
