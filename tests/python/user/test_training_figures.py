"""Figures that benchmarks/training.py computes, and plots by training_plot.py."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT

FOLDER = ROOT / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("training")


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("training_plot")


def test_rounds_become_medians_and_ratios(benchmark: Any) -> None:
    parsed = SimpleNamespace(cells=[100], processes=[1, 2, 4], epochs=2)
    (cases,) = benchmark.process_cases(parsed, "there")
    for case, seconds in zip(cases, ([4.0, 2.0, 3.0], [6.0, 6.0, 9.0], [1.0]), strict=True):
        case.got = [{"seconds": [each]} for each in seconds]
    cases[2].got.append({"error": "a rank failed"})
    results = {case.key: case.result() for case in cases}
    benchmark.add_ratios("processes", results, [cases])
    assert results["1, 100"]["median"] == 3
    assert [results[f"{n}, 100"]["ratio"] for n in (1, 2)] == [1, 2]
    assert results["4, 100"] == {
        "processes": 4,
        "cells": 100,
        "epochs": 2,
        "error": "a rank failed",
    }


def test_every_loader_is_in_one_command(benchmark: Any) -> None:
    parsed = SimpleNamespace(loaders=list(benchmark.LOADERS), cells=[8], sleep_cells=9)
    scvi, sleep = benchmark.wait_cases(parsed, "there")
    wanted = {"in memory", "penstock", "penstock, sparse", "penstock, pack", "AnnDataLoader",
              "TileDBDataModule", "tiledbsoma_ml"}  # fmt: skip
    for cases in (scvi, sleep):
        assert {case.facts["loader"] for case in cases} == wanted


def test_figures(plot: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    layouts = {
        f"{sparse}, {cells}": {
            "sparse": sparse, "cells": cells, "epochs": 2, "median": cells / (1 + sparse),
            "peak_mib": 1024,
        }
        for sparse in (False, True)
        for cells in (20, 10)
    }  # fmt: skip
    processes = {
        f"{count}, {cells}": {
            "processes": count, "cells": cells, "epochs": 2, "median": 10 * count + cells / count,
        }
        for count in (1, 2)
        for cells in (10, 100)
    }  # fmt: skip
    processes["4, 10"] = {"processes": 4, "cells": 10, "error": "a rank failed"}
    for part, results in (("layouts", layouts), ("processes", processes)):
        path = tmp_path / f"training_{part}.json"
        path.write_text(json.dumps({"machine": {}, **results}))
    assert plot.runs_of(tmp_path, "wait") == []
    assert plot.pays(plot.runs_of(tmp_path, "processes")) == {10: 1, 100: 2}
    panels = plot.layout_panels(plot.runs_of(tmp_path, "layouts"))
    panels += plot.process_panels(plot.runs_of(tmp_path, "processes"))
    assert panels[0].lines == {"dense": [(10, 10), (20, 20)], "sparse": [(10, 5), (20, 10)]}
    assert panels[1].lines["dense"] == [(10, 1), (20, 1)]
    assert panels[2].lines["2 processes"] == [(10, 25), (100, 70)]
    assert panels[2].note == "fastest: 1 for 10 cells, 2 for 100 cells"
    plot.write_png(panels, tmp_path / "training.png")
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")
