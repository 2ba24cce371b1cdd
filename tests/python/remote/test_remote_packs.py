"""Packs in a bucket and on a web server, and caches of remote sources."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import cache_in, collect, write_small_tiles
from penstock.experiment.web_index import write_index
from penstock.plan.shuffle_cost import ReadAgainWarning, RequestPerCellWarning

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import (
    BUCKET,
    authentication,
    bare_environment,
    check_injected,
    every_tenth,
    fault_proxy,
    s3_server,
    upload,
)

N_CELLS = 1200
PATIENT = {"retry_timeout": 30, "max_attempts": 10, "stall_timeout": 1}
#: Enough to read a global order cell by cell, not for units.
CELL_BY_CELL = {"shuffle": "global", "memory_budget": "300KB"}

pytestmark = [
    pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.ReadAgainWarning"),
    pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.RequestPerCellWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _no_credentials_of_this_machine(tmp_path_factory: pytest.TempPathFactory):
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiles") / "experiment"
    return write_small_tiles(path, N_CELLS, 300, per_cell=40)


@pytest.fixture(scope="module")
def packed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packs") / "cells.pack"
    ps.pack(source, path)
    return path


@pytest.fixture(scope="module")
def s3(source: Path, packed: Path):
    """A proxy that counts, before a bucket with the experiment and its pack."""
    with s3_server() as endpoint:
        upload(endpoint, source, "tiles")
        upload(endpoint, packed, "cells.pack")
        with fault_proxy(endpoint) as proxy:
            yield proxy


@pytest.fixture(scope="module")
def web(packed: Path, tmp_path_factory: pytest.TempPathFactory):
    """A plain web server with the pack and its index."""
    folder = tmp_path_factory.mktemp("www")
    shutil.copytree(packed, folder / "cells.pack")
    write_index(folder)
    with fault_proxy(folder=folder) as server:
        yield server


def opened(proxy: Any, name: str = "cells.pack", **options: Any) -> ps.Experiment:
    if proxy._folder is not None:
        return ps.open(f"{proxy.url}/{name}", storage_options=options or None)
    given = {"endpoint": proxy.url, "anonymous": True, **options}
    return ps.open(f"s3://{BUCKET}/{name}", storage_options=given)


def batches(source: Any, **arguments: Any) -> list[tuple[bytes, ...]]:
    """Every array of every batch of an epoch."""
    ds = arguments.pop("dataset", None)
    if ds is None:
        ds = dataset(source, **arguments)
    return [
        (X.indptr.tobytes(), X.indices.tobytes(), X.data.tobytes(), obs["soma_joinid"].tobytes())
        for X, obs in ds
    ]


def dataset(source: Any, **arguments: Any) -> ps.Dataset:
    return ps.Dataset(source, **{"sparse": True, "batch_size": 32, "seed": 3, **arguments})


@pytest.mark.parametrize("place", ["s3", "web"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"shuffle": False},
        {"shuffle": "scatter"},
        {"shuffle": "scatter", "memory_budget": "4MiB"},
        {"shuffle": "global"},
        {"shuffle": "global", "memory_budget": "1MiB"},
        CELL_BY_CELL,
        {"shuffle": "chunks", "chunk_size": 20},
        {"obs_query": "soma_joinid < 500", "var_query": "soma_joinid >= 100", "shuffle": "global"},
    ],
    ids=str,
)
def test_batches_are_those_of_the_pack_on_the_disk(
    place: str, arguments: dict[str, Any], packed: Path, request: pytest.FixtureRequest
) -> None:
    proxy = request.getfixturevalue(place)
    remote = dataset(opened(proxy), **arguments)
    before = len(proxy.requests)
    assert batches(None, dataset=remote) == batches(packed, **arguments)
    stats = remote.stats
    assert stats.bytes_needed > 0
    assert stats.bytes_read >= stats.bytes_needed
    assert 0 < stats.requests <= len(proxy.requests) - before
    if arguments["shuffle"] != "chunks" and "memory_budget" not in arguments:
        assert stats.read_amplification <= 1.1


def test_tables_are_those_of_the_pack_on_the_disk(s3: Any, web: Any, packed: Path) -> None:
    local = ps.open(packed)
    for proxy in (s3, web):
        remote = opened(proxy)
        assert remote.obs.to_pandas().equals(local.obs.to_pandas())
        assert remote.var("RNA").to_pandas().equals(local.var("RNA").to_pandas())
        assert remote.metadata == local.metadata


@pytest.mark.parametrize("name", ["tiles", "cells.pack"])
def test_signed(s3: Any, source: Path, packed: Path, tmp_path: Path, name: str) -> None:
    """The server checks every signature; packs, blocks of a global order and caches are signed."""
    path = source if name == "tiles" else packed
    with authentication(s3.upstream) as (_, keys):
        signed = {"anonymous": False, **keys}
        remote = opened(s3, name, **signed)
        assert remote.obs.to_pandas().equals(ps.open(path).obs.to_pandas())
        for shuffle in (False, "scatter", "global"):
            assert batches(remote, shuffle=shuffle) == batches(path, shuffle=shuffle)
        ds = dataset(remote, **cache_in(tmp_path / "cache"))
        assert batches(None, dataset=ds) == batches(path, shuffle="scatter")
        before = len(s3.requests)
        ds.set_epoch(1)
        expected = dataset(path, shuffle="global")
        expected.set_epoch(1)
        assert batches(None, dataset=ds) == batches(None, dataset=expected)
        assert len(s3.requests) == before
        # Nothing of a cache is shown to those who may not open what it was made of.
        for options, match in (
            ({**signed, "secret_access_key": "wrong"}, "SignatureDoesNotMatch"),
            ({**signed, "access_key_id": "AKIANOBODY"}, "check the access key id"),
        ):
            with pytest.raises(ps.IoError, match=match):
                batches(opened(s3, name, **options), **cache_in(tmp_path / "cache"))
        to_pack = tmp_path / "again.pack"
        assert batches(ps.pack(remote, to_pack), shuffle=False) == batches(path, shuffle=False)


def test_rows_are_no_units_over_a_network(s3: Any, packed: Path, tmp_path: Path) -> None:
    """True means what costs little where the pack lies; a cache brings it to the disk."""
    assert dataset(packed).shuffle == "global"
    ds = dataset(opened(s3))
    assert ds.shuffle == "scatter"
    assert not opened(s3).x().addresses_rows


def test_cells_at_a_request_each_are_told_of(s3: Any, packed: Path, tmp_path: Path) -> None:
    ds = dataset(opened(s3), **CELL_BY_CELL)
    said = rf"{N_CELLS:,} of them, .*s3://{BUCKET}/cells\.pack\. With a cache_dir.*a local disk"
    with pytest.warns(RequestPerCellWarning, match=said) as caught:
        read = [batches(None, dataset=ds) for _ in range(2)]
    assert [each.category for each in caught] == [RequestPerCellWarning]  # once
    assert read[0] == batches(packed, **CELL_BY_CELL)
    assert ds.stats.units == 0  # cell by cell
    assert N_CELLS / 4 < ds.stats.requests <= N_CELLS


def test_what_is_read_once_or_from_the_disk_is_not_told_of(
    s3: Any, packed: Path, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadAgainWarning)
        warnings.simplefilter("error", RequestPerCellWarning)
        batches(opened(s3), shuffle="scatter")
        batches(opened(s3), shuffle="global", **cache_in(tmp_path))  # all units at a time
        batches(packed, **CELL_BY_CELL)
        kept = dataset(opened(s3), **cache_in(tmp_path), **CELL_BY_CELL)
        batches(None, dataset=kept)
        assert kept.stats.requests == kept.stats.units == 0


def test_units_read_again_over_the_network_are_told_of(s3: Any) -> None:
    ds = dataset(opened(s3), shuffle="global", memory_budget="500KB")
    with pytest.warns(ReadAgainWarning, match="a cache_dir that holds all of them nothing twice"):
        batches(None, dataset=ds)
    assert ds.stats.units > 0


@pytest.mark.parametrize("place", ["s3", "web"])
def test_faults_change_nothing(place: str, packed: Path, request: pytest.FixtureRequest) -> None:
    proxy = request.getfixturevalue(place)
    kinds = ["reset", "500", "slowdown", "short", "range", "late", "slow"]
    before = len(proxy.requests)
    proxy.injected.clear()
    proxy.fault = every_tenth(["stall", *kinds * 9])
    try:
        for arguments in ({"shuffle": "scatter"}, {"shuffle": "global"}, CELL_BY_CELL):
            remote = opened(proxy, **PATIENT)
            assert batches(remote, **arguments) == batches(packed, **arguments)
    finally:
        proxy.fault = lambda number, path: None
    check_injected(proxy, ["stall", *kinds], len(proxy.requests) - before)


def test_a_damaged_record_names_cell_and_object(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed, tmp_path / "www" / "cells.pack")
    (rows,) = (tmp_path / "www").rglob("*.rows")
    harmed = bytearray(rows.read_bytes())
    harmed[1000] ^= 1
    rows.write_bytes(harmed)
    write_index(tmp_path / "www")
    with fault_proxy(folder=tmp_path / "www") as server:
        where = re.escape(f"{server.url}/cells.pack/ms/RNA/X/raw/") + r".*\.rows"
        with pytest.raises(ps.CorruptData, match=r"row \d+ at offset \d+ of " + where):
            batches(opened(server), shuffle=False)


@pytest.mark.parametrize("name", ["tiles", "cells.pack"])
@pytest.mark.parametrize("shuffle", [True, "scatter", False])
def test_the_second_epoch_asks_the_network_nothing(
    s3: Any, source: Path, tmp_path: Path, name: str, shuffle: bool | str
) -> None:
    remote = dataset(opened(s3, name), **cache_in(tmp_path), keep=False, shuffle=shuffle)
    first, _ = collect(remote)
    assert remote.stats.requests > 0
    before = len(s3.requests)
    for _ in range(2):
        joinids, X = collect(remote)
        assert sorted(joinids) == sorted(first)
        assert remote.stats.requests == remote.stats.bytes_read == 0
        assert remote.stats.cached_bytes > 0
    assert remote.shuffle == ("global" if shuffle is True else shuffle or None)
    train, _ = remote.random_split(0.5, 0.5)
    collect(train)
    assert len(s3.requests) == before
    some = dataset(remote.experiment, **cache_in(tmp_path), var_query="soma_joinid < 100")
    before = len(s3.requests)  # var was read, too
    joinids, X = collect(some)
    assert len(s3.requests) == before
    _, rows = collect(dataset(source, shuffle=False, var_query="soma_joinid < 100"))
    np.testing.assert_array_equal(X, rows[joinids])


def test_workers_that_read_a_full_cache_ask_little(s3: Any, packed: Path, tmp_path: Path) -> None:
    ds = dataset(opened(s3), **cache_in(tmp_path), format="torch", sparse=False)
    collect(ds)
    loader = ps.dataloader(ds, num_workers=2)
    cells = [joinid for _, obs in loader for joinid in obs["soma_joinid"].tolist()]
    assert sorted(cells) == list(range(N_CELLS))
    assert ds.shuffle == "global"
    assert ds.stats.bytes_read == 0
