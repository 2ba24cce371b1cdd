"""``penstock bench`` and ``penstock synth`` from the command line, on small experiments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiledbsoma
from conftest import Oracle, read_with_tiledbsoma
from penstock.bench.reports.report import MARK
from penstock.bench.sweep import require_some
from penstock.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(*arguments: object) -> None:
    assert main([str(each) for each in arguments]) == 0


def rows(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path / "epochs.parquet")


def test_starting_the_command_line_brings_numpy_alone() -> None:
    code = (
        "import sys\nfrom penstock.cli import build_parser\nbuild_parser()\n"
        "heavy = {'torch', 'pandas', 'scipy', 'pyarrow', 'plotly', 'matplotlib', 'tiledbsoma',"
        " 'anndata', 'h5py', 'zarr'}\nprint(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_data_loader_sweeps(census_like: Oracle, here: Path) -> None:
    run("bench", "data-loader", census_like.path, "-m", "penstock,penstock:chunks,np.array,scipy.csr",
        "-b", "1024 / [8,16]", "-b", "2x512", "-B", 500, "-v", 40, "-g", 0, "-M", "note=mine",
        "-P", 1 << 20, "-z", 1 << 20)  # fmt: skip
    found = rows(here)
    assert (found["status"] == "ok").all(), found["error"].tolist()
    blocks = [(8, 128), (16, 64), (2, 512)]
    expected = [("penstock", None, None)] + [
        (method, *block)
        for method in ("penstock:chunks", "np.array", "scipy.csr")
        for block in blocks
    ]
    columns = ["method", "chunks_per_block", "chunk_size"]
    made = found[columns].astype(object).where(found[columns].notna(), None)
    assert [tuple(row) for row in made.to_numpy()] == expected
    assert set(found["note"]) == {"mine"}
    assert (found["total_n_rows"] == 6_000).all()
    assert set(found["n_cols"]) == {40}
    by = found.set_index("method")["py_buffer_size"]
    assert by.dropna().eq(1 << 20).all()
    assert set(by.dropna().index) == set(by.index) & {"scipy.csr", "np.array", "tiledbsoma_ml"}


def test_slices_of_datasets(census_like: Oracle, here: Path) -> None:
    column = census_like.obs["dataset_id"].astype(str)
    ids, sizes = list(dict.fromkeys(column)), column.value_counts()
    run("bench", "data-loader", census_like.path, "-s", 2, "-e", 4, "-g", 0, "-B", 64)
    run("bench", "data-loader", census_like.path, "-e", 3, "-S", "-g", 0, "-B", 64, "-q")
    found = rows(here)
    smallest = sorted(sizes)[:3]
    assert found["total_rows"].tolist() == [int(sizes[ids[2:4]].sum()), sum(smallest)]
    assert found["total_n_rows"].tolist() == found["total_rows"].tolist()
    assert found[["start_idx", "end_idx"]].to_numpy().tolist() == [[2, 4], [0, 3]]
    assert found["sorted_datasets"].tolist() == [False, True]


def test_peers_bring_the_same_cells(census_like: Oracle, here: Path) -> None:
    """tiledbsoma_ml and AnnLoader are in the tests' own environment."""
    run("bench", "data-loader", census_like.path, "-m", "penstock,tiledbsoma_ml,AnnLoader", "-b",
        "64x64", "-B", 500, "-g", 0, "-v", 300, "--sparse")  # fmt: skip
    found = rows(here)
    assert found["status"].tolist() == ["ok"] * 3, found["error"].tolist()
    # Status ok means that each joinid came once; the counts are those of the oracle, too.
    nnz = census_like.X[:, :300].nnz
    assert found["n_nonzeros"].tolist() == [nnz] * 3
    assert found["source"].str.endswith(".h5ad").tolist() == [False, False, True]


