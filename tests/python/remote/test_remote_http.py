"""Experiments on a plain web server, and the index that makes them readable."""

from __future__ import annotations

import errno
import json
import os
import shutil

import penstock as ps
import pytest
from conftest import write_small_tiles
from penstock.cli import main
from penstock.experiment import web_index
from penstock.experiment.web_index import INDEX_NAME, write_index
from remote_servers import check_injected, every_tenth, fault_proxy


@pytest.fixture(scope="module", autouse=True)
def _no_proxies():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def served(soma_small, tmp_path):
    """A folder with an experiment, and its index, on a server."""
    shutil.copytree(soma_small.path, tmp_path / "www" / "exp")
    write_index(tmp_path / "www")
    with fault_proxy(folder=tmp_path / "www") as server:
        yield server, tmp_path / "www"


def batches(source):
    dataset = ps.Dataset(source, obs_columns=["soma_joinid"], batch_size=16, sparse=True, seed=5)
    return [
        (X.indptr.tobytes(), X.indices.tobytes(), X.data.tobytes(), obs["soma_joinid"].tobytes())
        for X, obs in dataset
    ]


def test_batches_are_those_of_the_file(served, soma_small):
    server, folder = served
    expected = batches(soma_small.path)
    # The index lies above the experiment, then in it.
    assert batches(f"{server.url}/exp") == expected
    (folder / INDEX_NAME).unlink()
    write_index(folder / "exp")
    assert batches(f"{server.url}/exp/") == expected
    assert (
        ps.open(f"{server.url}/exp")
        .obs.to_pandas()
        .equals(ps.open(soma_small.path).obs.to_pandas())
    )


def test_faults_change_nothing(served, soma_small):
    server, _ = served
    kinds = ["reset", "500", "slowdown", "short", "range", "late", "slow"]
    server.fault = every_tenth(kinds)
    expected = batches(soma_small.path)
    options = {"max_attempts": 10}
    for _ in range(4):
        assert batches(ps.open(f"{server.url}/exp", storage_options=options)) == expected
    check_injected(server, kinds, len(server.requests))


def requests_of_info(folder, name) -> int:
    with fault_proxy(folder=folder) as server:
        assert main(["info", f"{server.url}/{name}"]) == 0
        return len(server.requests)


def test_requests_of_info_grow_with_fragments_not_with_tiles(tmp_path):
    from penstock.synthetic import make_experiment

    for fragments in (1, 8):
        path = tmp_path / f"fragments{fragments}"
        make_experiment(path, n_cells=800, n_genes=500, n_fragments=fragments, processes=1)
        assert ps.open(path).x().fragment_count == fragments
        write_index(path)
    one, eight = (requests_of_info(tmp_path, f"fragments{fragments}") for fragments in (1, 8))
    # Its metadata, and a look at how well each of three columns is packed.
    assert one < eight <= one + 4 * 7
    assert one < 70
    # Four times the cells: more tiles of obs and X, whose lists may come in one piece more.
    units, requests = [], []
    for cells in (1_600, 6_400):
        path = write_small_tiles(tmp_path / f"tiles{cells}", cells, 600, per_cell=96)
        write_index(path)
        units.append(len(ps.open(path).x().units()))
        requests.append(requests_of_info(tmp_path, path.name))
    assert units[1] > 3 * units[0] > 90
    assert requests[1] <= requests[0] + 2


def test_a_changed_file_is_an_error(served):
    server, _ = served
    experiment = ps.open(f"{server.url}/exp")
    dataset = ps.Dataset(experiment)
    dataset.plan()
    server.etag = '"two"'
    with pytest.raises(ps.IoError, match="the object changed while it was read"):
        list(dataset)


def test_without_an_index_the_command_is_named(served, soma_small):
    server, folder = served
    (folder / INDEX_NAME).unlink()
    with pytest.raises(ps.Unsupported, match=r"penstock index DIR"):
        ps.open(f"{server.url}/exp")


def test_a_server_that_forbids_says_so(served):
    server, _ = served
    server.fault = lambda number, path: "forbidden"
    with pytest.raises(ps.IoError, match=r"forbids.*headers such as Authorization"):
        ps.open(f"{server.url}/exp")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<html>", ps.CorruptData),
        ('{"format": "other"}', ps.CorruptData),
        ('{"format": "penstock-index", "version": 2, "files": {}}', ps.Unsupported),
        ('{"format": "penstock-index", "version": 1}', ps.CorruptData),
        ('{"format": "penstock-index", "version": 1, "files": {"../x": 1}}', ps.CorruptData),
        ('{"format": "penstock-index", "version": 1, "files": {"x": -1}}', ps.CorruptData),
    ],
)
def test_what_is_no_index_is_refused(served, text, error):
    server, folder = served
    (folder / INDEX_NAME).write_text(text)
    with pytest.raises(error, match="index"):
        ps.open(f"{server.url}/exp")


def test_the_index_lists_every_file_and_replaces_an_older_one(tmp_path, capsys):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "ä x").write_bytes(b"123")
    (tmp_path / "empty").write_bytes(b"")
    for _ in range(2):
        assert main(["index", str(tmp_path)]) == 0
    assert "2 files, 3 B" in capsys.readouterr().out
    written = json.loads((tmp_path / INDEX_NAME).read_text())
    assert written == {
        "format": "penstock-index",
        "version": 1,
        "files": {"a/b/ä x": 3, "empty": 0},
    }
    assert sorted(each.name for each in tmp_path.iterdir()) == [INDEX_NAME, "a", "empty"]
    assert main(["index", str(tmp_path / "absent")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_what_cannot_be_indexed_is_named(tmp_path, monkeypatch):
    root = tmp_path / "www"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_bytes(b"123")
    scandir = os.scandir

    def forbidden(path):
        if str(path).endswith("b"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", forbidden)
        with pytest.raises(ps.IoError, match=r"cannot read: Permission denied: .*/www/a/b$"):
            write_index(root)
    for target in ("nowhere", "link", "."):  # dangling, of itself, of its folder
        (root / "a" / "link").symlink_to(target)
        with pytest.raises(ps.IoError, match=r"cannot read: .*/www/a/link"):
            write_index(root)
        (root / "a" / "link").unlink()
    for bad in (b"a/\xff", b"a/\xfe/file"):
        path = os.path.join(os.fsencode(root), bad)  # noqa: PTH118  (of bytes)
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        with open(path, "wb"):  # noqa: PTH123
            pass
        with pytest.raises(ps.InvalidArgument, match=r"not UTF-8: .*/www/a/.udcf"):
            write_index(root)
        os.unlink(path)  # noqa: PTH108
    monkeypatch.setattr(web_index, "MOST_BYTES", 50)
    with pytest.raises(ps.InvalidArgument, match=r"index parts of it separately.*/www$"):
        write_index(root)
    assert not list(root.glob(".penstock*"))
    monkeypatch.undo()
    assert write_index(root)[1:] == (1, 3)


def test_other_schemes_are_named():
    with pytest.raises(ps.Unsupported, match=r'scheme "gs".*s3://'):
        ps.open("gs://bucket/x")
    with pytest.raises(ps.InvalidArgument, match="no storage option 'anonymous'"):
        ps.open("/nowhere", storage_options={"anonymous": True})
