"""Rows are right about threads, wrong results, lack of memory, and epochs before Ctrl-C."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import own_loader
import pandas as pd
import pytest
import tiledb
import tiledbsoma
from conftest import Oracle
from penstock.bench import sweep
from penstock.bench.measuring import worker_process
from penstock.bench.measuring.measurement import Measurement
from penstock.bench.methods import METHODS
from penstock.bench.schema import ALB_COLUMNS
from penstock.bench.target import make_target
from penstock.bench.worker.request import Request, Work
from penstock.cli import main

# Two cells of three genes; `few` loses a count in the second epoch.
_LOADER = """
import os, signal, time
from ..opened import Opened
def imports(variant, work): pass
def open_loader(variant, work):
    import scipy.sparse as sp
    def epoch(number):
        import numpy as np
        x = np.array([[1, 0, 2], [0, 3, 0]])
        if variant == "few":
            x[0, 0] = 0
        if variant == "narrow":
            x = x[:, 1:]
        if variant == "dense":
            yield x, np.array([0, 1])
            return
        if variant == "interrupted" and number == 2:
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(600)
        yield sp.csr_matrix(x), np.array([0, 1])
    return Opened(epoch)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def own(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and a worker that has the loader above."""
    own_loader.install(_LOADER, here, monkeypatch)
    return here


def of(variant: str, **more) -> Measurement:
    request = Request("stubborn", variant, Work("none"), **more)
    return Measurement(METHODS["AnnLoader"], request, place=variant)


def rows_of(*arguments: object) -> pd.DataFrame:
    assert main(["bench", *map(str, arguments)]) == 0
    return pd.read_parquet("epochs.parquet")


def test_threads_are_of_methods_that_obey(census_like: Oracle, here: Path) -> None:
    found = rows_of(
        "data-loader", census_like.path, "-m", "penstock,tiledbsoma_ml,np.array,AnnLoader",
        "--threads", 1, "-B", 500, "-v", 100, "-q",
    )  # fmt: skip
    assert found["status"].tolist() == ["ok"] * 4, found["error"].tolist()
    threads = found.set_index("method")["threads"]
    assert threads[["penstock", "tiledbsoma_ml", "np.array"]].tolist() == [1] * 3
    assert pd.isna(threads["AnnLoader"])
    assert sum(method.threads for method in METHODS.values()) == 20


def test_threads_reach_tiledb(census_like: Oracle) -> None:
    """Those that wait for a network stay as many as ever."""
    from penstock.bench.worker.loaders.soma import open_experiment

    pools = ("sm.compute_concurrency_level", "sm.io_concurrency_level")
    for threads, expected in ((3, ["3", "3"]), (None, [str(os.cpu_count())] * 2)):
        with open_experiment(Work(str(census_like.path), threads=threads)) as experiment:
            config = tiledb.Config(experiment.context.tiledb_config)
        assert [config[name] for name in pools] == expected
    opened: list[dict] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tiledbsoma.Experiment, "open", lambda uri, context: opened.append(context))
        open_experiment(Work("s3://bucket/key", threads=3))
    assert opened[0].tiledb_config["sm.compute_concurrency_level"] == 3
    assert opened[0].tiledb_config.get("sm.io_concurrency_level") != 3


def test_all_counts_must_come(own: Path) -> None:
    each = dataclasses.replace(of("few"), expected_nonzeros=3)
    (row,) = sweep.run([each], None, "by hand", lambda text: None)
    assert (row["status"], row["error"]) == (
        "wrong", "got 2 counts, not the 3 of these cells and genes",
    )  # fmt: skip
    each = dataclasses.replace(of("dense"), expected_nonzeros=3)  # which are not counted
    (row,) = sweep.run([each], None, "by hand", lambda text: None)
    assert row["status"] == "ok"


@pytest.mark.parametrize(
    ("variant", "words"), [("few", "2 counts came, but 3"), ("narrow", "2 genes came, but 3")]
)
def test_those_that_are_compared_bring_the_same(variant: str, words: str, own: Path) -> None:
    said: list[str] = []
    cut = of("few", max_batches=1, first_batch_included=True)
    planned = [of("whole"), of("dense"), of(variant), of("whole"), cut]
    results = own / "epochs.parquet"
    rows = sweep.run(planned, results, "by hand", said.append)
    assert [row["status"] for row in rows] == ["ok", "ok", "wrong", "ok", "ok"]
    assert rows[2]["error"] == f"{words} by AnnLoader, whole: one of them is wrong"
    assert f"WRONG: {words}" in said[2]
    assert pd.read_parquet(results)["status"].tolist() == [row["status"] for row in rows]


def test_counts_of_a_selection_are_known_from_obs(census_like: Oracle, here: Path) -> None:
    uri = str(census_like.path)
    assert make_target(uri).nonzeros == census_like.X.nnz
    kept = census_like.obs["is_primary_data"].to_numpy().astype(bool)
    some = make_target(uri, obs_filter="is_primary_data == True")
    assert some.nonzeros == census_like.X[kept].nnz < census_like.X.nnz
    assert make_target(uri, layer="none").nonzeros is None
    found = rows_of("data-loader", uri, "--sparse", "--filter", "is_primary_data == True", "-q")
    assert (found["status"][0], found["n_nonzeros"][0]) == ("ok", some.nonzeros)


def test_an_nnz_that_is_not_of_x_is_not_believed(census_like: Oracle, here: Path) -> None:
    """As of cells whose genes were selected after it was counted."""
    assert (
        main(["bench", "download", str(census_like.path), "-v", "50", "-d", ".", "-n", "few"]) == 0
    )
    with tiledbsoma.open(str(here / "few")) as experiment:
        assert "nnz" in experiment.obs.schema.names
    assert make_target("few").nonzeros is None


def test_what_loses_counts_of_an_experiment_is_wrong(
    census_like: Oracle, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A given file of the same cells with fewer counts, beside nothing else."""
    import anndata

    x = census_like.X.copy().astype(np.float32).tocsr()
    x.data[0] = 0
    x.eliminate_zeros()
    obs = census_like.obs[["soma_joinid"]].copy()
    obs.index = obs.index.astype(str)
    anndata.AnnData(x, obs=obs).write_h5ad("lossy.h5ad")
    arguments = ["bench", "data-loader", str(census_like.path), "-m", "AnnLoader", "--h5ad",
                 "lossy.h5ad", "-q", "-B", "500"]  # fmt: skip
    assert main([*arguments, "--sparse"]) == 1  # as where nothing could be measured
    row = pd.read_parquet("epochs.parquet").iloc[0]
    nnz = census_like.X.nnz
    assert row["error"] == f"got {nnz - 1:,} counts, not the {nnz:,} of these cells and genes"


def test_genes_are_said_once(census_like: Oracle, here: Path, capsys) -> None:
    np.save("genes.npy", np.arange(9))
    for command in ("compare", "slicing", "remote", "shuffle"):
        arguments = [str(census_like.path), "--genes", "genes.npy", "-v", "9"]
        assert main(["bench", command, *arguments]) == 1
        assert "--genes and -v both say which genes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["compare", "--max-seconds", "-1"], ["compare", "--max-seconds", "nan"],
     ["tune", "--max-seconds", "0"], ["tune", "--max-seconds", "soon"]],
)  # fmt: skip
def test_a_time_is_above_zero(arguments: list[str], here: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["bench", *arguments, "x"])
    assert "--max-seconds" in capsys.readouterr().err