def test_downloads_are_slices(census_like: Oracle, here: Path) -> None:
    run("bench", "download", census_like.path, "-s", 1, "-e", 3, "-v", 200)
    sliced = here / "data" / "census-benchmark_1:3"
    column = census_like.obs["dataset_id"].astype(str)
    kept = column.isin(list(dict.fromkeys(column))[1:3]).to_numpy()
    with tiledbsoma.open(str(sliced)) as experiment:
        obs = experiment.obs.read().concat().to_pandas()
        var = experiment.ms["RNA"].var.read().concat().to_pandas()
        x = experiment.ms["RNA"].X["raw"].read().coos().concat().to_scipy().tocsr()
    assert obs["soma_joinid"].tolist() == census_like.obs["soma_joinid"][kept].tolist()
    assert obs["cell_type"].tolist() == census_like.obs["cell_type"][kept].tolist()
    assert var["feature_id"].tolist() == census_like.var["feature_id"].tolist()[:200]
    expected = census_like.X[kept][:, :200]
    assert (x[obs["soma_joinid"].to_numpy()] != expected).nnz == 0
    # Sliced in advance or while reading: the same cells.
    run("bench", "data-loader", sliced, "-g", 0, "--sparse")
    run("bench", "data-loader", census_like.path, "-s", 1, "-e", 3, "-v", 200, "-g", 0, "--sparse")
    found = rows(here)
    assert found["total_n_rows"].nunique() == found["n_nonzeros"].nunique() == 1
    assert found["n_nonzeros"][0] == expected.nnz
    assert main(["bench", "download", str(census_like.path), "-s", "1", "-e", "3"]) == 1
    run(
        "bench",
        "download",
        sliced,
        "-n",
        "again",
        "--filter",
        f"soma_joinid < {obs['soma_joinid'][9]}",
    )
    again = read_with_tiledbsoma(here / "data" / "again")
    assert len(again.obs) == 9
    assert again.X.nnz == expected[:9].nnz


@pytest.mark.parametrize("shuffle", [[], ["-s"], ["-ss"]])
def test_read_chunks(shuffle: list[str], census_like: Oracle, here: Path, capsys) -> None:
    run("bench", "read-chunks", census_like.path, "-c", 2_500, "-V", 100, "-r", 42, *shuffle)
    lines = capsys.readouterr().out.splitlines()
    nnz = census_like.X[:, :100].nnz
    suffix = {0: "", 1: "+chunk", 2: "+global"}[len(shuffle[0]) - 1 if shuffle else 0]
    names = ["table", "blockwise_table", "blockwise_coo", "blockwise_csr"]
    assert [line.split()[0] for line in lines] == [f"read_{name}{suffix}" for name in names]
    assert all(line.endswith(f"{nnz:,} counts") for line in lines)
    assert rows(here)["n_batches"].tolist() == [3] * 4
    assert rows(here)["seed"].tolist() == [42] * 4  # -r is alb's seed


def test_the_region_of_read_chunks_is_not_alb_s_letter(here: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "read-chunks", "x", "-r", "us-west-2"])
    assert "invalid int value: 'us-west-2'" in capsys.readouterr().err


def test_blocks_without_a_method_are_of_the_methods_of_alb(census_like: Oracle, here: Path) -> None:
    run("bench", "data-loader", census_like.path, "-b", "256 / [1,4]", "-n", 2, "-B", 64, "-q", "-v", 50)  # fmt: skip
    found = rows(here)
    assert found["status"].tolist() == ["ok"] * 6
    assert found["method"].tolist() == ["np.array"] * 3 + ["scipy.csr"] * 3
    assert found["chunks_per_block"].tolist() == [1, 2, 4] * 2
    assert found["chunk_size"].tolist() == [256, 128, 64] * 2


