"""Benchmark commands never replace foreign files, change values or serve other files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import ROOT, Oracle
from penstock.bench.exports import annbatch_collection, kept
from penstock.bench.exports.cells import Cells
from penstock.bench.loopback_s3 import served
from penstock.bench.target import make_target
from penstock.cli import build_parser, main
from penstock.errors import PenstockError

tiledbsoma = pytest.importorskip("tiledbsoma")
pa = pytest.importorskip("pyarrow")


def run(*arguments: object) -> int:
    return main([str(each) for each in arguments])


def write(path: Path, values: np.ndarray) -> Path:
    """One cell that has these values."""
    schema = pa.schema([("soma_joinid", pa.int64())])
    shape = (1, len(values))
    with tiledbsoma.Experiment.create(str(path)) as experiment:
        for parent, name, count in (
            (experiment, "obs", 1),
            (
                experiment.add_new_collection("ms").add_new_collection(
                    "RNA", tiledbsoma.Measurement
                ),
                "var",
                len(values),
            ),
        ):
            frame = parent.add_new_dataframe(
                name, schema=schema, index_column_names=["soma_joinid"], domain=[[0, count - 1]]
            )
            frame.write(pa.table({"soma_joinid": np.arange(count)}))
        layer = (
            experiment.ms["RNA"]
            .add_new_collection("X")
            .add_new_sparse_ndarray("raw", type=pa.from_numpy_dtype(values.dtype), shape=shape)
        )
        X = sp.coo_matrix((values, (np.zeros(len(values), int), np.arange(len(values)))), shape)
        layer.write(pa.SparseCOOTensor.from_scipy(X))
    return path


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float32", "float64"])
def test_a_slice_has_the_values_of_its_source(dtype: str, tmp_path: Path) -> None:
    values = np.array([255, 3, 1, 5, 128], dtype)
    if dtype.startswith("float"):
        values = np.append(values, [np.nan, -0.5]).astype(dtype)
    source = write(tmp_path / "source", values)
    assert run("bench", "download", source, "-d", tmp_path, "-n", "slice") == 0
    with tiledbsoma.open(str(tmp_path / "slice" / "ms" / "RNA" / "X" / "raw")) as layer:
        read = layer.read().tables().concat()
    assert read["soma_data"].type == pa.float32()
    np.testing.assert_array_equal(read["soma_data"].to_numpy(), values.astype("float32"))


@pytest.mark.parametrize(
    "value",
    [
        np.int32(16_777_217),
        np.int64(2**60),
        np.int64(2**53 + 1),
        np.float64(1e300),
        np.float64(0.1),
    ],
)
def test_values_that_a_slice_does_not_hold(value, tmp_path: Path, capsys) -> None:
    source = write(tmp_path / "source", np.array([value, 1, 2]).astype(value.dtype))
    assert run("bench", "download", source, "-d", tmp_path, "-n", "slice") == 1
    assert "float32, which does not hold" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_only_what_these_commands_make_is_replaced(
    census_like: Oracle, tmp_path: Path, capsys
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    (tmp_path / "made.h5ad").mkdir()
    (tmp_path / "made.h5ad" / "notes").write_text("mine")
    source = census_like.path
    few = ("--cells", 50, "--genes", 100, "--genes-per-cell", 5, "-q", "--overwrite")
    for arguments, message in [
        (("bench", "download", source, "-d", tmp_path, "-n", "mine", "-f"), "something else"),
        (("bench", "download", source, "-d", tmp_path, "-n", "", "-f"), "-n must be"),
        (("synth", tmp_path / "mine", *few), "something else"),
        (("synth", tmp_path / "made", *few, "--format", "soma,h5ad"), "something else"),
    ]:
        assert run(*arguments) == 1, arguments
        assert message in capsys.readouterr().err
    (tmp_path / "mine" / "README.md").write_text("my project")
    compare = ("bench", "compare", source, "-m", "penstock", "-R", 1, "-n", 2, "-q")
    compare += ("-d", tmp_path / "epochs.parquet", "--report")
    assert run(*compare, tmp_path / "mine") == 1
    assert "would replace" in (said := capsys.readouterr()).err
    assert "README.md, which is no page of penstock bench compare" in said.err
    assert not (tmp_path / "epochs.parquet").exists(), "it was looked at after measuring"
    assert (tmp_path / "mine" / "README.md").read_text() == "my project"
    for _ in range(2):
        assert run(*compare, tmp_path / "page") == 0
    assert (tmp_path / "mine" / "notes").read_text() == "mine"
    assert (tmp_path / "made.h5ad" / "notes").read_text() == "mine"
    for seed in (1, 2):
        assert (
            run("synth", tmp_path / "own", *few, "--format", "soma,h5ad,zarr", "--seed", seed) == 0
        )
    assert run("bench", "download", tmp_path / "own", "-d", tmp_path, "-n", "slice") == 0
    assert run("bench", "download", tmp_path / "own", "-d", tmp_path, "-n", "slice", "-f") == 0
    capsys.readouterr()
    for name in ("own", "own/below"):
        arguments = ("bench", "download", tmp_path / "own", "-d", tmp_path, "-n", name, "-f")
        assert run(*arguments) == 1
        assert "lie where its source is" in capsys.readouterr().err
    assert (tmp_path / "own" / "obs").is_dir()


def test_an_address_is_the_path_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written later is exported again."""
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    few = ("--cells", 50, "--genes", 100, "--genes-per-cell", 5, "-q", "--overwrite")
    exports = []
    for cells in (50, 60):
        assert run("synth", tmp_path / "a b", *few, "--cells", cells) == 0
        target = make_target((tmp_path / "a b").as_uri())
        assert target.uri == str(tmp_path / "a b")
        exports.append(kept.kept_export(Cells(target.uri), "h5ad", lambda text: None))
    assert exports[0] != exports[1]


