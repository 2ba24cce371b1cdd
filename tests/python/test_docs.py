"""The examples of docs/ run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Oracle

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
# The example of compat.md is that of test_compat_census.py, which checks its results.
PAGES = sorted(
    page.name
    for page in DOCS.glob("*.md")
    if "```python" in page.read_text() and page.name != "compat.md"
)


def run_page(page: str, **names) -> dict:
    """Run a page's Python blocks one after the other, with `names` given."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    namespace = {"__name__": "docs", **names}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, census_like: Oracle, tmp_path: Path) -> None:
    names = run_page(page, path=census_like.path, checkpoint=tmp_path / "checkpoint.pt")
    if page == "resume.md":
        batches = -(-6_000 // 64)
        assert (names["first"], names["second"]) == (7, 2 * batches - 7)
