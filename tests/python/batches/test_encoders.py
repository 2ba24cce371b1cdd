"""Encoders against scikit-learn and pandas: every cell encoded once, for random columns."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pandas as pd
import penstock as ps
import pytest
from conftest import Oracle
from hypothesis import given
from hypothesis import strategies as st
from penstock.batches.obs import ObsBatches
from penstock.encoders import encoded_rows
from penstock.experiment import factorize
from penstock.experiment.columns import ColumnValues, objects

sklearn = pytest.importorskip("sklearn.preprocessing")

NAMES = ["B cell", "T cell", "", "NK", "ß//", "T cell//x"]


class Obs:
    """A table of columns in memory, as `ObsBatches` reads one."""

    def __init__(self, *columns: ColumnValues) -> None:
        self.columns = {column.name: column for column in columns}

    def read(self, names):
        return {name: self.columns[name] for name in names}

    def own_joinids(self, ids):
        return ids


class Batch:
    def __init__(self, positions) -> None:
        self._positions = np.asarray(positions, np.int64)

    def positions(self):
        return self._positions


def encode(encoder: ps.Encoder, *columns: ColumnValues, positions=None):
    """Output of an encoder for all rows, or those at `positions`."""
    if positions is None:
        positions = np.arange(len(columns[0]))
    return ObsBatches(Obs(*columns), [], [encoder], "arrays").take(Batch(positions))[encoder.name]


def coded(name: str, codes, values=NAMES, missing: bool = True) -> ColumnValues:
    """A column of strings; the code after the last is a missing value."""
    values = objects([*values, None] if missing else list(values))
    return ColumnValues(name, values, np.asarray(codes, np.uint8), has_missing=missing)


codes_of_names = st.lists(st.integers(0, len(NAMES)), min_size=1, max_size=60)


@given(codes_of_names, st.data())
def test_labels_are_those_of_scikit_learn(codes: list[int], data) -> None:
    column = coded("a", codes)
    encoder = ps.LabelEncoder("a")
    positions = data.draw(st.lists(st.integers(0, len(codes) - 1), max_size=30))
    got = encode(encoder, column, positions=positions)
    known = [value for value in column.to_numpy() if value is not None]
    oracle = sklearn.LabelEncoder().fit(np.array(known, object))
    assert got.dtype == np.int64
    assert encoder.classes_.tolist() == oracle.classes_.tolist()
    for code, value in zip(got, column.take(np.asarray(positions, np.int64)), strict=True):
        assert code == (-1 if value is None else oracle.transform([value])[0])
    back = encoder.inverse_transform(got)
    assert back.tolist() == column.take(np.asarray(positions, np.int64)).tolist()


@given(codes_of_names, codes_of_names)
def test_one_hot_is_that_of_scikit_learn(first: list[int], second: list[int]) -> None:
    rows = min(len(first), len(second))
    columns = [coded("a", first[:rows]), coded("b", second[:rows])]
    encoder = ps.OneHotEncoder(["a", "b"], "hot")
    got = encode(encoder, *columns)
    values = np.stack([column.to_numpy() for column in columns], axis=1)
    categories = [sorted({v for v in column if v is not None}) for column in values.T]
    expected = [
        sklearn.OneHotEncoder(
            categories=[objects(kinds)], handle_unknown="ignore", sparse_output=False
        ).fit_transform(column.reshape(-1, 1))
        for kinds, column in zip(categories, values.T, strict=True)
        if kinds
    ]
    np.testing.assert_array_equal(got, np.concatenate([np.empty((rows, 0)), *expected], axis=1))
    assert got.dtype == np.float32
    assert encoder.inverse_transform(got).tolist() == values.tolist()


# A spread below the rounding of a double is no spread to scikit-learn.
numbers = st.integers(-(10**6), 10**6).map(lambda n: n / 16) | st.just(float("nan"))


@given(st.lists(st.tuples(numbers, st.integers(-5, 5)), min_size=1, max_size=60))
@pytest.mark.parametrize("scale", ["none", "standard", "minmax"])
def test_numbers_are_those_of_scikit_learn(scale: str, rows: list[tuple[float, int]]) -> None:
    values = np.array(rows, np.float64)
    columns = [
        ColumnValues("a", values[:, 0]),
        ColumnValues("b", values[:, 1].astype(np.int32)),
    ]
    encoder = ps.NumericEncoder(["a", "b"], "numbers", scale=scale, dtype="float64")
    got = encode(encoder, *columns)
    known = ~np.isnan(values[:, 0])
    expected = values.copy()
    oracle = {"standard": sklearn.StandardScaler, "minmax": sklearn.MinMaxScaler}.get(scale)
    if oracle is not None:
        for i, own in enumerate((known, np.ones(len(values), bool))):
            if own.any():
                expected[:, i] = oracle().fit_transform(values[:, [i]])[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(encoder.inverse_transform(got), values, rtol=1e-6, atol=1e-3)
    filled = ps.NumericEncoder("a", scale=scale, missing=7)
    assert (encode(filled, columns[0])[~known] == 7).all()


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40), st.integers(1, 9))
def test_batches_are_the_groups_of_pandas(rows: list[tuple[int, int, int]], block: int) -> None:
    codes = np.array(rows, np.uint8).reshape(-1, 3)
    columns = [
        coded("donor", codes[:, 0], ["c", "a", "b"]),
        coded("assay", codes[:, 1], ["x", "y", "z", "w"], missing=False),
        ColumnValues("lane", codes[:, 2].astype(np.int64)),
    ]
    encoder = ps.BatchEncoder([column.name for column in columns])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded_rows, "BLOCK_ROWS", block)
        patch.setattr(factorize, "BLOCK_ROWS", block)
        got = encode(encoder, *columns)
    frame = pd.DataFrame({column.name: column.to_numpy() for column in columns})
    groups = frame.groupby(list(frame), sort=True, dropna=True)
    labels = ["//".join(map(str, key)) for key in frame.dropna().groupby(list(frame)).groups]
    assert got.tolist() == groups.ngroup().fillna(-1).astype(int).tolist()
    assert encoder.classes_.tolist() == labels


class Squares(ps.Encoder):
    """An encoder of a user's: counts how many rows it is given."""

    def __init__(self, column: str, **flags) -> None:
        super().__init__(column, "squares")
        self.rows = 0
        for name, value in flags.items():
            setattr(self, name, value)

    def transform(self, obs):
        (values,) = obs.values()
        self.rows += len(values)
        return values * values - 3


