"""Every command of ``penstock bench`` reads all of its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Oracle
from penstock.bench import peers, training
from penstock.bench.measuring import worker_process
from penstock.bench.measuring.worker_process import Outcome
from penstock.bench.worker.request import Request
from penstock.cli import build_parser

URI = "URI"  # stands for the experiment
PAGE = ["--report", "page", "--title", "t", "--note", "n"]

#: A use of each command that takes it through all of what it does.
USES = {
    "data-loader": [URI],
    "read-chunks": [URI],
    "download": ["-u", "soma", "--all", "-v", "10"],
    "plot": ["epochs.parquet", "-f", "json"],
    "compare": [URI, "-m", "penstock", *PAGE],
    "shuffle": [URI, "-m", "penstock"],
    "slicing": [URI, "-m", "penstock", "-v", "10"],
    "remote": [URI, "-m", "penstock"],
    "scale": ["threads=1", "--on", URI],
    "tune": [URI, "--label", "cell_type", "--budgets", "256MiB", "--threads", "1"],
    "train": [URI],
    "peers": ["install", "anndata"],
}


class Watched(argparse.Namespace):
    """Notes which of its attributes have been read."""

    def __init__(self, read: set[str], **values: Any) -> None:
        super().__init__(**values)
        object.__setattr__(self, "_read", read)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "_read").add(name)
        return object.__getattribute__(self, name)


def measured_at_once(
    request: Request, python: str, timeout: float, on_epoch: Callable, on_imported: Callable
) -> Outcome:
    """In place of a worker: an epoch of 60 cells for each that was asked for."""
    on_imported({"import_seconds": 0.1, "imports_rss": 1, "versions": {}})
    if request.joinids_path is not None:
        np.savez(request.joinids_path, joinids=np.arange(60), sizes=np.array([60]))
    measured = dict.fromkeys(
        ("elapsed", "epoch_seconds", "open_seconds", "first_batch_seconds", "cpu_seconds",
         "system_seconds", "bytes_read", "disk_bytes_read"), 1.0,
    )  # fmt: skip
    memory = dict.fromkeys(("peak_rss", "peak_uss", "peak_pss", "peak_tree_rss"), 1 << 20)
    counts = {"n_batches": 1, "total_n_rows": 60, "n_rows": 60, "n_cols": 10, "n_nonzeros": 60}
    cut = {"whole_epoch": False, "joinid_sum": None, "gc": 0.0, "copy_seconds": 0.0}
    more = {"memory_samples": 1, "n_processes": 1, "statistics": {}}
    for number in range(request.epochs):
        on_epoch({"epoch": number} | measured | memory | counts | cut | more)
    return Outcome("ok")


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    for name in ("bench", None):
        (below,) = (
            each for each in parser._actions if isinstance(each, argparse._SubParsersAction)
        )
        if name is not None:
            parser = below.choices[name]
    return dict(below.choices)


def unread(command: str, arguments: list[str]) -> set[str]:
    """Run it; destinations of its options that it did not look at."""
    parsed = build_parser().parse_args(["bench", command, *arguments])
    read: set[str] = set()
    watched = Watched(read, **vars(parsed))
    read.clear()
    parsed.run(watched)
    having = {action.dest for action in commands()[command]._actions}
    having -= {"help", argparse.SUPPRESS}  # the latter: an error as soon as it is parsed
    assert having <= set(vars(parsed))
    return having - read


@pytest.fixture
def here(census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an ``epochs.parquet`` and a Census, where nothing is measured and no peer installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(worker_process, "run", measured_at_once)
    trained = {"status": "ok", "cells": None, "devices": 1, "layout": "sparse", "shuffle": "true",
               "round": 0, "seconds": 1.0, "peak_rss": 1, "loss": 1.0}  # fmt: skip
    monkeypatch.setattr(training, "measure", lambda *given: [trained])
    monkeypatch.setattr(training, "draw", lambda *given: [])
    monkeypatch.setattr(peers, "install", lambda peer, say, again: True)
    monkeypatch.setattr(peers, "_can_import", lambda python, modules: True)
    Path("soma/census_data").mkdir(parents=True)
    Path("soma/census_data/homo_sapiens").symlink_to(census_like.path)
    assert unread("data-loader", [str(census_like.path), "-q"]) == set()
    return tmp_path


def test_every_option_is_read(
    census_like: Oracle, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(USES) == set(commands())
    for command, use in USES.items():
        arguments = [str(census_like.path) if each == URI else each for each in use]
        assert unread(command, arguments) == set(), command


def test_an_option_that_nothing_reads_is_found(
    census_like: Oracle, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.cli.bench import shared_options

    monkeypatch.setattr(shared_options, "memory_limit", lambda parsed: None)
    assert unread("data-loader", [str(census_like.path), "-q"]) == {"memory_limit"}
