"""A bench worker with the test loader `stubborn`, whose behaviour its variant selects."""

from __future__ import annotations

from pathlib import Path

import pytest
from penstock.bench.measuring import worker_process


def install(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers start from a copy of the worker's package in `folder` that has this loader."""
    package = folder / "penstock" / "bench"
    loaders = package / "worker" / "loaders"
    loaders.mkdir(parents=True)
    for each in (package, loaders):
        (each / "__init__.py").write_text("")
    for file in (Path(worker_process.__file__).parents[1] / "worker").glob("*.py"):
        (package / "worker" / file.name).write_text(file.read_text())
    (loaders / "stubborn.py").write_text(text)
    monkeypatch.setattr(
        worker_process, "__file__", str(package / "measuring" / "worker_process.py")
    )
