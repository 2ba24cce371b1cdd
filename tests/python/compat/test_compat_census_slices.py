"""Slices and genes of the Census by penstock.compat.census, against tiledbsoma and scanpy."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scanpy as sc
import tiledbsoma
from conftest import Oracle
from penstock.compat.census import get_anndata, get_obs, get_var
from penstock.compat.census.pp import get_highly_variable_genes, highly_variable_genes
from scanpy_before import adding_up_as_before

FILTERS = ("cell_type != 'macrophage'", "sex == 'female' and nnz > 100", None)


@pytest.fixture(scope="module")
def census(census_like: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Census of one organism."""
    path = tmp_path_factory.mktemp("census") / "c"
    with tiledbsoma.Collection.create(str(path)) as made:
        made.add_new_collection("census_data").close()
    data = path / "census_data"
    shutil.copytree(census_like.path, data / "homo_sapiens")
    with (
        tiledbsoma.open(str(data), "w") as opened,
        tiledbsoma.open(str(data / "homo_sapiens")) as experiment,
    ):
        opened.set("homo_sapiens", experiment, use_relative_uri=True)
    with tiledbsoma.open(str(path)) as opened:
        yield opened


def by_tiledbsoma(census: Any, obs: Any, var: Any, **arguments) -> anndata.AnnData:
    experiment = census["census_data"]["homo_sapiens"]
    with experiment.axis_query("RNA", obs_query=obs, var_query=var) as query:
        return query.to_anndata(X_name="raw", **arguments)


@pytest.mark.parametrize("seed", range(8))
def test_a_slice_is_that_of_tiledbsoma(census, seed: int) -> None:
    random = np.random.default_rng(seed)
    first, last = sorted(random.integers(0, 6000, 2).tolist())
    obs_coords: Any = (None, slice(first, last), random.permutation(6000)[:300].tolist())[seed % 3]
    var_coords: Any = (slice(0, 199), [3, 1, 77, 5], 8)[seed % 3]
    obs_filter = FILTERS[seed % 3]
    columns = (None, {"obs": ["sex", "cell_type"], "var": ["feature_id"]})[seed % 2]
    expected = by_tiledbsoma(
        census,
        tiledbsoma.AxisQuery(
            value_filter=obs_filter, coords=(slice(None) if obs_coords is None else obs_coords,)
        ),
        tiledbsoma.AxisQuery(coords=(var_coords,)),
        column_names=columns,
    )
    got = get_anndata(
        census, "Homo sapiens", obs_value_filter=obs_filter, obs_coords=obs_coords,
        var_coords=var_coords, column_names=columns,
    )  # fmt: skip
    assert got.shape == expected.shape
    assert got.n_obs > 0
    assert (got.X != expected.X).nnz == 0
    assert got.X.dtype == expected.X.dtype
    # tiledbsoma adds the columns of the filter to those that were asked for.
    pd.testing.assert_frame_equal(got.obs, expected.obs)
    pd.testing.assert_frame_equal(got.var, expected.var)


@pytest.mark.parametrize("seed", range(12))
def test_obs_and_var_are_those_of_tiledbsoma(census, census_like: Oracle, seed: int) -> None:
    random = np.random.default_rng(seed)
    experiment = census["census_data"]["homo_sapiens"]
    for name, get, table, texts in (
        ("obs", get_obs, experiment.obs, ["sex == 'male'", "nnz > 90", "cell_type != 'B cell'"]),
        ("var", get_var, experiment.ms["RNA"].var, ["nnz > 3", "feature_length > 900"]),
    ):
        value_filter = " and ".join(random.permutation(texts)[: random.integers(0, 4)]) or None
        some = random.permutation([each for each in table.schema.names if each != "soma_joinid"])
        columns = None if seed % 3 == 0 else some[: random.integers(1, 4)].tolist()
        coords = slice(*sorted(random.integers(0, table.count, 2).tolist())) if seed % 2 else None
        read = {} if coords is None else {"coords": (coords,)}
        expected = (
            table.read(value_filter=value_filter, column_names=columns, **read).concat().to_pandas()
        )
        for opened in (census, ps.open(census_like.path)):
            got = get(
                opened, "homo_sapiens", value_filter=value_filter, coords=coords,
                column_names=columns,
            )  # fmt: skip
            pd.testing.assert_frame_equal(got, expected, check_dtype=False, obj=name)


def test_the_arguments_of_a_slice(census, census_like: Oracle) -> None:
    small: dict[str, Any] = {"obs_coords": slice(0, 9), "var_coords": slice(0, 4)}
    named = get_anndata(census, "homo_sapiens", obs_column_names=["sex"], **small)
    assert list(named.obs) == ["sex"]
    layered = get_anndata(census, "homo_sapiens", X_layers=["raw"], **small)
    assert (layered.layers["raw"] != layered.X).nnz == 0
    opened = get_anndata(ps.open(census_like.path), "any", **small)
    assert (opened.X != layered.X).nnz == 0
    assert get_anndata(census, "homo_sapiens", obsm_layers=(), **small).shape == (10, 5)
    with pytest.raises(ps.Unsupported, match=r"obsm_layers is not read by penstock: .*tiledbsoma"):
        get_anndata(census, "homo_sapiens", obsm_layers=["scvi"], **small)
    with pytest.raises(TypeError, match="unexpected keyword argument 'layer'"):
        get_anndata(census, "homo_sapiens", layer="raw")
    with pytest.raises(ValueError, match="no organism 'Mus musculus', but homo_sapiens"):
        get_anndata(census, "Mus musculus")
    with pytest.raises(KeyError, match="nope"):
        get_anndata(census, "homo_sapiens", obs_column_names=["nope"], **small)
    with pytest.raises(ValueError, match="keys obs and var"):
        get_anndata(census, "homo_sapiens", column_names={"X": ["a"]}, **small)


