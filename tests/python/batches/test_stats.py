"""Rates and shares of `Dataset.stats`, and the text that shows them."""

from __future__ import annotations

import time

import penstock as ps
import pytest
from conftest import Oracle
from penstock.epochs import iterator
from penstock.epochs.epoch_numbers import EpochNumbers
from penstock.epochs.worker_stats import WorkerCounts, WorkerTotal


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(iterator, "time", made)
    return made


def test_the_time_of_an_epoch_is_that_of_the_loop(census_like: Oracle, clock: Clock) -> None:
    """From the first request to the end, steps included; nothing after that is counted."""
    ds = ps.Dataset(census_like.path, batch_size=600)
    batches = iter(ds)
    clock.now += 50
    assert ds.stats.seconds == 0
    for number in range(10):
        next(batches)
        assert ds.stats.seconds == 3 * number
        clock.now += 3
        assert ds.stats.seconds == 3 * number  # a step is counted with the batch after it
    with pytest.raises(StopIteration):
        next(batches)
    clock.now += 1000
    stats = ds.stats
    assert stats.seconds == 30
    assert stats.cells_per_second == 6000 / 30
    assert stats.wait_share == min(1, stats.consumer_wait_seconds / 30)
    assert batches.stats.seconds == 30


def test_an_epoch_that_is_left_takes_no_time_afterwards(census_like: Oracle, clock: Clock) -> None:
    ds = ps.Dataset(census_like.path, batch_size=600)
    for number, _ in enumerate(ds):
        clock.now += 2
        if number == 3:
            break
    clock.now += 1000
    assert ds.stats.seconds == 6
    assert ds.stats.cells_per_second == 2400 / 6
    next(iter(ds))  # of the next epoch
    assert ds.stats.seconds == 0


def test_a_wait_is_a_part_of_the_time(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=600)
    begin = time.monotonic()
    list(ds)
    took = time.monotonic() - begin
    assert 0 < ds.stats.consumer_wait_seconds <= ds.stats.seconds <= took
    assert 0 < ds.stats.wait_share <= 1


def test_workers_run_at_the_same_time(census_like: Oracle) -> None:
    """So their time is that of the longest one, but waits add up; a worker without cells is none."""
    counter, planner = EpochNumbers(), ps.Dataset(census_like.path).reader.planner
    first, second, idle = (WorkerCounts(counter, 0, 1) for _ in range(3))
    for seconds in (1.0, 2.0):
        first.add(ps.LoaderStats(cells=10, seconds=seconds, workers=1, consumer_wait_seconds=0.5))
        second.add(ps.LoaderStats(cells=5, seconds=2 * seconds, workers=1))
        idle.add(ps.LoaderStats(seconds=0.1))
    stats = WorkerTotal().stats(counter, planner)
    assert (stats.cells, stats.seconds, stats.workers) == (15, 4.0, 2)
    assert stats.cells_per_second == 15 / 4
    assert stats.wait_share == 0.5 / (2 * 4)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_count_their_time(census_like: Oracle, num_workers: int) -> None:
    ds = ps.Dataset(census_like.path, batch_size=50)
    begin = time.monotonic()
    list(ps.dataloader(ds, num_workers=num_workers))
    took = time.monotonic() - begin
    stats = ds.stats
    assert 1 <= stats.workers <= num_workers
    assert 0 < stats.seconds <= took
    assert stats.consumer_wait_seconds <= stats.workers * stats.seconds
    assert f"{stats.workers} worker" in str(stats)
    list(ds)
    assert ds.stats.workers == 0


def test_shares_of_given_counts() -> None:
    stats = ps.LoaderStats(cells=1000, batches=10, seconds=4, consumer_wait_seconds=1)
    assert stats.cells_per_second == 250
    assert stats.wait_share == 0.25
    of_two = ps.LoaderStats(cells=1, batches=1, seconds=4, workers=2, consumer_wait_seconds=1)
    assert of_two.wait_share == 0.125
    late = ps.LoaderStats(cells=1, batches=1, seconds=1, consumer_wait_seconds=2)
    assert late.wait_share == 1
    assert ps.LoaderStats().cells_per_second == ps.LoaderStats().wait_share == 0


def test_the_text() -> None:
    stats = ps.LoaderStats(
        cells=128_000, batches=1_000, seconds=20, consumer_wait_seconds=0.4,
        bytes_read=3 * 2**20, bytes_needed=2 * 2**20, requests=7, units=12, planned_units=12,
        units_in_shuffle=8, peak_buffered_bytes=2**20, planned_bytes=2**21,
        kept_cells=64_000, kept_bytes=5 * 2**19, cached_units=3, cached_bytes=2**10,
        spilled_bytes=2**9, hint="buy memory",
    )  # fmt: skip
    assert str(stats).splitlines() == [
        "128,000 cells in 1,000 batches, 20.00 s",
        "  speed    6,400 cells/s",
        "  waiting  the loop waited 2 % of the time for cells",
        "  read     3.0 MiB in 7 requests; 1.50 bytes for each one needed",
        "  units    12 of 12 units read, 8 mixed at any time",
        "  memory   1.0 MiB at most, 2.0 MiB planned",
        "  kept     64,000 cells in 2.5 MiB stay in memory",
        "  cache    1.0 KiB of 3 units read",
        "  spilled  512 B to disk",
        "  hint     buy memory",
    ]
    html = stats._repr_html_()
    assert html.count("<tr") == 9
    assert "the loop waited 2 % of the time for cells" in html


def test_the_text_of_other_epochs(census_like: Oracle) -> None:
    ds = ps.Dataset(census_like.path, batch_size=600)
    assert str(ds.stats) == "No batch yet"
    assert str(ds.plan()).startswith("Plan of an epoch\n  units   ")
    list(ds)
    list(ds)
    assert "nothing: all cells are in memory" in str(ds.stats)
    assert "units" not in str(ds.stats)
