"""obs, var and filters of several experiments as one; pandas is the oracle."""

from __future__ import annotations

import ast
import warnings

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joined_experiments import GENES, expected, make, paths, rows_of, write, write_three


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory):
    return write_three(tmp_path_factory.mktemp("joined"))


def test_obs_is_that_of_pandas(three) -> None:
    ds = ps.Dataset(paths(three))
    frame = ds.obs.to_pandas()
    whole = anndata.concat(
        {name: each for name, (_, each) in three.items()}, join="outer", label="source"
    ).obs
    assert frame["source"].astype(str).tolist() == whole["source"].tolist()
    assert frame["cell_type"].tolist() == whole["cell_type"].tolist()
    np.testing.assert_array_equal(frame["n"], whole["n"].astype(float))
    for name in ("ok", "smoker"):
        theirs = [None if pd.isna(value) else bool(value) for value in whole[name]]
        assert frame[name].tolist() == theirs
    assert len(ds.obs) == 1_200
    some = ds.obs.to_pandas(["cell_type", "source"], "cell_type == 'NK'")
    assert len(some) == (whole["cell_type"] == "NK").sum()


def test_queries_go_to_each_experiment(three) -> None:
    whole = expected(three, "inner")
    query = ps.AxisQuery(value_filter="cell_type == 'T cell'", coords=(slice(0, 249),))
    ds = ps.Dataset(paths(three), obs_query=query, var_query="symbol in ['g040', 'g050']")
    rows = (
        whole.obs.assign(row=whole.obs.groupby("source", observed=True).cumcount())
        .reset_index()
        .query("cell_type == 'T cell' and row < 250")
    )
    assert ds.n_obs == len(rows)
    assert ds.var_names.tolist() == ["G040", "G050"]
    assert ds.var.to_pandas()["symbol"].tolist() == ["g040", "g050"]
    X, obs = ds.head(ds.n_obs)
    np.testing.assert_array_equal(
        X, whole[rows_of(whole, obs), ["G040", "G050"]].X.toarray().astype(np.float32)
    )


comparisons = st.one_of(
    st.builds(
        "{} {} {!r}".format,
        st.sampled_from(["source", "cell_type"]),
        st.sampled_from(["==", "!="]),
        st.sampled_from(["blood", "lung", "gut", "NK", "T cell", "elsewhere"]),
    ),
    st.builds(
        "{} {} {!r}".format,
        st.sampled_from(["source", "cell_type"]),
        st.sampled_from(["in", "not in"]),
        st.lists(st.sampled_from(["blood", "gut", "NK", "nowhere"]), min_size=1, max_size=3),
    ),
    st.builds(
        "n {} {}".format,
        st.sampled_from(["<", ">=", "=="]),
        st.integers(min_value=0, max_value=500),
    ),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["smoker", "ok"]),
        st.sampled_from(["==", "!="]),
        st.booleans(),
    ),
    st.builds(
        "{} {} None".format,
        st.sampled_from(["source", "smoker", "ok", "n"]),
        st.sampled_from(["==", "!="]),
    ),
)
filters = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=6,
)


def kept_by_pandas(frame: pd.DataFrame, text: str) -> np.ndarray:
    """As tiledbsoma has it: a missing value is in no comparison, also not in a negated one."""

    def walk(node: ast.expr, negate: bool) -> np.ndarray:
        if isinstance(node, ast.UnaryOp):
            return walk(node.operand, not negate)
        if isinstance(node, ast.BoolOp):
            both = isinstance(node.op, ast.And) != negate
            parts = [walk(value, negate) for value in node.values]
            return np.logical_and.reduce(parts) if both else np.logical_or.reduce(parts)
        assert isinstance(node, ast.Compare)
        column = frame[node.left.id]
        value = ast.literal_eval(node.comparators[0])
        there = column.notna().to_numpy()
        if value is None:
            return there if isinstance(node.ops[0], ast.NotEq) != negate else ~there
        holds = {
            ast.Eq: lambda cell: cell == value,
            ast.NotEq: lambda cell: cell != value,
            ast.Lt: lambda cell: cell < value,
            ast.GtE: lambda cell: cell >= value,
            ast.In: lambda cell: cell in value,
            ast.NotIn: lambda cell: cell not in value,
        }[type(node.ops[0])]
        return np.array(
            [
                present and bool(holds(cell)) != negate
                for present, cell in zip(there, column, strict=True)
            ]
        )

    return walk(ast.parse(text, mode="eval").body, False)


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
@given(filters)
def test_filters_are_those_of_the_joined_obs(three, text: str) -> None:
    """They may name the source, and columns that some experiments lack."""
    whole = anndata.concat(
        {name: each for name, (_, each) in three.items()}, join="outer", label="source"
    ).obs
    kept = np.flatnonzero(kept_by_pandas(whole, text))
    joined = ps.join(paths(three))
    read = joined.obs.to_pandas(["obs_id", "source"], text)
    assert read["obs_id"].tolist() == whole.index[kept].tolist()
    assert read["source"].tolist() == whole["source"].iloc[kept].tolist()
    ds = ps.Dataset(joined, obs_query=ps.AxisQuery(value_filter=text, coords=(slice(0, 99),)))
    first = whole.groupby("source", observed=True).cumcount().to_numpy()[kept] < 100
    assert ds.n_obs == first.sum()


