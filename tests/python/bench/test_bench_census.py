"""Census releases are resolved to addresses with a release directory on loopback."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tiledbsoma
from conftest import Oracle
from loopback_http import Handler, serving
from penstock import CorruptData, InvalidArgument, IoError, NotFound
from penstock.bench.target import COLLECTION
from penstock.bench.worker.reach import storage_options, tiledb_config
from penstock.cli import main
from penstock.experiment import census
from penstock.experiment.census import find_release


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, dict]]:
    """(address, entries): a release directory whose entries a test may change."""
    entries: dict = {"stable": "2023-12-15", "latest": "stable", "loop": "pool", "pool": "loop"}

    class Directory(Handler):
        def do_GET(self) -> None:
            body = b"<html>" if self.path == "/html" else json.dumps(entries).encode()
            self.answer(body, 404 if self.path == "/none" else 200)

    with serving(Directory) as url:
        yield f"{url}/release.json", entries


def test_releases(served: tuple[str, dict]) -> None:
    address, entries = served
    entries["2023-12-15"] = {
        "release_build": "2023-12-15",
        "soma": {"uri": "s3://bucket/2023-12-15/soma/", "s3_region": "us-west-2"},
    }
    for name in ("2023-12-15", "stable", "latest"):
        release = find_release(name, address)
        assert (release.version, release.region) == ("2023-12-15", "us-west-2")
        assert release.experiment("mus_musculus") == (
            "s3://bucket/2023-12-15/soma/census_data/mus_musculus"
        )


def test_releases_that_are_none(served: tuple[str, dict], monkeypatch: pytest.MonkeyPatch) -> None:
    address, entries = served
    entries["broken"] = {"h5ads": {}}
    monkeypatch.setenv("PENSTOCK_CENSUS_DIRECTORY", address)
    for name, error, words in (
        ("1999", NotFound, "no Census release '1999'; choose from broken"),
        ("loop", NotFound, "no Census release 'loop'"),
        ("broken", CorruptData, "'broken' of the Census has no soma uri"),
    ):
        with pytest.raises(error, match=words):
            find_release(name)
    with pytest.raises(IoError, match=r"does not answer.*/none"):
        find_release("stable", address.replace("release.json", "none"))
    with pytest.raises(CorruptData, match=r"not a release directory: .*/html"):
        find_release("stable", address.replace("release.json", "html"))
    monkeypatch.setattr(census, "_MOST_BYTES", 100)
    with pytest.raises(CorruptData, match="not a release directory"):
        find_release("stable")
    monkeypatch.undo()
    with pytest.raises(IoError, match="does not answer"):
        find_release("stable", "http://127.0.0.1:9/release.json")


def answers(data: bytes) -> str:
    """The address of a server that answers once, with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        client, _ = listener.accept()
        with client, listener, contextlib.suppress(OSError):
            client.recv(65536)
            client.sendall(data)

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/d.json"


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (OK + b'Content-Length: 1000\r\n\r\n{"a":', IoError),
        (OK + b'Content-Length: 1000\r\n\r\n{"a": {}}', IoError),
        (OK + b"Content-Length: 5\r\n\r\n", IoError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", IoError),
        (OK + b"X: " + b"a" * 200_000 + b"\r\n\r\n", IoError),
        (OK + b"".join(b"X-%d: 1\r\n" % i for i in range(500)) + b"\r\n", IoError),
        (b"\x00\xff\xfe garbage\r\n\r\n", IoError),
        (b"", IoError),
        (b"HTTP/1.1 302 X\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n", IoError),
        (b"HTTP/1.1 302 X\r\nLocation: ftp://127.0.0.1:9/x\r\nContent-Length: 0\r\n\r\n", IoError),
        (b"HTTP/1.1 302 X\r\nLocation: gopher://x\r\nContent-Length: 0\r\n\r\n", IoError),
        (OK + b"Content-Length: 400000\r\n\r\n" + b"[" * 400_000, CorruptData),
        (OK + b"Content-Length: 2\r\n\r\n[]", CorruptData),
        (OK + b"Content-Length: 2\r\n\r\n\xff\xfe", CorruptData),
    ],
)
def test_bad_answers_of_the_release_directory(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"release directory.*/d\.json"):
        census.census_releases(answers(data))
    with pytest.raises(error, match=r"release directory.*/d\.json"):
        census.open_census(directory=answers(data))


