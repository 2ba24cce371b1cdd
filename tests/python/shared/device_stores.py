"""Stores, datasets and devices for the tests of batches made on a device."""

from __future__ import annotations

import importlib.util

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import tiledbsoma.io
import torch
from conftest import write_small_tiles

copier = pytest.importorskip("penstock.batches.device.copier")


HAS_CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="torch finds no CUDA GPU")
# PyTorch's simulated accelerator, where it was built (docs/concepts/gpu-path.md).
HAS_OPENREG = importlib.util.find_spec("torch_openreg") is not None and not HAS_CUDA
if HAS_OPENREG:
    import torch_openreg  # noqa: F401

    # Its own build lacks what torch asks of every accelerator with streams.
    HAS_OPENREG = torch._C._dispatch_has_kernel_for_dispatch_key(
        "aten::record_stream", "PrivateUse1"
    )
needs_openreg = pytest.mark.skipif(
    not HAS_OPENREG,
    reason="torch_openreg is not installed, or not as docs/concepts/gpu-path.md says",
)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=needs_cuda),
    pytest.param("openreg", marks=needs_openreg),
]

N_CELLS = 400


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    """400 cells in many fetch units."""
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 60)


def make_store(path, X: sp.csr_matrix):
    obs = pd.DataFrame({"name": "a"}, index=[f"cell{i}" for i in range(X.shape[0])])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(X.shape[1])])
    tiledbsoma.io.from_anndata(str(path), anndata.AnnData(X, obs, var), "RNA", X_layer_name="raw")
    return path


def of(path, device="cpu", **arguments) -> ps.Dataset:
    given = {"format": "torch", "obs_format": "torch", "batch_size": 33, "memory_budget": "64MiB"}
    return ps.Dataset(path, device=device, **{**given, **arguments})


LAYOUTS = {False: torch.strided, "csr": torch.sparse_csr, "coo": torch.sparse_coo}


def sent_arrays(monkeypatch) -> list[list[np.dtype]]:
    """Dtypes of what is copied for each batch, X's three arrays first."""
    sent = []
    pack = copier.Staging.pack

    def noted(self, arrays):
        sent.append([dtype for _, dtype in arrays])
        return pack(self, arrays)

    monkeypatch.setattr(copier.Staging, "pack", noted)
    return sent


def centred(X) -> list:
    shift = np.linspace(-1, 1, X.shape[1])
    return [ps.NormalizeTotal(100), ps.Scale(np.ones(X.shape[1]), mean=shift), ps.Clip(-3, 3)]


def halved(X):
    return X / 2
