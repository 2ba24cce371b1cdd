"""Hooks of pytest that run slow files first and print the seconds of each file.

`file_seconds.json` holds the measured seconds of each file; PENSTOCK_FILE_SECONDS=FILE writes new ones.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("file_seconds.json")
#: What a file takes that has not been measured.
UNKNOWN_SECONDS = 30.0
SHOWN = 25
#: Starts of the ids of the tests that `make test` leaves out.
LONG = [
    line
    for line in Path(__file__).with_name("long_tests.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
_FIRST = re.compile(r"(.+) \[first (\d+)\]")
#: So many cases of these tests are no long tests.
FIRST = {found[1]: int(found[2]) for line in LONG if (found := _FIRST.fullmatch(line))}
LONG = [line for line in LONG if not _FIRST.fullmatch(line)]
#: So many tests are collected only where all files are.
WHOLE = 2000

_seconds: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long and the random tests; put the longest files first, so that none is left for the end."""
    unused = {*LONG, *FIRST}
    cases: Counter[str] = Counter()
    for item in items:
        name = f"{item.path.name}::{item.nodeid.split('::', 1)[-1]}"
        test = name.split("[")[0]
        found = [start for start in LONG if name.startswith(start)]
        if not found and test in FIRST:
            cases[test] += 1
            unused.discard(test)
        if found or cases[test] > FIRST.get(test, 0):
            item.add_marker(pytest.mark.long)
            unused.difference_update(found)
        if "seeds" in vars(item.module):  # of amounts.py
            item.add_marker(pytest.mark.random)
    # A file that is skipped as a whole has no tests, but one that is not there is a mistake.
    there = {path.name for path in Path(__file__).parent.rglob("test_*.py")}
    skipped = there - {item.path.name for item in items}
    unused = {start for start in unused if start.partition("::")[0] not in skipped}
    if unused and len(items) > WHOLE:
        raise pytest.UsageError(f"long_tests.txt has tests that are not there: {sorted(unused)}")
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    items.sort(key=lambda item: -known.get(item.path.name, UNKNOWN_SECONDS))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[Path(report.nodeid.split("::")[0]).name] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if len(_seconds) < 10:
        return
    terminalreporter.section(f"seconds of the {SHOWN} longest files")
    for name, seconds in _seconds.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:8.1f}  {name}")
    if path := os.environ.get("PENSTOCK_FILE_SECONDS"):
        measured = {name: round(seconds, 1) for name, seconds in sorted(_seconds.items())}
        Path(path).write_text(json.dumps(measured, indent=1) + "\n")
