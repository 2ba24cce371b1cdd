"""Plots of measurements: filters, figures and pictures, curves."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bench_rows import alb_row, rounds, row
from penstock import InvalidArgument
from penstock.bench.dataset_slice import DatasetSlice
from penstock.bench.reports import plot, plot_lines
from penstock.bench.reports.plot_columns import Style, subtitles
from penstock.bench.reports.plot_lines import CURVES
from penstock.bench.reports.results_file import append, read_all
from penstock.cli import main


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
    # The first method lies on top, in the picture too.
    assert [trace["zorder"] for trace in content["data"][:3]] == [0, -1, -2]
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
    from penstock.bench.reports.static_plot import write_picture

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
    assert drawn.layout.yaxis.title.text == "cells/s, whole epoch (log scale)"
    append(tmp_path / "a.parquet", [row(whole_epoch=False, epoch_cells_per_second=1.0)])
    drawn = plot.figure(read_all([tmp_path / "a.parquet"]))
    assert list(drawn.data[0].y) == [1000.0] * 3
    assert drawn.layout.yaxis.title.text == "cells/s after the first batch (log scale)"
    linear = plot.figure(read_all([tmp_path / "a.parquet"]), style=Style(linear=True))
    assert linear.layout.yaxis.title.text == "cells/s after the first batch"
    assert linear.layout.xaxis.title.text.endswith("(GiB)")


def test_a_batch_alone_has_no_speed_in_a_picture(tmp_path: Path) -> None:
    append(tmp_path / "a.parquet", [row(), row(n_rows=0, cells_per_second=None)])
    assert len(plot.filtered(read_all([tmp_path / "a.parquet"]))) == 1


def test_pictures_have_colour_and_size_by_blocks(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes
    from penstock.bench.reports.static_plot import write_picture

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


@pytest.mark.parametrize("seed", range(3))
def test_labels_meet_neither_labels_nor_points(seed: int) -> None:
    from matplotlib import pyplot
    from penstock.bench.reports.labels import label_points

    random = np.random.default_rng(seed)
    names = {f"contestant {i}": ("black", 10 ** random.normal(0, 1, (3, 2))) for i in range(8)}
    figure, axes = pyplot.subplots(figsize=(9, 5.5))
    axes.set(xscale="log", yscale="log")
    for _, points in names.values():
        axes.scatter(*points.T)
    assert label_points(axes, names)
    assert [text.get_text() for text in axes.texts] == list(names)
    boxes = [text.get_window_extent() for text in axes.texts]
    pixels = axes.transData.transform(np.concatenate([points for _, points in names.values()]))
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
        assert not any(box.contains(*pixel) for pixel in pixels)
        assert axes.get_window_extent().containsx(box.x0)
        assert axes.get_window_extent().containsx(box.x1)
    pyplot.close(figure)


def test_a_plot_that_has_no_place_for_labels_keeps_its_legend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot
    from penstock.bench.reports import static_plot
    from penstock.bench.reports.labels import label_points

    figure, axes = pyplot.subplots()
    axes.scatter([1, 2], [1, 2])
    assert not label_points(axes, {str(i): ("red", [(1.5, 1.5)]) for i in range(13)})
    assert not label_points(axes, {"a long name " * 20: ("red", [(1.5, 1.5)])})
    assert not axes.texts
    pyplot.close(figure)

    drawn: list = []
    monkeypatch.setattr(static_plot, "_save", lambda figure, path: drawn.append(figure))
    for name in ("penstock", "a long name " * 20):
        (tmp_path / "a.parquet").unlink(missing_ok=True)
        append(tmp_path / "a.parquet", rounds({name: [1.0, 2.0], "other": [3.0, 3.5]}))
        static_plot.write_picture(read_all([tmp_path / "a.parquet"]), tmp_path / "a.png", "Title")
    labelled, with_legend = (figure.axes[0] for figure in drawn)
    assert [text.get_text() for text in labelled.texts] == ["penstock", "other"]
    assert labelled.get_legend() is None
    assert len(with_legend.get_legend().get_texts()) == 2
    for axes in (labelled, with_legend):
        assert "USS" in axes.get_xlabel()
        assert axes.get_xlabel().endswith("(GiB, log scale)")
        assert axes.get_ylabel().endswith("(log scale)")
        assert axes.get_title().endswith("; 2 runs of each\n↖ better")


@pytest.mark.parametrize("form", ["png", "svg", "json", "html"])
def test_curves_are_drawn(tmp_path: Path, form: str) -> None:
    rows = rounds({"a": [1.0, 2.0], "b": [3.0]})
    for number, mine in enumerate(rows[:2]):
        mine |= {
            "batch_quantiles": json.dumps([0.001 * (i + number) for i in range(101)]),
            "memory_over_time": json.dumps([[0.0, 1 << 20, 2 << 20], [1.5, 3 << 20, 4 << 20]]),
            "chunks_per_block": None,
        }
    append(tmp_path / "a.parquet", rows)
    frame = read_all([tmp_path / "a.parquet"])
    for curves in CURVES.values():
        lines = list(curves.lines(frame))
        assert [name for name, _, _ in lines] == [row["contestant"] for row in rows[:2]]
        drawn = plot_lines.figure(curves, frame, None)
        (path,) = plot.write(drawn, frame, tmp_path / "p", [form], curves)
        assert path.stat().st_size > 500
        assert drawn.layout.title.text.endswith("; 1 to 2 runs of each</sup>")
        assert ("log scale" in drawn.layout.xaxis.title.text) == curves.log_x
    assert next(CURVES["memory"].lines(frame))[1:] == ([0.0, 1.5], [1.0, 3.0])
    assert list(CURVES["batches"].lines(frame))[1][1][0] == 1.0  # milliseconds
    with pytest.raises(InvalidArgument, match="no measurement has memory_over_time"):
        list(CURVES["memory"].lines(frame.drop(columns="memory_over_time")))


def test_the_backend_of_a_notebook_stays(frame: pd.DataFrame, tmp_path: Path) -> None:
    """A backend that is switched closes the figures of a notebook, and shows none afterwards."""
    import matplotlib
    from matplotlib import pyplot
    from penstock.bench.reports.static_plot import write_picture

    before = matplotlib.get_backend()
    pyplot.switch_backend("svg")
    try:
        mine = pyplot.figure()
        write_picture(plot.filtered(frame), tmp_path / "a.png", "Title")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
        assert matplotlib.get_backend() == "svg"
        assert pyplot.get_fignums() == [mine.number]
        pyplot.close(mine)
    finally:
        pyplot.switch_backend(before)