@pytest.mark.parametrize("share", ["98", "0", "nan", "-1"])
def test_a_share_is_at_most_one(share: str, here: Path, capsys) -> None:
    assert main(["bench", "tune", "x", "--share", share]) == 1
    assert "--share must be above 0 and at most 1, got" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cache", "resident", "words"),
    [
        ("cold", 0.97, "THE CACHE STAYED WARM: 97% of the source"),
        ("cold", 0.01, None),
        ("cold", None, "WHETHER THE CACHE WAS COLD IS NOT KNOWN"),
        ("warm", 0.4, "THE CACHE IS NOT WARM: 40% of the source"),
        ("warm", 1.0, None),
        ("as-is", 0.5, None),
    ],
)
def test_a_cache_that_is_not_what_was_asked_for_is_told(
    cache: str, resident: float | None, words: str | None, own: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("penstock.bench.measuring.page_cache.prepare", lambda *_: resident)
    said: list[str] = []
    sweep.run([dataclasses.replace(of("whole"), cache=cache)], None, "by hand", said.append)
    assert ("CACHE" in said[0]) == (words is not None)
    assert words is None or said[0].endswith(f"; {words}")


def test_epochs_before_an_interruption_are_kept(own: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep.run([of("interrupted", epochs=9)], own / "rows", "by hand", lambda text: None)
    found = pd.read_parquet(own / "rows")
    assert found["epoch"].tolist() == [0, 1]
    assert found["status"].tolist() == ["ok", "ok"]
    assert (found["import_seconds"] > 0).all()
    assert (found["versions"] != "{}").all()


def test_an_epoch_that_is_being_noted_is_noted_whole(own: Path) -> None:
    noted = []

    def note(answer: dict) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        noted.append(answer["epoch"])

    request = of("plain", epochs=3).request
    with pytest.raises(KeyboardInterrupt):
        worker_process.run(request, on_epoch=note)
    assert noted == [0, 1, 2][: max(len(noted), 1)]


def test_out_of_memory_is_a_result(census_like: Oracle, here: Path, capsys) -> None:
    """A real one, after importing, by the kernel's refusal of what the loader asks for."""
    found = rows_of(
        "data-loader", census_like.path, "-m", "penstock,penstock:chunks", "-B", 6_000, "--threads",
        1, "--memory-limit", "1GiB", "--memory-budget", "64GiB",
    )  # fmt: skip
    assert found["status"].tolist() == ["oom"] * 2, found["error"].tolist()
    assert found["oom"].tolist() == [True, True]
    assert found["error"].str.contains("Cannot allocate memory").all()
    assert found["import_seconds"].notna().all()
    assert (found["memory_limit"] == 1 << 30).all()
    assert found["elapsed"].isna().all()
    assert "oom: " in capsys.readouterr().out


def test_columns_of_alb_are_filled(census_like: Oracle, here: Path) -> None:
    found = rows_of(
        "data-loader", census_like.path, "-s", 1, "-e", 3, "-S", "-m", "scipy.csr", "-b", "16x64",
        "-B", 64, "-P", "1MiB", "-z", "1MiB", "-n", 5, "-g", 2,
    )  # fmt: skip
    assert list(found.columns[: len(ALB_COLUMNS)]) == list(ALB_COLUMNS)
    row = found.iloc[0]
    # Of a Census, whose columns test_bench_census.py looks at, or of a machine in a cloud.
    elsewhere = {"census_uri", "census_version", "collection_id", "instance_id", "instance_type"}
    missing = {name for name in ALB_COLUMNS if pd.isna(row[name])}
    assert missing - {"sha"} <= elsewhere
    assert row["n_rows"] == 5 * 64
    assert row["block_size"] == row["chunk_size"] * row["chunks_per_block"] == 16 * 64
    assert row["alb_start_dt"] <= row["start_dt"] < row["end_dt"]


_FAMILY = """
import os, sys
from penstock.bench.worker.process_facts import bytes_read, cpu_seconds
cpu, (read, _) = cpu_seconds(), bytes_read()
ready, told = os.pipe()
stop, stopping = os.pipe()
if os.fork() == 0:
    os.close(stopping)
    if os.fork() == 0:
        open(sys.argv[1], "rb").read()
        sum(i * i for i in range(6_000_000))
        os.write(told, b"x")
    os.read(stop, 1)
    os._exit(0)
os.read(ready, 1)
print(sum(cpu_seconds()) - sum(cpu), bytes_read()[0] - read)
"""


def test_work_of_children_that_are_alive_counts(tmp_path: Path) -> None:
    """Theirs and that of those below them, whether or not their parent has waited for them."""
    (tmp_path / "file").write_bytes(bytes(40 << 20))
    command = [sys.executable, "-c", _FAMILY, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    seconds, read = done.stdout.split()
    assert float(seconds) > 0.15
    assert int(read) >= 40 << 20
