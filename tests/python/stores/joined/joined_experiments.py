"""Experiments to join, with the expected joined AnnData."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
import tiledbsoma.io

TILE = {
    "capacity": 256,
    "dims": {"soma_dim_0": {"tile": 32}, "soma_dim_1": {"tile": 64}},
}


def make(n_obs: int, genes: list[str], seed: int, dtype: str, **obs) -> anndata.AnnData:
    random = np.random.default_rng(seed)
    X = sp.random(n_obs, len(genes), 0.2, "csr", random_state=random)
    X.data = np.where(random.random(X.nnz) < 0.05, 70_000, random.integers(1, 300, X.nnz))
    if np.dtype(dtype).kind == "f":
        X.data = X.data + (random.random(X.nnz) < 0.1) * 0.25
    index = [f"cell{seed}-{i}" for i in range(n_obs)]
    var = pd.DataFrame({"symbol": [g.lower() for g in genes], "length": len(genes)}, index=genes)
    return anndata.AnnData(X.astype(dtype), pd.DataFrame(obs, index=index), var)


def write(path: Path, data: anndata.AnnData) -> Path:
    tiledbsoma.io.from_anndata(
        str(path), data, "RNA", X_layer_name="raw", platform_config={"tiledb": {"create": TILE}}
    )
    return path


GENES = [f"G{i:03}" for i in range(150)]


def write_three(folder: Path) -> dict[str, tuple[Path, anndata.AnnData]]:
    """Experiments with genes of their own in orders of their own, and other types of X."""
    random = np.random.default_rng(0)
    kinds = ["B cell", "T cell", "NK", "monocyte"]
    data = {
        "blood": make(
            400, GENES[:120], 1, "float32",
            cell_type=pd.Categorical(random.choice(kinds[:3], 400), kinds[:3]),
            n=np.arange(400, dtype=np.int32), ok=random.random(400) < 0.5,
        ),
        "lung": make(
            300, random.permutation(GENES[30:]).tolist(), 2, "int32",
            cell_type=pd.Categorical(random.choice(kinds[1:], 300), kinds[1:]),
            n=np.arange(300, dtype=np.float64) / 2, smoker=random.random(300) < 0.5,
        ),
        "gut": make(
            500, random.permutation(GENES[20:110]).tolist(), 3, "float64",
            cell_type=random.choice(kinds, 500).astype(object),
            n=np.arange(500, dtype=np.int64), ok=random.random(500) < 0.5,
        ),
    }  # fmt: skip
    return {name: (write(folder / name, each), each) for name, each in data.items()}


def expected(three, join: str, genes: list[str] | None = None) -> anndata.AnnData:
    whole = anndata.concat(
        {name: each for name, (_, each) in three.items()},
        join="outer" if genes is not None else join,
        fill_value=0,
        label="source",
    )
    return whole if genes is None else whole[:, [g for g in genes if g in whole.var_names]]


def rows_of(whole: anndata.AnnData, obs) -> np.ndarray:
    """Rows of the oracle that a batch's cells are."""
    first = {name: int(np.argmax(whole.obs["source"] == name)) for name in set(obs["source"])}
    return np.array([first[s] for s in obs["source"]]) + obs["soma_joinid"]


def paths(three) -> dict[str, Path]:
    return {name: path for name, (path, _) in three.items()}
