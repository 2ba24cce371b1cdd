"""docs/reference/coverage.md names tests and pages that exist."""

from __future__ import annotations

import ast
import re

import pytest
from conftest import ROOT

PAGE = ROOT / "docs" / "reference" / "coverage.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| there |")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_every_row_is_shown_or_missing(row: list[str]) -> None:
    there, here, *shown = row
    shown_by = shown[0].strip() if shown else ""
    assert there
    if not shown_by:
        assert "**not yet**" in here or "**no**" in here
        return
    test = re.fullmatch(r"`([a-z0-9_/]+\.py)::(test_\w+)`", shown_by)
    if test is not None:
        tree = ast.parse((ROOT / "tests" / "python" / test[1]).read_text())
        assert test[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        return
    page = re.fullmatch(r"\[[^]]+\]\(([\w./-]+)(#[\w-]+)?\)", shown_by)
    assert page is not None, shown_by
    assert (PAGE.parent / page[1]).is_file()


def test_all_four_texts_have_rows() -> None:
    assert PAGE.read_text().count("\n## ") == 4
    assert len(ROWS) > 80
