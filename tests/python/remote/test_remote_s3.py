"""Experiments in S3, read from moto on loopback, with and without authentication."""

from __future__ import annotations

import json
import pickle
import time

import numpy as np
import penstock as ps
import pytest
from conftest import collect, write_small_tiles
from penstock.cli import main

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import (
    ACCESS,
    BUCKET,
    authentication,
    bare_environment,
    check_injected,
    client,
    every_tenth,
    fault_proxy,
    metadata_service,
    new_access_key,
    s3_server,
    upload,
)

#: Patience enough for a busy machine; errors come within retry_timeout + stall_timeout all the same.
QUICK = {"retry_timeout": 30, "max_attempts": 3, "stall_timeout": 3}


@pytest.fixture(scope="module", autouse=True)
def _no_credentials_of_this_machine(tmp_path_factory):
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="module")
def small_tiles(tmp_path_factory):
    """1,600 cells in about forty fetch units."""
    path = tmp_path_factory.mktemp("tiles") / "experiment"
    return write_small_tiles(path, 1_600, 600, per_cell=96)


@pytest.fixture(scope="module")
def s3(soma_small, small_tiles):
    """The endpoint of a server that holds both experiments."""
    with s3_server() as endpoint:
        upload(endpoint, soma_small.path, "small")
        upload(endpoint, small_tiles, "tiles")
        yield endpoint


@pytest.fixture
def signed(s3):
    """Keys that are needed: the server checks signatures and policies while the test runs."""
    with authentication(s3) as (_, keys):
        yield {"endpoint": s3, **keys}


def anonymous(endpoint: str, **more):
    return {"endpoint": endpoint, "anonymous": True, **QUICK, **more}


def batches(source, **arguments):
    """Every array of every batch of an epoch."""
    options = {"sparse": True, "batch_size": 16, "seed": 3, **arguments}
    with_obs = ps.Dataset(source, obs_columns=["soma_joinid"], **options)
    return [
        (X.indptr.tobytes(), X.indices.tobytes(), X.data.tobytes(), obs["soma_joinid"].tobytes())
        for X, obs in with_obs
    ]


def test_anonymous_batches_are_those_of_the_file(s3, soma_small, small_tiles):
    for name, path in (("small", soma_small.path), ("tiles", small_tiles)):
        remote = ps.open(f"s3://{BUCKET}/{name}", storage_options=anonymous(s3))
        assert batches(remote) == batches(path)
        assert batches(remote, memory_budget="8MiB") == batches(path, memory_budget="8MiB")


def test_signed_batches_are_those_of_the_file(signed, small_tiles):
    remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=signed)
    assert batches(remote) == batches(small_tiles)


def test_tables_are_those_of_the_file(s3, soma_small):
    remote = ps.open(f"s3://{BUCKET}/small/", storage_options=anonymous(s3))
    local = ps.open(soma_small.path)
    assert remote.obs.to_pandas().equals(local.obs.to_pandas())
    assert remote.var("RNA").to_pandas().equals(local.var("RNA").to_pandas())
    assert remote.metadata == local.metadata
    assert remote.layers("RNA") == local.layers("RNA")


def test_field_names_of_options_and_pickling(s3, small_tiles):
    options = {
        "endpoint_url": s3,
        "key": "testing",
        "secret": "testing",
        "region_name": "us-east-1",
    }
    remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=options)
    again = pickle.loads(pickle.dumps(remote))
    assert batches(again) == batches(small_tiles)
    assert "testing" not in repr(remote)


def test_a_dataset_takes_the_options_by_an_experiment_and_workers_open_it(s3, small_tiles):
    import torch.utils.data

    remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=anonymous(s3))
    dataset = ps.Dataset(remote, obs_columns=["soma_joinid"], format="torch", shuffle=False)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1)
    joinids = np.concatenate([np.asarray(obs["soma_joinid"]) for _, obs in loader])
    assert sorted(joinids) == list(range(1_600))


