"""Passwords, tokens and keys: accepted arguments, and no trace in output or files."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import penstock as ps
import pytest
from loopback_http import Handler, serving
from penstock.cli import main
from penstock.compat.tiledbsoma_ml.x_locator import XLocator
from penstock.experiment.web_index import write_index
from remote_servers import bare_environment, fault_proxy

SECRET = "S3cr3tPassw0rd"


@pytest.fixture(scope="module", autouse=True)
def _no_proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with bare_environment(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture
def www(soma_small, tmp_path: Path) -> Path:
    shutil.copytree(soma_small.path, tmp_path / "www" / "exp")
    write_index(tmp_path / "www")
    return tmp_path / "www"


def addresses(host: str) -> list[str]:
    """Those that tools for other purposes take, with the secret in them."""
    return [
        f"http://user:{SECRET}@{host}/exp",
        f"http://{SECRET}@{host}/exp",
        f"http://user:a/{SECRET}@{host}/exp",
        f"http://user%3A{SECRET}%40{host}/exp",
        f"http://{host}/exp?X-Amz-Signature={SECRET}",
        f"https://{host}/exp?sv=1&sig={SECRET}",
        f"s3://AKIA:{SECRET}@bucket/exp",
        f"s3://AKIA:a/{SECRET}@bucket/exp",
        f"gs://user:{SECRET}@bucket/exp",
        f"az://container/exp?sv=1&sig={SECRET}",
    ]


def mistyped(host: str) -> list[str]:
    """Addresses whose scheme is not one."""
    return [
        f"http:/user:{SECRET}@{host}/exp",
        f"https;//user:{SECRET}@{host}/exp",
        f"//user:{SECRET}@{host}/exp",
        f"https:/{host}/exp?sig={SECRET}",
        f"simplecache::http://user:{SECRET}@{host}/exp",
        f"http%3A//user:{SECRET}@{host}/exp",
    ]


def patterns(host: str) -> list[str]:
    """Addresses with a pattern, which is looked for on this machine only."""
    return [each.replace("exp", "*.h5ad") for each in addresses(host) + mistyped(host)]


def test_an_address_with_a_secret_is_refused_wherever_it_is_given(www, tmp_path, monkeypatch):
    """And the error says how else, without showing it; nothing is asked and nothing written."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with fault_proxy(folder=www) as server:
        plain = f"{server.url}/exp"
        host = server.url.removeprefix("http://")
        for given in addresses(host) + mistyped(host) + patterns(host):
            for take in (
                ps.open,
                ps.Dataset,
                lambda url: ps.join([plain, url]),
                lambda url: ps.join({"a": plain, "b": url}),
                lambda url: ps.join({"a": plain, url: plain}),
                lambda url: ps.Dataset([plain, url], storage_options={}),
                lambda url: ps.pack(url, here / "pack"),
                lambda url: ps.pack(plain, url),
                lambda url: ps.Dataset(plain, cache_dir=url),
                lambda url: ps.census_releases(url),
                lambda url: ps.open_census(directory=url),
                write_index,
            ):
                with pytest.raises(
                    ps.InvalidArgument, match="no user, password, query or fragment"
                ) as raised:
                    take(given)
                assert "headers such as Authorization" in str(raised.value)
                assert SECRET not in str(raised.value)
            for wrong in (given.encode(), [given.encode()], Path(given), given + "\0"):
                with pytest.raises(ps.PenstockError) as raised:
                    ps.open(wrong)
                assert SECRET not in str(raised.value)
        assert ps.open(plain).n_obs == 300
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["info", "URL"],
        ["pack", "URL", "pack"],
        ["index", "URL"],
        ["train", "scvi", "URL", "--labels-key", "cell_type"],
        ["bench", "data-loader", "URL"],
        ["bench", "data-loader", "-u", "URL"],
        ["bench", "data-loader", "--census", "stable", "--directory", "URL"],
        ["bench", "compare", "URL"],
        ["bench", "tune", "URL"],
    ],
)
def test_commands_refuse_it_too(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    host = "127.0.0.1:9"
    for given in addresses(host) + mistyped(host) + patterns(host)[::5]:
        arguments = [given if each == "URL" else each for each in command]
        assert main(arguments) in (1, 2)
        shown = capsys.readouterr()
        assert "no user, password, query or fragment" in shown.err
        assert SECRET not in shown.out + shown.err
    assert not any(SECRET.encode() in each.read_bytes() for each in tmp_path.rglob("*.*"))


def test_a_wrong_argument_shows_no_secret_of_an_encoded_or_mistyped_address() -> None:
    """Here as a number of threads; where an address belongs, the engine refuses it."""
    host = "host"
    for given in [
        *addresses(host), *mistyped(host),
        f"simplecache::https://user:{SECRET}@host/x", f"simplecache::https://host/x?sig={SECRET}",
        f"https%3A//user:{SECRET}@host/x", f"https%3a%2f%2fuser:{SECRET}@host/x",
        f"https\uff1a//user:{SECRET}@host/x", f"s3%3A//user:{SECRET}@bucket/x",
    ]:  # fmt: skip
        with pytest.raises(ps.InvalidArgument, match="must be") as raised:
            ps.Dataset(b"", batch_size=given)
        assert SECRET not in str(raised.value), given


def group_of_ms(uri: str) -> bytes:
    """TileDB's file of a group with one member, "ms", a group at that absolute address."""
    text = uri.encode()
    details = struct.pack("<IQIBBQ", 2, 1, 2, 1, 0, len(text)) + text
    details += struct.pack("<BQ", 1, 2) + b"ms" + b"\0"
    chunk = struct.pack("<QIII", 1, len(details), len(details), 0) + details
    # A tile of chars: version, sizes, type, cell size, no encryption, a pipeline without filters.
    head = struct.pack("<IQQBQBI", 20, len(chunk), len(details), 4, 1, 0, 8)
    return head + struct.pack("<II", 65_536, 0) + chunk


def test_release_directories_and_members_do_not_bring_one(www, tmp_path):
    import tiledbsoma

    with fault_proxy(folder=www) as server:
        host = server.url.removeprefix("http://")
        for number, given in enumerate(addresses(host)):
            entry = {"soma": {"uri": given, "s3_region": "us-west-2"}}
            (www / "release.json").write_text(json.dumps({"stable": entry}))
            with pytest.raises(
                ps.InvalidArgument, match="no user, password, query or fragment"
            ) as raised:
                ps.open_census(directory=f"{server.url}/release.json")
            assert SECRET not in str(raised.value)
            # A member of a collection may be anywhere, by its URI.
            path = tmp_path / "www" / f"member{number}"
            tiledbsoma.Experiment.create(str(path)).close()
            (path / "__group").mkdir(exist_ok=True)
            (path / "__group" / f"__9_9_{number:032x}_2").write_bytes(group_of_ms(given))
            write_index(www)
            for place in (str(path), f"{server.url}/{path.name}"):
                opened = ps.open(place)
                with pytest.raises(ps.Unsupported, match="member's URI must have no") as raised:
                    opened.var()
                assert SECRET not in str(raised.value)


def test_errors_of_options_do_not_show_their_values(tmp_path, capsys):
    web, s3 = "http://127.0.0.1:9/x", "s3://bucket/x"
    for uri, options in [
        (web, [("secret", SECRET)]),
        (web, {("secret", SECRET): 1}),
        (web, {"headers": [("Authorization", SECRET)]}),
        (web, {"headers": {"Authorization": SECRET.encode()}}),
        (web, {f"header.Authorization: {SECRET}": ""}),
        (web, {"headers": {f"Authorization: {SECRET}": ""}}),
        (web, {"headers": {"Authorization": f"{SECRET}\n"}}),
        (web, {"secret": SECRET}),
        (web, {"headers": {"Authorization": f"{SECRET}\udce9"}}),
        (s3, {"region": f"{SECRET}\udce9"}),
        (s3, {"secret_access_key": f"{SECRET}\udce9", "key": "a"}),
        (s3, {"secret": SECRET}),
        (s3, {"secret": SECRET.encode(), "key": "a"}),
        (s3, {"endpoint": f"https://key:{SECRET}@host"}),
        (s3, {"endpoint": f"key:{SECRET}@host:9000"}),
        (s3, {"endpoint": f"https://host/?token={SECRET}"}),
    ]:
        with pytest.raises(ps.InvalidArgument) as raised:
            ps.open(uri, storage_options=options)
        assert SECRET not in str(raised.value), options
    with pytest.raises(ps.InvalidArgument, match=r"choose from .*max_attempts, headers$"):
        ps.open(web, storage_options={"token": "x"})
    for given in (SECRET, f"={SECRET}"):
        assert main(["info", web, "-o", given]) == 1
        shown = capsys.readouterr()
        assert "NAME=VALUE" in shown.err
        assert SECRET not in shown.out + shown.err


def test_a_proxys_password_is_not_in_errors(monkeypatch):
    options = {"max_attempts": 1}
    for proxy in (f"http://user:{SECRET}@127.0.0.1:9", f"http://user:{SECRET}@[x:9",
                  f"nonsense://user:{SECRET}@127.0.0.1:9"):  # fmt: skip
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(ps.IoError) as raised:
            ps.open("http://192.0.2.1/x", storage_options=options)
        assert SECRET not in str(raised.value)
        with pytest.raises(ps.PenstockError) as raised:
            ps.census_releases("http://192.0.2.1/release.json")
        assert SECRET not in str(raised.value)


def test_a_locator_does_not_show_the_keys_of_its_context():
    locator = XLocator(
        uri="s3://bucket/x", measurement_name="RNA", layer_name="raw", tiledb_timestamp_ms=None,
        tiledb_config={"vfs.s3.aws_secret_access_key": SECRET},
    )  # fmt: skip
    assert "s3://bucket/x" in repr(locator)
    assert SECRET not in repr(locator)


def test_headers_do_not_follow_a_redirect_to_another_server(www):
    """As the object storage behind a registry, or a CDN, which is read without them."""
    expected = ps.open(www / "exp").obs.to_pandas()
    names = ["PRIVATE-TOKEN", "X-Api-Key", "X-Amz-Security-Token", "Authorization", "Cookie",
             "Proxy-Authorization"]  # fmt: skip
    sent: list[dict[str, str]] = []
    with fault_proxy(folder=www) as storage:

        class Registry(Handler):
            def do_GET(self) -> None:
                sent.append({name.lower(): text for name, text in self.headers.items()})
                self.send_response(302)
                self.send_header("Location", storage.url + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

        with serving(Registry) as url:
            remote = ps.open(
                f"{url}/exp", storage_options={"headers": dict.fromkeys(names, SECRET)}
            )
            assert remote.obs.to_pandas().equals(expected)
            assert sum(X.shape[0] for X, _ in ps.Dataset(remote)) == 300
        assert len(sent) == len(storage.fields) > 10
        for fields in sent:
            assert {name for name, text in fields.items() if text == SECRET} == {
                name.lower() for name in names
            }
        for fields in storage.fields:
            assert SECRET not in os.linesep.join(fields.values())