def test_compare_writes_a_page(census_like: Oracle, here: Path, capsys) -> None:
    run("bench", "compare", census_like.path, "-m", "penstock,penstock:chunks", "-R", 2, "-b", "16x64",
        "--memory-budget", "64MiB,256MiB", "--report", "report", "--title", "Two ways")  # fmt: skip
    out = capsys.readouterr().out
    for text in (out, (here / "report" / "README.md").read_text()):
        assert "| penstock 64MiB |" in text
        assert "| penstock:chunks 16x64 256MiB |" in text
        assert "- penstock 64MiB against penstock:chunks 16x64 64MiB: " in text
    page = (here / "report" / "README.md").read_text()
    assert page.startswith(f"{MARK}\n\n# Two ways\n")
    assert "6,000 cells of `experiment`" in page
    assert "cores, " in page
    assert {p.name for p in (here / "report").iterdir()} == {
        "README.md", "measurements.parquet", "speed_vs_memory.json", "speed_vs_memory.png",
        "speed_vs_memory.svg",
    }  # fmt: skip
    found = rows(here)
    order = found.groupby("round")["contestant"].apply(list).tolist()
    assert len(order) == 2
    assert order[0] == order[1][::-1]
    assert len(order[0]) == 4
    # The measurements of the page can be drawn again, and of the whole file, too.
    run(
        "bench", "plot", "report/measurements.parquet", "epochs.parquet", "-f", "json", "-o", "both"
    )
    drawn = json.loads((here / "both.json").read_text())
    assert sum(len(trace["x"]) for trace in drawn["data"]) == 16


def test_compare_tells_later_epochs_apart(census_like: Oracle, here: Path, capsys) -> None:
    run("bench", "compare", census_like.path, "-m", "penstock,penstock:streamed", "-R", 1, "-E", 2,
        "--report", "report")  # fmt: skip
    out = capsys.readouterr().out
    page = (here / "report" / "README.md").read_text()
    for text in (out, page):
        first, second = text.split("### Epoch 2")
        assert "| penstock |" in first
        assert "- penstock against penstock:streamed: " in second
    found = rows(here).set_index(["method", "epoch"])["statistics"].map(json.loads)
    assert found["penstock", 1]["all_kept"]
    assert found["penstock", 1]["bytes_read"] == 0
    assert found["penstock:streamed", 1]["bytes_read"] > 0
    drawn = json.loads((here / "report" / "speed_vs_memory.json").read_text())
    assert sum(len(trace["x"]) for trace in drawn["data"]) == 2  # of the last epoch
    title, cells = drawn["layout"]["title"]["text"].split("<br>")[::2]
    assert title.endswith(", epoch 2")
    assert cells == "<sup>6,000 cells, read from a local disk; 1 run of each</sup>"
    assert "`penstock bench plot measurements.parquet --epoch 2`" in page
    for option, points in ([], 4), (["--epoch", 2], 2), (["--epoch", 1], 2):
        run("bench", "plot", "report/measurements.parquet", "-f", "json", "-o", "again", *option)
        again = json.loads((here / "again.json").read_text())
        assert sum(len(trace["x"]) for trace in again["data"]) == points


def test_shuffle_against_scalar_entropy(census_like: Oracle, here: Path, capsys) -> None:
    run(
        "bench",
        "shuffle",
        census_like.path,
        "-m",
        "penstock,penstock:chunks",
        "-b",
        "1x75",
        "-B",
        75,
        "-R",
        2,
    )
    found = rows(here)
    assert found["shuffle_label"].tolist() == ["dataset_id"] * 4
    shares_of = found.groupby("contestant", sort=False)["shuffle_share"].unique()
    scatter, chunks = (float(shares.mean()) for shares in shares_of)
    assert 0.95 < scatter < 1.05
    # Chunks of 75 adjacent cells as batches: of one dataset each, but where two meet.
    codes = census_like.obs["dataset_id"].astype(str).factorize()[0]
    entropies = []
    for begin in range(0, 6_000, 75):
        counts = np.bincount(codes[begin : begin + 75])
        shares = counts[counts > 0] / 75
        entropies.append(-(shares * np.log2(shares)).sum())
    of_chunks = found["method"] == "penstock:chunks"
    assert found["shuffle_entropy"][of_chunks].tolist() == pytest.approx([np.mean(entropies)] * 2)
    assert chunks < 0.2
    *_, head, _, first, second = capsys.readouterr().out.splitlines()
    assert "share of a uniform shuffle's entropy of dataset_id" in head
    assert first.startswith(f"| penstock | {100 * scatter:.1f}")
    assert second.startswith(f"| penstock:chunks 1x75 | {100 * chunks:.1f} % | ")
    assert second.count("|") == first.count("|") == head.count("|") == 7