def test_options_beside_a_uri(s3, small_tiles, tmp_path):
    """A Dataset, a join and a pack reach a URI as ps.open does."""
    uri, options = f"s3://{BUCKET}/tiles", anonymous(s3)
    assert batches(uri, storage_options=options) == batches(small_tiles)
    for many in ([uri, small_tiles], {"there": uri, "here": small_tiles}):
        joined = ps.Dataset(many, storage_options=options)
        assert joined.n_obs == 3_200
        assert sum(X.shape[0] for X, _ in joined) == 3_200
    packed = ps.pack(uri, tmp_path / "cells.pack", storage_options=options)
    assert batches(packed, shuffle=False) == batches(small_tiles, shuffle=False)
    with pytest.raises(ps.InvalidArgument, match="Experiment is opened already"):
        ps.Dataset(ps.open(uri, storage_options=options), storage_options=options)
    with pytest.raises(ps.InvalidArgument, match="no storage option 'nonsense'"):
        ps.Dataset(uri, storage_options={"nonsense": 1})


def test_a_filter_reads_its_share_of_the_bytes(s3):
    remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=anonymous(s3))
    units = remote.x("RNA", "raw").units()
    assert len(units) > 20
    # One unit's rows: a hundredth of a large store, less than a twentieth of this one.
    rows = range(units[3].row_begin, units[3].row_end)
    query = ps.AxisQuery(coords=(slice(rows[0], rows[-1]),))
    dataset = ps.Dataset(remote, obs_query=query, obs_columns=["soma_joinid"], seed=1)
    joinids, _ = collect(dataset)
    assert sorted(joinids) == list(rows)
    everything = ps.Dataset(remote, shuffle=False)
    list(everything)
    share = dataset.stats.bytes_read / everything.stats.bytes_read
    assert share < 1.5 * len(rows) / 1_600
    assert dataset.stats.read_amplification <= 1.1
    assert everything.stats.read_amplification <= 1.1
    assert everything.stats.requests < 4 * len(units)


def test_ten_per_cent_of_faults_change_nothing(s3, signed, small_tiles):
    kinds = ["stall", "reset", "500", "slowdown", "short", "range", "late", "slow"]
    expected = batches(small_tiles)
    with fault_proxy(s3) as proxy:
        proxy.fault = every_tenth(kinds)
        options = {**signed, "endpoint": proxy.url, "max_attempts": 10, "stall_timeout": 1}
        while len(proxy.requests) < 120:
            remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=options)
            assert batches(remote) == expected
        check_injected(proxy, kinds, len(proxy.requests))


def test_a_stall_is_tried_again(s3, small_tiles):
    with fault_proxy(s3) as proxy:
        proxy.fault = lambda number, path: "stall" if number in (20, 30) else None
        remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=anonymous(proxy.url))
        assert batches(remote) == batches(small_tiles)
        assert proxy.injected == {"stall": 2}
        # Both were asked for once more.
        for number in (20, 30):
            asked = zip(proxy.requests, (each.get("range") for each in proxy.fields), strict=True)
            assert len(set([*asked][number:])) < len(proxy.requests) - number


@pytest.mark.parametrize("kind", ["reset", "500", "slowdown", "short", "range", "stall"])
def test_when_all_requests_fail_it_is_an_error_in_time(s3, kind):
    with fault_proxy(s3) as proxy:
        remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=anonymous(proxy.url))
        dataset = ps.Dataset(remote)
        dataset.plan()  # what is read once is read
        proxy.fault = lambda number, path: kind
        begin = time.monotonic()
        with pytest.raises(ps.IoError, match=r"s3://cells/tiles/.*, bytes"):
            list(dataset)
        assert time.monotonic() - begin < 30 + 3 + 30


def test_an_epoch_that_is_left_does_not_wait_for_the_network(s3):
    with fault_proxy(s3) as proxy:
        remote = ps.open(
            f"s3://{BUCKET}/tiles", storage_options={**anonymous(proxy.url), "stall_timeout": 60}
        )
        dataset = ps.Dataset(remote, memory_budget="16MiB")
        dataset.plan()
        proxy.fault = lambda number, path: "stall"
        before = len(proxy.requests)
        import threading

        iterator = iter(dataset)
        waiting = threading.Thread(target=lambda: next(iterator, None), daemon=True)
        waiting.start()
        while len(proxy.requests) == before:
            time.sleep(0.01)
        iterator.close()
        waiting.join(60)
        assert not waiting.is_alive()


