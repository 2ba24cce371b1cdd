"""Signatures, escaping and config files, with botocore as the oracle."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import botocore.auth
import botocore.awsrequest
import botocore.configloader
import botocore.credentials
import botocore.utils
from hypothesis import given
from hypothesis import strategies as st
from penstock import _core

NOW = datetime(2026, 11, 21, 21, 21, 30, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
VALUE = st.text(st.characters(min_codepoint=33, max_codepoint=126) | st.just(" "), max_size=20)
HEADERS = st.dictionaries(TOKEN.map(lambda name: "x-amz-meta-" + name), VALUE, max_size=4)


@given(
    TEXT, st.dictionaries(TEXT.filter(bool), TEXT, max_size=5), HEADERS, TOKEN, TEXT, st.booleans()
)
def test_signatures_are_botocores(key, query, headers, region, secret, with_token):
    path = "/bucket/" + botocore.utils.percent_encode(key, safe="/~")
    assert path == "/bucket/" + _core._percent_encode(key, False)
    credentials = botocore.credentials.Credentials(
        "AKIA123", "s" + secret, "the/token==" if with_token else None
    )
    request = botocore.awsrequest.AWSRequest(
        "GET", f"https://s3.example.org:9000{path}", headers=headers, params=query
    )
    signer = botocore.auth.S3SigV4Auth(credentials, "s3", region)
    with mock.patch.object(
        botocore.auth, "get_current_datetime", return_value=NOW.replace(tzinfo=None)
    ):
        signer.add_auth(request)
    expected = {name.lower(): value for name, value in request.headers.items()}
    signed = _core._sign_request(
        "GET",
        "s3.example.org:9000",
        path,
        list(query.items()),
        list(headers.items()),
        region,
        "20261121T212130Z",
        credentials.access_key,
        credentials.secret_key,
        credentials.token or "",
    )
    ours = {name.lower(): value for name, value in signed}
    for name in ("authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"):
        assert ours.get(name) == expected.get(name), name


@given(TEXT, st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_escaping_is_botocores(text, query):
    assert _core._percent_encode(text, True) == botocore.utils.percent_encode(text, safe="-_.~")
    expected = "&".join(
        f"{name}={value}"
        for name, value in sorted(
            tuple(botocore.utils.percent_encode(each, safe="-_.~") for each in pair)
            for pair in query
        )
    )
    assert _core._canonical_query(query) == expected


NAME = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)
SETTING = st.text("abcXYZ019/+=:.-", min_size=1, max_size=20)


@given(
    st.dictionaries(
        NAME,
        st.tuples(
            st.dictionaries(NAME.map(lambda n: "a" + n), SETTING, max_size=4),
            st.dictionaries(NAME.map(lambda n: "n" + n), SETTING, max_size=3),
        ),
        max_size=4,
    ),
    st.sampled_from(["=", " = ", " ="]),
)
def test_config_files_are_read_as_botocore_does(profiles, equals):
    lines = ["# a comment", ""]
    for name, (plain, nested) in profiles.items():
        lines.append(f"[profile {name}]")
        lines += [f"{key}{equals}{value}" for key, value in plain.items()]
        if nested:
            lines.append("s3 =")
            lines += [f"  {key}{equals}{value}" for key, value in nested.items()]
        lines.append("; another")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_text("\n".join(lines))
        theirs = botocore.configloader.load_config(str(path))["profiles"]
    ours = _core._parse_config("\n".join(lines))
    assert {f"profile {name}" for name in theirs} == set(ours)
    for name, profile in theirs.items():
        flat = {key: value for key, value in profile.items() if not isinstance(value, dict)}
        flat |= (
            {f"s3.{key}": value for key, value in profile.get("s3", {}).items()}
            if isinstance(profile.get("s3"), dict)
            else {}
        )
        found = {key: value for key, value in ours[f"profile {name}"].items() if key != "s3"}
        assert found == flat
