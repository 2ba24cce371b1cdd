"""A destination must be on this machine: commands and functions refuse a URL before any work."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import penstock as ps
import pytest
from conftest import Oracle
from penstock import synthetic
from penstock.bench import peers
from penstock.bench.reports import results_file
from penstock.cli import build_parser, main
from penstock.cli.train.models import MODELS
from penstock.experiment.web_index import write_index

SECRET = "S3cr3tPassw0rd"

#: Packs and rows of an inference go to buckets, too.
S3 = {"s3://bucket/x": "on this machine, got 's3://bucket/x'"}
#: Each with the error for it.
URLS = {
    **S3,
    "file:///x": "on this machine, got 'file:///x'",
    f"http://user:{SECRET}@127.0.0.1:9/x": "must have no user, password, query or fragment",
    f"gs://key:{SECRET}@bucket/x": "must have no user, password, query or fragment",
    f"https;//user:{SECRET}@host/x": "must have no user, password, query or fragment",
}

FEW = "--cells 50 --genes 100 --genes-per-cell 5 -q"

COMMANDS = [
    "index URL",
    "pack CELLS URL",
    f"synth URL {FEW}",
    f"synth URL {FEW} --format soma,h5ad",
    "demo --output URL",
    "demo --data CELLS --output URL",
    *(f"train {model} CELLS --output URL" for model in MODELS),
    "bench data-loader CELLS -d URL",
    "bench data-loader CELLS --results URL",
    "bench data-loader CELLS -m AnnLoader --h5ad URL",
    "bench data-loader CELLS -m annbatch --annbatch URL",
    "bench read-chunks CELLS -d URL",
    "bench download CELLS -d URL",
    "bench download CELLS -n URL",
    "bench plot MEASURED -o URL",
    "bench plot URL",
    "bench plot MEASURED URL",
    "bench compare CELLS -d URL",
    "bench compare CELLS --report URL",
    "bench compare CELLS --genes URL",
    "bench shuffle CELLS -d URL",
    "bench slicing CELLS -v 5 -d URL",
    "bench remote CELLS -d URL",
    "bench scale threads=1 --on CELLS -d URL",
    "bench tune CELLS -d URL",
    "bench train CELLS --output URL",
]

#: Commands that write no file whose place the user chooses.
WITHOUT = {"info", "bench peers"}


def names_of(parser: argparse.ArgumentParser, before: str = "") -> Iterator[str]:
    """Names of all commands, with those below ``bench``."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        yield before.strip()
    for action in below:
        for name, each in action.choices.items():
            yield from names_of(each, f"{before} {name}")


def test_every_command_is_here() -> None:
    tested = {
        name
        for name in names_of(build_parser())
        if any(each.startswith(f"{name} ") for each in COMMANDS)
    }
    assert tested | WITHOUT == set(names_of(build_parser()))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(folder / "cache"))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_url(
    command: str, soma_small: Oracle, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = here.parent / "measured.parquet"
    results_file.append(measured, [])
    values = {"CELLS": str(soma_small.path), "MEASURED": str(measured)}
    for url, message in URLS.items():
        if command.startswith("pack ") and url in S3:
            continue
        arguments = [{**values, "URL": url}.get(word, word) for word in command.split()]
        assert main(arguments) == 1, url
        shown = capsys.readouterr()
        assert message in shown.err
        assert not shown.out, "it worked first"
        assert SECRET not in shown.err
        assert not list(here.iterdir()), url


def test_an_experiment_to_measure_shows_no_password(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "scale", "threads=1", "--on", f"s3://key:{SECRET}@bucket/x"]) == 1
    shown = capsys.readouterr()
    assert "--on must have no user, password" in shown.err
    assert SECRET not in shown.out + shown.err
    assert not list(here.iterdir())


WRITERS: dict[str, Callable[[Any, Path], object]] = {
    "pack": lambda url, cells: ps.pack(cells, url),
    "cache_dir": lambda url, cells: ps.Dataset(cells, cache_dir=url),
    "plot": lambda url, cells: ps.Dataset(cells).shuffle_report("cell_type").plot(url),
    "write_index": lambda url, cells: write_index(url),
    "make_experiment": lambda url, cells: synthetic.make_experiment(
        url, n_cells=50, n_genes=100, mean_genes_per_cell=5
    ),
    "consolidate": lambda url, cells: synthetic.consolidate_like_census(url),
    "append": lambda url, cells: results_file.append(url, []),
    "check_writable": lambda url, cells: results_file.check_writable(url),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_function_refuses_a_url(writer: str, soma_small: Oracle, here: Path) -> None:
    for url, message in URLS.items():
        if writer == "pack" and url in S3:
            continue
        with pytest.raises(ps.InvalidArgument) as raised:
            WRITERS[writer](url, soma_small.path)
        assert message in str(raised.value)
        assert SECRET not in str(raised.value)
    with pytest.raises(ps.InvalidArgument, match="on this machine, got 's3:/bucket/x'"):
        WRITERS[writer](Path("s3://bucket/x"), soma_small.path)
    assert not list(here.iterdir())


def test_training_refuses_a_url(here: Path) -> None:
    pytest.importorskip("scvi")
    from penstock.inference.rows import checked_out

    for ending in (".npy", ".zarr"):
        for url, message in URLS.items():
            if url in S3:
                continue
            with pytest.raises(ps.InvalidArgument) as raised:
                checked_out(url + ending)
            assert message.removesuffix("'") in str(raised.value)
            assert SECRET not in str(raised.value)
    assert not list(here.iterdir())


def test_the_folder_of_the_benchmark_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", f"http://user:{SECRET}@host/x")
    with pytest.raises(
        ps.InvalidArgument, match="PENSTOCK_BENCH_CACHE must have no user"
    ) as raised:
        peers.cache_folder()
    assert SECRET not in str(raised.value)
