"""Write the AnnData stores of tests/data/anndata-*.tar.gz, and what anndata reads from them.

    python3.12 -m venv new && new/bin/pip install "anndata>=0.13" annbatch zarrs
    new/bin/python tests/golden/make_anndata_golden.py tests/data

annbatch and anndata 0.13 need Python 3.12, so the tests read these files instead of writing them. Each archive has the
store and `contents.npz`: X as scipy's CSR arrays, and names of cells and genes.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
import zarr

CELLS, GENES = 330, 80


def counts(random: np.random.Generator, cells: int, genes: int) -> sp.csr_matrix:
    matrix = sp.random(cells, genes, 0.1, "csr", np.float32, random)
    matrix.data[:] = random.poisson(3, matrix.nnz) + 1
    matrix.data[::97] = 1000
    return matrix


def cells(seed: int, count: int = CELLS) -> anndata.AnnData:
    random = np.random.default_rng(seed)
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(random.choice(["B cell", "T cell", "NK"], count)),
            "n_genes": random.integers(0, 5000, count),
            "score": random.normal(size=count),
            "nullable": pd.array(random.integers(0, 9, count), dtype="Int64"),
            "text": random.choice(["a", "b", "☃"], count).astype(object),
        },
        index=[f"cell-{seed}-{i}" for i in range(count)],
    )
    obs.loc[obs.index[::7], "nullable"] = pd.NA
    var = pd.DataFrame({"length": np.arange(GENES)}, index=[f"gene-{i}" for i in range(GENES)])
    made = anndata.AnnData(counts(random, count, GENES), obs, var)
    made.layers["counts"] = counts(random, count, GENES).astype(np.int32)
    made.raw = made.copy()
    return made


def pack(folder: Path, store: Path, contents: dict[str, np.ndarray], name: str) -> None:
    np.savez_compressed(store.parent / "contents.npz", **contents)
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        for path in (store, store.parent / "contents.npz"):
            archive.add(path, path.name)
    print(name, (folder / f"{name}.tar.gz").stat().st_size)


def contents_of(adata: anndata.AnnData) -> dict[str, np.ndarray]:
    X = sp.csr_matrix(adata.X)
    return {
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "shape": np.array(X.shape),
        "obs_names": adata.obs_names.to_numpy(str),
        "var_names": adata.var_names.to_numpy(str),
        "cell_type": adata.obs["cell_type"].to_numpy(str),
    }


def write_collection(folder: Path) -> None:
    """Eleven datasets or more: dataset_10 comes after dataset_9."""
    from annbatch import DatasetCollection

    with tempfile.TemporaryDirectory() as place:
        sources = []
        for seed in (1, 2):
            sources.append(Path(place) / f"source-{seed}.zarr")
            cells(seed).write_zarr(sources[-1])
        store = Path(place) / "collection.zarr"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            DatasetCollection(str(store)).add_adatas(
                [str(path) for path in sources],
                n_obs_per_chunk=16,
                dataset_size="10kB",
                shuffle_chunk_size=10,
            )
        group = zarr.open_group(str(store), mode="r")
        names = sorted(group, key=lambda name: int(name.split("_")[-1]))
        print(names, dict(group.attrs))
        whole = anndata.concat([anndata.io.read_elem(group[name]) for name in names])
        pack(folder, store, contents_of(whole), f"anndata-annbatch-{version('annbatch')}")


def write_anndata(folder: Path) -> None:
    for zarr_format in (2, 3):
        with tempfile.TemporaryDirectory() as place:
            store = Path(place) / "cells.zarr"
            anndata.settings.zarr_write_format = zarr_format
            adata = cells(5)
            adata.write_zarr(store)
            name = f"anndata-{version('anndata')}-zarr{zarr_format}"
            pack(folder, store, contents_of(anndata.read_zarr(store)), name)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_collection(target)
    write_anndata(target)
