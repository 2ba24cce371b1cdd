"""Figures that benchmarks/training_wait.py computes."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT


def arguments(loaders: list[str]) -> SimpleNamespace:
    return SimpleNamespace(loaders=loaders, cells=8, sleep_cells=9, batch_size=128, device="cpu")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("training_wait")


def test_every_loader_is_in_one_command(benchmark: Any) -> None:
    scvi, sleep = benchmark.wait_cases(arguments(list(benchmark.LOADERS)), "there")
    wanted = {"in memory", "penstock", "penstock, sparse", "penstock, pack", "AnnDataLoader",
              "TileDBDataModule", "tiledbsoma_ml"}  # fmt: skip
    for cases in (scvi, sleep):
        assert {case.facts["loader"] for case in cases} == wanted


def test_rounds_become_medians_and_ratios(benchmark: Any) -> None:
    parsed = arguments(["in memory", "penstock", "AnnDataLoader"])
    cases, _ = benchmark.wait_cases(parsed, "there")
    for case, seconds in zip(cases, ([4.0, 2.0, 3.0], [6.0, 6.0, 9.0], [1.0]), strict=True):
        case.got = [{"seconds": [each]} for each in seconds]
    cases[2].got.append({"error": "it failed"})
    results = {case.key: case.result() for case in cases}
    benchmark.add_ratios(results, [cases])
    assert results["scvi, in memory"]["median"] == 3
    assert [results[f"scvi, {name}"]["ratio"] for name in ("in memory", "penstock")] == [1, 2]
    assert results["scvi, AnnDataLoader"] == {
        "consumer": "scvi", "loader": "AnnDataLoader", "cells": 8, "batch_size": 128,
        "error": "it failed",
    }  # fmt: skip
