"""Options of ``penstock bench`` and ``penstock synth`` take effect or are refused by name."""

from __future__ import annotations

import errno
import re
import resource
from pathlib import Path

import pandas as pd
import pytest
from conftest import Oracle
from penstock.bench import peers
from penstock.cli import main


def run(*arguments: object) -> int:
    return main([str(each) for each in arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_peer_that_is_not_installed_fails_the_command(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """By name whatever the reason; of all of them, those that have no Python here are left out."""
    monkeypatch.setattr(peers, "_base_python", lambda peer: None)
    assert run("bench", "peers", "install", "annbatch", "anndata") == 1
    shown = capsys.readouterr()
    assert "annbatch: left out, it needs a Python from 3.12" in shown.out
    assert "not installed: annbatch, anndata" in shown.err
    assert run("bench", "peers", "install") == 0
    assert capsys.readouterr().out.count("left out") == len(peers.PEERS)
    broken = here / "broken"
    broken.write_text("#!/bin/sh\necho no network >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(peers, "_base_python", lambda peer: str(broken))
    assert run("bench", "peers", "install") == 1
    shown = capsys.readouterr()
    assert "scdataset: failed: no network" in shown.out
    assert "not installed: tiledbsoma, tiledbsoma_ml, " in shown.err


def test_peers_are_listed_by_name(here: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(peers, "_can_import", lambda python, modules: True)
    assert run("bench", "peers", "list", "tiledbsoma", "annbatch") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "np.array", "scipy.csr", "annbatch", "annbatch:zarr2", "annbatch:zarr3",
    ]  # fmt: skip
    assert run("bench", "peers", "list", "scDataset") == 0
    assert capsys.readouterr().out.split()[0] == "scDataset"
    for name in ("nobody", "penstock"):
        assert run("bench", "peers", "list", name) == 1
        assert f"'{name}' is no peer: tiledbsoma, " in capsys.readouterr().err


def test_the_address_may_come_after_the_bare_option_for_a_device(
    census_like: Oracle, here: Path
) -> None:
    for arguments in (["--cuda", census_like.path], [census_like.path, "--cuda"]):
        run("bench", "data-loader", "-q", "-m", "penstock", "-n", 2, "-B", 64, *arguments)
    assert (
        run("bench", "data-loader", "-q", "-n", 2, "-B", 64, "--cuda", "cpu", census_like.path) == 0
    )
    found = pd.read_parquet(here / "epochs.parquet")
    assert found["device"].tolist() == ["cuda", "cuda", "cpu"]
    assert set(found["uri"]) == {str(census_like.path)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data-loader", "--cuda", "gpu", "x"], "--cuda must be a device such as cuda, cuda:1 or cpu, got 'gpu'"),
        (["data-loader", "x", "--cuda", "cuda:"], "--cuda must be a device"),
        (["data-loader", "x", "-s", "-1"], "-s must be 0 or more, got -1"),
        (["data-loader", "x", "-e", "0"], "-e must be 1 or more, got 0"),
        (["data-loader", "x", "--pack", "p"],
         "--pack needs a method that uses it, got -m penstock; methods that do: penstock:pack, penstock:pack-global"),
        (["compare", "x", "-m", "penstock,tiledbsoma_ml", "--h5ad", "p"],
         "--h5ad needs a method that uses it, got -m penstock,tiledbsoma_ml; methods that do: penstock:annbatch, penstock:h5ad, "),
        (["compare", "x", "-m", "penstock,scDataset", "--annbatch", "p"], "methods that do: penstock:annbatch, annbatch"),
        (["data-loader", "x", "-P", "1MiB"],
         "-P needs a method that uses it, got -m penstock; methods that do: tiledbsoma_ml, cell"),
        (["data-loader", "x", "--census", "stable"], "one of them"),
        (["data-loader", "--census-uri", "x", "--census", "stable"], "one of them"),
        (["data-loader", "x", "--organism", "mus_musculus"],
         "organism mus_musculus is looked up in a Census: give --census or --census-uri"),
        (["data-loader", "x", "--directory", "d"], "releases are looked up: give --census"),
        (["data-loader", "--census-uri", "x", "--directory", "d"], "give --census"),
        (["compare", "x", "-g", "-1"], "-g must be 0 or more"),
        (["compare", "x", "--seed", "-1"], "--seed must be 0 or more, got -1"),
        (["data-loader", "x", "--seed", "-1"], "--seed must be 0 or more, got -1"),
        (["read-chunks", "x", "-r", "-1"], "-r must be 0 or more, got -1"),
        (["read-chunks", "x", "-V", "0"], "-V must be 1 or more, got 0"),
        (["read-chunks", "x", "-S", "lots"], "-z (or -S) must be a number of bytes or text"),
        (["scale", "cells=1", "threads=1", "cells=2"],
         "the axis cells is given twice: give its values together, as cells=1,2"),
        (["scale", "threads=1.5"], "whole numbers"),
        (["scale", "cells=0.5"], "whole numbers"),
        (["scale", "cells=1e30"], "at most"),
        (["scale", "cells=1", "--threads", "0"], "--threads must be 1 or more"),
        (["scale", "threads=1", "--density", "nan"], "--density must be"),
        (["scale", "threads=1", "--genes", "0"], "--genes must be"),
        (["remote", "x", "--latency", "1e9"], "--latency must be from 0 to 10,000 milliseconds"),
        (["remote", "x", "--latency", "nan"], "--latency must be from 0 to"),
        (["remote", "x", "--bandwidth", "1e-9"], "--bandwidth must be 0 (no bound) or from 0.1 megabits"),
    ],
)  # fmt: skip
def test_what_an_option_does_not_take(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 1
    assert words in capsys.readouterr().err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["data-loader", "-m", "penstock,np.array", "-b", "4x64"],
         ["-b does not apply to penstock, only to np.array"]),
        (["data-loader", "-m", "penstock,np.array,AnnLoader,annbatch", "-b", "4x64", "--memory-budget", "1GiB",
          "--threads", "2", "-P", "1MiB", "-z", "1MiB"],
         ["-b does not apply to penstock, AnnLoader, only to np.array, annbatch",
          "--memory-budget does not apply to np.array, AnnLoader, annbatch, only to penstock",
          "--threads does not apply to AnnLoader, only to penstock, np.array, annbatch",
          "-P does not apply to penstock, AnnLoader, annbatch, only to np.array",
          "-z does not apply to penstock, AnnLoader, annbatch, only to np.array"]),
        (["data-loader", "-m", "np.array,scipy.csr", "-b", "4x64", "--threads", "2", "-P", "1MiB"], []),
        (["data-loader", "-m", "penstock,np.array"], []),
        *[([command, "-m", "penstock,tiledbsoma_ml,penstock:chunks", "-b", "4x64"],
           ["-b does not apply to penstock, only to tiledbsoma_ml, penstock:chunks"])
          for command in ("compare", "shuffle", "slicing", "remote")],
    ],
)  # fmt: skip
def test_methods_that_an_option_does_not_apply_to_are_named(
    arguments: list[str], said: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with -q, once, and not among the results."""
    assert main(["bench", *arguments, "-q", "nothing-here"]) == 1
    shown = capsys.readouterr()
    *lines, error = shown.err.splitlines()
    assert lines == [f"penstock: {each}" for each in said]
    assert "nothing-here" in error
    assert shown.out == ""


def test_letters_of_alb_read_chunks(census_like: Oracle, here: Path) -> None:
    """There -S is the buffer of tiledbsoma and -V the number of genes."""
    run(
        "bench",
        "read-chunks",
        census_like.path,
        "-c",
        2_500,
        "-V",
        100,
        "-P",
        "1MiB",
        "-S",
        "3MiB",
        "-r",
        1,
    )
    found = pd.read_parquet(here / "epochs.parquet")
    assert found["status"].tolist() == ["ok"] * 4, found["error"].tolist()
    assert found["n_nonzeros"].tolist() == [census_like.X[:, :100].nnz] * 4
    assert found["n_vars"].tolist() == [100] * 4
    assert found["py_buffer_size"].tolist() == [1 << 20] * 4
    assert found["soma_buffer_size"].tolist() == [3 << 20] * 4


def test_the_end_of_a_slice_is_what_was_used(census_like: Oracle, here: Path) -> None:
    n_datasets = census_like.obs["dataset_id"].nunique()
    common = ("bench", "data-loader", census_like.path, "-q", "-B", 64, "-n", 2)
    for end in (2, n_datasets, 99):
        assert run(*common, "-e", end) == 0
    found = pd.read_parquet(here / "epochs.parquet")
    assert found["end_idx"].tolist() == [2, n_datasets, n_datasets]
    # What is drawn as all datasets is all datasets.
    assert run("bench", "plot", "-D", f":{n_datasets}", "-f", "json") == 0


def test_methods_of_a_plot_by_prefix(census_like: Oracle, here: Path, capsys) -> None:
    common = ("bench", "data-loader", census_like.path, "-q", "-B", 64, "-n", 2, "-v", 50)
    assert run(*common, "-m", "penstock,penstock:chunks,np.array", "-b", "4x64") == 0
    for names, count in (("np", 1), ("PENSTOCK:C,np.a", 2), ("penstock", 1), ("all", 3)):
        assert run("bench", "plot", "-m", names, "-f", "json") == 0
        assert re.search(rf"\b{count} measurements?\b", capsys.readouterr().out), names
    for names, words in (
        ("p", "'p' begins several methods: penstock, penstock:chunks"),
        ("annbatch", "'annbatch' is no method: penstock, penstock:chunks, np.array"),
        (",", "'' is no method"),
    ):
        assert run("bench", "plot", "-m", names, "-f", "json") == 1
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cells", "0"], "--cells must be 1 or more"),
        (["--genes", "5"], "--genes must be from 64 to"),
        (["--datasets", "3"], "--datasets must be from 8"),
        (["--fragments", "0"], "--fragments must be from 1 to --cells"),
        (["--fragments", "2", "--consolidated"], "--consolidated is one fragment, --fragments says 2"),
        (["--genes-per-cell", "0"], "--genes-per-cell must be above 0 and at most --genes / 5"),
        (["--genes-per-cell", "nan"], "--genes-per-cell must be above 0"),
        (["--seed", "-1"], "--seed must be 0 or more"),
        (["--processes", "0"], "--processes must be 1 or more"),
    ],
)  # fmt: skip
def test_mistakes_of_synth_name_the_options(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["synth", "made", *arguments]) == 1
    assert words in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_what_synth_cannot_do_without_tiledb_names_the_option(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr("penstock.synthetic.experiment.can_stream", lambda: False)
    assert run("synth", "made", "--cells", 20_000, "--consolidated") == 1
    assert "without it ask for --fragments of 2 or more" in capsys.readouterr().err


def test_errors_of_a_full_disk_have_its_number(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.bench.download import download
    from penstock.bench.target import make_target

    def fill_up(*_: object) -> None:
        raise RuntimeError("Cannot write to file; No space left on device")

    monkeypatch.setattr("penstock.bench.download.write_bands", fill_up)
    with pytest.raises(OSError, match="not enough space on the disk") as caught:
        download(make_target(str(census_like.path)), tmp_path / "slice", False, lambda text: None)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_tables_of_a_target_are_read_into_small_buffers(
    census_like: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tiledbsoma's own, of a GiB a column, make a process that keeps such a table unable to fork."""
    from penstock.bench.target import soma_open

    monkeypatch.delenv("TILEDB_SOMA_INIT_BUFFER_BYTES")
    before = mapped_bytes()
    with soma_open(str(census_like.path), None) as experiment:
        table = experiment.obs.read().concat()
    assert mapped_bytes() - before < 4 << 30
    assert len(table) == len(census_like.obs)


def mapped_bytes() -> int:
    """Of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
