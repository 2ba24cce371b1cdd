"""Settings of remote requests: identity, timeouts, and sizes of reads."""

from __future__ import annotations

import re
import sys

import numpy as np
import pandas as pd
import penstock as ps
import pytest
from conftest import joinids_of, write_small_tiles
from penstock.cli import main
from penstock.experiment.web_index import write_index

pytest.importorskip("moto.server", reason="moto[server] is not installed")
from remote_servers import ACCESS, BUCKET, bare_environment, fault_proxy, s3_server, upload


@pytest.fixture(autouse=True)
def _no_credentials_of_this_machine(tmp_path):
    with bare_environment(tmp_path):
        yield


def test_the_region_of_a_tiledbsoma_context(tmp_path, monkeypatch):
    """Is what requests are signed for, whatever the environment says."""
    import tiledbsoma

    path = write_small_tiles(tmp_path / "experiment", 100, 60)
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    with s3_server() as s3, fault_proxy(s3) as proxy:
        upload(s3, path, "tiles")
        for region in ("eu-central-1", "ap-south-1"):
            settings = {
                "vfs.s3.endpoint_override": proxy.url.removeprefix("http://"),
                "vfs.s3.scheme": "http",
                "vfs.s3.use_virtual_addressing": "false",
                "vfs.s3.region": region,
                "vfs.s3.aws_access_key_id": ACCESS["access_key_id"],
                "vfs.s3.aws_secret_access_key": ACCESS["secret_access_key"],
            }
            context = tiledbsoma.SOMATileDBContext(tiledb_config=settings)
            with tiledbsoma.Experiment.open(f"s3://{BUCKET}/tiles", context=context) as theirs:
                before = len(proxy.fields)
                assert sorted(joinids_of(ps.Dataset(theirs))) == list(range(100))
                query = theirs.axis_query("RNA")
                assert ps.Dataset(query).n_obs == 100
            ours = [fields["authorization"] for fields in proxy.fields[before:]]
            scope = re.compile(
                rf"AWS4-HMAC-SHA256 Credential=testing/\d{{8}}/{region}/s3/aws4_request,"
            )
            assert len(ours) > 5
            assert all(scope.match(each) for each in ours)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("sso_session = here", "SSO"),
        ("sso_start_url = https://sso.example.org", "SSO"),
        ("role_arn = arn:aws:iam::1:role/r\nsource_profile = q", "a role"),
        ("role_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = /t", "a web identity"),
        ("credential_process = keys", "credential_process"),
    ],
)
def test_without_botocore_what_needs_it_says_so(config, what, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    (tmp_path / "config").write_text(f"[profile p]\n{config}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    # Nobody listens there: it is said before anything is asked.
    options = {"endpoint": "http://127.0.0.1:9", "max_attempts": 1}
    wanted = rf"{what} \(profile \"p\"\) needs botocore.*pip install 'penstock\[s3\]'"
    with pytest.raises(ps.IoError, match=wanted):
        ps.open(f"s3://{BUCKET}/x", storage_options={"profile": "p", **options})
    with pytest.raises(ps.IoError, match=r"Looked at.*credential_process need botocore") as raised:
        ps.open(f"s3://{BUCKET}/x", storage_options=options)
    assert "pip install" not in str(raised.value)
    # Keys beside it do without.
    with (tmp_path / "config").open("a") as file:
        file.write("aws_access_key_id = a\naws_secret_access_key = s\n")
    with pytest.raises(ps.IoError, match=r"no connection|refused|connect"):
        ps.open(f"s3://{BUCKET}/x", storage_options={"profile": "p", **options})


def test_without_botocore_a_web_identity_of_the_environment_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token")
    with pytest.raises(ps.IoError, match=r"a web identity .* needs botocore"):
        ps.open(f"s3://{BUCKET}/x", storage_options={"endpoint": "http://127.0.0.1:9"})


@pytest.mark.parametrize("kind", ["reset", "500", "slowdown", "short", "range", "stall"])
def test_the_stated_time_ends_what_always_fails(kind, tmp_path):
    """Not the number of attempts: retry_timeout, and stall_timeout after it at most."""
    write_index(write_small_tiles(tmp_path / "experiment", 1_600, 600, per_cell=96))
    with fault_proxy(folder=tmp_path) as proxy:
        times = {"retry_timeout": 2, "stall_timeout": 1, "max_attempts": 1_000}
        dataset = ps.Dataset(ps.open(f"{proxy.url}/experiment", storage_options=times))
        dataset.plan()
        proxy.fault = lambda number, path: kind
        with pytest.raises(
            ps.IoError, match=r", after \d+ attempts? in \d+ s: .*, bytes"
        ) as raised:
            list(dataset)
        attempts = re.search(r"after (\d+) attempt", str(raised.value))
        assert attempts is not None
        assert int(attempts[1]) < 1_000


def test_info_reads_no_obs_column(tmp_path, capsys):
    """The schema and footers say what there is; tiles of columns stay where they are."""
    rng = np.random.default_rng(1)
    n_obs = 20_000
    obs = pd.DataFrame(
        {"noise": rng.random(n_obs), "barcode": [rng.bytes(32).hex() for _ in range(n_obs)]},
        index=[f"cell{i}" for i in range(n_obs)],
    )
    path = write_small_tiles(tmp_path / "experiment", n_obs, 60, obs=obs, per_cell=1)
    write_index(path)
    files = (path / "obs" / "__fragments").rglob("*.tdb")
    large = {
        each.relative_to(tmp_path).as_posix() for each in files if each.stat().st_size > 100_000
    }
    assert len(large) >= 2
    with fault_proxy(folder=tmp_path) as proxy:
        assert main(["info", f"{proxy.url}/experiment"]) == 0
        text = capsys.readouterr().out
        assert "barcode" in text
        assert "noise" in text
        assert not large & {each.lstrip("/") for each in proxy.requests}
        asked = [re.fullmatch(r"bytes=(\d+)-(\d+)", each.get("range", "")) for each in proxy.fields]
        in_obs = [
            int(each[2]) - int(each[1]) + 1
            for each, place in zip(asked, proxy.requests, strict=True)
            if each and "/obs/" in place
        ]
        assert 0 < sum(in_obs) < min((tmp_path / name).stat().st_size for name in large)
        # The same server sees it when a column is read.
        ps.open(f"{proxy.url}/experiment").obs.to_pandas(columns=["barcode"])
        assert large & {each.lstrip("/") for each in proxy.requests}
