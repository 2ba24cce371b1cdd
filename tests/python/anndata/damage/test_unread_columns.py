"""Encodings of tomorrow, and columns that are not read: an error with the place where they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import zarr
from anndata_cases import random_anndata, write_collection, write_h5ad, write_zarr
from collection_cases import collection_of
from penstock.cli import main

Opened = Callable[[Path], Any]


def open_h5ad(path: Path) -> Any:
    return closing(h5py.File(path, "r+"))


@contextmanager
def open_zarr(path: Path) -> Iterator[zarr.Group]:
    yield zarr.open_group(str(path), mode="r+", use_consolidated=False)
    zarr.consolidate_metadata(str(path))


def stored_as(kind: str, adata: anndata.AnnData, folder: Path) -> tuple[Path, Opened]:
    if kind == "h5ad":
        return write_h5ad(adata, folder / "x.h5ad"), open_h5ad
    return write_zarr(adata, folder / "x.zarr", version=int(kind[-1])), open_zarr


@pytest.fixture
def adata() -> anndata.AnnData:
    made = random_anndata(np.random.default_rng(61), 30, 6, raw=True)
    made.X.sum_duplicates()
    made.obs = pd.DataFrame(
        {
            "number": np.arange(30),
            "category": pd.Categorical(list("abc") * 10),
            "maybe": pd.array([1, None, 3] * 10, "Int64"),
        },
        index=[f"cell {i}" for i in range(30)],
    )
    return made


KINDS = pytest.mark.parametrize("kind", ["h5ad", "zarr 2", "zarr 3"])
TOMORROW = r"encoding-type '.*' of version '9.0.0' is not known; write it again"


@KINDS
@pytest.mark.parametrize("place", ["", "X", "obs", "var", "obs/_index"])
def test_an_encoding_of_tomorrow_is_an_error(
    adata: anndata.AnnData, tmp_path: Path, place: str, kind: str
) -> None:
    path, opened = stored_as(kind, adata, tmp_path)
    with opened(path) as file:
        (file[place] if place else file).attrs["encoding-version"] = "9.0.0"
    with pytest.raises(ps.Unsupported, match=f"{TOMORROW}.*in .*{re.escape(path.name)}.*{place}"):
        ps.Dataset(path, layer="X")


@KINDS
@pytest.mark.parametrize(
    "place",
    [
        "number",
        "category",
        "category/codes",
        "category/categories",
        "maybe",
        "maybe/values",
        "maybe/mask",
    ],
)
def test_a_column_of_tomorrow_is_an_error_where_it_is_named(
    adata: anndata.AnnData,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    place: str,
    kind: str,
) -> None:
    path, opened = stored_as(kind, adata, tmp_path)
    with opened(path) as file:
        file[f"obs/{place}"].attrs["encoding-version"] = "9.0.0"
    column = place.split("/")[0]
    obs = ps.open(path).obs
    assert set(obs.to_pandas().columns) == {"soma_joinid", "obs_names", *adata.obs} - {column}
    assert list(obs.unread_columns) == [column]
    filters = [f"{column} == None", f"soma_joinid > 3 and {column} != None"]
    asked: list[Callable[[], Any]] = [
        lambda: obs.read([column]),
        lambda: obs.to_pandas(columns=["soma_joinid", column]),
        lambda: ps.Dataset(path, layer="X", obs_columns=[column]),
        lambda: ps.Dataset(path, layer="X", encoders=[ps.LabelEncoder(column)]),
        *(lambda text=text: ps.Dataset(path, layer="X", obs_query=text) for text in filters),
        *(lambda text=text: obs.read(["soma_joinid"], value_filter=text) for text in filters),
    ]
    for ask in asked:
        with pytest.raises(
            ps.Unsupported, match=f"{TOMORROW}.*in .*{re.escape(path.name)}.*obs/{place}"
        ):
            ask()
    assert main(["info", str(path)]) == 0
    assert re.search(f"  {column} is not read: {TOMORROW}", capsys.readouterr().out)


@KINDS
@pytest.mark.parametrize("place", ["layers", "raw"])
def test_a_group_of_tomorrow_is_an_error_and_x_is_read(
    adata: anndata.AnnData, tmp_path: Path, place: str, kind: str
) -> None:
    path, opened = stored_as(kind, adata, tmp_path)
    with opened(path) as file:
        file[place].attrs["encoding-version"] = "9.0.0"
    experiment = ps.open(path)
    with pytest.raises(ps.Unsupported, match=f"{TOMORROW}.*in .*{place}"):
        ps.Dataset(path, **({"layer": "counts"} if place == "layers" else {"measurement": "raw"}))
    if place == "raw":
        with pytest.raises(ps.Unsupported, match=f"{TOMORROW}.*in .*raw"):
            experiment.var("raw").to_pandas()
    assert sum(len(X) for X, _ in ps.Dataset(path, layer="X")) == 30


@pytest.mark.parametrize("name", ["encoding-version", "encoding-type"])
def test_a_root_of_tomorrow(adata: anndata.AnnData, tmp_path: Path, name: str) -> None:
    del adata.raw
    for path in (
        write_collection(tmp_path / "c.zarr", [adata, adata]),
        write_zarr(adata, tmp_path / "x.zarr"),
    ):
        assert ps.open(path).n_obs in (30, 60)
        with open_zarr(path) as group:
            group.attrs[name] = "9.0.0"
        with pytest.raises(ps.Unsupported, match=r"encoding-type .*9.0.0.* is not known"):
            ps.open(path)


def write_unread(path: Path, how: str, table: str = "obs") -> str:
    """Make the column t of a dataset one that is not read; returns why not."""
    with open_zarr(path) as group:
        if how == "tomorrow":
            group[f"{table}/t"].attrs["encoding-version"] = "9.0.0"
            return TOMORROW
        del group[f"{table}/t"]
        values = np.arange(group[f"{table}/_index"].shape[0]).astype(np.float16)
        anndata.io.write_elem(group[table], "t", values)
        return "float16|<f2"


@pytest.mark.parametrize("how", ["tomorrow", "float16"])
@pytest.mark.parametrize("first", [True, False])
def test_a_column_that_one_dataset_cannot_give(tmp_path: Path, how: str, first: bool) -> None:
    tables: list[dict[str, Any]] = [
        {"t": [1.0, 2.0, 3.0], "n": [1, 2, 3]},
        {"t": [4.0, 5.0, 6.0], "n": [4, 5, 6]},
        {"n": [7, 8, 9]},  # a filter finds no column here
    ]
    path, each = collection_of(tmp_path / "c.zarr", *(tables if first else tables[::-1]))
    for every in (path, *each.values()):
        (every / ".zmetadata").unlink(missing_ok=True)
    reason = write_unread(path / "dataset_1", how)
    named = {
        "collection": (ps.open(path), "column 't' of '.*dataset_1/obs': "),
        "join": (ps.join(each, layer="X"), "column 't' of 'number 1': "),
    }
    for experiment, where in named.values():
        obs = experiment.obs
        told = f"{where}.*({reason})"
        assert re.match(told, obs.unread_columns["t"])
        numbers = sum((table["n"] for table in (tables if first else tables[::-1])), [])
        assert obs.to_pandas()["n"].tolist() == numbers
        assert "t" not in obs.to_pandas()
        assert obs.read(["n"], value_filter="n > 3")["n"].to_numpy().tolist() == [
            n for n in numbers if n > 3
        ]
        for ask in (
            lambda obs=obs: obs.read(["t"]),
            lambda obs=obs: obs.select("n > 1 and t > 2"),
            lambda obs=obs: obs.read(["n"], value_filter="t == None"),
            lambda e=experiment: ps.Dataset(e, obs_columns=["t"]),
            lambda e=experiment: ps.Dataset(e, obs_query="t > 2"),
        ):
            with pytest.raises(ps.Unsupported, match=told):
                ask()


@pytest.mark.parametrize("how", ["tomorrow", "float16"])
def test_a_column_of_genes_that_one_dataset_cannot_give(tmp_path: Path, how: str) -> None:
    paths = {}
    for number in range(3):
        made = random_anndata(np.random.default_rng(number), 5, 4)
        made.obs = made.obs[[]]
        made.var = made.var.assign(t=[1.0, 2.0, 3.0, 4.0]) if number < 2 else made.var
        paths[f"number {number}"] = write_zarr(made, tmp_path / f"{number}.zarr")
    reason = write_unread(paths["number 1"], how, "var")
    joined = ps.join(paths, layer="X")
    told = f"column 't' of 'number 1': .*({reason})"
    assert len(joined.var().to_pandas()) == 4
    for ask in (lambda: joined.var().read(["t"]), lambda: ps.Dataset(joined, var_query="t > 2")):
        with pytest.raises(ps.Unsupported, match=told):
            ask()
