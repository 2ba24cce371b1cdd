"""BatchEncoder: combinations of obs columns, against pandas."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import penstock as ps
import pyarrow as pa
from conftest import Oracle
from hypothesis import given
from hypothesis import strategies as st
from penstock.experiment.columns import ColumnValues
from penstock.experiment.factorize import unique_rows
from soma_tables import dictionary, write_experiment


def labels_of(ds: ps.Dataset, oracle: Oracle, columns: list[str]) -> tuple[list[str], np.ndarray]:
    """(labels by pandas, codes by the encoder) of the cells in the order of an epoch."""
    joinids, codes = [], []
    for _, obs in ds:
        joinids.append(obs["soma_joinid"])
        codes.append(obs["batch"])
    cells = oracle.obs.set_index("soma_joinid").loc[np.concatenate(joinids)]
    labels = cells[columns].astype(str).agg("//".join, axis=1).tolist()
    return labels, np.concatenate(codes)


def test_classes_are_the_combinations_that_occur(census_like: Oracle) -> None:
    columns = ["dataset_id", "assay", "donor_id"]
    ds = ps.Dataset(census_like.path, encoders=[ps.BatchEncoder(columns)])
    labels, codes = labels_of(ds, census_like, columns)
    classes = ds.encoders["batch"].classes_
    possible = np.prod([census_like.obs[column].nunique() for column in columns])
    assert sorted(classes) == sorted(set(labels))
    assert len(classes) < possible
    assert codes.dtype == np.int64
    assert classes[codes].tolist() == labels


def test_one_column_and_given_classes(census_like: Oracle) -> None:
    (dataset,) = census_like.obs["dataset_id"].unique()[:1]
    encoder = ps.BatchEncoder("dataset_id", "dataset", classes=["another", dataset], unseen=-1)
    ds = ps.Dataset(census_like.path, encoders=[encoder], obs_columns=["dataset_id"])
    for _, obs in ds:
        np.testing.assert_array_equal(obs["dataset"], np.where(obs["dataset_id"] == dataset, 1, -1))


def test_a_cell_that_misses_a_value_is_in_no_class(tmp_path) -> None:
    donor = ["a", None, "b", "a", "b", "a"]
    score = pa.array([1.5, 1.5, None, 0.5, 0.5, 1.5], pa.float64())
    schema = {
        "soma_joinid": pa.array(range(6), pa.int64()),
        "donor": dictionary(donor, ["b", "c", "a"], pa.large_string(), False),
        "score": score,
        "day": pa.array([1, 1, 1, 2, 2, 2], pa.int32()),
    }
    table = pa.table(
        list(schema.values()),
        schema=pa.schema([pa.field(name, array.type) for name, array in schema.items()]),
    )
    uri = write_experiment(tmp_path / "exp", table)
    obs = ps.open(uri).obs
    columns = obs.read(["donor", "score", "day"])
    found = unique_rows(columns)
    assert list(zip(*(found[name].tolist() for name in found), strict=True)) == [
        ("a", 0.5, 2),
        ("a", 1.5, 1),
        ("a", 1.5, 2),
        ("b", 0.5, 2),
    ]
    encoder = ps.BatchEncoder(["donor", "score", "day"])
    encoder.fit(found)
    assert encoder.classes_.tolist() == ["a//0.5//2", "a//1.5//1", "a//1.5//2", "b//0.5//2"]
    codes = encoder.transform({name: values.to_numpy() for name, values in columns.items()})
    assert codes.tolist() == [1, -1, -1, 0, 3, 2]
    assert encoder.inverse_transform(codes).tolist()[:2] == ["a//1.5//1", None]


def test_a_missing_value_is_not_the_text_for_it() -> None:
    encoder = ps.BatchEncoder(["donor", "score"])
    encoder.fit({"donor": np.array(["None", "a"], object), "score": np.array([1.0, 2.0])})
    obs = {"donor": np.array([None, "None", "a"], object), "score": np.array([1.0, 1.0, np.nan])}
    assert encoder.transform(obs).tolist() == [-1, 0, -1]


def test_repr() -> None:
    assert repr(ps.BatchEncoder(["a", "b"])) == "BatchEncoder('a', 'b')"


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=40))
def test_combinations_are_those_of_pandas(rows: list[tuple[int, int, int]]) -> None:
    """Two coded columns (the last category is a missing value) and one of numbers with NaN."""
    names = np.array(["c", "a", "b", None], object)
    numbers = np.array([2.0, np.nan, -1.0, 7.0])
    codes = np.array(rows, np.uint8).reshape(-1, 3)
    columns = {
        "first": ColumnValues("first", names, codes[:, 0].copy(), has_missing=True),
        "second": ColumnValues("second", numbers.take(codes[:, 1])),
        "third": ColumnValues("third", names[:3], codes[:, 2] % 3),
    }
    frame = pd.DataFrame({name: column.to_numpy() for name, column in columns.items()})
    expected = frame.dropna().drop_duplicates().sort_values(list(columns))
    found = unique_rows(columns)
    assert list(found) == list(columns)
    for name in columns:
        assert found[name].tolist() == expected[name].tolist()


def test_no_column_no_combination() -> None:
    assert unique_rows({}) == {}
    assert list(itertools.chain(*unique_rows({"a": ColumnValues("a", np.empty(0))}).values())) == []
