"""Effects of single options and columns of ``penstock bench``."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import shutil
from pathlib import Path

import numpy as np
import own_loader
import pandas as pd
import penstock as ps
import pyarrow as pa
import pytest
import tiledbsoma
from conftest import Oracle
from penstock import _core
from penstock.bench import machine, sweep
from penstock.bench.measuring import decode_bound, page_cache, worker_process
from penstock.bench.measuring.measurement import Measurement, measure
from penstock.bench.methods import METHODS
from penstock.bench.peers import interpreter
from penstock.bench.reports import plot
from penstock.bench.scale import Cost, Point
from penstock.bench.worker.loaders.read_chunks import _chunks
from penstock.bench.worker.measure import measure as measure_here
from penstock.bench.worker.request import Request, Work
from penstock.cli import main

STUBBORN = """
import os, time
from ..opened import Opened
def imports(variant, work): pass
def open_loader(variant, work):
    def epoch(number):
        import numpy as np
        yield np.zeros((2, 3)), np.array([0, 1])
        if variant == "kill":
            os.kill(os.getpid(), 9)
        if variant == "child":
            child = os.fork()
            if child == 0:
                held = np.ones(64 << 20, np.uint8)
                time.sleep(3)
                os._exit(int(held[0]) - 1)
            end = time.process_time() + 0.5
            while time.process_time() < end:
                pass
            os.waitpid(child, 0)
    return Opened(epoch)
"""


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has the loader above."""
    own_loader.install(STUBBORN, tmp_path, monkeypatch)


