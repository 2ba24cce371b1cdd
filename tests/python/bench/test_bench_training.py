"""``penstock bench train``: combinations in turns, rows, table and plots."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Oracle
from penstock.bench import training
from penstock.cli import build_parser, main
from saved_figures import saved_figures

pytest.importorskip("scvi")

HEAD = "step,epoch,seconds,loss,rss,device_bytes\n"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run, in place of which a trace is written."""
    found: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        found.append(command)
        value = dict(itertools.pairwise(command))
        cells, devices = int(value["--cells"]), int(value["--devices"])
        if devices == 4:
            return SimpleNamespace(returncode=1, stderr="INFO\npenstock: no memory\n")
        if devices == 3:
            raise subprocess.TimeoutExpired(command, 5)
        folder = Path(value["--output"])
        dense = "--dense" in command
        seconds = cells / 100 / devices + dense + 10 * len(found)
        rss = (2 if dense else 1) << 30
        (folder / "trace.csv").write_text(f"{HEAD}1,0,0.5,9.0,{rss},0\n2,0,0.9,5.0,{rss // 2},0\n")
        (folder / "trace.json").write_text(json.dumps({"train_seconds": seconds}))
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training.subprocess, "run", run)
    return found


def test_combinations_take_turns(calls: list, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "train", "cells", "--cells", "200,100", "--layout", "dense,sparse", "-R", "2",
               "--devices", "2", "-B", "64", "--batch-key", "a", "--batch-key", "b", "--epochs", "3",
               "--n-top-genes", "50", "--protein", "P", "--regions", "A", "--accelerator", "cpu", "--memory", "1GiB", "--output", "out"]  # fmt: skip
    assert main(command) == 0
    assert len(calls) == 8
    order = [(call[call.index("--cells") + 1], "--dense" in call) for call in calls]
    assert order == order[:4] + order[3::-1]  # the second round comes backwards
    text = " ".join(calls[0])
    for part in ("train scvi cells --epochs 3 --accelerator cpu --memory 1GiB", "--trace",
                 "--batch-key a --batch-key b", "--n-top-genes 50", "--protein P", "--regions A", "--devices 2", "--batch-size 32"):  # fmt: skip
        assert part in text
    rows = pd.read_parquet("out/training.parquet")
    assert len(rows) == 8
    assert rows["status"].eq("ok").all()
    for dense, each in rows.groupby(rows["layout"] == "dense"):
        assert each["peak_rss"].eq((2 if dense else 1) << 30).all()
    assert rows["loss"].eq(7.0).all()
    shown = capsys.readouterr().out
    # 12 and 82 s dense, 21 and 71 s sparse: the ratio is the median of those of the rounds.
    (line,) = [line for line in shown.splitlines() if line.startswith("| 200 | sparse")]
    assert line == "| 200 | sparse | 46.0 (21.0 to 71.0) | 1.31 | 1,024 | 7.0 |"
    for name in ("training.png", "traces.png"):
        assert f"out/{name}" in shown
        assert Path("out", name).read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in Path("out/traces").iterdir()) == sorted(
        f"{cells}-2-{layout}-true-{number}.csv"
        for cells in (100, 200) for layout in ("dense", "sparse") for number in (0, 1)
    )  # fmt: skip