@given(
    st.lists(st.integers(-300, 70_000), min_size=1, max_size=60),
    st.integers(1, 20),
    st.booleans(),
)
def test_cells_are_encoded_once_and_kept_narrow(values, block: int, is_elementwise: bool) -> None:
    column = ColumnValues("a", np.array(values, np.int64))
    encoder = Squares("a", is_elementwise=is_elementwise)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded_rows, "BLOCK_ROWS", block)
        rows = encoded_rows.EncodedRows(encoder, {"a": column})
    given_rows = encoder.rows
    assert given_rows <= len(values)
    expected = np.array(values) ** 2 - 3
    for _ in range(3):
        np.testing.assert_array_equal(rows.take(np.arange(len(values))), expected)
    assert encoder.rows == given_rows
    assert rows.take(np.arange(1)).dtype == np.int64
    least, most = min(0, expected.min()), max(0, expected.max())
    narrowest = next(
        np.dtype(t).itemsize
        for t in ("u1", "i1", "u2", "i2", "u4", "i4", "i8")
        if np.iinfo(t).min <= least and most <= np.iinfo(t).max
    )
    assert rows.nbytes == narrowest * len(values)


def test_labels_of_many_cells_take_one_or_two_bytes() -> None:
    lanes = np.random.default_rng(0).integers(0, 240, 3_000)
    column = ColumnValues("lane", lanes)
    assert (
        encoded_rows.EncodedRows(fitted(ps.LabelEncoder("lane"), column), {"lane": column}).nbytes
        == 3_000
    )
    donors = ColumnValues("donor", np.arange(3_000) % 7)
    both = {"lane": column, "donor": donors}
    encoder = fitted(ps.BatchEncoder(["lane", "donor"]), column, donors)
    assert len(encoder.classes_) > 256
    assert encoded_rows.EncodedRows(encoder, both).nbytes == 6_000


