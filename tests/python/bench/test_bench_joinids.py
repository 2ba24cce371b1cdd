"""Every loader's joinids equal those of tiledbsoma when they differ from positions."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import tiledbsoma
from penstock import synthetic
from penstock.bench import sweep
from penstock.bench.block_spec import BlockSpec
from penstock.bench.exports.cells import Cells
from penstock.bench.exports.h5ad import write_h5ad
from penstock.bench.measuring.batch_entropy import wrong_joinids
from penstock.bench.methods import METHODS, Method
from penstock.bench.peers import interpreter
from penstock.bench.sources import Sources
from penstock.bench.sweep import Settings
from penstock.bench.target import make_target
from penstock.bench.worker.request import Work
from penstock.cli import main

FILTER = "soma_joinid >= 300 and cell_type != 'macrophage' and soma_joinid != 700"
READS = [
    Method(f"read-chunks {kind}", "read_chunks", kind, blocks=True, filters=True, peer="tiledbsoma")
    for kind in ("table+chunk", "blockwise_csr+global")
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("joinids") / "e"
    synthetic.make_experiment(path, n_cells=1_200, n_genes=200, n_datasets=8, seed=5)
    return path


@pytest.fixture(scope="module")
def selected(cells: Path) -> np.ndarray:
    with tiledbsoma.open(str(cells)) as opened:
        table = opened.obs.read(value_filter=FILTER, column_names=["soma_joinid"]).concat()
    joinids = np.sort(table["soma_joinid"].to_numpy())
    assert joinids[0] >= 300
    assert 300 < len(joinids) < 899  # with gaps
    return joinids


@pytest.mark.parametrize("method", [*METHODS.values(), *READS], ids=lambda each: each.name)
def test_joinids_are_those_of_tiledbsoma(
    method: Method, cells: Path, selected: np.ndarray, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of a filtered and shuffled slice that does not start at 0."""
    try:
        python = interpreter(method)
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    if method.source == "annbatch" and method.peer is None:  # its collection is made by annbatch
        try:
            interpreter(METHODS["annbatch"])
        except ModuleNotFoundError as missing:
            pytest.skip(str(missing))
    if method.variant == "device" and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("penstock:device needs a CUDA GPU")
    if method.peer is not None:
        monkeypatch.setenv(f"PENSTOCK_BENCH_PYTHON_{method.peer.upper()}", python)
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path))
    target = make_target(str(cells), obs_filter=FILTER, n_vars=150)
    settings = Settings(
        Work(str(cells), batch_size=50, sparse=True, seed=3),
        {"joinids_path": str(tmp_path / "record.npz")},
    )
    blocks = [BlockSpec(4, 50)] if method.blocks else [None]
    said: list[str] = []
    planned = list(sweep.measurements([method], blocks, Sources(target), settings, said.append))
    (row,) = sweep.run(planned, None, "by hand", said.append)
    assert (row["status"], row["error"]) == ("ok", None), said
    with np.load(tmp_path / "record.npz") as record:
        order, sizes = record["joinids"], record["sizes"]
    assert np.sort(order).tolist() == selected.tolist()
    assert sizes.sum() == len(order)
    assert order.tolist() != selected.tolist()
    assert wrong_joinids(tmp_path / "record.npz", selected) is None


class _Pipe:
    """As cellxgene_census 1.17's: every column label-encoded, one cell without the axis of cells."""

    def __init__(self, experiment: object, obs_query: object, batch_size: int, **_: object) -> None:
        frame = experiment.obs.read(value_filter=obs_query.value_filter).concat().to_pandas()
        self._joinids = np.sort(frame["soma_joinid"].to_numpy())
        self._batch_size = batch_size
        self.obs_encoders = {
            "soma_joinid": SimpleNamespace(inverse_transform=lambda codes: self._joinids[codes])
        }

    def __iter__(self) -> Iterator[tuple]:
        torch = pytest.importorskip("torch")
        order = np.random.default_rng(1).permutation(len(self._joinids))
        for begin in range(0, len(order), self._batch_size):
            codes = torch.from_numpy(order[begin : begin + self._batch_size, None])
            x = torch.ones(len(codes), 2)
            yield (x, codes) if len(codes) > 1 else (x[0], codes[0])


