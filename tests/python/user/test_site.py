"""The documentation site: the reference has every public name, and tools/check_site.py finds faults."""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from check_site import inventory, main, public_names

API = ROOT / "docs" / "api"


def test_the_reference_has_every_public_name() -> None:
    pytest.importorskip("penstock.scvi")
    documented = {"penstock.__version__"}
    for page in API.glob("*.md"):
        module = ""
        for directive, name in re.findall(r"\.\. (\w+):: ([\w.]+)", page.read_text()):
            if directive == "currentmodule":
                module = name
            elif directive in ("autofunction", "autoclass", "autoexception"):
                documented.add(f"{module}.{name}")
    assert set(public_names()) == documented


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site without faults, with one public name."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<link href="style.css"><a href="sub/page.html#here">x</a> <a href="https://host/x">y</a>'
    )
    (tmp_path / "sub" / "page.html").write_text('<h1 id="here"></h1><a href="../index.html">x</a>')
    (tmp_path / "style.css").write_text("body { background: url(data:image/png;base64,AA) }")
    names = "".join(f"{name} py:function 1 api.html#$ -\n" for name in public_names())
    head = b"# Sphinx inventory version 2\n# Project: x\n# Version: 1\n# zlib\n"
    (tmp_path / "objects.inv").write_bytes(head + zlib.compress(names.encode()))
    return tmp_path


def test_a_site_without_faults(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("penstock.scvi")
    assert main(site) == 0
    assert capsys.readouterr().out == ""
    assert "penstock.Dataset" in inventory(site)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("index.html", '<a href="gone.html">x</a>', "index.html: no file for the link gone.html"),
        ("index.html", '<img src="gone.png">', "index.html: no file for the link gone.png"),
        (
            "index.html",
            '<a href="sub/page.html#there">x</a>',
            "index.html: no such place: sub/page.html#there",
        ),
        ("sub/page.html", '<a href="#there">x</a>', "sub/page.html: no such place: #there"),
        (
            "index.html",
            '<script src="https://cdn/x.js"></script>',
            "index.html: loads https://cdn/x.js",
        ),
        ("style.css", "@import 'https://cdn/x.css';", "style.css: loads https://cdn/x.css"),
    ],
)
def test_faults_are_found(
    site: Path, file: str, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("penstock.scvi")
    page = site / file
    page.write_text(page.read_text() + text)
    assert main(site) == 1
    assert capsys.readouterr().out.splitlines() == [message]


def test_a_public_name_that_is_missing(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("penstock.scvi")
    head = (site / "objects.inv").read_bytes().split(b"\n", 4)[:4]
    names = "".join(
        f"{name} py:function 1 api.html#$ -\n" for name in public_names() if "pack" not in name
    )
    (site / "objects.inv").write_bytes(b"\n".join(head) + b"\n" + zlib.compress(names.encode()))
    assert main(site) == 1
    assert capsys.readouterr().out == "penstock.pack: not in the API reference\n"
