"""Fixtures: stored experiments, and their contents as read by other libraries."""

from __future__ import annotations

import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

# TileDB takes settings from such names. Tables of tiledbsoma keep the buffers that they were read into, of a
# GiB a column by default: with more of them in one mapping than there is memory a process cannot fork.
os.environ["TILEDB_SOMA_INIT_BUFFER_BYTES"] = str(1 << 24)
# Its merge of tiles in parallel uses memory that it has freed, a race that pull request 5723 of TileDB describes: the
# many small reads of these tests met that in every other run, as a crash. 0 switches the merge off.
os.environ["TILEDB_SM_QUERY_SPARSE_GLOBAL_ORDER_PREPROCESS_TILE_MERGE"] = "0"

import newer_anndata

newer_anndata.let_tiledbsoma_write_it()

from bucket_packs import (  # noqa: E402,F401  fixtures
    bucket_server,
    many_units,
    no_credentials,
    place,
    scratch,
)
from file_times import (  # noqa: E402,F401  hooks of pytest
    pytest_collection_modifyitems,
    pytest_runtest_logreport,
    pytest_terminal_summary,
)

# `make test` tries the same examples each time, `make test-all` more and others (HYPOTHESIS_PROFILE=thorough).
_HYPOTHESIS: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(hypothesis.HealthCheck),
}
hypothesis.settings.register_profile("quick", max_examples=20, derandomize=True, **_HYPOTHESIS)
hypothesis.settings.register_profile("thorough", max_examples=300, **_HYPOTHESIS)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# What a script starts with `&` ignores Ctrl-C, which TileDB takes for the address of a handler and calls.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
#: What tests start as processes of their own.
SCRIPTS = Path(__file__).with_name("scripts")


def pytest_configure(config: pytest.Config) -> None:
    """Warnings of the tests' own modules are errors, unless pyproject.toml ignores their text."""
    modules = "|".join(sorted(path.stem for path in Path(__file__).parent.rglob("*.py")))
    config.getini("filterwarnings").insert(0, f"error:::({modules})$")


# Archives of tests/data: one of each TileDB format from 18 on, and what tiledbsoma read beside it.
GENERATED = [
    "soma-1.2.5-small",
    "soma-1.4.4-small",
    "soma-1.5.3-small",
    "soma-1.7.3-small",
    "soma-1.15.7-small",
    "soma-2.3.0-small",
    "soma-1.2.5-upgraded",
]
STORED = ["pbmc3k-soma", "pbmc-small", "pbmc-small-pre-1.15", *GENERATED]


class Oracle(NamedTuple):
    """An experiment, and its cells as tiledbsoma reads them."""

    path: Path
    X: sp.csr_matrix
    obs: pd.DataFrame
    var: pd.DataFrame


def read_with_tiledbsoma(path: Path, layer: str = "raw", measurement: str = "RNA") -> Oracle:
    """Everything, by joinid; obs strings as objects."""
    import tiledbsoma

    with tiledbsoma.open(str(path)) as experiment:
        obs = experiment.obs.read().concat().to_pandas()
        var = experiment.ms[measurement].var.read().concat().to_pandas()
        cells = experiment.ms[measurement].X[layer]
        coo = cells.read().coos(shape=cells.shape).concat().to_scipy()
    return Oracle(path, coo.tocsr(), obs, var)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an archive of tests/data, unpacked once; treat it as read-only."""
    folders: dict[str, Path] = {}

    def unpack(name: str) -> Path:
        if name not in folders:
            folder = tmp_path_factory.mktemp(name)
            with tarfile.open(DATA / f"{name}.tar.gz") as tar:
                filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                tar.extractall(folder, **filters)
            group = next(folder.rglob("__tiledb_group.tdb"))
            folders[name] = group.parent
        return folders[name]

    return unpack


@pytest.fixture(scope="session")
def pbmc3k(unpacked: Callable[[str], Path]) -> Oracle:
    """2,638 real cells in two fragments."""
    return read_with_tiledbsoma(unpacked("pbmc3k-soma"))


@pytest.fixture(scope="session")
def soma_small(unpacked: Callable[[str], Path]) -> Oracle:
    """300 x 400 generated counts; obs has categories, strings, booleans and numbers."""
    return read_with_tiledbsoma(unpacked("soma-1.15.7-small"))


@pytest.fixture(scope="session")
def census_like(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """6,000 invented cells in the Census's settings, three fragments."""
    from penstock.synthetic import make_experiment

    path = tmp_path_factory.mktemp("census-like") / "experiment"
    make_experiment(path, n_cells=6_000, n_genes=3_000, n_fragments=3, n_datasets=8)
    return read_with_tiledbsoma(path)


@pytest.fixture(scope="session")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """331 invented cells x 50 genes with donors, kinds and covariates, for scvi-tools."""
    from scvi_experiments import write_cells

    return write_cells(tmp_path_factory.mktemp("cells") / "experiment")


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Models as small as those of tests lose time with more."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def write_small_tiles(
    path: Path,
    n_obs: int,
    n_vars: int,
    filters: list[str] | None = None,
    obs: pd.DataFrame | None = None,
    per_cell: float = 8,
) -> Path:
    """An experiment of many fetch units: about `per_cell` counts a cell in tiles of 16 rows."""
    import anndata
    import tiledbsoma.io

    X = sp.random(n_obs, n_vars, per_cell / n_vars, "csr", np.float32, random_state=0)
    if obs is None:
        obs = pd.DataFrame(index=[f"cell{i}" for i in range(n_obs)])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(n_vars)])
    chain = {} if filters is None else {"filters": filters}
    tile = {
        "capacity": 128,
        "dims": {"soma_dim_0": {"tile": 16, **chain}, "soma_dim_1": {"tile": 64, **chain}},
        "attrs": {"soma_data": chain},
    }
    tiledbsoma.io.from_anndata(
        str(path),
        anndata.AnnData(X, obs, var),
        "RNA",
        X_layer_name="raw",
        platform_config={"tiledb": {"create": tile}},
    )
    return path


def cache_in(folder: Path) -> dict[str, Any]:
    """Arguments of a cache there. Without cache_bytes, the last 4 GiB of a disk stay free."""
    return {"cache_dir": folder, "cache_bytes": "1GiB"}


def collect(dataset, dense=np.asarray) -> tuple[np.ndarray, np.ndarray]:
    """(joinids in the order they came, X stacked) of one epoch whose obs has soma_joinid."""
    joinids, rows = [], []
    for X, obs in dataset:
        joinids.append(np.asarray(obs["soma_joinid"]))
        rows.append(X.toarray() if sp.issparse(X) else dense(X))
    if not joinids:
        return np.empty(0, np.int64), np.empty((0, dataset.n_vars), np.float32)
    return np.concatenate(joinids), np.concatenate(rows)


def joinids_of(dataset) -> list[int]:
    """Joinids of one epoch, in the order they came."""
    return collect(dataset)[0].tolist()
