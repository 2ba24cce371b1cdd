"""``penstock bench remote`` has the requested latency and bandwidth."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import tiledb
from conftest import Oracle
from penstock.bench.loopback_s3 import BUCKET, served
from penstock.bench.worker.reach import tiledb_config
from penstock.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from penstock.synthetic import make_experiment

    path = tmp_path_factory.mktemp("small") / "experiment"
    make_experiment(path, n_cells=600, n_genes=400, n_fragments=1, n_datasets=8)
    return path


def of_s3(small: Path, *arguments: str) -> pd.DataFrame:
    """Rows by method of what was measured in S3."""
    common = ["-R", "1", "-q", "-m", "penstock,np.array", "-b", "4x256"]
    assert main(["bench", "remote", str(small), *common, *arguments]) == 0
    found = pd.read_parquet("epochs.parquet").set_index("method")
    assert found["status"].tolist() == ["ok"] * 4, found["error"].tolist()
    return found[found["place"] != "local disk"]


def test_latency_is_milliseconds(small: Path, here: Path) -> None:
    """The metadata must be there before what it tells of is asked for: two latencies at the least."""
    found = of_s3(small, "--latency", "300", "--bandwidth", "0")
    assert (found["first_batch_seconds"] >= 0.6).all(), found["first_batch_seconds"].tolist()
    assert (found["first_batch_seconds"] < 300).all()


def test_bandwidth_is_megabits_a_second(small: Path, here: Path) -> None:
    found = of_s3(small, "--latency", "0", "--bandwidth", "8")
    sent = found["bytes_read"] / 1e6
    assert (sent > 0.1).all()
    assert (found["epoch_seconds"] >= sent).all(), (found["epoch_seconds"], sent)
    assert (found["epoch_seconds"] < 500 * sent).all()  # kilobits take 1,000 times as long


def test_tiledb_waits_for_a_late_server(tmp_path: Path) -> None:
    """Its own patience is 3 seconds, and --latency may be 10."""
    (tmp_path / "file").write_bytes(b"cells")
    with served(tmp_path, 4.0, None) as endpoint:
        vfs = tiledb.VFS(tiledb_config(f"s3://{BUCKET}/file", None, endpoint))
        with vfs.open(f"s3://{BUCKET}/file", "rb") as file:
            assert file.read(5) == b"cells"


def test_a_low_bandwidth_comes_in_small_pieces(tmp_path: Path) -> None:
    """No client hears nothing for long: at 0.1 Mbit/s 64 KiB, which one of several gets, take seconds."""
    import time
    import urllib.request

    (tmp_path / "file").write_bytes(bytes(1 << 13))
    with served(tmp_path, 0.0, 1e5 / 8) as endpoint:
        begin = time.monotonic()
        with urllib.request.urlopen(f"{endpoint}/{BUCKET}/file", timeout=30) as answer:
            answer.read(1)
            first = time.monotonic() - begin
            answer.read()
        whole = time.monotonic() - begin
    assert first < whole / 2
    assert whole >= 0.5  # of 0.65 the last piece is not waited for


def test_no_method_is_left(
    census_like: Oracle, here: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Also where there is no address that could be named in its place."""
    monkeypatch.setenv("PENSTOCK_BENCH_PYTHON_SCDATASET", "/no/such/python")
    soma = here / "soma" / "census_data"
    soma.mkdir(parents=True)
    (soma / "homo_sapiens").symlink_to(census_like.path)
    arguments = ["-u", str(here / "soma"), "-m", "scDataset"]
    for command in ("remote", "slicing", "compare"):
        assert main(["bench", command, *arguments, "-v", "9"]) == 1
        assert "no method is left to measure" in capsys.readouterr().err, command
