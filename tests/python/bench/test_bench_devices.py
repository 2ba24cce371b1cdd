"""Timing of copies to a device includes their end, on any accelerator."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import penstock
import pytest
from penstock.bench.worker.device_copy import DeviceCopy
from penstock.bench.worker.loaders import penstock as loader
from penstock.bench.worker.request import Work

torch = pytest.importorskip("torch")


class Accelerator:
    """As torch.accelerator with a device of type meta, which torch has everywhere."""

    def __init__(self) -> None:
        self.waited: list[str] = []

    def current_accelerator(self) -> torch.device:
        return torch.device("meta")

    def is_available(self) -> bool:
        return True

    def synchronize(self, device: torch.device) -> None:
        self.waited.append(str(device))


def test_every_accelerator_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Accelerator()
    monkeypatch.setattr(torch, "accelerator", there, raising=False)
    copy = DeviceCopy("meta:1")
    assert there.waited == ["meta:1"]  # so that the first copy is one
    for n in (2, 3):
        copied = copy(np.zeros((2, 3), np.float32))
        assert copied.device.type == "meta"
        assert there.waited == ["meta:1"] * n
    assert copy.seconds > 0


def test_what_cannot_be_waited_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "accelerator", Accelerator(), raising=False)
    for device in ("xpu", "mps", "hpu:1", "mtia"):
        with pytest.raises(RuntimeError, match=f"copied to '{device}', since torch finds no such"):
            DeviceCopy(device)
    monkeypatch.delattr(torch, "accelerator")
    with pytest.raises(RuntimeError, match=r"'xpu' cannot be timed by torch .*, but from 2\.6 on"):
        DeviceCopy("xpu")
    assert DeviceCopy("cpu")(np.ones((2, 2))).shape == (2, 2)


@pytest.mark.parametrize(
    ("asked", "made_on"), [(None, "cuda"), ("cuda", "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cuda")]
)
def test_batches_are_made_on_the_device_that_is_asked_for(
    asked: str | None, made_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict = {}

    def dataset(source: str, **more) -> list:
        settings.update(more)
        return []

    monkeypatch.setitem(sys.modules, "penstock", SimpleNamespace(Dataset=dataset))
    loader.open_loader("device", Work("x", device=asked))
    assert settings["device"] == made_on
    assert settings["format"] == "torch"
    loader.open_loader("scatter", Work("x", device=asked))
    assert penstock.Dataset is not dataset


def test_the_command_line_says_which_device(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from penstock.cli import main
    from penstock.cli.bench import shared_options

    asked: list = []

    def measurements(methods, blocks, sources, settings, say) -> list:
        asked.append((settings.work.device, settings.request["device"]))
        return []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.bench.sweep.measurements", measurements)
    target = SimpleNamespace(uri="x", measurement="RNA", layer="raw", region=None)
    monkeypatch.setattr(shared_options, "target", lambda parsed: target)
    assert main(["bench", "data-loader", "x", "-m", "penstock:device", "--cuda", "cuda:1"]) == 1
    assert asked == [("cuda:1", "cuda:1")]
