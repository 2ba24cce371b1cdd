"""Columns and genes of several experiments as one, for random shapes; pandas is the oracle."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import penstock as ps
import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock import _core
from penstock.experiment.columns import ColumnValues, objects
from penstock.experiment.joined.columns import concatenate, source_column
from penstock.experiment.joined.genes import match_genes
from penstock.experiment.joined.tables import joined_schema

categories = st.sampled_from(["a", "b", "c", "d", None])


@given(st.lists(st.lists(categories, max_size=12) | st.none(), min_size=1, max_size=4))
def test_merged_categories_are_those_of_pandas(tables) -> None:
    if all(table is None for table in tables):
        return
    parts, lengths, frames = {}, {}, []
    for i, table in enumerate(tables):
        lengths[str(i)] = 5 if table is None else len(table)
        parts[str(i)] = None
        frames.append(pd.Series([None] * 5 if table is None else table, dtype=object))
        if table is not None:
            kinds = sorted({value for value in table if value is not None}, reverse=i % 2 == 1)
            has_missing = None in table
            codes = [len(kinds) if v is None else kinds.index(v) for v in table]
            parts[str(i)] = ColumnValues(
                "c",
                objects([*kinds, None] if has_missing else kinds),
                np.array(codes, np.uint8),
                is_enumerated=True,
                has_missing=has_missing,
            )
    merged = concatenate("c", parts, lengths)
    whole = pd.concat(frames)
    assert merged.to_numpy().tolist() == [None if v is None else v for v in whole]
    frame = merged.to_pandas()
    assert isinstance(frame, pd.Categorical)
    assert sorted(frame.categories) == sorted({v for v in whole if v is not None})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["text", "category", "ordered"]),
            st.sampled_from(["abc", "cba", "ab", "b"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_merged_categories_are_ordered_where_pandas_orders_them(tables) -> None:
    parts, series = {}, []
    for i, (kind, names, has_missing) in enumerate(tables):
        values = objects([*names, *[None] * has_missing])
        codes = np.arange(len(values), dtype=np.uint8)
        is_enumerated, is_ordered = kind != "text", kind == "ordered"
        parts[str(i)] = ColumnValues("c", values, codes, is_enumerated, is_ordered, has_missing)
        dtype = pd.CategoricalDtype(list(names), is_ordered) if is_enumerated else object
        series.append(pd.Series(values.take(codes)).astype(dtype))
    column = concatenate("c", parts, {name: len(part) for name, part in parts.items()})
    merged = column.to_pandas()
    assert column.has_missing == any(has_missing for _, _, has_missing in tables)
    whole = pd.concat(each.astype(object) for each in series)
    assert pd.Series(merged).astype(object).where(whole.notna().to_numpy(), None).tolist() == [
        None if value is None or value != value else value for value in whole
    ]
    assert isinstance(merged, pd.Categorical) == all(kind != "text" for kind, _, _ in tables)
    if not isinstance(merged, pd.Categorical):
        return
    try:
        theirs = pd.api.types.union_categoricals(series)
    except TypeError:  # ordered ones that do not agree
        assert not merged.ordered
        return
    assert merged.ordered == theirs.ordered
    assert merged.categories.tolist() == theirs.categories.tolist()


@pytest.mark.parametrize("count", [255, 256, 257])
@pytest.mark.parametrize("is_missing", ["in one", "of one", "nowhere"])
def test_as_many_categories_as_a_code_holds(count: int, is_missing: str) -> None:
    names = [f"{i:03}" for i in range(count)]
    values = objects([*names, None] if is_missing == "in one" else names)
    parts = {"a": ColumnValues("c", values, np.arange(len(values)), True)}
    if is_missing == "in one":
        parts["a"] = ColumnValues("c", values, np.arange(count + 1), True, has_missing=True)
    lengths = {"a": len(values)}
    if is_missing == "of one":
        parts, lengths = {**parts, "b": None}, {**lengths, "b": 2}
    merged = concatenate("c", parts, lengths)
    rest = {"in one": [None], "of one": [None, None], "nowhere": []}[is_missing]
    assert merged.to_numpy().tolist() == names + rest
    assert merged.codes.nbytes <= (1 if len(set(names + rest)) <= 256 else 2) * len(merged)
    assert pd.isna(pd.Series(merged.to_pandas())).sum() == len(rest)


def test_a_column_that_some_lack_misses_values() -> None:
    def info(name: str, **changes) -> SimpleNamespace:
        plain = {
            "type": "int32", "is_index": False, "nullable": False, "enumerated": False,
            "ordered": False, "is_string": False, "stored_bytes": 8,
        }  # fmt: skip
        return SimpleNamespace(name=name, **{**plain, **changes})

    tables = {
        "a": SimpleNamespace(
            schema=[info("n"), info("m", nullable=True), info("l"), info("unread")],
            unread_columns={},
        ),
        "b": SimpleNamespace(
            schema=[info("n", type="int64"), info("m")], unread_columns={"unread": "a reason"}
        ),
    }
    found = {column.name: column for column in joined_schema(tables)}
    assert {name: column.nullable for name, column in found.items()} == {
        "n": False, "m": True, "l": True,
    }  # fmt: skip
    assert (found["n"].type, found["n"].stored_bytes) == ("int32 or int64", 16)


def test_more_sources_than_a_byte_holds() -> None:
    lengths = {f"experiment {i}": 1 + i % 2 for i in range(300)}
    column = source_column("source", lengths)
    assert column.to_numpy().tolist() == [n for n, rows in lengths.items() for _ in range(rows)]


numbers = st.one_of(
    st.lists(st.integers(-5, 100), max_size=8).map(lambda v: np.array(v, np.int16)),
    st.lists(st.floats(-4, 4), max_size=8).map(lambda v: np.array(v, np.float32)),
    st.lists(st.integers(0, 2**63 - 1), max_size=8).map(lambda v: np.array(v, np.int64)),
    st.none(),
)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_numbers_get_the_type_that_holds_all(tables) -> None:
    there = [table for table in tables if table is not None]
    if not there:
        return
    parts = {str(i): None if t is None else ColumnValues("n", t) for i, t in enumerate(tables)}
    lengths = {str(i): 3 if t is None else len(t) for i, t in enumerate(tables)}
    merged = concatenate("n", parts, lengths)
    whole = np.concatenate(
        [np.full(3, None, object) if t is None else t.astype(object) for t in tables]
    )
    assert len(merged) == len(whole)
    for ours, theirs in zip(merged.to_numpy().tolist(), whole.tolist(), strict=True):
        if theirs is None:
            assert ours is None or np.isnan(ours)
        else:
            assert ours == np.result_type(*there).type(theirs) or ours == theirs
    if len(there) == len(tables):
        assert merged.to_numpy().dtype == np.result_type(*there)


def test_kinds_that_make_no_column() -> None:
    parts = {"a": ColumnValues("c", np.arange(2)), "b": ColumnValues("c", objects(["x", "y"]))}
    with pytest.raises(ps.InvalidArgument, match="holds numbers in 'a' and texts in 'b'"):
        concatenate("c", parts, {"a": 2, "b": 2})
    parts["b"] = ColumnValues("c", objects([True, None]), has_missing=True)
    with pytest.raises(ps.InvalidArgument, match="holds numbers in 'a' and booleans in 'b'"):
        concatenate("c", parts, {"a": 2, "b": 2})


def test_a_missing_value_of_one_is_one_of_all() -> None:
    parts = {
        "a": ColumnValues("c", objects([2**60, None]), has_missing=True),
        "b": ColumnValues("c", np.arange(2)),
    }
    merged = concatenate("c", parts, {"a": 2, "b": 2})
    assert merged.to_numpy().tolist() == [2**60, None, 0, 1]
    assert merged.has_missing


@given(
    st.lists(st.permutations("abcdefgh").map(lambda p: p[:5]), min_size=1, max_size=4), st.data()
)
def test_genes_are_matched_by_name(tables, data) -> None:
    ids = [
        np.sort(data.draw(st.permutations(range(20))))[: len(t)].astype(np.int64) for t in tables
    ]
    names = {str(i): objects(list(table)) for i, table in enumerate(tables)}
    wanted = ["h", *tables[0][:2], "z"] if "h" not in tables[0][:2] else list(tables[0])
    for genes in ("inner", "outer", wanted):
        try:
            match = match_genes(zip(names, names.values(), ids, strict=True), genes, "name")
        except ps.InvalidArgument:
            continue
        sets = [set(table) for table in tables]
        if genes == "inner":
            assert set(match.names) == set.intersection(*sets)
        elif genes == "outer":
            assert set(match.names) == set.union(*sets)
        else:
            assert match.names.tolist() == wanted
        for table, own, joinids, places in zip(
            tables, ids, match.joinids, match.places, strict=True
        ):
            assert (np.diff(joinids) > 0).all()
            found = {
                table[own.tolist().index(j)]: match.names[p]
                for j, p in zip(joinids.tolist(), places, strict=True)
            }
            assert all(stored == name for stored, name in found.items())
            assert set(found) == set(table) & set(match.names)


def test_genes_without_a_name_match_none() -> None:
    names = {"a": objects(["x", None, None, "y"]), "b": objects([None, "y", "x", float("nan")])}
    ids = [np.arange(4), np.arange(10, 14)]
    match = match_genes(zip(names, names.values(), ids, strict=True), "outer", "name")
    assert match.names.tolist() == ["x", "y"]
    assert [each.tolist() for each in match.joinids] == [[0, 3], [11, 12]]
    assert [each.tolist() for each in match.places] == [[0, 1], [1, 0]]


def test_rows_are_moved_by_words() -> None:
    rows = _core.RowSelection.from_unsorted(np.array([0, 5, 2**32 + 7], np.int64))
    moved = rows.shifted(3 * 2**32)
    assert (moved.to_numpy() - 3 * 2**32).tolist() == [0, 5, 2**32 + 7]
    assert moved.shifted(-3 * 2**32) == rows
    for offset in (1, -(2**32), 2**63 - 2**32):
        with pytest.raises(ps.InvalidArgument):
            rows.shifted(offset)
