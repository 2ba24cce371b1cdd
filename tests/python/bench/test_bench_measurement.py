"""One measurement: its figures, and the row of a process that fails."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import own_loader
import penstock
import pytest
from conftest import Oracle
from penstock.bench.measuring import page_cache, tree_memory, worker_process
from penstock.bench.measuring.measurement import Measurement, measure
from penstock.bench.methods import METHODS
from penstock.bench.schema import ALB_COLUMNS, COLUMNS
from penstock.bench.worker import process_facts
from penstock.bench.worker.main import is_out_of_memory
from penstock.bench.worker.request import Request, Work


def request(oracle: Oracle, **more) -> Request:
    return Request(
        "penstock", "scatter", Work(str(oracle.path), batch_size=100, sparse=True), **more
    )


def measured(oracle: Oracle, request: Request, **more) -> list[dict]:
    return measure(Measurement(METHODS["penstock"], request, **more))


def test_rows_have_alb_columns_and_true_figures(census_like: Oracle) -> None:
    joinids = census_like.obs["soma_joinid"]
    rows = measured(
        census_like,
        request(census_like, epochs=2, gc_freq=20),
        expected_rows=len(joinids),
        expected_joinid_sum=int(joinids.sum()),
        labels={"alb_start_dt": None, "start_idx": 2},
    )
    assert [(row["epoch"], row["status"], row["error"]) for row in rows] == [
        (0, "ok", None), (1, "ok", None),
    ]  # fmt: skip
    for row in rows:
        assert set(row) <= set(COLUMNS)
        # Of alb's columns those that a slice of the Census has are labels of the target.
        of_target = {"collection_id", "census_uri", "census_version", "end_idx", "total_rows",
                     "sorted_datasets"}  # fmt: skip
        assert set(ALB_COLUMNS) - set(row) <= of_target
        assert (row["total_n_rows"], row["n_rows"], row["n_cols"]) == (6_000, 5_900, 3_000)
        assert (row["n_batches"], row["whole_epoch"]) == (60, True)
        assert row["n_nonzeros"] == census_like.X.nnz
        assert 0 < row["gc"] < row["elapsed"] < row["epoch_seconds"]
        assert 0 < row["first_batch_seconds"] < row["epoch_seconds"]
        assert row["cells_per_second"] == pytest.approx(5_900 / (row["elapsed"] - row["gc"]))
        assert row["epoch_cells_per_second"] == pytest.approx(
            6_000 / (row["epoch_seconds"] - row["gc"])
        )
        assert row["start_dt"] <= row["end_dt"]
        assert row["start_idx"] == 2
        assert (row["cache"], row["cache_resident"]) == ("warm", 1.0)
        # All of X is read, once, and what is resident is more than numpy and less than a GiB.
        stored = sum(f.stat().st_size for f in census_like.path.rglob("a0.tdb"))
        assert (row["bytes_read"] > stored) == (row["epoch"] == 0)
        assert 10 << 20 < row["peak_uss"] <= row["peak_pss"] <= row["peak_tree_rss"] < 1 << 30
        assert row["max_mem"] == row["peak_uss"]
        assert row["imports_rss"] <= row["peak_rss"] < 1 << 30
        assert row["cpu_seconds"] > 0
        assert 0 < row["batch_p50"] <= row["batch_p99"] <= row["batch_max"] < row["elapsed"]
        assert 0.1 <= row["slowest_tenth_share"] < 1
        quantiles = json.loads(row["batch_quantiles"])
        assert len(quantiles) == 101
        assert quantiles == sorted(quantiles)
        samples = json.loads(row["memory_over_time"])
        assert samples[0][0] <= samples[-1][0] < row["epoch_seconds"] + 60
        assert 0 < max(uss for _, uss, _ in samples) <= row["peak_uss"]
        assert json.loads(row["versions"])["python"]
        assert json.loads(row["statistics"])["cells"] == 6_000


def test_cut_epochs_and_first_batches(census_like: Oracle) -> None:
    (cut,) = measured(census_like, request(census_like, max_batches=7))
    assert (cut["n_batches"], cut["n_rows"], cut["whole_epoch"]) == (8, 700, False)
    (counted,) = measured(
        census_like, request(census_like, max_batches=7, first_batch_included=True)
    )
    assert (counted["n_batches"], counted["n_rows"]) == (7, 700)
    assert counted["elapsed"] >= counted["first_batch_seconds"]


def test_dense_batches_of_the_first_genes(census_like: Oracle) -> None:
    asked = request(census_like)
    work = dataclasses.replace(asked.work, sparse=False, n_vars=77)
    (row,) = measured(census_like, dataclasses.replace(asked, work=work))
    assert (row["status"], row["n_cols"], row["n_nonzeros"]) == ("ok", 77, None)


def test_wrong_results_are_rows(census_like: Oracle) -> None:
    (row,) = measured(census_like, request(census_like), expected_rows=6_001)
    assert (row["status"], row["error"]) == ("wrong", "got 6,000 cells, not 6,001")
    (row,) = measured(census_like, request(census_like), expected_joinid_sum=5)
    assert row["status"] == "wrong"
    assert "not each cell once" in row["error"]


def test_a_source_that_is_not_there_is_a_row(tmp_path: Path) -> None:
    asked = Request("penstock", "scatter", Work(str(tmp_path / "nothing")))
    (row,) = measure(Measurement(METHODS["penstock"], asked))
    assert (row["status"], row["oom"], row["epoch"]) == ("failed", False, 0)
    assert row["error"].startswith("NotFound: ")


# A loader of the test's own, which does what the variant says.
_STUBBORN = """
import os, sys, time
from ..opened import Opened
def imports(variant, work): pass
def open_loader(variant, work):
    def epoch(number):
        import numpy as np
        yield np.zeros((2, 3)), np.array([0, 1])
        if number == 1:
            if variant == "kill":
                os.kill(os.getpid(), 9)
            if variant == "exit":
                print("good \\x1b[1mbye", file=sys.stderr); os._exit(3)
            if variant == "raise":
                raise RuntimeError("no \\x9bmore\\ncells")
            if variant == "memory":
                np.ones(1 << 40)
    if variant == "sleep":
        time.sleep(600)
    return Opened(epoch)