def test_filters_that_make_no_sense(three, tmp_path) -> None:
    joined = ps.join(paths(three))
    for text, message in [
        ("source == 3", "expected a string in quotes for column 'source'"),
        ("source < 'gut'", "the categories of column 'source' have no order"),
        ("source", "expected"),
        ("smoker == 'yes'", "expected True or False for column 'smoker'"),
        ("source == 'gut' and n == 'x'", "expected a number for column 'n'"),
    ]:
        with pytest.raises(ps.InvalidArgument, match=message):
            joined.obs.to_pandas(value_filter=text)
    other = write(tmp_path / "other", make(20, GENES[:50], 9, "float32", n=["x"] * 20))
    mixed = ps.join({**paths(three), "other": other})
    with pytest.raises(
        ps.InvalidArgument, match=r"expected a string in quotes for column 'n'.*other"
    ):
        mixed.obs.select("n == 3")


def test_filters_of_var_may_name_what_only_some_have(three, tmp_path) -> None:
    data = make(20, GENES[100:], 9, "float32")
    data.var["chromosome"] = pd.Categorical(["X", "Y"] * 25)
    other = write(tmp_path / "other", data)
    joined = ps.join({**paths(three), "other": other}, genes="outer")
    there = joined.var().to_pandas(value_filter="chromosome == 'X'")
    assert sorted(there["var_id"]) == GENES[100::2]
    assert set(there["chromosome"]) == {"X"}


def test_var_has_the_values_of_the_first_that_has_the_gene(three) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        joined = ps.join(paths(three), genes=["G149", "G000", "G999", "G050"])
    var = ps.Dataset(joined).var.to_pandas()
    assert var["symbol"].tolist() == ["g149", "g000", None, "g050"]
    lengths = var["length"].tolist()
    assert lengths[:2] == [120, 120]
    assert np.isnan(lengths[2])
    assert lengths[3] == 120


def test_encoders_and_splits_of_all_cells(three) -> None:
    encoders = [ps.LabelEncoder("cell_type"), ps.BatchEncoder(["source", "cell_type"])]
    ds = ps.Dataset(paths(three), encoders=encoders)
    train, val = ds.random_split(0.5, 0.5, stratify="source")
    assert {name: int(part) for name, part in ds.obs.to_pandas(columns=["source"])["source"].value_counts().items()} == {
        "gut": 500, "blood": 400, "lung": 300,
    }  # fmt: skip
    kept = train.obs.to_pandas(columns=["source"])["source"].value_counts()
    assert dict(kept) == {"gut": 250, "blood": 200, "lung": 150}
    assert train.n_obs + val.n_obs == 1_200
    whole = expected(three, "inner")
    for _, obs in val:
        names = whole.obs["cell_type"].to_numpy()[rows_of(whole, obs)]
        assert (
            ds.encoders["cell_type"].inverse_transform(obs["cell_type"]).tolist() == names.tolist()
        )
    with_ids = ps.Dataset(paths(three), encoders=[ps.NumericEncoder("soma_joinid", "id")])
    for _, obs in with_ids:
        np.testing.assert_array_equal(obs["id"], obs["soma_joinid"])