def test_errors_say_which_and_what_to_check(s3, signed):
    uri = f"s3://{BUCKET}/tiles"
    wrong = {**signed, "secret_access_key": "wrong"}
    with pytest.raises(ps.IoError, match="SignatureDoesNotMatch; check the secret access key"):
        ps.open(uri, storage_options=wrong)
    unknown = {**signed, "access_key_id": "AKIANOBODY"}
    with pytest.raises(ps.IoError, match="check the access key id"):
        ps.open(uri, storage_options=unknown)
    with pytest.raises(ps.NotFound, match="there is no bucket nowhere"):
        ps.open("s3://nowhere/x", storage_options=signed)
    with pytest.raises(ps.NotFound, match="nothing at s3://cells/absent"):
        ps.open(f"s3://{BUCKET}/absent", storage_options=signed)


def test_a_forbidden_listing_says_so(s3):
    with fault_proxy(s3) as proxy:
        proxy.fault = lambda number, path: "forbidden"
        with pytest.raises(ps.IoError, match=r"may not be listed.*anonymous"):
            ps.open(f"s3://{BUCKET}/tiles", storage_options=anonymous(proxy.url))


def test_no_credentials_names_both_ways(s3):
    with pytest.raises(ps.IoError, match=r"anonymous.*AWS_ACCESS_KEY_ID"):
        ps.open(f"s3://{BUCKET}/tiles", storage_options={"endpoint": s3})


