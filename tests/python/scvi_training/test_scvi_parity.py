"""The quick version of benchmarks/training_parity.py, which trains to the plateau."""

from __future__ import annotations

import importlib.util
import sys

import penstock as ps
import pytest
from conftest import ROOT, Oracle

pytest.importorskip("scvi")

SCRIPT = ROOT / "benchmarks" / "training_parity.py"


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch, one_torch_thread: None):
    spec = importlib.util.spec_from_file_location("training_parity", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "training_parity", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_three_seeds(parity, cells: Oracle) -> None:
    data = ps.Dataset(cells.path, batch_size=64)
    keys = {"batch_key": "donor", "categorical_covariate_keys": ["sex", "chemistry"]}
    runs = [parity.train_one(data, keys, {}, seed, epochs=12) for seed in range(3)]
    both = parity.summary(runs)
    # So few epochs leave seeds some per cent apart; the script's own bound is 0.2 %.
    assert abs(both["relative"]) < 0.03, both
    assert all(run["penstock"]["epochs"] == 12 for run in runs)