def fitted(encoder: ps.Encoder, *columns: ColumnValues):
    encode(encoder, *columns)
    return encoder


def test_labels_that_are_no_classes() -> None:
    column = coded("a", [0, 1, 3, 1, 6])
    with pytest.raises(
        ps.InvalidArgument, match=r"not classes of the encoder 'a': 'T cell', 'NK'; add"
    ):
        encode(ps.LabelEncoder("a", classes=["B cell"]), column)
    for encoder, hint in [
        (ps.LabelEncoder("a", classes=["B cell"]), "unseen=-1, or leave"),
        (ps.OneHotEncoder("a", classes=["B cell"]), 'zeros by unseen="zeros", or leave'),
    ]:
        with pytest.raises(ps.InvalidArgument, match=hint):
            encode(encoder, column)
    some = ps.LabelEncoder("a", classes=["NK", "B cell"], unseen=9, missing=4)
    assert encode(some, column).tolist() == [1, 9, 0, 9, 4]
    assert some.inverse_transform([1, 9, 0, 4]).tolist() == ["B cell", None, "NK", None]
    with pytest.raises(ps.InvalidArgument, match=r"a code is not in \[0, 2\).*, got 5"):
        some.inverse_transform([0, 5])
    with pytest.raises(ps.InvalidArgument, match="codes of 'a' must be integers"):
        some.inverse_transform([0.5])
    strict = ps.LabelEncoder("a", missing="error")
    with pytest.raises(ps.InvalidArgument, match=r"cells miss a value of a .* with missing=-1"):
        encode(strict, column)
    with pytest.raises(ps.InvalidArgument, match="'T cell'"):
        encode(ps.OneHotEncoder("a", classes=["B cell", "NK"]), column)
    zeros = ps.OneHotEncoder("a", classes=["B cell", "NK"], unseen="zeros", dtype="int8")
    assert encode(zeros, column).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
    with pytest.raises(ps.InvalidArgument, match="'T cell//B cell'"):
        encode(ps.BatchEncoder(["a", "b"], classes=["B cell//B cell"]), column, coded("b", [0] * 5))