def test_what_fails_is_a_line(calls: list, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "bench",
                "train",
                "x",
                "--cells",
                "100",
                "--devices",
                "1,3,4",
                "-B",
                "96",
                "--output",
                "out",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "| 100 | 3 processes | not done after 7200 s |" in shown
    assert "| 100 | 4 processes | no memory |" in shown
    assert pd.read_parquet("out/training.parquet")["status"].tolist() == ["ok", "timeout", "failed"]
    assert main(["bench", "train", "x", "--cells", "100", "--devices", "4", "--output", "out"]) == 1
    assert "nothing could be measured; of the first: no memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cells", "a"], "--cells must be numbers separated by commas, got 'a'"),
        (["--cells", "0"], "--cells must be 1 or more"),
        (["--layout", "csr"], "--layout must be of sparse, dense, got 'csr'"),
        (["--shuffle", "some"], "--shuffle must be of true, scatter"),
        (["--devices", "1,8", "-B", "12"], "-B must be a multiple of the processes, 8, got 12"),
        (["--epochs", "0"], "--epochs must be"),
        (["-R", "0"], "-R must be"),
        (["--n-top-genes", "0"], "--n-top-genes must be"),
        (["--output", "s3://a/b"], "--output must be a folder on this machine"),
        (["--model", "NOMODEL"], "NOMODEL"),
    ],
)
def test_mistakes_are_found_first(
    arguments: list[str], words: str, calls: list, tmp_path: Path, capsys
) -> None:
    assert main(["bench", "train", "x", *arguments]) == 1
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_real_training(cells: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loss by step with and without shuffle: the same model and seed, so only the order differs."""
    arguments = [
        "--cells",
        "200",
        "--epochs",
        "1",
        "--accelerator",
        "cpu",
        "--shuffle",
        "none,true",
    ]
    assert main(["bench", "train", str(cells.path), *arguments, "--output", str(tmp_path)]) == 0
    rows = pd.read_parquet(tmp_path / "training.parquet")
    assert rows["shuffle"].tolist() == ["none", "true"]
    assert rows["status"].eq("ok").all()
    assert rows["steps"].eq(2).all()
    assert rows["cells"].eq(200).all()
    assert rows["seconds"].gt(0).all()
    assert rows["peak_rss"].gt(50 << 20).all()
    traces = {
        order: pd.read_csv(tmp_path / "traces" / f"200-1-sparse-{order}-0.csv")
        for order in ("none", "true")
    }
    assert traces["none"]["loss"][0] != traces["true"]["loss"][0]
    shown = capsys.readouterr().out
    assert "| 200 | stored order |" in shown
    assert "| 200 | shuffle true |" in shown


@pytest.mark.parametrize(
    ("varied", "made", "drawn"),
    [
        (
            ["--layout", "dense,sparse", "--cells", "300"],
            ["300-1-dense", "300-1-sparse"],
            {"traces.png"},  # seconds by cells need two numbers of cells
        ),
        (
            ["--cells", "150,300", "--devices", "1,2"],
            ["150-1-sparse", "150-2-sparse", "300-1-sparse", "300-2-sparse"],
            {"traces.png", "training.png"},
        ),
    ],
)
def test_every_combination_is_trained(
    varied: list[str], made: list[str], drawn: set[str], cells: Oracle, tmp_path: Path
) -> None:
    """Figures of the sources: memory over time of dense and sparse X; seconds by cells and processes."""
    command = ["bench", "train", str(cells.path), *varied, "--epochs", "2", "--accelerator", "cpu"]
    assert main([*command, "--batch-size", "50", "--output", str(tmp_path), "-q"]) == 0
    rows = pd.read_parquet(tmp_path / "training.parquet")
    assert rows["status"].eq("ok").all()
    names = [f"{row.cells}-{row.devices}-{row.layout}" for row in rows.itertuples()]
    assert sorted(names) == made
    for name, row in zip(names, rows.itertuples(), strict=True):
        trace = pd.read_csv(tmp_path / "traces" / f"{name}-true-0.csv")
        assert len(trace) == row.steps == 2 * row.cells // 50
        assert np.isfinite(trace["loss"]).all()
        assert trace["seconds"].is_monotonic_increasing
        assert 50 << 20 < trace["rss"].max() <= row.peak_rss
        assert trace["seconds"].iloc[-1] <= row.seconds
    assert {path.name for path in tmp_path.glob("*.png")} == drawn


@pytest.mark.parametrize("model", ["SCANVI", "scanvi", "ScanVI"])
def test_a_model_in_any_case_is_a_command(calls: list, model: str) -> None:
    command = ["bench", "train", "cells", "--cells", "100", "--model", model, "--output", "out"]
    assert main([*command, "--labels-key", "kind", "--unlabeled", "none"]) == 0
    (call,) = calls
    assert call[call.index("train") :][:3] == ["train", "scanvi", "cells"]
    parsed = build_parser().parse_args(call[call.index("train") :])
    assert (parsed.model, parsed.labels_key, parsed.unlabeled) == ("SCANVI", "kind", "none")


def test_plots_have_what_was_measured(
    calls: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = saved_figures(monkeypatch)
    command = ["bench", "train", "x", "--cells", "100,200", "--layout", "dense,sparse"]
    assert main([*command, "-R", "3", "--output", "out"]) == 0
    rows = pd.read_parquet("out/training.parquet")
    by_cells = figures[0].axes
    for axes, column, unit in zip(by_cells, ("seconds", "peak_rss"), (1, 2**30), strict=True):
        medians = rows.groupby(["layout", "cells"])[column].median() / unit
        drawn = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
        assert set(drawn) == {"dense", "sparse"}
        for layout, points in drawn.items():
            assert dict(points.tolist()) == pytest.approx(medians[layout].to_dict())
        ends = np.sort([segment[:, 1] for segment in axes.collections[0].get_segments()])
        spread = rows[rows["layout"] == "dense"].groupby("cells")[column].agg(["min", "max"]) / unit
        assert ends == pytest.approx(spread.to_numpy())
        assert len(axes.collections) == 2
    said = [[text.get_text() for text in figure.texts] for figure in figures[:2]]
    assert said[0][-1].endswith("; median, least and most of 3 runs")
    assert said[1][-1].endswith("; one run of each")
    assert all("cores" in texts[-1] for texts in said), "the machine"
    loss, memory = figures[1].axes[:2]
    for axes, columns in ((loss, ("step", "loss")), (memory, ("seconds", "rss"))):
        for line in axes.get_lines():
            layout = line.get_label()
            trace = pd.read_csv(f"out/traces/200-1-{layout}-true-0.csv")
            unit = 2**30 if columns[1] == "rss" else 1
            expected = trace[list(columns)].to_numpy() / [1, unit]
            assert line.get_xydata() == pytest.approx(expected), columns