def test_killed_by_the_kernel_is_out_of_memory(stubborn, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([7, 8])
    monkeypatch.setattr(worker_process, "_kernel_kills", lambda: next(counts))
    rows = measure(Measurement(METHODS["AnnLoader"], Request("stubborn", "kill", Work("none"))))
    assert [(row["status"], row["oom"]) for row in rows] == [("oom", True)]
    assert rows[0]["error"] == "killed by the kernel: out of memory"


def test_children_count_and_so_does_their_parent_s_work(stubborn) -> None:
    (row,) = measure(Measurement(METHODS["AnnLoader"], Request("stubborn", "child", Work("none"))))
    assert row["status"] == "ok", row["error"]
    assert row["n_processes"] == 2
    assert row["max_mem"] >= 64 << 20
    assert row["cpu_seconds"] >= 0.5


def test_facts_of_the_machine_are_this_one_s(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Request("penstock", "scatter", Work(str(census_like.path), sparse=True))
    (row,) = measure(Measurement(METHODS["penstock"], asked))
    assert row["cores"] == os.cpu_count() == machine.machine_facts()["cores"]
    assert row["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setenv("PENSTOCK_BENCH_COMMIT", "of-the-wheel")
    import penstock

    assert json.loads(row["versions"])["penstock"] == penstock.__version__
    assert machine.commit(tmp_path) == "of-the-wheel"
    assert machine.cloud_instance(tmp_path) == (None, None)
    (tmp_path / "board_asset_tag").write_text("i-0123456789abcdef0\n")
    (tmp_path / "product_name").write_text("g4dn.8xlarge\n")
    assert machine.cloud_instance(tmp_path) == ("i-0123456789abcdef0", "g4dn.8xlarge")


def test_epochs_and_batches_are_as_many_as_asked(census_like: Oracle, tmp_path: Path) -> None:
    found = tmp_path / "rows"
    assert main(["bench", "data-loader", str(census_like.path), "--sparse", "-E", "2", "-n", "3", "-v",
                 "50", "-d", str(found)]) == 0  # fmt: skip
    rows = pd.read_parquet(found)
    assert rows["epoch"].tolist() == [0, 1]
    assert rows["n_batches"].tolist() == [4, 4]  # the first is not counted
    assert rows["n_rows"].tolist() == [3 * 1024] * 2


def test_quiet_says_nothing(
    census_like: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "data-loader", str(census_like.path), "--sparse", "-v", "50"]
    assert main([*arguments, "-d", str(tmp_path / "a"), "-q"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*arguments, "-d", str(tmp_path / "b")]) == 0
    assert "1 row appended" in capsys.readouterr().out


def test_garbage_is_collected_every_so_many_batches(
    census_like: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda *_: calls.append(1) or 0)
    answers: list[dict] = []
    work = Work(str(census_like.path), batch_size=100, sparse=True, n_vars=20)
    measure_here(Request("penstock", "scatter", work, gc_freq=20), answers.append)
    assert answers[-1]["n_batches"] == 60
    assert len(calls) == 3


def test_orders_of_read_chunks() -> None:
    rows = np.arange(0, 200, 2)

    def chunks(shuffle: str, seed: int = 1) -> list[list[int]]:
        return [each.tolist() for each in _chunks(rows, 30, shuffle, np.random.default_rng(seed))]

    stored = chunks("")
    assert stored == [rows[i : i + 30].tolist() for i in (0, 30, 60, 90)]
    within = chunks("chunk")
    assert [sorted(each) for each in within] == stored != within
    across = chunks("global")
    assert sorted(sum(across, [])) == rows.tolist()
    assert all(sorted(a) != b for a, b in zip(across, stored, strict=True))
    assert chunks("global", 2) != across == chunks("global")


def test_a_cold_cache_is_cold(census_like: Oracle, tmp_path: Path) -> None:
    import shutil

    path = tmp_path / "experiment"
    shutil.copytree(census_like.path, path)
    os.sync()
    page_cache.prepare("warm", str(path))
    dropped = page_cache.prepare("cold", str(path))
    if dropped is None or dropped > 0.9:
        pytest.skip("pages are not given up here, as where the disk is memory")
    work = Work(str(path), sparse=True)
    rows = {}
    for cache in ("warm", "cold"):
        each = Measurement(METHODS["penstock"], Request("penstock", "scatter", work), cache=cache)
        (rows[cache],) = measure(each)
    assert rows["cold"]["cache"] == "cold"
    assert rows["cold"]["cache_resident"] < 0.5 < rows["warm"]["cache_resident"]
    assert rows["cold"]["disk_bytes_read"] > rows["warm"]["disk_bytes_read"]


def test_the_decode_bound_decodes_all_that_is_stored(census_like: Oracle) -> None:
    array = str(census_like.path / "ms" / "RNA" / "X" / "raw")
    for parts, files in (
        (["rows"], ["d0.tdb"]),
        (["columns", "values"], ["d1.tdb", "a0.tdb"]),
    ):
        seconds, cells, of_all, stored = _core.decode_bound(array, parts, 1 << 30, 1, 1)
        assert seconds > 0
        assert cells == of_all == census_like.X.nnz
        fragments = (Path(array) / "__fragments").iterdir()
        assert stored == sum((fragment / f).stat().st_size for fragment in fragments for f in files)
    _, some, of_all, few = _core.decode_bound(array, ["columns", "values"], stored // 3, 2, 1)
    assert 0 < some < of_all
    assert 0 < few < stored / 2
    whole = decode_bound.measure(array, 6_000, 1, rounds=1)
    assert whole.cells_per_second > 0


def test_the_decode_bound_of_what_cannot_be_decoded(census_like: Oracle, tmp_path: Path) -> None:
    with pytest.raises(ps.errors.InvalidArgument, match="rows, columns or values, got genes"):
        _core.decode_bound(str(census_like.path / "ms/RNA/X/raw"), ["genes"], 1, 1, 1)
    dense = str(tmp_path / "dense")
    tiledbsoma.DenseNDArray.create(dense, type=pa.float32(), shape=(3, 4)).close()
    with pytest.raises(ps.errors.Unsupported, match="on sparse arrays, not on"):
        decode_bound.measure(dense, 3, 1)
    damaged = tmp_path / "damaged"
    shutil.copytree(census_like.path / "ms/RNA/X/raw", damaged)
    column = next((damaged / "__fragments").iterdir()) / "d1.tdb"
    stored = bytearray(column.read_bytes())
    stored[len(stored) // 2 :] = bytes(len(stored) - len(stored) // 2)
    column.write_bytes(stored)
    with pytest.raises(ps.errors.CorruptData):
        decode_bound.measure(damaged, 6_000, 2)


def test_bounds_of_a_cost() -> None:
    point = Point(cells=1, genes=1, density=1, fragments=1, threads=1, processes=1)
    both = Cost("cells", point, 10.0, 0.1, 100.0, 1, 1_000.0, decode=150e3, memory=400e3)
    assert both.rate == 100e3
    assert both.bound == ("decompression", 150e3)
    assert both.network(1) == 125e3
    assert dataclasses.replace(both, memory=140e3).bound == ("memory bandwidth", 140e3)
    assert dataclasses.replace(both, decode=None).bound == ("memory bandwidth", 400e3)


def test_scale_goes_along_genes_density_and_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    found = tmp_path / "rows"
    assert main(["bench", "scale", "genes=400,800", "density=20,60", "fragments=1,2", "--cells", "2048",
                 "--genes", "400", "--density", "60", "-R", "1", "--fragments", "1", "--threads", "1",
                 "-d", str(found)]) == 0  # fmt: skip
    rows = pd.read_parquet(found)
    assert (rows["status"] == "ok").all()
    assert set(rows["n_cols"]) == {400, 800}
    each = rows["n_nonzeros"] / rows["total_n_rows"]
    assert each.min() == pytest.approx(20, rel=0.25)
    assert each.max() == pytest.approx(60, rel=0.25)
    fragments = {
        len(list(Path(source, "ms/RNA/X/raw/__fragments").iterdir())) for source in rows["source"]
    }
    assert fragments == {1, 2}


def test_hovering_tells_every_setting(census_like: Oracle, tmp_path: Path) -> None:
    found = tmp_path / "rows"
    assert main(["bench", "data-loader", str(census_like.path), "--sparse", "-v", "50", "-M",
                 "note=by hand", "-d", str(found)]) == 0  # fmt: skip
    (row,) = (row for _, row in pd.read_parquet(found).iterrows())
    text = plot._hover(row)
    for name in ("batch_size", "n_vars", "seed", "gc_freq", "cache", "cores", "note"):
        assert f"{name}" in text, text
        assert str(row[name]) in text.replace(",", ""), (name, text)


@pytest.mark.parametrize(
    ("option", "kept"),
    [(["--host", "one"], 1), (["--host", "one|two"], 2), (["-i", "large"], 1), (["-n", "5"], 1)],
)
def test_plot_filters_of_the_command_line(
    option: list[str], kept: int, tmp_path: Path, census_like: Oracle
) -> None:
    asked = Request("penstock", "scatter", Work(str(census_like.path), sparse=True, n_vars=20))
    (row,) = measure(Measurement(METHODS["penstock"], asked))
    made = [
        {**row, "host": "one", "instance_type": "large", "max_batches": 5},
        {**row, "host": "two", "instance_type": "small", "max_batches": 0},
    ]
    pd.DataFrame(made).to_parquet(tmp_path / "rows")
    output = tmp_path / "drawn"
    assert (
        main(["bench", "plot", str(tmp_path / "rows"), "-o", str(output), "-f", "json", *option])
        == 0
    )
    drawn = json.loads(output.with_suffix(".json").read_text())
    assert sum(len(trace["text"]) for trace in drawn["data"] if trace.get("text")) == kept


@pytest.mark.parametrize("method", ["annbatch", "scDataset", "cellxgene_census"])
def test_peers_in_environments_of_their_own(
    method: str, census_like: Oracle, tmp_path: Path
) -> None:
    try:
        interpreter(METHODS[method])
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    found = tmp_path / "rows"
    assert main(["bench", "data-loader", str(census_like.path), "-m", method, "-b", "16x64", "-B", "512",
                 "-v", "300", "--sparse", "-d", str(found)]) == 0  # fmt: skip
    (row,) = pd.read_parquet(found).to_dict("records")
    assert row["status"] == "ok", row["error"]  # so each joinid came once
    assert row["n_nonzeros"] == census_like.X[:, :300].nnz
    assert row["n_cols"] == 300


def test_rows_are_kept_before_they_are_told(census_like: Oracle, tmp_path: Path) -> None:
    """Also a row without the bytes that came over a network, which no kernel counts."""
    work = Work(str(census_like.path), sparse=True, n_vars=20)
    each = Measurement(METHODS["penstock"], Request("penstock", "scatter", work))

    def unknown(_: Measurement, row: dict) -> None:
        row["bytes_read"] = None

    said: list[str] = []
    _ = sweep.run([each], tmp_path / "rows", "by hand", said.append, unknown)
    assert said[-1].endswith("read - MB")
    assert pd.isna(pd.read_parquet(tmp_path / "rows")["bytes_read"][0])

    def breaks(_: str) -> None:
        raise OSError("nobody listens")

    with pytest.raises(OSError, match="nobody listens"):
        sweep.run([each], tmp_path / "rows", "by hand", breaks)
    assert len(pd.read_parquet(tmp_path / "rows")) == 2
