"""Many AnnData files as one source. The oracle is anndata.concat."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
from anndata_cases import dense, values_of, write_h5ad, write_zarr

GENES = [f"G{i}" for i in range(60)]
TYPES = [f"type {i}" for i in range(12)]


def donor(random: np.random.Generator, number: int) -> anndata.AnnData:
    """Cells with their own genes in their own order, and their own categories."""
    cells = int(random.integers(1, 40))
    own = random.choice(GENES[5:], 40, replace=False).tolist()
    genes = random.permutation([*GENES[:5], *own]).tolist()
    types = random.permutation(TYPES)[: random.integers(1, 12)]
    X = sp.random(cells, len(genes), 0.3, "csr", dtype="float32", random_state=random)
    X.data = np.ceil(X.data * 9)
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(random.choice(types, cells), types),
            "n_counts": np.asarray(X.sum(axis=1)).ravel(),
            "donor": pd.Categorical([f"donor {number}"] * cells),
        },
        index=[f"cell-{number}-{i}" for i in range(cells)],
    )
    if number % 3 == 0:
        obs["only some"] = random.random(cells)
    return anndata.AnnData(X, obs, pd.DataFrame(index=genes))


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[anndata.AnnData]]:
    random = np.random.default_rng(11)
    folder = tmp_path_factory.mktemp("twenty")
    made = [donor(random, number) for number in range(20)]
    for number, adata in enumerate(made):
        compression = [None, "gzip", "lzf"][number % 3]
        write_h5ad(adata, folder / f"donor-{number:02}.h5ad", compression)
    return folder, made


def concatenated(made: list[anndata.AnnData], join: Any) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.concat(made, join=join, fill_value=0)


@pytest.mark.parametrize("genes", ["inner", "outer"])
@pytest.mark.parametrize("shuffle", [True, False, "global"])
def test_rows_and_labels_are_those_of_concat(
    twenty: tuple[Path, list[anndata.AnnData]], genes: str, shuffle: Any
) -> None:
    folder, made = twenty
    wanted = concatenated(made, genes)
    joined = ps.join(f"{folder}/*.h5ad", genes=genes)
    dataset = ps.Dataset(
        joined,
        encoders=[ps.LabelEncoder("cell_type")],
        obs_columns=["obs_names", "donor", "n_counts", "source"],
        shuffle=shuffle,
        batch_size=17,
        seed=2,
    )
    place = {name: row for row, name in enumerate(wanted.obs_names)}
    order = wanted[:, dataset.var_names].X
    names = dataset.encoders["cell_type"].classes_
    assert sorted(names) == sorted(set(wanted.obs["cell_type"].astype(str)))
    seen = []
    for X, obs in dataset:
        rows = [place[name] for name in obs["obs_names"]]
        np.testing.assert_array_equal(X, dense(order[rows]))
        told = wanted.obs.iloc[rows]
        assert [names[code] for code in obs["cell_type"]] == told["cell_type"].tolist()
        assert obs["donor"].tolist() == told["donor"].tolist()
        np.testing.assert_array_equal(obs["n_counts"], told["n_counts"])
        numbers = [int(name.split("-")[1]) for name in obs["obs_names"]]
        assert obs["source"].tolist() == [f"donor-{number:02}.h5ad" for number in numbers]
        seen += rows
    assert sorted(seen) == list(range(wanted.n_obs))
    assert (seen != sorted(seen)) == bool(shuffle)


def test_obs_is_that_of_concat(twenty: tuple[Path, list[anndata.AnnData]]) -> None:
    folder, made = twenty
    wanted = pd.concat([adata.obs for adata in made])
    got = ps.join(sorted(folder.glob("*.h5ad")), genes="outer").obs.to_pandas()
    assert got["obs_names"].tolist() == wanted.index.tolist()
    for name in wanted.columns:
        assert values_of(got[name]) == values_of(wanted[name]), name


def test_files_and_stores_of_all_kinds_in_one_list(
    twenty: tuple[Path, list[anndata.AnnData]], tmp_path: Path
) -> None:
    folder, made = twenty
    sources: dict[str, Any] = {
        "file": folder / "donor-00.h5ad",
        "zarr": write_zarr(made[1], tmp_path / "one.zarr"),
        "memory": made[2],
    }
    ps.pack(folder / "donor-03.h5ad", tmp_path / "three.pack")
    sources["pack"] = tmp_path / "three.pack"
    soma_io = pytest.importorskip("tiledbsoma.io")
    plain = anndata.AnnData(made[4].X.copy(), made[4].obs[["donor"]], made[4].var.copy())
    sources["soma"] = soma_io.from_anndata(
        str(tmp_path / "soma"), plain, "RNA", X_layer_name="X", obs_id_name="obs_names",
        var_id_name="var_names",
    )  # fmt: skip
    wanted = concatenated(made[:5], "outer")
    joined = ps.join(sources, genes="outer", layer="X")
    dataset = ps.Dataset(joined, obs_columns=["obs_names"], batch_size=16, seed=1)
    seen = []
    for X, obs in dataset:
        names = obs["obs_names"].tolist()
        np.testing.assert_array_equal(X, dense(wanted[names, dataset.var_names].X))
        seen += names
    assert sorted(seen) == sorted(wanted.obs_names)


def test_a_thousand_files(tmp_path: Path) -> None:
    """A file is opened for its tables and its rows, and not held open."""
    X = sp.csr_matrix(np.array([[0, 1, 0], [2, 0, 3]], "float32"))
    first = write_h5ad(
        anndata.AnnData(X, pd.DataFrame(index=["a", "b"]), pd.DataFrame(index=list("xyz"))),
        tmp_path / "0000.h5ad",
    )
    for number in range(1, 1000):
        (tmp_path / f"{number:04}.h5ad").hardlink_to(first)
    dataset = ps.Dataset(f"{tmp_path}/*.h5ad", batch_size=100, seed=1)
    assert dataset.n_obs == 2000
    total = np.zeros(3)
    sources = []
    for batch, obs in dataset:
        total += batch.sum(axis=0)
        sources += obs["source"].tolist() if "source" in obs else []
    np.testing.assert_array_equal(total, [2000, 1000, 3000])
    open_files = [
        str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()
    ]
    assert sum(str(tmp_path) in each for each in open_files) < 100


def test_names_are_those_that_genes_were_matched_by(tmp_path: Path) -> None:
    """Also if var has a usual column of names, and genes that no file has."""
    paths = []
    for number, genes in enumerate((["a", "b"], ["b", "c"])):
        var = pd.DataFrame({"feature_name": genes}, index=[f"id-{number}-{each}" for each in genes])
        made = anndata.AnnData(sp.csr_matrix(np.ones((3, 2), np.float32)), var=var)
        made.obs_names = [f"cell-{number}-{i}" for i in range(3)]
        paths.append(write_h5ad(made, tmp_path / f"{number}.h5ad"))
    panel = ["c", "a", "nowhere", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = ps.Dataset(ps.join(paths, genes=panel, var_column="feature_name"))
    assert list(ds.var_names) == panel
    assert list(ds.to_anndata().var_names) == panel
    assert list(ds[:, ["b", "c"]].var_names) == ["b", "c"]
    assert list(ps.gene_statistics(ds).index) == panel
    assert list(ds.var.to_pandas(names=True).index) == panel


#: Prints how many bytes an epoch takes beside what is in memory after the files were opened.
EPOCH = """
import contextlib, sys, warnings
warnings.simplefilter("ignore")
import scipy.sparse
import penstock as ps