def test_values_that_share_a_code() -> None:
    encoder = ps.LabelEncoder("a", classes={"B cell": 0, "T cell": 1, "NK": 1, "": 3}, unseen=-1)
    assert encode(encoder, coded("a", [0, 1, 2, 3, 4, 6])).tolist() == [0, 1, 3, 1, -1, -1]
    assert encoder.classes_.tolist() == ["B cell", "T cell", None, ""]
    assert not encoder.needs_fit


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.LabelEncoder("a", classes={"x": -1}), "a code of classes must be 0 or more"),
        (lambda: ps.LabelEncoder("a", classes={"x": 1.5}), "a code of classes must be an integer"),
        (lambda: ps.LabelEncoder("a", unseen="ignore"), 'unseen must be an integer or "error"'),
        (lambda: ps.LabelEncoder("a", missing=0.5), "missing must be an integer"),
        (lambda: ps.LabelEncoder(["a", "a"]), "an encoder names a column twice"),
        (lambda: ps.OneHotEncoder("a", unseen=-1), "unseen must be one of 'error', 'zeros'"),
        (
            lambda: ps.OneHotEncoder(["a", "b"], classes=[["x"]]),
            "one list for each of the 2 columns",
        ),
        (lambda: ps.NumericEncoder("a", scale="log"), "scale must be one of 'none', 'standard'"),
        (lambda: ps.NumericEncoder("a", missing="mean"), "missing must be a number, got 'mean'"),
        (lambda: ps.NumericEncoder("a", dtype="int32"), "dtype must be a type of floats"),
        (lambda: ps.LabelEncoder("a").fixed(), "not fitted yet"),
        (
            lambda: ps.LabelEncoder("a").transform({"a": np.array(["x"], object)}),
            "not fitted yet: give it to a Dataset",
        ),
        (lambda: encode(ps.NumericEncoder("a"), coded("a", [0])), r"use LabelEncoder\('a'\)"),
    ],
)
def test_bad_encoders(make, message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        make()


def test_numbers_that_are_objects() -> None:
    values = ColumnValues("a", np.array([True, None, False], object))
    np.testing.assert_array_equal(encode(ps.NumericEncoder("a"), values), [1, np.nan, 0])


def test_a_column_that_is_not_there(census_like: Oracle) -> None:
    for encoder in (ps.LabelEncoder("celltype"), ps.NumericEncoder("celltype")):
        with pytest.raises(
            ps.NotFound, match=r"no column 'celltype'; did you mean 'cell_type'\? It has "
        ):
            ps.Dataset(census_like.path, encoders=[encoder])


def test_encoders_of_a_dataset(census_like: Oracle) -> None:
    """All kinds at once, through pickles, splits and other selections."""
    encoders = [
        ps.LabelEncoder("cell_type"),
        ps.BatchEncoder(["dataset_id", "donor_id"]),
        ps.OneHotEncoder("sex", "hot"),
        ps.NumericEncoder(["raw_sum", "n_measured_vars"], "numbers", scale="standard"),
    ]
    ds = ps.Dataset(census_like.path, encoders=encoders)
    obs = census_like.obs.set_index("soma_joinid")
    scaled = sklearn.StandardScaler().fit_transform(obs[["raw_sum", "n_measured_vars"]])
    types = sklearn.LabelEncoder().fit(obs["cell_type"])
    for part in (ds, pickle.loads(pickle.dumps(ds)), *ds.random_split(0.7, 0.3)):
        for _, batch in part:
            cells = obs.loc[batch["soma_joinid"]]
            assert (batch["cell_type"] == types.transform(cells["cell_type"])).all()
            assert (
                part.encoders["batch"].inverse_transform(batch["batch"])
                == (cells["dataset_id"].astype(str) + "//" + cells["donor_id"].astype(str))
            ).all()
            assert (part.encoders["hot"].inverse_transform(batch["hot"]) == cells["sex"]).all()
            expected = scaled[batch["soma_joinid"]]
            np.testing.assert_allclose(batch["numbers"], expected, rtol=1e-4, atol=1e-5)
    assert ds.encoders["cell_type"] is encoders[0]
    fewer = ps.Dataset(
        census_like.path,
        obs_query="sex == 'female'",
        encoders=[each.fixed() for each in ds.encoders.values()],
    )
    for _, batch in fewer:
        cells = obs.loc[batch["soma_joinid"]]
        assert (batch["cell_type"] == types.transform(cells["cell_type"])).all()
        np.testing.assert_allclose(
            batch["numbers"], scaled[batch["soma_joinid"]], rtol=1e-4, atol=1e-5
        )


def test_a_state_in_another_shape_fits_encoders_on_all_cells(census_like: Oracle) -> None:
    """And not on those that are left."""

    def made(batch_size: int) -> ps.Dataset:
        encoders = [
            ps.LabelEncoder("donor_id"),
            ps.LabelEncoder("soma_joinid", "cell"),
            ps.NumericEncoder("raw_sum", "sum", scale="standard"),
        ]
        return ps.Dataset(census_like.path, batch_size=batch_size, encoders=encoders)

    whole = made(100)
    batches = iter(whole)
    for _ in range(len(whole) - 2):
        next(batches)
    ds = made(64)
    ds.load_state_dict(whole.state_dict())
    scaled = sklearn.StandardScaler().fit_transform(census_like.obs[["raw_sum"]])[:, 0]
    donors = sklearn.LabelEncoder().fit_transform(census_like.obs["donor_id"])
    for _, batch in ds:
        cells = batch["soma_joinid"]
        assert (batch["cell"] == cells).all()
        assert (batch["donor_id"] == donors[cells]).all()
        np.testing.assert_allclose(np.ravel(batch["sum"]), scaled[cells], rtol=1e-4, atol=1e-5)
    assert len(ds.encoders["cell"].classes_) == len(census_like.obs)


def test_obs_as_a_frame_and_as_tensors(census_like: Oracle) -> None:
    torch = pytest.importorskip("torch")
    hot = ps.OneHotEncoder("sex", "hot")
    frame = ps.Dataset(census_like.path, encoders=[hot], obs_format="pandas").head(9)[1]
    width = len(hot.categories_[0])
    assert list(frame) == ["soma_joinid", *(f"hot_{i}" for i in range(width))]
    tensors = ps.Dataset(
        census_like.path, encoders=[ps.OneHotEncoder("sex", "hot")], obs_format="torch"
    ).head(9)[1]
    assert tensors["hot"].dtype == torch.float32
    np.testing.assert_array_equal(tensors["hot"].numpy(), frame.to_numpy()[:, 1:])


class WhoEncodes(ps.Encoder):
    """Leaves the number of each process that encodes in a folder."""

    def __init__(self, column: str, folder) -> None:
        super().__init__(column, "who")
        self.folder = folder

    def transform(self, obs):
        (self.folder / str(os.getpid())).touch()
        (values,) = obs.values()
        return np.arange(len(values)) * 0 + 7


def test_workers_do_not_encode_again(census_like: Oracle, tmp_path) -> None:
    pytest.importorskip("torch")
    ds = ps.Dataset(census_like.path, encoders=[WhoEncodes("cell_type", tmp_path)], batch_size=500)
    loader = ps.dataloader(ds, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        assert sum(int(obs["who"].sum()) for _, obs in loader) == 7 * 6_000
    assert [each.name for each in tmp_path.iterdir()] == [str(os.getpid())]


@pytest.mark.parametrize("dtype", ["bfloat16", "", 3.5, [1], object()])
@pytest.mark.parametrize("encoder", [ps.OneHotEncoder, ps.NumericEncoder])
def test_a_dtype_that_is_none_is_refused(encoder, dtype) -> None:
    with pytest.raises(ps.InvalidArgument, match="dtype must be a"):
        encoder("cell_type", dtype=dtype)


def test_a_number_that_no_float_holds_is_refused() -> None:
    with pytest.raises(ps.InvalidArgument, match="missing must be a float"):
        ps.NumericEncoder("n_genes", missing=10**400)


@given(
    st.lists(
        st.lists(st.sampled_from(["COVID-19", "asthma", "a || b"[:1], "ß", "x|y"]), max_size=3),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([" || ", ";"]),
)
def test_multi_hot_is_that_of_scikit_learn(rows, separator: str) -> None:
    rows = [list(dict.fromkeys(row)) for row in rows]
    texts = [separator.join(row) if row else None for row in rows]
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    codes = [len(distinct) if text is None else distinct.index(text) for text in texts]
    encoder = ps.MultiHotEncoder("disease", separator=separator, dtype="int8")
    got = encode(encoder, coded("disease", codes, distinct))
    binarizer = sklearn.MultiLabelBinarizer()
    expected = binarizer.fit_transform(rows)
    assert got.dtype == np.int8
    assert got.shape == expected.shape
    assert (got == expected).all()
    assert encoder.classes_.tolist() == binarizer.classes_.tolist()
    back = encoder.inverse_transform(got)
    assert [set() if text is None else set(text.split(separator)) for text in back] == [
        set(row) for row in rows
    ]
    some = encode(encoder, coded("disease", codes, distinct), positions=[0, 0, len(rows) - 1])
    assert (some == expected[[0, 0, -1]]).all()


def test_multi_hot_with_classes_of_ones_own() -> None:
    column = coded("disease", [0, 1, 2], ["a || b", "c"])
    zeros = ps.MultiHotEncoder("disease", classes=["b", "a"], unseen="zeros")
    assert encode(zeros, column).tolist() == [[1, 1], [0, 0], [0, 0]]
    assert pickle.loads(pickle.dumps(zeros)).classes_.tolist() == ["b", "a"]
    with pytest.raises(ps.InvalidArgument, match=r"'c' is no class of the encoder 'disease'"):
        encode(ps.MultiHotEncoder("disease", classes=["b", "a"]), column)
    numbers = ColumnValues("disease", np.array([1, 2, 1]))
    with pytest.raises(ps.InvalidArgument, match="divides text, got 1 of 'disease'"):
        encode(ps.MultiHotEncoder("disease"), numbers)
    with pytest.raises(ps.InvalidArgument, match=r"encoded must have shape \(rows, 2\)"):
        zeros.inverse_transform(np.zeros((3, 4)))
    with pytest.raises(ps.InvalidArgument, match="unseen must be one of"):
        ps.MultiHotEncoder("disease", unseen="other")
