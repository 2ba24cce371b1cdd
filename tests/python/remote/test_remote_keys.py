"""Credentials and timestamps from elsewhere: single sign-on, roles, tiledbsoma contexts."""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
import scipy.sparse as sp
from conftest import collect, write_small_tiles
from loopback_http import Handler, serving

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import BUCKET, authentication, bare_environment, fault_proxy, s3_server, upload

URI = f"s3://{BUCKET}/tiles"


@pytest.fixture(scope="module", autouse=True)
def _no_keys_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """400 cells; the time (ms) at which they were all there was, and then others in place of some."""
    import tiledbsoma

    path = write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", 400, 60)
    time.sleep(0.01)
    before = int(time.time() * 1000)
    time.sleep(0.01)
    with tiledbsoma.open(str(path), "w") as experiment:
        later = sp.coo_matrix(np.full((10, 60), 7, np.float32))
        experiment.ms["RNA"].X["raw"].write(pa.SparseCOOTensor.from_scipy(later))
    return path, before


@pytest.fixture(scope="module")
def endpoint(written: tuple[Path, int]) -> Iterator[str]:
    with s3_server() as server:
        upload(server, written[0], "tiles")
        yield server


@contextmanager
def sign_on_service(answer: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Gives keys as AWS's portal of single sign-on does; its address, and the tokens that it saw."""
    tokens: list[str] = []

    class Portal(Handler):
        def do_GET(self) -> None:
            tokens.append(self.headers["x-amz-sso_bearer_token"])
            self.answer(json.dumps({"roleCredentials": answer}).encode())

    with serving(Portal) as url:
        yield url, tokens


def test_keys_of_single_sign_on(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = pytest.importorskip("botocore.credentials")
    end = datetime.now(UTC) + timedelta(hours=1)
    portal = "https://portal.example/start"
    name = hashlib.sha1(portal.encode()).hexdigest()
    token = {"startUrl": portal, "region": "us-east-1", "accessToken": "a-token"}
    (tmp_path / f"{name}.json").write_text(
        json.dumps({**token, "expiresAt": end.strftime("%Y-%m-%dT%H:%M:%SZ")})
    )
    monkeypatch.setattr(credentials.SSOProvider, "_SSO_TOKEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "config").write_text(
        f"[profile lab]\nregion = us-east-1\nsso_start_url = {portal}\nsso_region = us-east-1\n"
        "sso_account_id = 123456789012\nsso_role_name = reader\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with authentication(endpoint) as (_, keys):
        answer = {
            "accessKeyId": keys["access_key_id"],
            "secretAccessKey": keys["secret_access_key"],
            "sessionToken": "",
            "expiration": int(end.timestamp() * 1000),
        }
        with sign_on_service(answer) as (service, tokens):
            monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", service)
            options = {"profile": "lab", "endpoint": endpoint}
            assert ps.open(URI, storage_options=options).n_obs == 400
            assert tokens == ["a-token"]


def test_keys_of_a_role_for_a_web_identity(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore.credentials")
    (tmp_path / "token").write_text("a-token")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
    with fault_proxy(endpoint) as proxy:
        assert ps.open(URI, storage_options={"endpoint": proxy.url}).n_obs == 400
        assert proxy.fields
        for fields in proxy.fields:
            # Keys that moto's STS made up for the role, which come with a token of their own.
            assert "Credential=ASIA" in fields["authorization"]
            assert "x-amz-security-token" in fields["authorization"]
            assert fields["x-amz-security-token"]


def test_keys_and_time_of_a_tiledbsoma_experiment(endpoint: str, written: tuple[Path, int]) -> None:
    import tiledbsoma

    path, before = written
    now = ps.Dataset(path, shuffle=False)
    then = ps.Dataset(ps.open(path, timestamp=before), shuffle=False)
    assert (collect(now)[1] != collect(then)[1]).any()
    with authentication(endpoint) as (_, keys):
        config = {
            "vfs.s3.endpoint_override": endpoint.removeprefix("http://"),
            "vfs.s3.scheme": "http",
            "vfs.s3.use_virtual_addressing": "false",
            "vfs.s3.region": "us-east-1",
            "vfs.s3.aws_access_key_id": keys["access_key_id"],
            "vfs.s3.aws_secret_access_key": keys["secret_access_key"],
        }
        context = tiledbsoma.SOMATileDBContext(tiledb_config=config)
        for timestamp, expected in ((None, now), (before, then)):
            with tiledbsoma.Experiment.open(
                URI, context=context, tiledb_timestamp=timestamp
            ) as theirs:
                remote = ps.Dataset(theirs, shuffle=False)
                joinids, X = collect(remote)
                assert remote.stats.requests > 0
            wanted_joinids, wanted_X = collect(expected)
            np.testing.assert_array_equal(joinids, wanted_joinids)
            np.testing.assert_array_equal(X, wanted_X)


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'echo SECRET >&2; exit 1'", "echo SECRET", "/nowhere/SECRET", "sh -c 'echo SECRET",
        """echo '{"Version": 1, "AccessKeyId": 5, "SecretAccessKey": "SECRET"}'""",
        """echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "SECRET\\ud800"}'""",
        """echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "SECRET"}'""",
    ],
)  # fmt: skip
def test_what_a_credential_process_prints_is_not_shown(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore")
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = {command}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    options = {"endpoint": "http://127.0.0.1:9", "max_attempts": 1, "profile": "p"}
    with pytest.raises(
        ps.IoError, match="botocore cannot get credentials of profile 'p'"
    ) as caught:
        ps.open(URI, storage_options=options)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))
