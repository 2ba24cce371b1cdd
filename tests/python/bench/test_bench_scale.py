"""``penstock bench scale``: processes that start together, points that fail, bounds."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import own_loader
import pandas as pd
import pytest
from penstock.bench import scale
from penstock.bench.measuring.measurement import Measurement
from penstock.bench.methods import METHODS
from penstock.bench.worker.request import Request, Work
from penstock.cli import main

# The first of two to come is a second late, and notes when it is there; of `broken` it does not come at all. In an epoch
# each waits until the other is in its own.
_LATE = """
import glob, os, time
from datetime import datetime, timezone
from ..opened import Opened
def imports(variant, work):
    try:
        os.close(os.open(work.source, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if variant == "broken":
        raise ImportError("it is broken")
    time.sleep(1)
    with open(work.source + ".imported", "w") as file:
        file.write(datetime.now(timezone.utc).isoformat())
def open_loader(variant, work):
    def epoch(number):
        import numpy as np
        open(f"{work.source}.epoch-{number}-{os.getpid()}", "w").close()
        end = time.monotonic() + 300
        while variant != "broken" and len(glob.glob(f"{work.source}.epoch-{number}-*")) < 2:
            assert time.monotonic() < end, "the other process is not in this epoch"
            time.sleep(0.01)
        yield np.zeros((2, 3)), np.array([0, 1])
    return Opened(epoch)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def in_two_processes(variant: str, folder: Path) -> pd.DataFrame:
    request = Request("stubborn", variant, Work(str(folder / "first")))
    each = Measurement(METHODS["AnnLoader"], request)
    return pd.DataFrame(scale.in_processes(each, 2, None, "by hand", lambda text: None))


def test_processes_begin_together(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_loader.install(_LATE, here, monkeypatch)
    rows = in_two_processes("", here)
    assert rows["status"].tolist() == ["ok", "ok"]
    starts = pd.to_datetime(rows["start_dt"], utc=True)
    assert starts.max() < pd.to_datetime(rows["end_dt"], utc=True).min()
    assert rows["import_seconds"].max() >= 1  # which is in no epoch
    assert starts.min() >= pd.Timestamp((here / "first.imported").read_text())


def test_a_process_that_fails_keeps_nobody_waiting(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_loader.install(_LATE, here, monkeypatch)
    rows = in_two_processes("broken", here)
    assert sorted(rows["status"]) == ["failed", "ok"]
    assert (rows["end_dt"].max() - rows["start_dt"].min()).total_seconds() < 60


def test_a_point_that_fails_is_a_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--cells", "512", "--genes", "400", "--density", "40", "-R", "1", "--fragments", "1",
             "--threads", "1", "-q"]  # fmt: skip
    arguments = ["bench", "scale", "cells=512,1024,2048", *small]
    made = scale.experiment

    def experiment(point: scale.Point, say) -> Path:
        if point.cells == 1024:
            raise OSError(28, "No space left on device")
        path = made(point, say)
        if point.cells == 2048:
            for file in path.glob("ms/RNA/X/raw/__fragments/*/a0.tdb"):
                file.write_bytes(b"broken")
        return path

    monkeypatch.setattr(scale, "experiment", experiment)
    assert main(arguments) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| cells")]
    assert [line.split("|")[2].strip() for line in lines] == ["512", "1,024", "2,048"]
    assert "could not be made: [Errno 28] No space left on device" in lines[1]
    assert "| failed: CorruptData: " in lines[2]
    assert {line.count("|") for line in lines} == {lines[0].count("|")}
    assert main([*arguments[:2], "cells=1024,2048", *small]) == 1
    assert "no point could be measured; of the first: could not be" in capsys.readouterr().err


def test_ranks_divide_the_cells(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--cells", "1001", "--genes", "400", "--density", "40", "-R", "2", "-B", "64", "-q"]
    assert main(["bench", "scale", "ranks=1,2,3", *small]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ranks")]
    assert [line.split("|")[2].strip() for line in lines] == ["1", "2", "3"]
    assert ["%" in line.split("|")[7] for line in lines] == [
        False,
        True,
        True,
    ]  # slowest over fastest
    rows = pd.read_parquet("epochs.parquet").fillna({"ranks": "1"})
    for (ranks, _), each in rows.groupby(["ranks", "round"]):
        assert len(each) == int(ranks)
        assert each["status"].eq("ok").all()
        assert each["total_n_rows"].sum() == 1001
        assert each["total_n_rows"].max() - each["total_n_rows"].min() <= 1
        assert each["joinid_sum"].sum() == 1001 * 1000 // 2
        assert each["n_batches"].nunique() == 1


def test_ranks_that_do_not_give_each_cell_once_are_no_cost() -> None:
    request = Request("penstock", "scatter", Work("nowhere"))
    measured = Measurement(METHODS["penstock"], request, expected_rows=6, expected_joinid_sum=15)
    point = scale.Point(ranks=2)
    row = {"status": "ok", "error": None, "round": 0, "epoch_seconds": 1.0, "n_nonzeros": 9,
           "total_n_rows": 3, "joinid_sum": 7}  # fmt: skip
    for other, words in [
        ({"joinid_sum": 9}, "wrong: the ranks did not get each cell once"),
        ({"total_n_rows": 6}, "wrong: the ranks got 9 cells, not 6"),
        ({"status": "timeout", "error": "too long"}, "timeout: too long"),
    ]:
        found = scale.cost("ranks", point, measured, [row, row | other])
        assert isinstance(found, scale.Failed)
        assert found.error == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--on", "s3://bucket/key", "threads=1"],
         "--on must be an experiment in a local folder, got s3://bucket/key"),
        (["genes=60664,63"], "genes must be from 64 to 2,097,152, got genes 63 of the axis"),
        (["threads=1", "--genes", "63"], "genes must be from 64 to 2,097,152, got --genes 63"),
        (["fragments=9", "--cells", "8"],
         "fragments must not exceed cells, got fragments 9 of the axis, --cells 8"),
        (["density=100,2000", "--genes", "5000"],
         "density must be at most a fifth of genes, got density 2,000 of the axis, --genes 5,000"),
    ],
)  # fmt: skip
def test_mistakes_name_options_before_anything_is_made(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "scale", *arguments]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert "n_genes" not in error
    assert list(here.iterdir()) == []


def test_the_bandwidth_of_copies_is_what_all_threads_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that says how long three rounds took; bytes are counted as read and as written."""
    clock = iter([0.0, 4.0, 10.0, 10.5, 20.0, 21.0])
    copied: list[tuple[int, int, str]] = []
    copy = np.copyto

    def counting(target: np.ndarray, source: np.ndarray) -> None:
        copied.append((target.nbytes, source.nbytes, threading.current_thread().name))
        copy(target, source)

    monkeypatch.setattr(scale.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(scale.np, "copyto", counting)
    assert scale.copy_bandwidth(3, 1 << 16) == 2 * 3 * (1 << 16) / 0.5
    assert [each[:2] for each in copied] == [(1 << 16, 1 << 16)] * 9
    assert len({name for *_, name in copied}) == 9  # none by the thread that waits


def test_the_memory_bound_is_of_thirty_bytes_a_nonzero(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(scale, "copy_bandwidth", lambda threads: asked.append(threads) or 6e9)
    assert scale.memory_bound(2_000, 2) == 6e9 / (30 * 2_000)
    assert asked == [2]
    monkeypatch.undo()
    assert 1e8 < scale.copy_bandwidth(1, 1 << 22) < 1e13