"""


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has the loader above."""
    own_loader.install(_STUBBORN, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("variant", "status", "words"),
    [
        ("kill", "failed", "ended by SIGKILL"),
        ("exit", "failed", r"exit status 3: good \x1b[1mbye"),
        ("raise", "failed", r"RuntimeError: no \x9bmore"),
        ("memory", "oom", "MemoryError: Unable to allocate"),
    ],
)
def test_epochs_before_a_failure_are_kept(variant: str, status: str, words: str, stubborn) -> None:
    # The limit makes sure that the allocation is refused, however much the kernel would promise.
    asked = Request("stubborn", variant, Work("none"), epochs=3, memory_limit=1 << 38)
    rows = measure(Measurement(METHODS["AnnLoader"], asked))
    assert [row["status"] for row in rows] == ["ok", status]
    assert (rows[1]["epoch"], rows[1]["oom"]) == (1, status == "oom")
    assert words in rows[1]["error"]


def test_a_device_that_is_not_there_is_a_clear_row(census_like: Oracle) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA GPU")
    (row,) = measured(census_like, request(census_like, device="cuda"))
    assert row["status"] == "failed"
    assert "copied to 'cuda', since torch finds no CUDA GPU here: leave the device" in row["error"]
    (row,) = measured(census_like, request(census_like, device="cpu", max_batches=5))
    assert (row["status"], row["device"], row["copy_seconds"] > 0) == ("ok", "cpu", True)


def test_a_region_means_nothing_to_a_folder(census_like: Oracle) -> None:
    asked = request(census_like, max_batches=2)
    work = dataclasses.replace(asked.work, region="us-west-2")
    (row,) = measured(census_like, dataclasses.replace(asked, work=work))
    assert row["status"] == "ok", row["error"]


def test_labels_tell_measurements_apart() -> None:
    work = Work("x", chunk_size=64, chunks_per_block=16, memory_budget="1GiB", threads=2)
    asked = Request("penstock", "chunks", work)
    each = Measurement(METHODS["penstock:chunks"], asked, place="local disk")
    assert each.label == "penstock:chunks 16x64 1GiB, 2 threads, local disk"
    assert Measurement(METHODS["AnnLoader"], asked).label == "AnnLoader 16x64"


def test_no_end_in_time_is_a_row(stubborn) -> None:
    asked = Request("stubborn", "sleep", Work("none"))
    (row,) = measure(Measurement(METHODS["AnnLoader"], asked, timeout=1.0))
    assert (row["status"], row["error"]) == ("timeout", "no end within 1 s")