@pytest.mark.parametrize(
    "url",
    [
        "not a url", "http://exa mple/x", "http://127.0.0.1:99999/x", "http://[/x", "\x00",
        "file:///dev/null", "FILE:///dev/null", "ftp://127.0.0.1:9/x", "data:,{}",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_release_directory(url: str) -> None:
    with pytest.raises(InvalidArgument, match="not a URL"):
        census.census_releases(url)


def test_a_slice_of_a_collection(
    served: tuple[str, dict], census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A Census of one experiment whose datasets are listed in another order than they lie in obs."""
    soma = tmp_path / "soma"
    ids = list(dict.fromkeys(census_like.obs["dataset_id"].astype(str)))
    sizes = census_like.obs["dataset_id"].astype(str).value_counts()
    listed = pd.DataFrame({
        "soma_joinid": range(len(ids)),
        "collection_id": ["other", *[COLLECTION] * (len(ids) - 1)],
        "dataset_id": ids[::-1],
        "dataset_total_cell_count": [int(sizes[each]) for each in ids[::-1]],
    })  # fmt: skip
    with tiledbsoma.Collection.create(str(soma)) as census:
        data = census.add_new_collection("census_data")
        info = census.add_new_collection("census_info")
        table = pa.Table.from_pandas(listed, preserve_index=False)
        frame = info.add_new_dataframe(
            "datasets", schema=table.schema, index_column_names=["soma_joinid"],
            domain=[(0, len(ids) - 1)],
        )  # fmt: skip
        frame.write(table)
        shutil.copytree(census_like.path, soma / "census_data" / "homo_sapiens")
        data.set("homo_sapiens", tiledbsoma.Experiment.open(
            str(soma / "census_data" / "homo_sapiens")), use_relative_uri=True)  # fmt: skip
    address, entries = served
    entries["2023-12-15"] = {
        "release_build": "2023-12-15", "soma": {"uri": str(soma), "s3_region": None},
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "data-loader", "--census", "stable", "--directory", address, "-s", "1",
                 "--organism", " Homo Sapiens",
                 "-e", "3", "-g", "0", "-v", "50"]) == 0  # fmt: skip
    (row,) = pd.read_parquet("epochs.parquet").to_dict("records")
    assert row["status"] == "ok"
    chosen = ids[::-1][1:][1:3]
    assert row["total_n_rows"] == row["total_rows"] == int(sizes[chosen].sum())
    assert (row["census_version"], row["collection_id"]) == ("2023-12-15", COLLECTION)
    assert row["census_uri"] == str(soma)
    assert row["uri"] == str(soma / "census_data" / "homo_sapiens")
    assert [row["start_idx"], row["end_idx"]] == [1, 3]
    whole = ["bench", "data-loader", "-u", str(soma), "-g", "0", "-v", "50", "-d", "whole"]
    assert main([*whole, "-c", COLLECTION]) == 0
    assert main([*whole, "--all"]) == 0
    (ours, every) = pd.read_parquet("whole").to_dict("records")
    assert ours["total_n_rows"] == int(sizes[ids[::-1][1:]].sum()) < every["total_n_rows"]
    assert (ours["collection_id"], every["collection_id"]) == (COLLECTION, None)
    assert every["total_n_rows"] == len(census_like.obs)
    # Without options: alb's release, collection and number of genes, of which there are fewer here.
    capsys.readouterr()
    assert main(["bench", "data-loader", "--directory", address, "-n", "1", "-d", "alb"]) == 0
    assert main(["bench", "data-loader", "-u", str(soma), "-v", "0", "-n", "1", "-d", "alb"]) == 0
    assert capsys.readouterr().out.count(f"{len(ids) - 1} of {len(ids) - 1} datasets, slice :") == 2
    first, second = pd.read_parquet("alb").to_dict("records")
    for each in (first, second):
        assert (each["total_rows"], each["collection_id"]) == (ours["total_rows"], COLLECTION)
        assert (each["start_idx"], each["end_idx"]) == (0, len(ids) - 1)
    assert (first["census_version"], second["census_uri"]) == ("2023-12-15", str(soma))
    assert first["n_vars"] == 20_000
    assert np.isnan(second["n_vars"])
    assert first["n_cols"] == second["n_cols"] == census_like.X.shape[1] < 20_000
    for more in ([], ["-e", "1"]):
        assert main(["bench", "data-loader", "-u", str(soma), "-c", "nobody", *more]) == 1
        assert "no dataset belongs to collection nobody" in capsys.readouterr().err
    assert main(["bench", "data-loader", str(census_like.path), "-c", COLLECTION]) == 1
    assert "is looked up in a Census: give --census" in capsys.readouterr().err
    shutil.rmtree(soma / "census_info")
    assert main(["bench", "data-loader", "-u", str(soma), "-e", "1"]) == 1
    assert "tiledbsoma finds nothing that it can open at" in capsys.readouterr().err


def test_a_public_bucket_needs_no_keys(
    served: tuple[str, dict], census_like: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """As the Census's: its name is enough for requests not to be signed, in every command."""
    from remote_servers import bare_environment, s3_server, upload

    bucket, release = "cellxgene-public", "2025-01-30/soma"
    address, entries = served
    entries["2023-12-15"] = {"soma": {"uri": f"s3://{bucket}/{release}", "s3_region": "us-west-2"}}
    census = ["--census", "stable", "--directory", address]
    monkeypatch.chdir(tmp_path)
    with bare_environment(tmp_path), s3_server() as endpoint:
        upload(endpoint, census_like.path, f"{release}/census_data/homo_sapiens", bucket)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        measured = ["--all", "-v", "50", "--sparse", "-d", "rows.parquet"]
        assert main(["bench", "data-loader", *census, *measured]) == 0
        (row,) = pd.read_parquet("rows.parquet").to_dict("records")
        assert (row["status"], row["total_n_rows"]) == ("ok", len(census_like.obs))
        assert row["n_nonzeros"] == census_like.X[:, :50].nnz
        # What came over the network, which the kernel does not count.
        assert row["bytes_read"] == json.loads(row["statistics"])["bytes_read"] > 10_000
        assert pd.isna(row["disk_bytes_read"])
        uri = f"s3://{bucket}/{release}/census_data/homo_sapiens"
        assert main(["bench", "tune", uri, "--budgets", "256MiB", "--threads", "1", "--label",
                     "cell_type", "-d", "tune.parquet"]) == 0  # fmt: skip
        assert "storage_options={'anonymous': True}," in capsys.readouterr().out
        assert main(["bench", "data-loader", f"s3://other/{release}", "-d", "none.parquet"]) == 1
        assert "no credentials" in capsys.readouterr().err


def test_how_tiledbsoma_reaches_a_bucket() -> None:
    anonymous, region = "vfs.s3.no_sign_request", "vfs.s3.region"
    assert tiledb_config("s3://cellxgene-public/x", "eu-west-1") == {
        anonymous: "true",
        region: "eu-west-1",
    }
    assert tiledb_config("s3://other/x") == tiledb_config("/folder") == {}
    assert tiledb_config("s3://b/x", None, "http://127.0.0.1:9")[anonymous] == "true"
    assert storage_options("s3://other/x") is storage_options("/folder", "eu-west-1") is None
    assert storage_options("s3://other/x", "eu-west-1") == {"region": "eu-west-1"}


def test_buffer_sizes_and_region_reach_tiledbsoma(census_like: Oracle) -> None:
    from penstock.bench.worker.loaders.soma import open_experiment
    from penstock.bench.worker.request import Work

    work = Work(
        str(census_like.path), py_buffer_size=3 << 20, soma_buffer_size=5 << 20, region="eu-west-1"
    )
    with open_experiment(work) as experiment:
        config = experiment.context.tiledb_config
    assert int(config["py.init_buffer_bytes"]) == 3 << 20
    assert int(config["soma.init_buffer_bytes"]) == 5 << 20
    assert config["vfs.s3.region"] == "eu-west-1"