def status(name):
    (line,) = [each for each in open("/proc/self/status") if each.startswith(name)]
    return int(line.split()[1]) << 10

settings = dict(layer="X", memory_budget=sys.argv[1], batch_size=128, sparse="csr", format="numpy")
dataset = ps.Dataset(sys.argv[2:], **settings, threads=2)
with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # VmHWM is VmRSS now, where the system allows it
opened = status("VmRSS")
assert sum(X.shape[0] for X, _ in dataset) == dataset.n_obs
print(status("VmHWM") - opened)
"""


def test_many_files_take_no_more_memory_than_one(tmp_path: Path) -> None:
    """Buffers of files that are freed for those of other files do not stay beside them."""
    random = np.random.default_rng(12)
    made = []
    for number in range(12):
        X = sp.random(int(random.integers(300, 900)), 4_000, 0.25, "csr", "float32", random)
        X.data = np.ceil(X.data * 9)
        made.append(
            anndata.AnnData(X, pd.DataFrame(index=[f"{number}-{i}" for i in range(X.shape[0])]))
        )
    files = [write_h5ad(each, tmp_path / f"{i:02}.h5ad", "lzf") for i, each in enumerate(made)]
    whole = write_h5ad(anndata.concat(made), tmp_path / "whole.h5ad", "lzf")

    def peak(budget: str, *sources: Path) -> int:
        command = [sys.executable, "-c", EPOCH, budget, *map(str, sources)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    for budget in ("24MiB", "256MiB"):
        one = peak(budget, whole)
        assert one > 16 << 20  # the measurement is of the epoch
        assert peak(budget, *files) < 1.2 * one, budget
