"""Hooks of pytest: files that take long come first, and a table says what each took.

`file_seconds.json` has the seconds of each file as they were measured; PENSTOCK_FILE_SECONDS=FILE writes them again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("file_seconds.json")
#: What a file takes that has not been measured.
UNKNOWN_SECONDS = 30.0
SHOWN = 25

_seconds: Counter[str] = Counter()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first, so that none is left for the end; for `--dist loadfile`."""
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
