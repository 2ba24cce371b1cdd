"""obs and var as people use them, beside pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module", params=["soma", "h5ad"])
def tables(request: pytest.FixtureRequest, folder: Path) -> tuple[Any, pd.DataFrame]:
    """obs of penstock, and the same table as anndata reads it."""
    theirs = anndata.read_h5ad(ps.example("census-like", format="h5ad", folder=folder)).obs
    ours = ps.open(ps.example("census-like", format=request.param, folder=folder)).obs
    return ours, theirs.reset_index(drop=True)


def test_a_column_is_a_series(tables: tuple[Any, pd.DataFrame]) -> None:
    obs, theirs = tables
    for name in theirs:
        assert obs[name].tolist() == theirs[name].tolist(), name
        assert obs[name].name == name
    assert obs.cell_type.tolist() == theirs["cell_type"].tolist()
    frame = obs[["sex", "raw_sum"]]
    assert list(frame) == ["sex", "raw_sum"]
    assert frame["raw_sum"].tolist() == theirs["raw_sum"].tolist()
    assert obs[[]].shape == (6000, 0)


def test_head_is_that_of_pandas(tables: tuple[Any, pd.DataFrame]) -> None:
    obs, theirs = tables
    for n in (0, 1, 5, 7000):
        head = obs.head(n)
        assert len(head) == len(theirs.head(n))
        for name in theirs:
            assert head[name].tolist() == theirs[name].head(n).tolist()
    with pytest.raises(ps.InvalidArgument, match="n must be 0 or more"):
        obs.head(-1)


@pytest.mark.parametrize("columns", ["cell_type", "n_measured_vars", ["sex", "tissue_general"]])
@pytest.mark.parametrize("normalize", [False, True])
def test_value_counts_are_those_of_pandas(
    tables: tuple[Any, pd.DataFrame], columns: Any, normalize: bool
) -> None:
    obs, theirs = tables
    part = obs[obs["cell_type"] == "T cell"]
    frame = theirs[theirs["cell_type"] == "T cell"].astype(object)
    expected = frame[columns].value_counts(normalize=normalize)
    found = part.value_counts(columns, normalize=normalize)
    assert found.to_dict() == expected.to_dict()
    assert found.is_monotonic_decreasing
    if isinstance(columns, str):
        assert part.unique(columns).tolist() == sorted(frame[columns].unique().tolist())


def test_categories_of_a_part_are_those_of_an_anndata(folder: Path) -> None:
    path = ps.example("census-like", format="h5ad", folder=folder)
    adata = anndata.read_h5ad(path)
    mask = (adata.obs["tissue_general"] == "lung").to_numpy()
    view, ds = adata[mask].obs, ps.Dataset(path, obs_query="tissue_general == 'lung'")
    for obs in (ds.obs, ps.Dataset(path)[mask].obs, ps.open(path).obs[mask]):
        for name in ("cell_type", "donor_id", "sex"):
            counts = obs[name].value_counts()
            assert counts.to_dict() == view[name].value_counts().to_dict()
            assert set(obs[name].cat.categories) == set(view[name].cat.categories)
            assert set(obs[[name]][name].cat.categories) == set(view[name].cat.categories)
    assert len(adata.obs["cell_type"].cat.categories) > len(view["cell_type"].cat.categories)
    assert set(ps.Dataset(path).obs["cell_type"].cat.categories) == set(
        adata.obs["cell_type"].cat.categories
    )


def test_missing_values_count_if_asked(folder: Path) -> None:
    adata = anndata.AnnData(np.eye(4, dtype=np.float32))
    adata.obs["kind"] = pd.Categorical(["a", None, "a", "b"], categories=["unused", "b", "a"])
    obs = ps.open(adata).obs
    assert obs.value_counts("kind").to_dict() == {"a": 2, "b": 1}
    assert obs.value_counts("kind", dropna=False).sum() == 4
    assert obs.unique("kind").tolist() == ["a", "b"]


@given(data=st.data())
def test_parts_of_the_rows_are_those_of_pandas(
    tables: tuple[Any, pd.DataFrame], data: st.DataObject
) -> None:
    obs, theirs = tables
    for _ in range(2):  # a part of a part
        n = len(theirs)
        ends = st.none() | st.integers(-n - 3, n + 3)
        if data.draw(st.booleans()):
            key: Any = slice(
                data.draw(ends), data.draw(ends), data.draw(st.none() | st.integers(1, 700))
            )
            theirs = theirs[key]
        else:
            key = np.random.default_rng(data.draw(st.integers(0, 99))).random(n) < 0.1
            theirs = theirs[key]
            # An empty list is a list of no columns, as in pandas.
            forms = [np.asarray, pd.Series, *[list] * bool(n)]
            key = data.draw(st.sampled_from(forms))(key)
        obs = obs[key]
        assert len(obs) == len(theirs)
        assert obs["soma_joinid"].tolist() == theirs["soma_joinid"].tolist()


def test_var_in_the_order_of_x(folder: Path) -> None:
    path = ps.example("census-like", folder=folder)
    stored = ps.open(path).var().to_pandas()
    chosen = stored["feature_id"].to_numpy()[[7, 3, 900, 12]]
    var = ps.Dataset(path, transforms=[ps.SelectGenes(chosen)]).var
    assert var["feature_id"].tolist() == chosen.tolist()
    assert var[1:3]["soma_joinid"].tolist() == [3, 900]
    assert var.head(2)["soma_joinid"].tolist() == [7, 3]
    assert var[var["soma_joinid"] > 5]["soma_joinid"].tolist() == [7, 900, 12]


def test_nothing_but_a_name_is_a_column(tables: tuple[Any, pd.DataFrame]) -> None:
    obs, _ = tables
    assert "cell_type" in obs
    assert "cell_typ" not in obs
    assert list(obs) == obs.columns
    assert "cell_type" in dir(obs)
    assert "head" in dir(obs)
    with pytest.raises(ps.NotFound, match="did you mean 'cell_type'"):
        obs["cell_typ"]
    with pytest.raises(AttributeError, match="did you mean 'cell_type'"):
        _ = obs.cell_typ
    with pytest.raises(AttributeError, match=r"obs\.to_pandas\(\)\.groupby"):
        obs.groupby("sex")
    for function in (pd.DataFrame, np.asarray):
        with pytest.raises(TypeError, match=r"obs\.to_pandas\(\) reads it"):
            function(obs)
    assert not hasattr(obs, "_private")
    for key, message in (
        (3, "the name of a column"),
        ([1, 2], "the name of a column"),
        (np.ones(7, bool), "a bool for each of the 6,000 rows, got 7"),
        (slice(None, None, -1), "a step above 0"),
    ):
        with pytest.raises(ps.InvalidArgument, match=message):
            obs[key]


def test_the_html_shows_values_of_a_local_table(tables: tuple[Any, pd.DataFrame]) -> None:
    obs, theirs = tables
    html = obs._repr_html_()
    assert ", ".join(theirs["cell_type"].head(3)) in html
    assert "first values" in html
    assert "6,000 rows" in html


def test_the_html_of_a_damaged_table_shows_its_types(tmp_path: Path) -> None:
    path = Path(ps.example("census-like", folder=tmp_path))
    obs = ps.open(path).obs
    for file in (path / "obs" / "__fragments").rglob("*.tdb"):
        if not file.name.startswith("__"):
            file.write_bytes(b"damaged")
    with pytest.raises(ps.PenstockError):
        obs.head()
    html = obs._repr_html_()
    assert "cell_type" in html
    assert "first values" not in html
