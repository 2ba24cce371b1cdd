"""Encoders of a Dataset, against the stored values."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle


def test_label_encoder(census_like: Oracle) -> None:
    encoder = ps.LabelEncoder("cell_type")
    ds = ps.Dataset(census_like.path, encoders=[encoder], obs_columns=["soma_joinid"])
    for _, obs in ds:
        assert obs["cell_type"].dtype == np.int64
        want = census_like.obs["cell_type"].iloc[obs["soma_joinid"]].tolist()
        assert encoder.inverse_transform(obs["cell_type"]).tolist() == want
    assert encoder.classes_.tolist() == sorted(census_like.obs["cell_type"].unique())


@pytest.mark.parametrize("kind", [ps.LabelEncoder, ps.MultiHotEncoder])
def test_an_encoder_that_is_not_fitted_has_no_classes(census_like: Oracle, kind: type) -> None:
    """Empty ones would make a layer of no width."""
    encoder = kind("cell_type")
    assert repr(encoder) == f"{kind.__name__}('cell_type')"
    with pytest.raises(ps.InvalidArgument, match=r"ds.encoders\['cell_type'\] has them"):
        _ = encoder.classes_
    dataset = ps.Dataset(census_like.path, encoders=[encoder])
    assert len(dataset.encoders["cell_type"].classes_) > 1
    assert encoder.classes_ is dataset.encoders["cell_type"].classes_


def test_an_encoder_serves_one_dataset(census_like: Oracle) -> None:
    encoder = ps.LabelEncoder("cell_type")
    first, second = (ps.Dataset(census_like.path, encoders=[encoder]) for _ in range(2))
    codes = first.head(50)[1]["cell_type"]
    with pytest.raises(ps.InvalidArgument, match="fitted on another Dataset"):
        second.head(50)
    assert (first.head(50)[1]["cell_type"] == codes).all()

    fixed = ps.LabelEncoder("cell_type", classes=encoder.classes_.tolist())
    for _ in range(2):
        again = ps.Dataset(census_like.path, encoders=[fixed]).head(50)
        assert (again[1]["cell_type"] == codes).all()


def test_encoders_are_shared_by_the_parts_of_a_split(census_like: Oracle) -> None:
    ds = ps.Dataset(
        census_like.path,
        encoders=[
            ps.LabelEncoder("cell_type"),
            ps.LabelEncoder(["sex", "assay"], name="both"),
            ps.LabelEncoder("tissue", classes=["lung"], name="lung", unseen=-1),
        ],
    )
    train, val = ds.random_split(0.999, 0.001)
    assert train.encoders["cell_type"] is val.encoders["cell_type"]
    for part in (train, val):
        for _, obs in part:
            rows = census_like.obs.iloc[obs["soma_joinid"]]
            both = part.encoders["both"].inverse_transform(obs["both"])
            assert both.tolist() == [
                f"{a}//{b}" for a, b in zip(rows["sex"], rows["assay"], strict=True)
            ]
            assert (obs["lung"] == np.where(rows["tissue"] == "lung", 0, -1)).all()


def test_label_encoder_of_missing_values() -> None:
    from penstock.experiment.columns import ColumnValues

    for values, classes in (
        (np.array([True, None, False], object), [False, True]),
        (np.array([2.0, np.nan, 1.0]), [1.0, 2.0]),
        (np.array(["2020-01-02", "NaT", "2020-01-01"], "datetime64[D]"), None),
    ):
        column = ColumnValues("a", values, has_missing=True)
        encoder = ps.LabelEncoder("a")
        encoder.fit({"a": column.distinct()})
        if classes is not None:
            assert encoder.classes_.tolist() == classes
        assert encoder.transform({"a": values}).tolist() == [1, -1, 0]


class TwoColumns(ps.Encoder):
    """Row-wise, two outputs a cell."""

    def transform(self, obs):
        return np.stack([obs["n_measured_vars"] * 2, obs["soma_joinid"]], axis=1)


def test_encoder_of_ones_own(census_like: Oracle) -> None:
    encoder = TwoColumns(["n_measured_vars", "soma_joinid"], name="pair")
    ds = ps.Dataset(census_like.path, encoders=[encoder])
    for _, obs in ds:
        want = census_like.obs["n_measured_vars"].to_numpy()[obs["soma_joinid"]] * 2
        np.testing.assert_array_equal(obs["pair"], np.stack([want, obs["soma_joinid"]], axis=1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.LabelEncoder(5), "columns of an encoder must be a list of names, got 5"),
        (lambda: ps.LabelEncoder([]), "needs the names of obs columns"),
        (lambda: ps.LabelEncoder("a", name=5), "name of an encoder must be a string, got 5"),
        (
            lambda: ps.LabelEncoder("a", classes=5),
            "classes must be a list of values or a dict of value to code, got 5",
        ),
        (
            lambda: ps.LabelEncoder("a", classes="ab"),
            "classes must be a list of values or a dict of value to code, got 'ab'",
        ),
        (lambda: ps.LabelEncoder("a", classes=[[1]]), "classes must be numbers, strings"),
        (lambda: ps.LabelEncoder("a", classes=[1, 1]), "twice"),
    ],
)
def test_bad_encoders(make, message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        make()


class WrongLength(ps.Encoder):
    def transform(self, obs):
        return next(iter(obs.values()))[:-1]


@pytest.mark.parametrize("is_elementwise", [False, True])
@pytest.mark.parametrize("column", ["cell_type", "soma_joinid"])
def test_an_encoder_must_give_one_entry_a_row(
    soma_small: Oracle, column: str, is_elementwise: bool
) -> None:
    encoder = WrongLength(column, name="short")
    encoder.is_elementwise = is_elementwise
    ds = ps.Dataset(soma_small.path, encoders=[encoder])
    with pytest.raises(ps.InvalidArgument, match=r"one entry a row, 'short' gave shape \(\d+,\)"):
        next(iter(ds))