def test_an_interpreter_that_is_not_there() -> None:
    outcome = worker_process.run(Request("annbatch", "", Work("nothing")), python="/no/such/python")
    assert (outcome.status, outcome.error) == (
        "failed", "cannot start /no/such/python: No such file or directory",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "expected"),
    [(MemoryError(), True), (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
     (ImportError("libx.so: failed to map segment from shared object"), True),
     (RuntimeError("std::bad_alloc"), True), (RuntimeError("no such column"), False),
     (penstock.ResourceExhausted("the budget is too small"), False)],
)  # fmt: skip
def test_what_counts_as_out_of_memory(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_memory_of_a_tree_counts_children() -> None:
    code = (
        "import os, sys\n"
        "block = bytearray(os.urandom(1)) * (64 << 20)\n"
        "if os.fork():\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.read()\n"
        "else:\n"
        "    for i in range(0, len(block), 4096): block[i] = 1\n"  # the child's own pages now
        "    print('ready', flush=True)\n"
        "    os.read(0, 1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        now = tree_memory.memory_now(process.pid)
        assert now.processes == 2
        assert 128 << 20 <= now.uss <= now.pss <= now.rss < 256 << 20
    finally:
        process.kill()
        process.communicate()
    assert tree_memory.memory_now(process.pid).processes == 0


def test_a_process_that_ends_while_it_is_looked_at_ends_no_sampling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(self: Path, pattern: str) -> list[Path]:
        raise ProcessLookupError(3, "No such process", str(self))

    monkeypatch.setattr(Path, "glob", ended)
    assert tree_memory.tree(os.getpid()) == [os.getpid()]
    assert tree_memory.memory_now(os.getpid()).processes == 1


def test_peaks_begin_again() -> None:
    memory = tree_memory.TreeMemory(os.getpid())
    try:
        block = mmap.mmap(-1, 96 << 20)  # goes back to the kernel whatever malloc keeps
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
        high = memory.take()
        block.close()
        memory.take()
        assert memory.take().uss < high.uss - (64 << 20)
        samples = memory.take_samples()  # one at the beginning, and one for each take
        assert len(samples) >= 4
        assert max(uss for _, uss, _ in samples) >= high.uss - (1 << 20)
        assert len(memory.take_samples()) >= 1
    finally:
        memory.stop()


MARK_SCRIPT = """
import mmap, os
from dataclasses import replace
from penstock.bench.worker import process_facts
from penstock.bench.measuring import tree_memory

before = tree_memory.memory_now(os.getpid())
process_facts.reset_peak_rss()
block = mmap.mmap(-1, 96 << 20)
for page in range(0, len(block), mmap.PAGESIZE):
    block[page] = 1
block.close()
peak = tree_memory.memory_now(os.getpid())
mark = process_facts.peak_rss()
sampled, of_two = peak.uss, replace(peak, processes=2)
of_two.raise_to_mark(mark)
peak.raise_to_mark(mark)
print(before.uss, sampled, peak.uss, peak.pss, peak.rss, mark, of_two.uss)
"""


@pytest.mark.skipif(not process_facts.reset_peak_rss(), reason="the kernel keeps its mark")
def test_a_peak_between_two_samples_is_told_by_the_kernel_s_mark() -> None:
    """As short ones are of epochs of half a second: here nothing is sampled while it lasts."""
    command = [sys.executable, "-c", MARK_SCRIPT]  # of its own: the mark is for a process alone
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    before, after, uss, pss, rss, mark, of_two = map(int, done.stdout.split())
    assert after < before + (48 << 20)
    assert before + (90 << 20) < uss < before + (110 << 20)
    assert uss <= pss <= rss == mark
    assert of_two == after


def test_page_cache_is_dropped_and_filled(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "file"
    file.parent.mkdir()
    file.write_bytes(os.urandom(3 << 20))
    (tmp_path / "empty").touch()
    assert page_cache.prepare("warm", tmp_path) == 1.0
    dropped = page_cache.prepare("cold", tmp_path)
    assert dropped is not None  # not every file system lets go, and the row says so
    assert page_cache.prepare("as-is", tmp_path) == pytest.approx(dropped, abs=0.5)
    assert page_cache.prepare("warm", file) == 1.0
    assert page_cache.prepare("warm", tmp_path / "nothing") is None