@pytest.mark.parametrize("batch_size", [1, 50])
def test_the_census_pipe_is_decoded(
    batch_size: int, cells: Path, selected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for where that version is not installed."""
    from penstock.bench.worker.loaders import census

    for name in ("cellxgene_census", "cellxgene_census.experimental"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module = ModuleType("cellxgene_census.experimental.ml")
    module.ExperimentDataPipe = _Pipe
    monkeypatch.setitem(sys.modules, module.__name__, module)
    work = Work(str(cells), obs_filter=FILTER, batch_size=batch_size)
    batches = list(census.open_loader("", work).epoch(0))
    assert {x.ndim for x, _ in batches} == {2}
    came = np.concatenate([joinids for _, joinids in batches])
    assert came.tolist() != selected.tolist()
    assert np.sort(came).tolist() == selected.tolist()


def test_annloader_is_given_no_series_to_convert(cells: Path, tmp_path: Path) -> None:
    """torch makes no tensor of one with pandas 3; pandas 2 warns."""
    pytest.importorskip("torch")
    from penstock.bench.worker.loaders import annloader

    write_h5ad(Cells(str(cells)), tmp_path / "cells.h5ad")
    opened = annloader.open_loader("", Work(str(tmp_path / "cells.h5ad"), batch_size=500))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Series.__getitem__ treating keys as positions")
        came = np.concatenate([joinids for _, joinids in opened.epoch(0)])
    assert np.sort(came).tolist() == list(range(1_200))


_POSITIONS = """
from ..opened import Opened
def imports(variant, work): pass
def open_loader(variant, work):
    import numpy as np
    def epoch(number):
        for begin in range(0, 200, 50):
            yield np.ones((50, 2)), np.arange(begin, begin + 50) + (TWICE - begin if TWICE else 0)
    return Opened(epoch)
"""


@pytest.mark.parametrize(
    ("twice", "error"),
    [(0, "got joinid 0, but no cell of the selection has it"),
     (800, "got joinid 800 more than once in an epoch")],
)  # fmt: skip
def test_wrong_joinids_have_no_entropy(
    twice: int, error: str, cells: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Also where the epoch is cut, so that the sum of its joinids says nothing."""
    import own_loader

    monkeypatch.chdir(tmp_path)
    own_loader.install(_POSITIONS.replace("TWICE", str(twice)), tmp_path, monkeypatch)
    monkeypatch.setitem(METHODS, "stubborn", Method("stubborn", "stubborn", "", filters=True))
    assert main(["bench", "shuffle", str(cells), "--filter", "soma_joinid >= 300", "-m", "stubborn",
                 "-B", "50", "-n", "3", "-d", "rows"]) == 1  # fmt: skip
    shown = capsys.readouterr()
    assert f"; WRONG: {error}" in shown.out
    assert f"nothing could be measured: {error}" in shown.err
    (row,) = pd.read_parquet("rows").to_dict("records")
    assert (row["status"], row["error"]) == ("wrong", error)
    assert pd.isna(row["shuffle_share"])


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("method", METHODS.values(), ids=lambda each: each.name)
def test_values_are_those_of_tiledbsoma(
    method: Method, sparse: bool, cells: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two epochs of the first genes. Loaders that are installed here, in this process."""
    if method.variant == "device" or method.source == "annbatch":
        pytest.skip("needs a GPU, or an environment of its own")
    if method.peer is not None and not find_spec(method.peer):
        pytest.skip(f"{method.peer} is not installed here")
    monkeypatch.setenv("PENSTOCK_BENCH_CACHE", str(tmp_path))
    source = Sources(make_target(str(cells), n_vars=150), say=lambda _: None).path(method)
    loader = import_module(f"penstock.bench.worker.loaders.{method.loader}")
    work = Work(source, n_vars=150, batch_size=50, sparse=sparse, seed=3)
    if method.blocks:
        work = dataclasses.replace(work, chunk_size=50, chunks_per_block=4)
    with tiledbsoma.open(str(cells)) as opened:
        stored = opened.ms["RNA"].X["raw"].read().tables().concat()
    X = sp.csr_matrix(
        (stored["soma_data"], (stored["soma_dim_0"], stored["soma_dim_1"])), (1_200, 200)
    )[:, :150].toarray()
    loader.imports(method.variant, work)
    opened = loader.open_loader(method.variant, work)
    for epoch in range(2):
        seen = []
        for batch, joinids in opened.epoch(epoch):
            found = batch.to_dense() if hasattr(batch, "to_dense") else batch
            found = found.toarray() if sp.issparse(found) else np.asarray(found)
            assert (found == X[joinids]).all()
            seen += joinids.tolist()
        assert sorted(seen) == list(range(1_200))