def test_tune_ends_in_settings_that_work(census_like: Oracle, here: Path, capsys) -> None:
    run("bench", "tune", census_like.path, "--budgets", "64MiB,128MiB", "--threads", 1,
        "--label", "cell_type", "--filter", "is_primary_data == True")  # fmt: skip
    out = capsys.readouterr().out
    assert out.count("| 64MiB | 1 |") == 1
    call = out[out.index("ds = penstock.Dataset(") :]
    call = call[: call.index("\n)\n") + 3]
    import penstock

    names = {"penstock": penstock}
    exec(call, names)
    assert names["ds"].n_obs == int(census_like.obs["is_primary_data"].sum())
    assert "For a model that takes dense arrays, leave it out" in out[out.index("\n)\n") :]


def test_scale_says_what_bounds(here: Path, capsys) -> None:
    run("bench", "scale", "cells=2048,4096", "threads=1", "--cells", 2048, "--genes", 500, "--density",
        60, "-R", 1, "--fragments", 1, "--threads", 1)  # fmt: skip
    out = capsys.readouterr().out
    table = [line for line in out.splitlines() if line.startswith(("| cells", "| threads"))]
    assert len(table) == 3
    bounds = ("decompression, ", "memory bandwidth, ", "| nothing of these; ")
    assert all(any(bound in line for bound in bounds) for line in table)
    assert "left out" not in out
    assert "- cells: time a cell grows as cells^" in out
    assert out.count("making") == 2  # the point where the axes cross is made once


