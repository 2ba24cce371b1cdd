"""Filters on obs of an annbatch collection answer as those of a join of its datasets: each by its own types."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps
import pytest
from collection_cases import collection_of

BIG = 2**53

TEXTS: dict[str, Any] = {
    "texts": ["lo", "hi", "mid"],
    "categories": pd.Categorical(["lo", "hi", "lo"], ["lo", "hi"]),
    "rising": pd.Categorical(["lo", "hi", "lo"], ["lo", "mid", "hi"], ordered=True),
    "falling": pd.Categorical(["mid", "hi", "lo"], ["hi", "mid", "lo"], ordered=True),
    "begin": pd.Categorical(["lo", "mid", "lo"], ["lo", "mid"], ordered=True),
    "missing": pd.Categorical([None, "hi", "lo"], ["lo", "mid", "hi"], ordered=True),
}
NUMBERS: dict[str, Any] = {
    "int64": [BIG + 1, BIG, 3],
    "int8": np.array([1, -2, 3], np.int8),
    "uint64": np.array([1, BIG + 1, 2**64 - 1], np.uint64),
    "float64": [0.5, float(BIG), np.nan],
    "float32": np.array([0.1, 1.5, 3], np.float32),
    "nullable": pd.array([1, None, BIG + 1], "Int64"),
    "rising": pd.Categorical([3, 2, 1], [1, 2, 3], ordered=True),
    "falling": pd.Categorical([3, 2, 1], [3, 2, 1], ordered=True),
}
TEXT_FILTERS = [
    "n == 'lo'",
    "n != 'lo'",
    "n < 'mid'",
    "n >= 'mid'",
    "n <= 'hi'",
    "n in ['hi', 'mid']",
    "n == None",
    "n != 'lo' and soma_joinid >= 2",
]
NUMBER_FILTERS = [
    f"n == {BIG}",
    f"n > {BIG}",
    f"n != {BIG + 1}",
    "n == 0.1",
    "n < 1.5",
    "n >= 2",
    "n in [1, 3]",
    "n == 'lo'",
]


def answer(obs: Any, value_filter: str) -> list[str] | str:
    """Names of the rows that pass, or the kind of error."""
    try:
        return obs.read(["obs_names"], value_filter=value_filter)["obs_names"].to_numpy().tolist()
    except ps.PenstockError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("columns", "filters"),
    [(TEXTS, TEXT_FILTERS[:-1]), (NUMBERS, NUMBER_FILTERS)],
    ids=["texts", "numbers"],
)
def test_filters_are_those_of_a_join(
    tmp_path: Path, columns: dict[str, Any], filters: list[str]
) -> None:
    counted: set[int | str] = set()
    refused = 0
    for first, second in combinations_with_replacement(columns, 2):
        path, each = collection_of(
            tmp_path / f"{first} {second}", {"n": columns[first]}, {"n": columns[second]}, {}
        )
        obs, of_join = ps.open(path).obs, ps.join(each, layer="X").obs
        for value_filter in filters:
            wanted = answer(of_join, value_filter)
            refused += wanted == "InvalidArgument"
            assert answer(obs, value_filter) == wanted, (first, second, value_filter)
            counted.add(wanted if isinstance(wanted, str) else len(wanted))
    assert {0, 1, 2, 3, 4} <= counted
    assert refused > 5


@pytest.mark.parametrize("first", ["int64", "int8", "uint64", "nullable"])
def test_a_number_is_the_same_beside_each_integer_type(tmp_path: Path, first: str) -> None:
    """Also one that a dataset's type does not hold. The answers are those of Python's integers."""
    path, each = collection_of(
        tmp_path / "c.zarr", {"n": NUMBERS[first]}, {"n": NUMBERS["int8"]}, {}
    )
    values = {f"0-{i}": value for i, value in enumerate(pd.Series(NUMBERS[first]).tolist())}
    values |= {f"1-{i}": value for i, value in enumerate(NUMBERS["int8"].tolist())}
    for value_filter in (
        "n > 300", "n != 300", "n < 1.5", "n >= 1.5", "n >= -2.5", "n == 1.5", "n > -300", "n <= 1e30",
        f"n in [1, 300, {BIG}]",
    ):  # fmt: skip
        holds = eval(f"lambda n: {value_filter}")
        wanted = [name for name, value in values.items() if value is not pd.NA and holds(value)]
        for obs in (ps.open(path).obs, ps.join(each, layer="X").obs):
            assert answer(obs, value_filter) == wanted, value_filter


@pytest.mark.parametrize("kinds", list(combinations_with_replacement(TEXTS, 2)), ids=" ".join)
def test_the_schema_says_what_the_column_is(tmp_path: Path, kinds: tuple[str, str]) -> None:
    path, each = collection_of(tmp_path / "c.zarr", *({"n": TEXTS[kind]} for kind in kinds))
    for obs in (ps.open(path).obs, ps.join(each, layer="X").obs):
        (column,) = (column for column in obs.schema if column.name == "n")
        first, second = (pd.Series(TEXTS[kind]).dtype for kind in kinds)
        ordered = first == second and isinstance(first, pd.CategoricalDtype) and first.ordered
        assert column.ordered == bool(ordered)
        one_row = obs.with_rows(obs.select("obs_names == '0-1'"))
        for read in (obs.to_pandas(), one_row.to_pandas()):
            dtype = read["n"].dtype
            if column.enumerated:
                assert dtype.ordered == column.ordered
                assert set(dtype.categories) == {*first.categories, *second.categories}


def test_categories_of_two_widths_are_ordered_together(tmp_path: Path) -> None:
    columns = [
        pd.Categorical.from_codes([0, 1, 2], np.array([3, 1, 2], kind), ordered=True)
        for kind in (np.int8, np.int64)
    ]
    path, each = collection_of(tmp_path / "c.zarr", *({"n": column} for column in columns))
    for obs in (ps.open(path).obs, ps.join(each, layer="X").obs):
        (column,) = (column for column in obs.schema if column.name == "n")
        assert column.ordered
        assert obs.to_pandas()["n"].dtype.ordered
        assert answer(obs, "n <= 1") == ["0-0", "0-1", "1-0", "1-1"]


def test_ordered_categories_are_those_of_pandas(tmp_path: Path) -> None:
    kinds = ["rising", "missing", "rising"]
    path, _ = collection_of(tmp_path / "c.zarr", *({"n": TEXTS[kind]} for kind in kinds))
    wanted = []
    for number, kind in enumerate(kinds):
        below = np.asarray(TEXTS[kind] < "mid")
        wanted += [f"{number}-{i}" for i in np.flatnonzero(below)]
    assert answer(ps.open(path).obs, "n < 'mid'") == wanted
    dataset = ps.Dataset(path, obs_query="n < 'mid'", obs_columns=["obs_names"], shuffle=False)
    assert [name for _, obs in dataset for name in obs["obs_names"]] == wanted


@pytest.mark.parametrize("other", ["falling", "begin", "categories"])
def test_an_order_that_a_dataset_does_not_share_is_an_error(tmp_path: Path, other: str) -> None:
    """A dataset that lacks a category would have no cell on either side of it."""
    path, each = collection_of(tmp_path / "c.zarr", {"n": TEXTS["rising"]}, {"n": TEXTS[other]})
    ps.pack(path, tmp_path / "pack")
    for obs in (ps.open(path).obs, ps.join(each, layer="X").obs, ps.open(tmp_path / "pack").obs):
        for value_filter in ("n < 'mid'", "soma_joinid > 1 and not n >= 'hi'"):
            with pytest.raises(
                ps.InvalidArgument, match="the categories of column 'n' have no order"
            ):
                obs.read(["obs_names"], value_filter=value_filter)
        assert len(obs.select("n == 'lo' or n in ['hi', 'mid']")) == 6


def test_row_numbers_are_those_of_the_collection(tmp_path: Path) -> None:
    path, _ = collection_of(tmp_path / "c.zarr", {"n": [1, 2, 3]}, {}, {"n": [0.5, 2.0, 9.0]})
    obs = ps.open(path).obs
    for value_filter, rows in {
        "soma_joinid == 4": [4],
        "soma_joinid >= 2 and n > 1": [2, 7, 8],
        "soma_joinid < 2 or n == 2": [0, 1, 7],
        "n == 2": [1, 7],
        "not soma_joinid in [0, 5]": [1, 2, 3, 4, 6, 7, 8],
    }.items():
        read = obs.read(["soma_joinid", "obs_names"], value_filter=value_filter)
        assert read["soma_joinid"].to_numpy().tolist() == rows, value_filter
        assert obs.select(value_filter).to_numpy().tolist() == rows
        assert len(set(read["obs_names"].to_numpy())) == len(rows)
    some = obs.with_rows(obs.select("soma_joinid >= 4"))
    ids = some.read(["soma_joinid"], value_filter="n >= 2")["soma_joinid"]
    assert ids.to_numpy().tolist() == [7, 8]