def test_credentials_from_environment_and_profile(signed, tmp_path, monkeypatch):
    uri = f"s3://{BUCKET}/tiles"
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", signed["access_key_id"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", signed["secret_access_key"])
        patch.setenv("AWS_ENDPOINT_URL_S3", signed["endpoint"])
        assert ps.open(uri).n_obs == 1_600
    (tmp_path / "credentials").write_text(
        f"[other]\naws_access_key_id = {signed['access_key_id']}\n"
        f"aws_secret_access_key={signed['secret_access_key']}\n"
    )
    (tmp_path / "config").write_text(
        f"[profile other]\nregion = us-west-2\nendpoint_url = {signed['endpoint']}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert ps.open(uri, storage_options={"profile": "other"}).n_obs == 1_600
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert ps.open(uri).n_obs == 1_600


def test_credentials_of_a_process_come_through_botocore(signed, tmp_path, monkeypatch):
    answer = {
        "Version": 1,
        "AccessKeyId": signed["access_key_id"],
        "SecretAccessKey": signed["secret_access_key"],
    }
    (tmp_path / "answer").write_text(json.dumps(answer))
    (tmp_path / "config").write_text(
        f"[profile p]\nregion = us-east-1\ncredential_process = cat {tmp_path / 'answer'}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    options = {"profile": "p", "endpoint": signed["endpoint"]}
    assert ps.open(f"s3://{BUCKET}/tiles", storage_options=options).n_obs == 1_600


def test_keys_that_have_ended_are_fetched_again_once(s3, small_tiles, tmp_path, monkeypatch):
    """Before their own time, as when they were revoked; from a process that counts its calls."""
    calls = tmp_path / "calls"
    calls.write_text("")
    keys = {
        "AccessKeyId": "testing",
        "SecretAccessKey": "testing",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    script = tmp_path / "keys.sh"
    script.write_text(
        f"echo >> {calls}\n"
        f"n=$(wc -l < {calls})\n"
        f"echo '{json.dumps({**keys, 'Version': 1, 'SessionToken': 'TOKEN'})}' | sed s/TOKEN/t$n/\n"
    )
    (tmp_path / "config").write_text(
        f"[profile p]\nregion = us-east-1\ncredential_process = sh {script}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    uri = f"s3://{BUCKET}/tiles"

    def called() -> int:
        return len(calls.read_text().splitlines())

    with fault_proxy(s3) as proxy:
        options = {"profile": "p", "endpoint": proxy.url, "retry_timeout": 30}
        # Valid from the second call on: the listing is refused, and asked for again with new keys.
        proxy.fault = lambda number, path: "expired" if called() < 2 else None
        remote = ps.open(uri, storage_options=options)
        assert called() == 2
        # Refused in the midst of an epoch.
        proxy.fault = lambda number, path: "expired" if called() < 3 else None
        assert batches(remote) == batches(small_tiles)
        assert called() == 3
        # New ones are refused, too: once is enough.
        proxy.fault = lambda number, path: "expired"
        with pytest.raises(ps.IoError, match="ExpiredToken; the session token is no longer valid"):
            ps.open(uri, storage_options=options)
        assert called() == 5
        # Keys that were given are the only ones.
        given = {**ACCESS, "endpoint": proxy.url, "session_token": "t"}
        before = len(proxy.requests)
        with pytest.raises(ps.IoError, match="get new credentials"):
            ps.open(uri, storage_options=given)
        assert len(proxy.requests) == before + 1


def test_credentials_of_a_container_and_of_an_instance(signed, tmp_path, monkeypatch):
    options = {"endpoint": signed["endpoint"]}
    uri = f"s3://{BUCKET}/tiles"
    with metadata_service(signed) as metadata:
        with monkeypatch.context() as patch:
            patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{metadata.url}/keys")
            patch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container")
            assert ps.open(uri, storage_options=options).n_obs == 1_600
            (tmp_path / "token").write_text("of a file\n")
            patch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
            assert ps.open(uri, storage_options=options).n_obs == 1_600
        assert metadata.tokens == ["container", "of a file"]
        metadata.tokens.clear()
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url)
        # Not by a proxy, whatever the environment says.
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(ps.IoError, match=r"127\.0\.0\.1"):
            ps.open(uri, storage_options={**options, "max_attempts": 1})
        assert metadata.tokens == ["21600", "the-token", "the-token"]
        monkeypatch.delenv("http_proxy")
        assert ps.open(uri, storage_options=options).n_obs == 1_600


@pytest.mark.parametrize("place", ["container", "instance"])
def test_keys_of_metadata_are_renewed(place, s3, small_tiles, monkeypatch):
    """Before they end, by their own time; and when the store says that they have ended."""
    with authentication(s3) as (user, first), metadata_service(first) as metadata:
        iam = client(s3, "iam", **first)
        others = [new_access_key(iam, user)]
        with fault_proxy(s3) as proxy:
            if place == "container":
                monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{metadata.url}/keys")
            else:
                monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
                monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url)
            options = {"endpoint": proxy.url, "retry_timeout": 30}
            uri = f"s3://{BUCKET}/tiles"

            metadata.seconds_left = 200  # less than what is renewed ahead
            remote = ps.open(uri, storage_options=options)
            # The first keys are refused from here on, as unknown: then none are asked for again.
            iam.delete_access_key(UserName=user, AccessKeyId=first["access_key_id"])
            metadata.give(others[0])
            metadata.seconds_left = 3600
            before = metadata.answers
            assert batches(remote) == batches(small_tiles)
            assert metadata.answers == before + 1
            with pytest.raises(ps.IoError, match="InvalidAccessKeyId"):
                ps.open(uri, storage_options={**options, **first})

            # Long before their time, in the midst of an epoch.
            metadata.give(new_access_key(client(s3, "iam", **others[0]), user))
            before = metadata.answers
            proxy.fault = lambda number, path: "expired" if metadata.answers == before else None
            assert batches(remote) == batches(small_tiles)
            assert metadata.answers == before + 1
            # The service has none that are newer: what the store answers is the error.
            proxy.fault = lambda number, path: "expired"
            with pytest.raises(ps.IoError, match="the session token is no longer valid"):
                batches(remote)


def test_an_object_that_changes_is_an_error(s3, small_tiles):
    upload(s3, small_tiles, "changing")
    remote = ps.open(f"s3://{BUCKET}/changing", storage_options=anonymous(s3))
    dataset = ps.Dataset(remote, memory_budget="8MiB")
    dataset.plan()
    boto = client(s3)
    listed = boto.list_objects_v2(Bucket=BUCKET, Prefix="changing/ms/RNA/X/raw/__fragments/")
    for each in listed["Contents"]:
        if each["Key"].endswith("/a0.tdb"):
            boto.put_object(
                Bucket=BUCKET, Key=each["Key"], Body=b"x" * each["Size"], ACL="public-read"
            )
    with pytest.raises(ps.IoError, match="the object changed while it was read"):
        list(dataset)


def test_what_is_written_later_is_not_seen_until_it_is_opened_again(s3, small_tiles, tmp_path):
    remote = ps.open(f"s3://{BUCKET}/tiles", storage_options=anonymous(s3))
    client(s3).put_object(Bucket=BUCKET, Key="tiles/obs/__schema/__9_9_new", Body=b"nonsense")
    try:
        assert remote.n_obs == 1_600
    finally:
        client(s3).delete_object(Bucket=BUCKET, Key="tiles/obs/__schema/__9_9_new")


def test_a_tiledbsoma_experiment_brings_its_context(s3, small_tiles):
    import tiledbsoma
    from penstock.compat.tiledbsoma_ml import ExperimentDataset
    from penstock.compat.tiledbsoma_ml.query_ids import QueryIDs
    from penstock.compat.tiledbsoma_ml.x_locator import XLocator

    host = s3.removeprefix("http://")
    context = tiledbsoma.SOMATileDBContext(
        tiledb_config={
            "vfs.s3.endpoint_override": host,
            "vfs.s3.scheme": "http",
            "vfs.s3.use_virtual_addressing": "false",
            "vfs.s3.region": "us-east-1",
            "vfs.s3.no_sign_request": "true",
        }
    )
    with tiledbsoma.Experiment.open(f"s3://{BUCKET}/tiles", context=context) as theirs:
        assert batches(theirs) == batches(small_tiles)
    locator = XLocator(
        uri=f"s3://{BUCKET}/tiles",
        measurement_name="RNA",
        layer_name="raw",
        tiledb_timestamp_ms=None,
        tiledb_config=context.tiledb_config,
    )
    ids = QueryIDs(obs_joinids=np.arange(100), var_joinids=np.arange(600))
    by_ids = ExperimentDataset(x_locator=locator, query_ids=ids, batch_size=50, shuffle=False)
    assert [X.shape for X, _ in by_ids] == [(50, 600)] * 2


def test_info_needs_few_requests(s3, capsys):
    with fault_proxy(s3) as proxy:
        arguments = [
            "info",
            f"s3://{BUCKET}/small",
            "-o",
            f"endpoint={proxy.url}",
            "-o",
            "anonymous=true",
        ]
        assert main(arguments) == 0
        assert "obs: 300 cells" in capsys.readouterr().out
        listings = [path for path in proxy.requests if "list-type=2" in path]
        assert len(listings) == 1
        assert len(proxy.requests) < 150
    assert main(["info", f"s3://{BUCKET}/small", "-o", "nonsense"]) == 1


def test_the_census_is_found_by_its_release_directory(s3, small_tiles, tmp_path):
    upload(s3, small_tiles, "2030-01-01/soma/census_data/homo_sapiens")
    uri = f"s3://{BUCKET}/2030-01-01/soma/"
    entry = {
        "release_date": "2030-01-15",
        "release_build": "2030-01-01",
        "soma": {"uri": uri, "relative_uri": "/x", "s3_region": "us-east-1"},
    }
    listed = {"stable": "2030-01-01", "latest": "stable", "2030-01-01": entry}
    (tmp_path / "release.json").write_text(json.dumps(listed))
    with fault_proxy(folder=tmp_path) as web:
        directory = f"{web.url}/release.json"
        assert ps.census_releases(directory)["latest"] == entry
        census = ps.open_census(
            "Homo sapiens", "stable", directory=directory, storage_options={"endpoint": s3}
        )
        assert batches(census) == batches(small_tiles)
        with pytest.raises(
            ps.NotFound, match="'1999-01-01'; choose from 2030-01-01, latest, stable"
        ):
            ps.open_census(census_version="1999-01-01", directory=directory)
        with pytest.raises(ps.NotFound, match="nothing at"):
            ps.open_census("mus_musculus", directory=directory, storage_options={"endpoint": s3})
    with pytest.raises(ps.IoError, match="release directory does not answer"):
        ps.open_census(directory=directory)


def test_bad_options_are_refused_without_their_values(s3):
    uri = f"s3://{BUCKET}/tiles"
    with pytest.raises(ps.InvalidArgument, match=r"no storage option 'regoin'.*region"):
        ps.open(uri, storage_options={"regoin": "x", "anonymous": True})
    with pytest.raises(ps.InvalidArgument, match="twice"):
        ps.open(uri, storage_options={"key": "a", "access_key_id": "a"})
    with pytest.raises(ps.InvalidArgument, match="'secret' must be a text") as raised:
        ps.open(uri, storage_options={"key": "a", "secret": ["hidden"]})
    assert "hidden" not in str(raised.value)
    with pytest.raises(ps.InvalidArgument, match="must be a dict"):
        ps.open(uri, storage_options="anonymous")
    with pytest.raises(ps.InvalidArgument, match="go together"):
        ps.open(uri, storage_options=ACCESS | {"secret_access_key": ""})