def test_synth_makes_every_format(here: Path) -> None:
    import anndata

    run("synth", "made", "--cells", 700, "--genes", 500, "--datasets", 9, "--fragments", 2, "--seed", 5,
        "--format", "soma,h5ad,zarr", "-q")  # fmt: skip
    made = read_with_tiledbsoma(here / "made")
    assert made.X.shape == (700, 500)
    assert made.obs["dataset_id"].nunique() == 9
    for adata in (anndata.read_h5ad("made.h5ad"), anndata.read_zarr("made.zarr")):
        assert (adata.X != made.X).nnz == 0
        assert adata.obs["donor_id"].astype(str).tolist() == made.obs["donor_id"].tolist()
    assert main(["synth", "made", "--cells", "10"]) == 1
    run("synth", "made", "--cells", 300, "--genes", 100, "--overwrite", "--format", "h5ad", "-q")
    assert anndata.read_h5ad("made.h5ad").shape == (300, 100)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "data-loader", "x", "-b", "7/2"], "7 cells do not divide into 2 chunks"),
        (["bench", "data-loader", "x", "-m", "nobody"], "'nobody' is no method"),
        (["bench", "data-loader", "x", "-B", "0"], "-B must be 1 or more"),
        (["bench", "data-loader", "x", "-M", "novalue"], "-M must be given as KEY=VALUE"),
        (["bench", "data-loader", "x", "-M", "gc=1"], "a column of this name is measured"),
        (
            ["bench", "data-loader", "x", "-m", "penstock,AnnLoader", "-b", "4x64"],
            "-b needs a method that uses it, got -m penstock,AnnLoader; methods that do: penstock:chunks, tile",
        ),
        (
            ["bench", "compare", "x", "-m", "penstock", "-b", "4x64"],
            "-b needs a method that uses it",
        ),
        (
            ["bench", "data-loader", "x", "-b", "4x64", "--memory-budget", "1GiB"],
            "--memory-budget needs a method that uses it, got -m np.array,scipy.csr; methods that do: penstock",
        ),
        (
            ["bench", "data-loader", "x", "-m", "scDataset", "--threads", "1"],
            "--threads needs a method that uses it, got -m scDataset",
        ),
        (["bench", "data-loader", "x", "-P", "lots"], "-P must be a number of bytes or text"),
        (["bench", "data-loader", "x", "--threads", "0"], "--threads must be 1 or more"),
        (["bench", "data-loader", "x", "--memory-budget", "much"], "--memory-budget must be"),
        (["bench", "compare", "x", "--threads", "0"], "--threads must be 1 or more"),
        (
            ["bench", "remote", "x", "--latency", "-1"],
            "--latency must be from 0 to 10,000 milliseconds, got -1",
        ),
        (
            ["bench", "remote", "x", "--bandwidth", "inf"],
            "--bandwidth must be 0 (no bound) or from 0.1",
        ),
        (["bench", "scale", "cells=5", "--on", "x"], "one of threads, processes, ranks, got cells"),
        (["bench", "data-loader", "x", "-S"], "-S sorts the datasets that -s and -e slice"),
        (["bench", "data-loader", "x", "-s", "3", "-e", "2"], "must not be empty"),
        (["bench", "data-loader", "nothing-here"], "nothing-here"),
        (["bench", "compare", "x", "--memory-budget", "lots"], "--memory-budget"),
        (["bench", "compare", "x", "--genes", "none.npy"], "no such file of genes"),
        (["bench", "plot", "none.parquet"], "no such file of measurements: none.parquet"),
        (["bench", "plot", "-o", ""], "-o must be a path"),
        (
            ["bench", "plot", "--what", "memory", "--linear"],
            "--linear, -a and -A are for --what speed",
        ),
        (["bench", "data-loader", "x", "--all"], "--all loads all cells of a Census: leave it"),
        (
            ["bench", "data-loader", "-u", "x", "--all", "-s", "2"],
            "--all loads all cells of a Census",
        ),
        (["bench", "plot", "-f", "gif"], "-f must be of html, json, png, svg"),
        (["bench", "scale", "height=3"], "an axis must be given as"),
        (["bench", "peers", "install", "nobody"], "'nobody' is no peer"),
        (["bench", "read-chunks", "x", "-sss"], "-ss all rows"),
        (["synth", "x", "--format", "csv"], "--format must be of"),
        (["synth", "x", "--genes", "5"], "--genes must be from 64 to"),
    ],
)
def test_mistakes_get_a_clear_error(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not (here / "epochs.parquet").exists()


def test_a_method_without_its_peer_is_left_out_with_a_line(
    census_like: Oracle, here: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PENSTOCK_BENCH_PYTHON_SCDATASET", "/no/such/python")
    run("bench", "data-loader", census_like.path, "-m", "scDataset,penstock", "-g", 0)
    assert "/no/such/python, which cannot import scdataset" in capsys.readouterr().out
    assert rows(here)["method"].tolist() == ["penstock"]
    assert main(["bench", "compare", str(census_like.path), "-m", "scDataset"]) == 1
    assert "no method is left to measure" in capsys.readouterr().err


def test_packs_and_uniform_shuffles_bring_every_cell(census_like: Oracle, here: Path) -> None:
    run("bench", "data-loader", census_like.path, "-m",
        "penstock:global,penstock:pack,penstock:pack-global", "-g", 0, "--sparse", "-v", 300, "-q",
        "-r", "us-west-2", "-F")  # fmt: skip
    found = rows(here)
    assert found["status"].tolist() == ["ok"] * 3, found["error"].tolist()
    assert (found["n_nonzeros"] == census_like.X[:, :300].nnz).all()
    assert (found["n_rows"] == 6_000).all()  # -F: the first batch is one of them
    assert found["source_kind"].tolist() == ["experiment", "pack", "pack"]
    # Of what tiledbsoma reads, and of that alone.
    assert found[["py_buffer_size", "soma_buffer_size"]].isna().all(axis=None)


def test_a_run_of_which_nothing_comes_is_an_error(
    census_like: Oracle, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "data-loader", str(census_like.path), "-B", "9", "--layer", "none"]) == 1
    assert (
        "nothing could be measured: NotFound: there is no layer 'none'" in capsys.readouterr().err
    )
    assert rows(here)["status"].tolist() == ["failed"]
    # Out of memory and out of time are results.
    require_some([{"status": "failed", "error": "x"}, {"status": "oom"}], None)
    require_some([{"status": "timeout", "error": "x"}], None)


def test_sliced_in_advance_and_while_reading(census_like: Oracle, here: Path, capsys) -> None:
    run("bench", "slicing", census_like.path, "-s", 1, "-e", 3, "-v", 200, "-R", 1, "-m",
        "penstock,np.array", "-b", "16x64")  # fmt: skip
    out = capsys.readouterr().out
    line = "- penstock, sliced in advance against penstock, sliced while reading: "
    assert line in out
    assert line.replace("penstock", "np.array 16x64") in out
    found = rows(here)
    assert found["status"].tolist() == ["ok"] * 4, found["error"].tolist()
    assert found["n_nonzeros"].nunique() == found["total_n_rows"].nunique() == 1
    assert found["place"].tolist() == ["sliced while reading", "sliced in advance"] * 2
    assert found["source"].nunique() == 2
    assert main(["bench", "slicing", str(census_like.path), "-m", "penstock"]) == 1
    assert "nothing is sliced: give -s and -e, -v or --filter" in capsys.readouterr().err
    assert main(["bench", "slicing", str(census_like.path), "-v", "9", "-m", "AnnLoader"]) == 1
    assert "AnnLoader reads a h5ad" in capsys.readouterr().err


def test_s3_on_loopback_against_local_disk(census_like: Oracle, here: Path, capsys) -> None:
    """Penstock's own client and TileDB's read the same bucket."""
    run("bench", "remote", census_like.path, "-R", 1, "-m", "penstock,np.array", "-b", "4x2048",
        "--latency", 2, "--bandwidth", 4000)  # fmt: skip
    place = "S3 at 2 ms, 4,000 Mbit/s"
    assert f"- penstock, {place} against penstock, local disk: " in capsys.readouterr().out
    found = rows(here)
    assert found["status"].tolist() == ["ok"] * 4, found["error"].tolist()
    assert (found["n_nonzeros"] == census_like.X.nnz).all()
    assert found["place"].tolist() == ["local disk", place] * 2
    stored = sum(f.stat().st_size for f in census_like.path.rglob("__fragments/*/*.tdb")
                 if "/X/" in str(f))  # fmt: skip
    over_the_network = found["bytes_read"][found["place"] == place]
    assert (over_the_network > 0.9 * stored).all()
    assert main(["bench", "remote", "s3://elsewhere/x", "-m", "annbatch"]) == 1


def test_processes_at_the_same_time(census_like: Oracle, here: Path, capsys) -> None:
    run("bench", "scale", "processes=1,2", "--on", census_like.path, "-R", 2, "--threads", 1)
    out = capsys.readouterr().out
    lines = [line.split("|") for line in out.splitlines() if line.startswith("| processes")]
    assert [line[2].strip() for line in lines] == ["1", "2"]
    assert lines[0][7].strip() == ""
    assert 0 < int(lines[1][7].strip().rstrip("%")) <= 100
    found = rows(here)
    assert (found["status"] == "ok").all()
    columns = ["round", "processes", "process"]
    assert sorted(tuple(row) for row in found[columns].to_numpy().tolist()) == [
        (number, processes, process)
        for number in (0, 1)
        for processes, process in (("1", "0"), ("2", "0"), ("2", "1"))
    ]
    for _, both in found[found["processes"] == "2"].groupby("round"):
        assert both["start_dt"].max() < both["end_dt"].min(), both[["start_dt", "end_dt"]]