def test_genes_of_a_query_are_those_of_scanpy(census) -> None:
    experiment = census["census_data"]["homo_sapiens"]
    obs_filter = "is_primary_data == True"
    with experiment.axis_query(
        "RNA",
        obs_query=tiledbsoma.AxisQuery(value_filter=obs_filter),
        var_query=tiledbsoma.AxisQuery(coords=(slice(0, 599),)),
    ) as query:
        got = highly_variable_genes(query, n_top_genes=80, batch_key=["sex", "is_primary_data"])
        cells = query.to_anndata(X_name="raw")
        alone = highly_variable_genes(query, n_top_genes=80)
        wide = highly_variable_genes(query, n_top_genes=80, span=0.6)
    cells.obs["sex"] = cells.obs["sex"].astype("category").cat.remove_unused_categories()
    cells.X = cells.X.astype(np.float64)
    for found, key, span in ((got, "sex", 0.3), (alone, None, 0.3), (wide, None, 0.6)):
        with adding_up_as_before():
            expected = sc.pp.highly_variable_genes(
                cells, flavor="seurat_v3", n_top_genes=80, batch_key=key, span=span, inplace=False
            )
        assert found.index.name == "soma_joinid"
        assert found.index.tolist() == cells.var["soma_joinid"].tolist()
        counted = {"highly_variable_nbatches"} if key is None else set()
        assert set(found) == set(expected) - counted - {"gene_name"}
        np.testing.assert_allclose(found["means"], expected["means"], 1e-9)
        np.testing.assert_allclose(found["variances_norm"], expected["variances_norm"], 1e-9)
        assert (found["highly_variable"].to_numpy() == expected["highly_variable"]).all()
    again = get_highly_variable_genes(
        census, "Homo sapiens", obs_value_filter=obs_filter, var_coords=slice(0, 599),
        n_top_genes=80, batch_key=["sex", "is_primary_data"],
    )  # fmt: skip
    pd.testing.assert_frame_equal(again, got)
    by_function = get_highly_variable_genes(
        census, "Homo sapiens", obs_value_filter=obs_filter, var_coords=slice(0, 599),
        n_top_genes=80, batch_key="sex", batch_key_func=lambda cell: str(cell.sex)[:3],
    )  # fmt: skip
    pd.testing.assert_frame_equal(by_function, got)
    some: dict[str, Any] = {"var_coords": slice(0, 599), "n_top_genes": 80, "span": 0.6}
    of_some = get_highly_variable_genes(
        census, "Homo sapiens", obs_value_filter=obs_filter, obs_coords=slice(0, 2_999), **some
    )
    first = cells[cells.obs["soma_joinid"] < 3_000]
    with adding_up_as_before():
        expected = sc.pp.highly_variable_genes(
            first.copy(), flavor="seurat_v3", n_top_genes=80, span=0.6, inplace=False
        )
    np.testing.assert_allclose(of_some["variances_norm"], expected["variances_norm"], 1e-9)


def test_the_most_that_a_mean_is_moved(census, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the fit, which uses it only when one fails."""
    import penstock.compat.census.pp as pp

    found: list[float] = []
    own = pp.variable_genes

    def noting(*arguments: Any, **named: Any) -> Any:
        found.append(named["most_jitter"])
        return own(*arguments, **named)

    monkeypatch.setattr(pp, "variable_genes", noting)
    small: dict[str, Any] = {"obs_coords": slice(0, 400), "var_coords": slice(0, 199)}
    get_highly_variable_genes(census, "homo_sapiens", n_top_genes=9, max_loess_jitter=0.5, **small)
    assert found == [0.5]


def test_batches_of_one_cell_say_nothing(census) -> None:
    """The Census's own function takes them, where scanpy's fails."""
    coords = slice(0, 1499)
    wanted: dict[str, Any] = {"obs_coords": coords, "var_coords": slice(0, 399), "n_top_genes": 50}
    without = get_highly_variable_genes(census, "Homo sapiens", **wanted)
    one_apart = get_highly_variable_genes(
        census, "Homo sapiens", batch_key="soma_joinid",
        batch_key_func=lambda cell: cell.soma_joinid == 700, **wanted,
    )  # fmt: skip
    assert one_apart["highly_variable"].sum() == 50
    assert one_apart["highly_variable_nbatches"].max() == 1
    same = (one_apart["highly_variable"] == without["highly_variable"]).sum()
    assert same > 390  # but for that cell


def test_what_genes_refuse(census) -> None:
    experiment = census["census_data"]["homo_sapiens"]
    for arguments, error, says in (
        ({"flavor": "seurat"}, ValueError, 'flavor must be "seurat_v3"'),
        ({"n_top_genes": 0}, ValueError, "n_top_genes must be 1 or more"),
        ({"batch_key": "nope"}, KeyError, "nope"),
        ({"layer": "nope"}, KeyError, "nope"),
    ):
        with pytest.raises(error, match=says):
            highly_variable_genes(experiment, **arguments)
    assert list(inspect.signature(highly_variable_genes).parameters) == [
        "query", "n_top_genes", "layer", "flavor", "span", "batch_key", "max_loess_jitter",
        "batch_key_func",
    ]  # fmt: skip
