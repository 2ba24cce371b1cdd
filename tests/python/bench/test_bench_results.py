"""Rows in Parquet files, and plots of them."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from penstock import InvalidArgument
from penstock.bench import plot, plot_lines
from penstock.bench.comparison import Spread, best_of, markdown, ratios
from penstock.bench.dataset_slice import DatasetSlice
from penstock.bench.plot_columns import Style, subtitles
from penstock.bench.plot_lines import CURVES
from penstock.bench.results_file import append, read, read_all
from penstock.bench.scale import slope
from penstock.bench.schema import ALB_COLUMNS, COLUMNS
from penstock.bench.tree_memory import Peak, _Samples
from penstock.bench.tune import choose, rates
from penstock.bench.worker import batch_times
from penstock.cli import main

# The columns of alb's file as its repository has it (TileDB-Inc/arrayloader-benchmarks, 100b4fe).
ALB = [
    "start_dt",
    "epoch",
    "n_rows",
    "n_cols",
    "elapsed",
    "gc",
    "max_mem",
    "alb_start_dt",
    "sha",
    "user",
    "hostname",
    "uri",
    "chunk_method",
    "batch_size",
    "chunk_size",
    "chunks_per_block",
    "py_buffer_size",
    "soma_buffer_size",
    "block_size",
    "instance_id",
    "instance_type",
    "sorted_datasets",
    "host",
    "collection_id",
    "census_uri",
    "census_version",
    "start_idx",
    "end_idx",
    "max_batches",
    "total_rows",
    "end_dt",
]


def row(**more) -> dict:
    base = {
        "start_dt": datetime.datetime(2026, 1, 2, 3), "status": "ok", "oom": False, "epoch": 0,
        "method": "penstock", "cells_per_second": 1000.0, "max_mem": 2**30, "n_rows": 5000,
        "elapsed": 6.0, "gc": 1.0, "hostname": "one.example", "host": "one", "max_batches": 0,
    }  # fmt: skip
    return {**base, **more}


def alb_row(**more) -> dict:
    base = dict.fromkeys(ALB)
    base |= {"start_dt": pd.Timestamp("2024-06-23"), "n_rows": 4096, "elapsed": 5.0, "gc": 1.0,
             "max_mem": 2**31, "chunk_method": "np.array", "block_size": 131072,
             "chunks_per_block": 64, "chunk_size": 2048, "start_idx": 0, "end_idx": 138,
             "sorted_datasets": False, "max_batches": 4096, "instance_type": "g4dn.8xlarge",
             "hostname": "ip-1", "host": "tw5"}  # fmt: skip
    return {**base, **more}


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


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    append(tmp_path / "a.parquet", [
        row(), row(method="annbatch", max_mem=2**31, chunks_per_block=8, block_size=512,
                   instance_type="small"),
        row(host="two", hostname="two.example", start_idx=2, end_idx=7, max_batches=100,
            start_dt=datetime.datetime(2026, 6, 1)),
        row(status="failed", cells_per_second=None),
    ])  # fmt: skip
    pd.DataFrame([alb_row(), alb_row(chunks_per_block=1024, chunk_size=128)]).to_parquet(
        tmp_path / "b.parquet"
    )
    return read_all([tmp_path / "a.parquet", tmp_path / "b.parquet"])


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({}, 5),
        ({"datasets": DatasetSlice.parse(":138")}, 2),
        ({"datasets": DatasetSlice.parse("2:7")}, 1),
        ({"host": "^t"}, 3),
        ({"host": "two[.]ex"}, 1),
        ({"instance_type": "small"}, 1),
        ({"max_batches": 4096}, 2),
        ({"since": "2026-01-01"}, 3),
        ({"since": "2026-01-01", "host": "two"}, 1),
        ({"methods": ["np.array", "annbatch"]}, 3),
    ],
)
def test_filters(frame: pd.DataFrame, filters: dict, left: int) -> None:
    assert len(plot.filtered(frame, **filters)) == left


@pytest.mark.parametrize(
    ("filters", "words"),
    [({"host": "("}, "regular expression"), ({"since": "yesterday-ish"}, "date or time"),
     ({"max_batches": 3}, r"none of 5 measurements is of 3 batches; there are: 0 \(2\), 4096 \(2\), 100 \(1\)"),
     ({"datasets": DatasetSlice.parse("s:138")},
      r"is of slice s:138; there are: all cells \(2\), :138 \(2\), 2:7 \(1\)"),
     ({"instance_type": "big"}, r"there are: g4dn.8xlarge \(2\), small \(1\)"),
     ({"host": "nobody"}, "there are: one.example"), ({"epoch": 2}, r"of epoch 2; there are: 1 \("),
     ({"since": "2030-01-01"}, "there are: 2026-01-02"), ({"s3": True}, r"of S3; there are: a Census \(5\)")],
)  # fmt: skip
def test_filters_that_leave_nothing(frame: pd.DataFrame, filters: dict, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        plot.filtered(frame, **filters)


def test_figure_and_its_files(frame: pd.DataFrame, tmp_path: Path) -> None:
    chosen = plot.filtered(frame)
    drawn = plot.figure(chosen, "Title")
    written = plot.write(drawn, chosen, tmp_path / "out" / "plot", ["html", "json", "png", "svg"])
    assert [path.name for path in written] == ["plot.html", "plot.json", "plot.png", "plot.svg"]
    content = json.loads(written[1].read_text())
    traces = {trace["name"]: trace for trace in content["data"]}
    assert list(traces) == ["penstock", "annbatch", "np.array", "512", "131,072"]
    assert traces["annbatch"]["x"] == [2.0]
    assert traces["penstock"]["y"] == [1000.0, 1000.0]
    assert len({trace["marker"]["symbol"] for trace in content["data"][:3]}) == 3
    # Colour by chunks a block, larger blocks larger points, all settings on hovering.
    assert traces["np.array"]["marker"]["color"] == [6.0, 10.0]
    assert traces["np.array"]["marker"]["size"][0] > traces["annbatch"]["marker"]["size"][0]
    # The legend of sizes has the markers' own: areas are proportional to blocks.
    assert traces["131,072"]["marker"]["size"] == traces["np.array"]["marker"]["size"][0] == 22
    assert (
        traces["512"]["marker"]["size"] == traces["annbatch"]["marker"]["size"][0] == 5
    )  # the least
    assert traces["512"]["legend"] == "legend2"
    assert "chunks_per_block: 64" in traces["np.array"]["text"][0]
    assert content["layout"]["coloraxis"]["colorbar"]["ticktext"] == ["8", "64", "1,024"]
    page = written[0].read_text()
    assert "plotly.js v" in page  # the library itself: the page opens offline
    assert not re.search(r'<script[^>]* src="http', page)
    assert written[2].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in written[3].read_text()[:2000]


#: Seconds, bytes and cells a second of three of the 104 epochs of the figure that alb published (notebooks/data-loader/
#: :138_4096 at 100b4fe), as its notebook and its figure's JSON have them; each of 4,194,304 cells.
PUBLISHED = (
    ("np.array", 131072, 1, 757.511674, 22549483520, 5536.949652874257),
    ("scipy.csr", 131072, 1, 1987.997436, 31764549632, 2109.8135865023823),
    ("np.array", 8192, 16, 809.887278, 27125817344, 5178.873794854819),
)


def test_figures_that_alb_published_to_the_digit(tmp_path: Path) -> None:
    rows = [
        alb_row(chunk_method=method, chunk_size=size, chunks_per_block=chunks, elapsed=seconds,
                max_mem=memory, n_rows=4_194_304, total_rows=10_107_657, batch_size=1024,
                instance_type="g4dn.4xlarge", census_version="2023-12-15")
        for method, size, chunks, seconds, memory, _ in PUBLISHED
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet(tmp_path / "epochs.parquet")
    chosen = plot.filtered(read_all([tmp_path / "epochs.parquet"]), datasets=DatasetSlice(0, 138))
    drawn = plot.figure(chosen, "T", Style(linear=True))
    points = {x: y for trace in drawn.data for x, y in zip(trace.x, trace.y, strict=True)}
    for *_, memory, speed in PUBLISHED:
        assert points[memory / 2**30] == pytest.approx(speed, rel=1e-8)  # seconds to a microsecond
    assert drawn.layout.title.text == (
        "T<br><sup>EC2 (g4dn.4xlarge), batches of 1,024 cells</sup><br><sup>4,096 batches "
        "(4,194,304 cells of 10,107,657), streamed and sliced on the fly from S3</sup>"
    )
    assert drawn.layout.xaxis.type == drawn.layout.yaxis.type == "linear"


def test_a_marker_larger_than_the_picture_is_refused(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    append(Path("epochs.parquet"), [row(block_size=131072, chunks_per_block=8, chunk_size=16384)])
    assert main(["bench", "plot", "-a", "1=9999", "-f", "json"]) == 1
    assert "-a makes the marker of 131,072 cells" in capsys.readouterr().err
    for output in (".", "./", "new/"):
        assert main(["bench", "plot", "-f", "json", "-o", output]) == 0
        assert (Path(output) / "speed_vs_mem.json").exists()


@pytest.mark.parametrize("linear", [True, False])
def test_the_default_is_marked(linear: bool, tmp_path: Path, monkeypatch) -> None:
    """alb's, of np.array: 2,048 chunks of 64, and the Census's 2,000; not of other methods or sizes."""
    from matplotlib.axes import Axes
    from penstock.bench.static_plot import write_picture

    noted: list[tuple] = []
    real = Axes.annotate

    def annotate(self, text, xy, **more):
        noted.append((text, xy))
        return real(self, text, xy, **more)

    monkeypatch.setattr(Axes, "annotate", annotate)
    some = [
        (64, 2048, "np.array"),
        (64, 2000, "np.array"),
        (64, 1024, "np.array"),
        (64, 2048, "scipy.csr"),
    ]
    rows = [
        alb_row(chunk_size=size, chunks_per_block=chunks, block_size=size * chunks, chunk_method=method,
                max_mem=(i + 1) << 30)
        for i, (size, chunks, method) in enumerate(some)
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet(tmp_path / "a.parquet")
    frame = plot.filtered(read_all([tmp_path / "a.parquet"]))
    marks = plot.figure(frame, style=Style(linear)).layout.annotations
    assert [mark.x for mark in marks] == ([1, 2] if linear else [0, np.log10(2)])
    assert [mark.text[:7] for mark in marks] == ["Default", ""]
    write_picture(frame, tmp_path / "a.png", "Title", Style(linear))
    assert [text[:7] for text, _ in noted] == ["Default", "", ""]
    assert [xy[0] for _, xy in noted[1:]] == [1, 2]
    assert not plot.figure(frame, style=Style(linear, marks_default=False)).layout.annotations
    assert not plot.figure(frame[2:3]).layout.annotations


def test_the_default_is_of_the_loaders_that_have_it(tmp_path: Path) -> None:
    rows = [row(method=method, chunk_size=64, chunks_per_block=2000, block_size=128_000)
            for method in ("annbatch", "tiledbsoma_ml", "cellxgene_census")]  # fmt: skip
    append(tmp_path / "a.parquet", rows)
    frame = read_all([tmp_path / "a.parquet"])
    assert Style().default_rows(frame)["method"].tolist() == ["cellxgene_census"]
    append(tmp_path / "a.parquet", [rows[2]] * 8)  # more than can be told apart
    assert Style().default_rows(read_all([tmp_path / "a.parquet"])).empty


def test_the_subtitle_says_where_and_how_much(tmp_path: Path) -> None:
    def told(*rows: dict) -> list[str]:
        (tmp_path / "a.parquet").unlink(missing_ok=True)
        append(tmp_path / "a.parquet", list(rows))
        return subtitles(read_all([tmp_path / "a.parquet"]))

    here = {"cpu": "EPYC", "cores": 2, "batch_size": 64, "total_n_rows": 500, "total_rows": 500}
    assert told(row(uri="/data/x", **here)) == [
        "EPYC, 2 cores, batches of 64 cells", "500 cells, read from a local disk"
    ]  # fmt: skip
    assert told(row(uri="s3://a/b", census_version="2023-12-15"))[1].endswith("read from S3")
    assert told(row(uri="https://a/b"))[1].endswith("read over a network")
    census = {"census_uri": "s3://census", "uri": "s3://census/homo_sapiens"}
    assert told(row(**census))[1].endswith("streamed and sliced on the fly from S3")
    both = told(row(uri="/x", **here), row(uri="/x", instance_type="g4dn.8xlarge", max_batches=10))
    assert both[0] == "EC2 (g4dn.8xlarge) and EPYC, 2 cores, batches of 64 cells"
    assert "batches (" not in both[1]


def test_sizes_of_markers_from_an_anchor(frame: pd.DataFrame) -> None:
    drawn = plot.figure(plot.filtered(frame), style=Style(anchor=(65536, 10.0)))
    sizes = {trace.name: trace.marker.size for trace in drawn.data}
    assert sizes["131,072"] == pytest.approx(10 * 2**0.5)
    assert set(sizes["np.array"]) == {sizes["131,072"]}
    assert set(sizes["penstock"]) == {12}  # no blocks


def test_sources_on_s3_and_others(tmp_path: Path) -> None:
    rows = [row(uri="s3://a/b"), row(uri="/data/c"), row(uri="/data/d"), alb_row()]
    append(tmp_path / "a.parquet", rows[:3])
    pd.DataFrame(rows[3:]).to_parquet(tmp_path / "b.parquet")
    merged = read_all([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert plot.filtered(merged, s3=True)["uri"].tolist() == ["s3://a/b"]
    assert plot.filtered(merged, s3=False)["uri"].tolist() == ["/data/c", "/data/d"]


def rounds(speeds: dict[str, list[float]], **more) -> list[dict]:
    return [
        row(contestant=name, round=i, epoch_cells_per_second=speed, cells_per_second=speed,
            peak_rss=int(1e6 * (1 + len(name))), whole_epoch=True, total_n_rows=10,
            first_batch_seconds=0.1, epoch_seconds=1.0, cpu_seconds=1.0, bytes_read=10, method=name.split()[0],
            error=None, **more)
        for name, values in speeds.items() for i, speed in enumerate(values)
    ]  # fmt: skip


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


def test_settings_of_a_comparison_are_traces_of_their_own(tmp_path: Path) -> None:
    append(
        tmp_path / "a.parquet", [row(contestant="penstock 1GiB"), row(contestant="penstock 2GiB")]
    )
    drawn = plot.figure(read_all([tmp_path / "a.parquet"]))
    assert [trace.name for trace in drawn.data] == ["penstock 1GiB", "penstock 2GiB"]
    assert len({trace.marker.symbol for trace in drawn.data}) == 2


def test_pictures_are_of_whole_epochs_where_all_are_whole(tmp_path: Path) -> None:
    whole = row(whole_epoch=True, epoch_cells_per_second=50.0)
    append(tmp_path / "a.parquet", [whole, row(whole_epoch=True, epoch_cells_per_second=60.0)])
    drawn = plot.figure(read_all([tmp_path / "a.parquet"]))
    assert list(drawn.data[0].y) == [50.0, 60.0]
    assert drawn.layout.yaxis.title.text == "cells/s, whole epoch"
    append(tmp_path / "a.parquet", [row(whole_epoch=False, epoch_cells_per_second=1.0)])
    drawn = plot.figure(read_all([tmp_path / "a.parquet"]))
    assert list(drawn.data[0].y) == [1000.0] * 3
    assert drawn.layout.yaxis.title.text == "cells/s after the first batch"


def test_a_batch_alone_has_no_speed_in_a_picture(tmp_path: Path) -> None:
    append(tmp_path / "a.parquet", [row(), row(n_rows=0, cells_per_second=None)])
    assert len(plot.filtered(read_all([tmp_path / "a.parquet"]))) == 1


def test_pictures_have_colour_and_size_by_blocks(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from penstock.bench.static_plot import write_picture

    drawn: list[dict] = []
    real = Axes.scatter

    def scatter(self, x, y, **more):
        if len(x):
            drawn.append({"x": list(x), **more})
        return real(self, x, y, **more)

    monkeypatch.setattr(Axes, "scatter", scatter)
    chosen = plot.filtered(frame)
    write_picture(chosen, tmp_path / "a.png", "Title")
    penstock, annbatch, census = drawn
    assert len({each["marker"] for each in drawn}) == 3
    assert penstock["c"] == ["silver", "silver"]  # no blocks
    assert census["c"][0] != census["c"][1]
    assert census["s"][0] > annbatch["s"][0]
    assert pyplot.get_fignums() == []


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


@pytest.mark.parametrize("form", ["png", "svg", "json", "html"])
def test_curves_are_drawn(tmp_path: Path, form: str) -> None:
    rows = rounds({"a": [1.0, 2.0], "b": [3.0]})
    for number, row in enumerate(rows[:2]):
        row |= {
            "batch_quantiles": json.dumps([0.001 * (i + number) for i in range(101)]),
            "memory_over_time": json.dumps([[0.0, 1 << 20, 2 << 20], [1.5, 3 << 20, 4 << 20]]),
            "chunks_per_block": None,
        }
    frame = pd.DataFrame(rows)
    for curves in CURVES.values():
        lines = list(curves.lines(frame))
        assert [name for name, _, _ in lines] == [row["contestant"] for row in rows[:2]]
        drawn = plot_lines.figure(curves, frame, None)
        (path,) = plot.write(drawn, frame, tmp_path / "p", [form], curves)
        assert path.stat().st_size > 500
    assert next(CURVES["memory"].lines(frame))[1:] == ([0.0, 1.5], [1.0, 3.0])
    assert list(CURVES["batches"].lines(frame))[1][1][0] == 1.0  # milliseconds
    with pytest.raises(InvalidArgument, match="no measurement has memory_over_time"):
        list(CURVES["memory"].lines(frame.drop(columns="memory_over_time")))
