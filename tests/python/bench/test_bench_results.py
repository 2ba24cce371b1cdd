"""Rows in Parquet files, and tables of them."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from bench_rows import ALB, alb_row, rounds, row
from penstock import InvalidArgument
from penstock.bench.measuring.tree_memory import Peak, _Samples
from penstock.bench.reports.comparison import Spread, best_of, markdown, ratios
from penstock.bench.reports.results_file import append, read, read_all
from penstock.bench.scale import slope
from penstock.bench.schema import ALB_COLUMNS, COLUMNS
from penstock.bench.tune import choose, rates
from penstock.bench.worker import batch_times


def test_alb_columns_are_ours() -> None:
    assert list(ALB_COLUMNS) == ALB


def test_rows_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "epochs.parquet"
    assert append(path, [row()]) == 1
    assert append(path, [row(note="a", epoch=1), row(epoch=2)]) == 3
    frame = pq.read_table(path).to_pandas()
    assert list(frame["epoch"]) == [0, 1, 2]
    assert frame["note"].tolist()[1] == "a"
    assert pd.isna(frame["note"][0])
    assert frame["start_dt"][0] == pd.Timestamp("2026-01-02 03:00")
    assert set(COLUMNS) <= set(frame.columns)
    assert [p.name for p in path.parent.iterdir()] == ["epochs.parquet"]


def _append_often(path: Path, number: int) -> None:
    for epoch in range(8):
        append(path, [row(epoch=epoch, method=f"m{number}")])


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "epochs.parquet"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_often, args=(path, i)) for i in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    frame = read(path).to_pandas()
    assert sorted(zip(frame["method"], frame["epoch"], strict=True)) == [
        (f"m{i}", epoch) for i in range(2) for epoch in range(8)
    ]


def test_files_of_several_machines_and_of_alb(tmp_path: Path) -> None:
    append(tmp_path / "a.parquet", [row(), row(host="two", status="oom", cells_per_second=None)])
    pd.DataFrame([alb_row(), alb_row(elapsed=None, oom=True)]).to_parquet(tmp_path / "b.parquet")
    merged = read_all([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert merged["status"].tolist() == ["ok", "oom", "ok", "oom"]
    assert merged["method"].tolist() == ["penstock", "penstock", "np.array", "np.array"]
    # As alb's own plots: rows over all that elapsed. Ours keep what was measured without the garbage.
    assert merged["cells_per_second"][2] == pytest.approx(4096 / 5.0)
    assert merged["cells_per_second"][0] == 1000.0
    # And what was merged can be appended to again.
    append(tmp_path / "b.parquet", [row()])
    assert len(read(tmp_path / "b.parquet")) == 3


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file of measurements"):
        read(tmp_path / "none.parquet")
    (tmp_path / "text").write_text("text")
    with pytest.raises(InvalidArgument, match="not a Parquet file"):
        read(tmp_path / "text")


def test_ratios_are_taken_within_a_round() -> None:
    rows = rounds({"a": [10.0, 100.0, 1000.0], "b": [5.0, 20.0, 1000.0]})
    found = ratios(rows, "a", "b", "cells_per_second")
    assert found == Spread(2.0, 1.0, 5.0)
    # A round that failed for one is no pair.
    rows[2] |= {"status": "oom", "error": "too much", "oom": True}
    assert ratios(rows, "a", "b", "cells_per_second") == Spread(3.5, 2.0, 5.0)
    assert ratios(rows, "a", "c", "cells_per_second") is None


def test_table_in_markdown() -> None:
    rows = rounds({"a": [10.0, 30.0], "b 8x64": [5.0, 20.0], "b 1x9": [6.0, 3.0]})
    rows[-1] |= {"status": "failed", "error": "a | b\nc"}
    text = markdown(rows, "a")
    lines = text.splitlines()
    assert lines[2].startswith("| a | 20 (10 to 30) |")
    assert "failed: a / b c" in lines[4]
    assert {line.count("|") for line in lines[:5]} == {10}
    assert lines[0].startswith("| method | whole epoch, cells/s | after the first batch, cells/s |")
    assert lines[6].startswith("- a against b 8x64: 1.75 (1.50 to 2.00) times the cells/s")
    assert best_of(rows, "b") == "b 8x64"
    assert best_of(rows, "c") is None
    # Medians of 12.5 and, of the one round that was measured, 6.
    words = "Each method at its fastest setting of this run (a: the one that ran):"
    assert lines[-4:-1] == ["", words, ""]
    assert lines[-1] == lines[6]
    assert "fastest" not in markdown(rounds({"a": [1.0], "b": [2.0]}), "a")


def test_each_epoch_has_a_table() -> None:
    rows = [
        row | {"epoch": epoch}
        for epoch, speeds in enumerate(({"a": [1.0], "b": [2.0]}, {"a": [9.0], "b": [3.0]}))
        for row in rounds(speeds)
    ]
    rows.append(rows[-1] | {"contestant": "c", "method": "c", "epoch": 0, "status": "failed"})
    first, second = markdown(rows, "a").split("### Epoch 2")
    assert first.startswith("### Epoch 1\n\n| method |")
    assert "- a against b: 0.50 times the cells/s of a whole epoch" in first
    assert "- a against b: 3.00 times the cells/s of a whole epoch" in second
    assert "| c |" in first
    assert "| c |" not in second
    # One that has failed before: the epochs of the others are told all the same.
    assert "| b | 3 |" in markdown([r for r in rows if (r["method"], r["epoch"]) != ("a", 1)], "a")


def test_epochs_that_were_cut_have_no_figure_for_the_whole() -> None:
    rows = rounds({"a": [10.0, 30.0], "b": [5.0, 20.0]})
    for each in rows[2:]:
        each |= {"whole_epoch": False}
    lines = markdown(rows, "a").splitlines()
    assert lines[3].startswith("| b | - | 12 (5 to 20) |")
    assert "cut after 10 cells" in lines[3]
    assert lines[5].startswith(
        "- a against b: 1.75 (1.50 to 2.00) times the cells/s after the first"
    )
    # One whose first batch took all of the time has no speed, and says why.
    for each in rows[2:]:
        each |= {"cells_per_second": None}
    text = markdown(rows, "a")
    assert "2 ended with the first batch, 10 cells: no speed" in text
    assert "against" not in text


def test_no_ratio_is_taken_of_what_was_in_memory_with_the_first_batch() -> None:
    rows = rounds({"a": [10.0, 30.0], "b": [5.0, 20.0]})
    text = markdown(rows, "a")
    assert "of a whole epoch, 1.75 (1.50 to 2.00) times the cells/s after the first batch" in text
    assert "*" not in text
    rows[-1] |= {"first_batch_seconds": 0.51}
    text = markdown(rows, "a")
    assert "- a against b: 1.75 (1.50 to 2.00) times the cells/s of a whole epoch, 1.00" in text
    assert "times the cells/s after the first batch" not in text
    assert "| b | 12 (5 to 20) | 12 (5 to 20) * |" in text
    assert "| a | 20 (10 to 30) | 20 (10 to 30) |" in text
    assert "came after more than half of the time" in text


def test_a_cut_epoch_that_was_in_memory_with_its_first_batch_has_no_ratio() -> None:
    rows = rounds({"a": [10.0, 30.0], "b": [5.0, 20.0]})
    for each in rows[2:]:
        each |= {"whole_epoch": False, "first_batch_seconds": 0.9}
    text = markdown(rows, "a")
    assert "| b | - | 12 (5 to 20) * |" in text
    assert "a against b: 1.00" in text  # the memory alone
    assert "cells/s after the first batch," not in text.split("|")[-1]


def test_slopes_of_power_laws() -> None:
    x = np.array([1.0, 2.0, 8.0])
    assert slope([(v, 3 * v**0.5) for v in x]) == pytest.approx(0.5)
    assert slope([(1.0, 2.0)]) is None


def test_the_smallest_setting_that_is_as_fast_is_chosen() -> None:
    def of(budget: str, threads: int, speed: float | None, status: str = "ok") -> dict:
        return row(memory_budget=budget, threads=threads, cells_per_second=speed, status=status,
                   error=None, whole_epoch=False, first_batch_seconds=0.1, epoch_seconds=1.0)  # fmt: skip

    rows = [of("256MiB", 2, 96.0), of("1GiB", 2, 100.0), of("64MiB", 2, 50.0),
            of("32MiB", 1, 500.0, "failed")]  # fmt: skip
    assert choose(rows, {}, 0.98)["memory_budget"] == "256MiB"
    # Of a whole epoch opening counts, too: a cut one is judged from its first batch on.
    small = [{**each, "whole_epoch": True, "epoch_cells_per_second": speed}
             for each, speed in zip(rows[:3], (96.0, 10.0, 20.0), strict=True)]  # fmt: skip
    assert choose(small, {}, 0.98)["memory_budget"] == "256MiB"
    assert rates(small)(small[1]) == 10.0
    assert rates(rows)(rows[1]) == 100.0
    # A cut epoch whose first batch took most of its time had the rest in memory.
    whole = {**rows[0], "whole_epoch": True, "epoch_cells_per_second": 90.0}
    cut = {**rows[1], "threads": 1, "cells_per_second": 580.0, "epoch_cells_per_second": 59.0,
           "first_batch_seconds": 0.9, "epoch_seconds": 1.0}  # fmt: skip
    assert choose([whole, cut], {}, 0.98) is whole
    with pytest.raises(
        InvalidArgument, match="time was up with the first batch; raise --max-seconds"
    ):
        choose([of("256MiB", 2, None)], {}, 0.98)
    # The first batch came after the limit: 128 cells over 2 s are the speed of nothing.
    late = {**rows[0], "cells_per_second": None, "epoch_cells_per_second": 62.0,
            "first_batch_seconds": 2.05, "epoch_seconds": 2.06}  # fmt: skip
    assert rates([*rows, late])(late) == 0.0
    with pytest.raises(InvalidArgument, match="time was up with the first batch"):
        choose([late], {}, 0.98)
    mixed = {"64MiB": 0.5, "256MiB": 0.9, "1GiB": 0.99}
    assert choose(rows, mixed, 0.98)["memory_budget"] == "1GiB"
    assert choose(rows, mixed, 0.999)["memory_budget"] == "1GiB"
    with pytest.raises(InvalidArgument, match="nothing could be measured"):
        choose(rows[-1:], {}, 0.98)


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 100, 4_321])
def test_seconds_of_batches(count: int) -> None:
    seconds = np.random.default_rng(count).exponential(1e-3, count)
    found = batch_times.summary(seconds.tolist())
    assert found["batch_p50"] == pytest.approx(np.median(seconds))
    assert found["batch_p99"] == pytest.approx(np.percentile(seconds, 99))
    assert found["batch_max"] == seconds.max()
    slowest = np.sort(seconds)[::-1][: max(1, count // 10)]
    assert found["slowest_tenth_share"] == pytest.approx(slowest.sum() / seconds.sum())
    np.testing.assert_allclose(
        json.loads(found["batch_quantiles"]), np.percentile(seconds, np.arange(101)), 1e-2
    )
    assert set(batch_times.summary([]).values()) == {None}


def test_samples_of_memory_are_thinned() -> None:
    samples = _Samples()
    for number in range(10_000):
        samples.add(Peak(uss=number, rss=2 * number, processes=1))
    samples.add(Peak())  # after the end of the process
    assert 200 < len(samples.points) <= 500
    sizes = [uss for _, uss, _ in samples.points]
    assert len(set(np.diff(sizes).tolist())) == 1
    assert sizes[0] == 0
    assert sizes[-1] > 9_900