def test_two_at_once_make_an_export_once(
    census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import anndata

    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    made: list[str] = []

    def export(_: int) -> Path:
        path = kept.kept_export(Cells(str(census_like.path), n_vars=50), "h5ad", made.append)
        assert anndata.read_h5ad(path).shape == (6_000, 50)
        return path

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(export, range(4)))) == 1
    assert len(made) == 1


def test_the_server_gives_the_experiment_alone(tmp_path: Path) -> None:
    (tmp_path / "own" / "obs").mkdir(parents=True)
    (tmp_path / "own" / "obs" / "a").write_text("cells")
    (tmp_path / "own2").mkdir()
    (tmp_path / "own2" / "b").write_text("mine")
    (tmp_path / "env.sh").write_text("mine")
    with served(tmp_path, 0.0, None, "own") as endpoint:
        with urllib.request.urlopen(f"{endpoint}/bench/own/obs/a", timeout=30) as answer:
            assert answer.read() == b"cells"
        for key in ("env.sh", "own2/b", "own/../env.sh", "own/%2e%2e/env.sh"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{endpoint}/bench/{key}", timeout=30)
        for query in ("", "?delimiter=/", "?prefix=ow", "?prefix=ow&delimiter=/", "?prefix=e"):
            with urllib.request.urlopen(f"{endpoint}/bench{query}", timeout=30) as answer:
                listing = answer.read().decode()
            assert "env" not in listing
            assert "own2" not in listing
            assert ("<Key>own/" in listing or "<Prefix>own/<" in listing) == (query != "?prefix=e")


def test_collecting_garbage_is_in_no_speed(census_like: Oracle, tmp_path: Path) -> None:
    results = tmp_path / "epochs.parquet"
    arguments = ("-m", "penstock", "-B", 64, "-g", 1, "-d", results, "-q")
    assert run("bench", "data-loader", census_like.path, *arguments) == 0
    (row,) = pd.read_parquet(results).to_dict("records")
    assert row["gc"] > 0
    speed = row["total_n_rows"] / (row["epoch_seconds"] - row["gc"])
    assert row["epoch_cells_per_second"] == pytest.approx(speed)


def test_mistakes_of_shuffle_and_scale_are_errors(
    census_like: Oracle, tmp_path: Path, capsys
) -> None:
    own = ("-d", tmp_path / "epochs.parquet", "-q")
    for arguments, message in [
        (("shuffle", census_like.path, "-R", 0, *own), "-R"),
        (
            ("shuffle", census_like.path, "-m", "penstock", "--layer", "nope", *own),
            "could be measured",
        ),
        (("scale", "genes=64", "--density", 40), "a fifth of genes"),
        (("scale", "density=1e9"), "a fifth of genes"),
    ]:
        assert run("bench", *arguments) == 1, arguments
        assert message in capsys.readouterr().err


def test_make_bench_s_commands_are_understood() -> None:
    """As the Makefile has them: an option that was renamed shows here, not in ten minutes."""
    makefile = ROOT / "Makefile"
    text = makefile.read_text().replace("\\\n", " ")
    for variable, value in [
        ("$(BENCH_DATA)", "data"),
        ("$(BENCH_TITLE)", "'a title'"),
        ("$@", "data"),
    ]:
        text = text.replace(variable, value)
    text = text.replace("$(SYNTH)", "--cells 10")
    found = re.findall(r"\$\(BIN\)/penstock ((?:bench|synth) [^|;\n]*)", text)
    commands = [shlex.split(command) for command in found]
    assert sorted(command[:2][-1] for command in commands) == [
        "compare", "data", "peers", "peers", "peers", "plot",
    ]  # fmt: skip
    for command in commands:
        assert build_parser().parse_args(command).run is not None


def test_a_kind_of_machine_may_be_told(census_like: Oracle, tmp_path: Path) -> None:
    results = tmp_path / "epochs.parquet"
    arguments = ("-m", "penstock", "-R", 1, "-n", 2, "-q", "-d", results, "-M", "instance_type=x9")
    assert run("bench", "compare", census_like.path, *arguments) == 0
    assert pd.read_parquet(results)["instance_type"].tolist() == ["x9"]


def test_what_cannot_be_downloaded_or_exported_is_said_before_it_begins(
    census_like: Oracle, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_PYTHON_ANNBATCH", "/no/such/python")
    source, to = census_like.path, ("-d", tmp_path / "data")
    few = ("--cells", 50, "--genes", 100, "--genes-per-cell", 5, "-q")
    for arguments, message in [
        (("bench", "download", source, *to, "--layer", "none"), "no layer 'none'; choose from "),
        (("bench", "download", source, *to, "--measurement", "no"), "no measurement 'no'; choose from RNA"),
        (("synth", tmp_path / "made", *few, "--format", "soma,annbatch"), "cannot import annbatch"),
    ]:  # fmt: skip
        assert run(*arguments) == 1, arguments
        assert message in capsys.readouterr().err
    assert not (tmp_path / "made").exists(), "cells were made first"
    assert not any((tmp_path / "data").glob("*"))
    for command in (("shuffle", "--report", "x"), ("shuffle", "--title", "x"), ("tune", "--pack", "x"),
                    ("read-chunks", "--no-export")):  # fmt: skip
        with pytest.raises(
            SystemExit
        ):  # an option that it has not, rather than one that it ignores
            run("bench", command[0], source, *command[1:])


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was killed"),
        ("raise SystemExit('no room')", "no room"),
    ],
)
def test_an_annbatch_that_fails_is_an_error_of_ours(
    tmp_path: Path, monkeypatch, ends, says
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{ends}\n")
    python.chmod(0o755)
    monkeypatch.setattr(annbatch_collection, "interpreter", lambda method: str(python))
    with pytest.raises(PenstockError, match=says):
        annbatch_collection.write_annbatch(tmp_path / "cells.h5ad", tmp_path / "made.zarr")
    assert list(tmp_path.iterdir()) == [python]


SERVE = """
import sys, time
from pathlib import Path
from penstock.bench.loopback_s3 import served
with served(Path(sys.argv[1]), 0.0, None) as endpoint:
    print(endpoint, flush=True)
    time.sleep(600)
"""


def test_the_server_ends_with_who_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        endpoint = parent.stdout.readline().strip()
        urllib.request.urlopen(f"{endpoint}/bench", timeout=30).close()
        parent.kill()
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{endpoint}/bench", timeout=30).close()
        except (urllib.error.URLError, ConnectionError):
            return
        time.sleep(0.05)
    pytest.fail("it serves on")


def test_where_results_go_is_looked_at_first(
    census_like: Oracle, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        pytest.fail("something was measured")

    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    (tmp_path / "folder").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("penstock.bench.sweep.measure", never)
        for name in ("cut.parquet", "folder", "/dev/full"):
            arguments = ("-m", "penstock", "-R", 1, "-q", "-d", tmp_path / name)
            assert run("bench", "compare", census_like.path, *arguments) == 1
            assert "Parquet file" in capsys.readouterr().err
    pd.DataFrame({"ram": [16]}).to_parquet(tmp_path / "epochs.parquet")
    arguments = ("-m", "penstock", "-R", 1, "-q", "-d", tmp_path / "epochs.parquet", "-M", "ram=32")
    assert run("bench", "compare", census_like.path, *arguments) == 0
    assert pd.read_parquet(tmp_path / "epochs.parquet")["ram"].tolist() == ["16", "32"]
    output = ("-o", tmp_path / "plot", "--format", "json")
    for since, status in (("2020-01-01T00:00+02:00", 0), ("2020-01-01", 0), ("", 1), ("soon", 1)):
        found = run("bench", "plot", tmp_path / "epochs.parquet", *output, "--since", since)
        assert found == status, since


def test_tune_keeps_to_its_options(census_like: Oracle, tmp_path: Path, capsys) -> None:
    own = ("-d", tmp_path / "epochs.parquet", "-q", "--budgets", "64MiB", "--threads", 1)
    arguments = ("bench", "tune", census_like.path, *own)
    assert run(*arguments, "--timeout", 0.01) == 1
    assert "no end within" in capsys.readouterr().err
    assert run(*arguments, "--memory-limit", "1MiB") == 1
    capsys.readouterr()
    assert run(*arguments, "-v", 50) == 0
    assert "var_query=penstock.AxisQuery(coords=(slice(0, 49),))" in capsys.readouterr().out
    for timeout in ("nan", "inf", "-1", "0", "1e15"):
        with pytest.raises(SystemExit):
            run(*arguments, "--timeout", timeout)
        assert "above 0" in capsys.readouterr().err
