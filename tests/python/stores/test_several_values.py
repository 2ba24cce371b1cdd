"""Columns whose cells may have several values, as the Census writes diseases since schema 2.4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import tiledbsoma
import tiledbsoma.io

DISEASES = ["COVID-19", "COVID-19 (mild)", "asthma", "Crohn's disease", 'said "well"', "tab\there"]


@pytest.fixture(scope="module", params=[0, 1])
def cells(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """400 cells of which each has up to three diseases, as an enumeration or as plain text."""
    random = np.random.default_rng(request.param)
    texts = [
        " || ".join(random.choice(DISEASES, random.integers(1, 4), replace=False))
        for _ in range(400)
    ]
    obs = pd.DataFrame({"disease": texts, "odd name": texts}, index=[f"c{i}" for i in range(400)])
    obs["n"] = np.arange(400)
    if request.param == 0:
        obs["disease"] = obs["disease"].astype("category")
    path = tmp_path_factory.mktemp("several") / "e"
    X = sp.random(400, 30, 0.2, "csr", np.float32, random_state=request.param)
    tiledbsoma.io.from_anndata(str(path), anndata.AnnData(X, obs), "RNA", X_layer_name="raw")
    return path, obs


@pytest.mark.parametrize("column", ["disease", "odd name"])
def test_cells_that_have_a_value(cells: tuple[Path, pd.DataFrame], column: str) -> None:
    path, obs = cells
    exp = ps.open(path)
    for value in DISEASES:
        has = np.array([value in text.split(" || ") for text in obs[column]])
        assert 50 < has.sum() < 350
        text = exp.obs.contains(column, value)
        assert exp.obs.select(text).to_numpy().tolist() == np.flatnonzero(has).tolist()
        ds = ps.Dataset(exp, obs_query=f"{text} and n < 300")
        assert len(ds.obs) == has[:300].sum()
        if column == "disease":
            with tiledbsoma.open(str(path / "obs")) as table:
                theirs = table.read(value_filter=text, column_names=["soma_joinid"]).concat()
            assert theirs["soma_joinid"].to_pylist() == np.flatnonzero(has).tolist()


def test_batches_of_such_cells(cells: tuple[Path, pd.DataFrame]) -> None:
    path, obs = cells
    ds = ps.Dataset(path, encoders=[ps.MultiHotEncoder("disease")], batch_size=64)
    classes = ds.encoders["disease"].classes_.tolist()
    assert classes == sorted(DISEASES)
    seen = 0
    for _, batch in ds:
        rows = obs.iloc[batch["soma_joinid"]]
        expected = [[name in text.split(" || ") for name in classes] for text in rows["disease"]]
        assert (batch["disease"] == np.array(expected)).all()
        assert batch["disease"].dtype == np.float32
        seen += len(rows)
    assert seen == 400


def test_what_contains_refuses(cells: tuple[Path, pd.DataFrame]) -> None:
    exp = ps.open(cells[0])
    names: Any = exp.obs
    for arguments, error, says in (
        (
            ("disease", "covid"),
            ps.InvalidArgument,
            "no row has 'covid' in 'disease', but 'COVID-19', ",
        ),
        (("disease", "COVID-19 || asthma"), ps.InvalidArgument, "no row has"),
        (("n", "1"), ps.InvalidArgument, "needs a column of text, 'n' has 0"),
        (("nope", "1"), ps.NotFound, "nope"),
        (("disease", 3), ps.InvalidArgument, "value must be a string"),
    ):
        with pytest.raises(error, match=says):
            names.contains(*arguments)
    with pytest.raises(ps.InvalidArgument, match="separator must have a character"):
        names.contains("disease", "asthma", separator="")
    with pytest.raises(ps.InvalidArgument, match="separator must have a character"):
        ps.MultiHotEncoder("disease", separator="")
