"""Random filters over random tables: the same rows as tiledbsoma, or an error from both."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import penstock as ps
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("tiledbsoma")
from filter_oracle import FilterOracle
from soma_tables import write_experiment
from value_filters import (
    INTEGER_TYPES,
    ROWS,
    TIMES,
    make_table,
    number_text,
    render,
    trees,
    value_of,
)  # fmt: skip

SEEDS = 4


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list]:
    """Experiments, and tiledbsoma's answers of their obs by the text of a filter."""
    oracle, opened = FilterOracle(), []
    for seed in range(SEEDS):
        uri = write_experiment(
            tmp_path_factory.mktemp("filters") / f"e{seed}", make_table(seed), pieces=1 + seed
        )
        opened.append((ps.open(uri), partial(oracle.rows, f"{uri}/obs")))
    yield opened
    oracle.close()


def rows_of_ours(experiment: ps.Experiment, text: str) -> list[int] | None:
    try:
        table = experiment.obs.to_pandas(value_filter=text, columns=["soma_joinid"])
    except (ps.InvalidArgument, ps.NotFound):
        return None
    rows = table["soma_joinid"].tolist()
    assert experiment.obs.select(text).to_numpy().tolist() == rows
    return rows


@pytest.mark.parametrize("proper", [True, False])
def test_same_rows_as_tiledbsoma(tables: list, proper: bool) -> None:
    """Of the proper filters nearly all are answered, many by some of the rows: not by errors alone."""
    kinds: Counter[str] = Counter()

    @given(st.integers(0, SEEDS - 1), trees(proper))
    def same_rows(seed: int, tree: tuple) -> None:
        experiment, theirs_of = tables[seed]
        ours = rows_of_ours(experiment, render(tree, False, True))
        theirs = theirs_of(render(tree, False, False))
        assert ours == theirs, render(tree, False, True)
        kinds["refused" if ours is None else "some" if 0 < len(ours) < ROWS else "all or none"] += 1

    same_rows()
    if proper:
        assert kinds["refused"] < 0.05 * kinds.total(), kinds
        assert kinds["some"] > 0.4 * kinds.total(), kinds


WHOLE = [*INTEGER_TYPES, *TIMES, "b", "ci", "n", "nb"]
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
             "==": operator.eq, "!=": operator.ne}  # fmt: skip


@given(
    st.integers(0, SEEDS - 1),
    st.sampled_from(WHOLE),
    st.lists(number_text(), min_size=1, max_size=4),
)
def test_whole_numbers_compare_by_value(
    tables: list, seed: int, name: str, numbers: list[str]
) -> None:
    """As Python compares them. tiledbsoma cuts 1.9 off to 1, and refuses or wraps 300 for an int8."""
    column = make_table(seed)[name]
    values = (column.cast(pa.int64()) if name in TIMES else column).to_pylist()
    others = [value_of(text) for text in numbers]
    ordered = name != "ci"
    for op, holds in OPERATORS.items():
        if ordered or op in ("==", "!="):
            mask = [value is not None and holds(value, others[0]) for value in values]
            expect_rows(tables[seed][0], f"{name} {op} {numbers[0]}", mask, values)
    among = f"[{', '.join(numbers)}]"
    mask = [value in others for value in values]
    expect_rows(tables[seed][0], f"{name} in {among}", mask, values)


def expect_rows(experiment: ps.Experiment, text: str, mask: list[bool], values: list) -> None:
    """The rows of a filter, and those of its opposite, which has no nulls either."""
    assert rows_of_ours(experiment, text) == np.flatnonzero(mask).tolist(), text
    others = [value is not None and not kept for value, kept in zip(values, mask, strict=True)]
    assert rows_of_ours(experiment, f"not ({text})") == np.flatnonzero(others).tolist(), text


# What Python's grammar takes and refuses around the language, both ways.
TEXTS = [
    "i64 == True", "u64 == 18446744073709551615", "u64 == 1.8e19", "i64 == 1j", "f32 == 0.1", "f32 < 1e300", "f32 == 16777217",
    "f64 == 100000000000000000000000000000000", "f64 in [100000000000000000000]",
    "f64 == 0.0", "f64 in [0.0]", "f64 in [0]", "f64 in [1e999]", "f32 in [True]", "f32 in [0.1]",
    "i64 in [True]", "b == 0.0", "b < True", 'b == "x"', "i64 in ['1']", "b in ['x']",
    "s == 1", 's == b"a"', 's in [b"a"]', 's in ["a", 1]', "s in []", 's in ("a", "b")',
    's in {"a"}', 's in ("a")', 's in (["a"])', 's == "a" "b"', "s == '''ab'''", 's == "\\x61"',
    's == u"a"', 's == r"a\\b"', 's == f"a"', 's == Rb"a"', 's == ub"a"', "s == 'a", 's == "a\nb"',
    's == "\\141"', 's == "\\q"', 's == "a\\\nb"', "ci < 3", 'c < "lung"',
    'o < "unheard of"', 'o >= "unheard of"', 't_ns == "1970"', "t_ns < 5", "t_s in [1, 5]",
    "i64 == i32", "1 == 1", "i64 == 1 & i32 == 2", "(i64 == 1) | (i32 == 2) & (i16 == 3)",
    "i64 == 1 or i32 == 2 and i16 == 3", "i64 == val(-1)", "i64 == -val(1)", "i64 == val(val(1))",
    "attr(i64) == 1", 'attr("i64", "x") == 1', 'attr("i64",) == 1', "attr() == 1", "i64 is None",
    "i64 ** 2 == 4", "i64 + 1 == 2", "i64", "True", "1", "'a'", "[1]", "i64 == 1 and True",
    "not i64", "(i64 == 1) ^ (i32 == 2)", "~(i64 == 1)", "i64 == 1or i32 == 2", "i64 <> 1",
    "i64 = 1", "i64 == 1,", "i64 in [1][0]", "i64 == ...", "i64 == 01", "i64 == 00", "i64 == 1__0",
    "i64 == 1_", "i64 == 0x", "i64 == 0_1", "f64 == .5", "i64 == 1.", "i64 == 1e", "i64 == 1e+2",
    "orig.ident == 'a'", "i64 == 1 # comment", "(i64\n== 1)", "i64 == 1\n", "i64\n== 1",
    "i64 == 1 \\\n or i32 == 1", "i64 == 1 if True else i32 == 2", "lambda: i64 == 1", "", "   ",
    "i64 ==", "== 1", "i64 == 1)", "(i64 == 1", "i64 1", "i64 in [1,]", "i64 in [,]", "i64 in 1",
    "i64 not 1", "not in [1]", "and", "i64 == and", "i64 === 1", "i64 == 1 and", "i64 && 1",
    "i64 == 1; i32 == 2", "i64 == $", "i64 == 1 == 1", "1 < i64 < 4", "1 < i64 <= 4 < u64",
    "(i64) == (1)", "((i64 == 1))", "i64 == '1'", "val == 1", "attr == 1", "f(1) == i64",
    "i64.real == 1", "i64[0] == 1", "(1, 2) == i64", "i64 == (1, 2)", "i64 in (i32)",
    "'a' in s", "1 in [1]", "i64 == +1", "i64 == +-+1", "i64 == -True", "i64 == -'1'", "i64 == --1",
    "soma_joinid in [3, 4]", "soma_joinid < 2", "missing == 1", "i64 == 1 or missing == 2",
    "nb == True", "nb != False", "ns == ''", "nc != 'q'", "nc not in ['q']", "n != 1", "n not in [1]",
    "(i64 == 1) == (i32 == 2)", "(i64 == 1) < 2", "i64 < 1 < 2", "1 < 2 < i64", "i64 == None + 1",
    '"lung" == c', 'c == "lung" or c == "liver" or c == ""', "i64 == 1_000", "i64 == 1e3",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_at_the_edge_of_the_language(tables: list, text: str) -> None:
    experiment, theirs_of = tables[0]
    if not text.strip():  # an empty filter is no filter here, an error there
        return
    ours = rows_of_ours(experiment, text)
    theirs = theirs_of(text)
    if text in {"s == -'a'", "i64 == -'1'"}:
        assert ours is None
        return
    assert ours == theirs


def test_texts_that_are_answered(tables: list) -> None:
    """What both refuse is equal whatever it is: many of the texts have rows."""
    answers = [tables[0][1](text) for text in TEXTS if text.strip()]
    assert sum(rows is not None for rows in answers) > 60
    assert sum(bool(rows) for rows in answers) > 50


@example("i64 == 1 & u64 == 2")
@given(st.text("i64 =<>!()[]'\"\\,.&|-0123456789ex_notrandsc\n", max_size=30))
def test_noise_is_refused_or_read_alike(tables: list, text: str) -> None:
    experiment, theirs_of = tables[0]
    if not text.strip() or text != text.lstrip():  # ast.parse refuses an indented filter
        return
    if " in " in text and "-" in text:
        return
    assert rows_of_ours(experiment, text) == theirs_of(text)


def test_beyond_tiledbsoma_1(tables: list) -> None:
    """None as in tiledbsoma 2, signed numbers in lists, lists for bool, uint8 and int16."""
    experiment, _ = tables[0]
    frame = make_table(0).to_pandas(types_mapper=None)

    def rows(text: str) -> list[int]:
        return experiment.obs.select(text).to_numpy().tolist()

    def wanted(mask: object) -> list[int]:
        return np.flatnonzero(np.asarray(mask, dtype=bool)).tolist()

    null = make_table(0)["n"].is_null().to_numpy()
    assert rows("n == None") == wanted(null)
    assert rows("None != n") == wanted(~null)
    assert rows("not n == None") == wanted(~null)
    assert rows("ns == val(None)") == wanted(make_table(0)["ns"].is_null())
    assert rows("nc == None") == wanted(make_table(0)["nc"].is_null())
    assert rows("i64 == None") == []
    assert len(rows("soma_joinid != None")) == ROWS
    assert rows("i64 in [-1, +2]") == wanted(frame["i64"].isin([-1, 2]))
    assert rows("u8 in [1, 255]") == wanted(frame["u8"].isin([1, 255]))
    assert rows("b in [True]") == wanted(frame["b"])
    for text in ("n < None", "n in [None]", "i64 in [1] == 1"):
        with pytest.raises(ps.InvalidArgument):
            rows(text)


def test_errors_point_at_the_place(tables: list) -> None:
    obs = tables[0][0].obs
    with pytest.raises(ps.InvalidArgument) as error:
        obs.select("i64 == 1 and s = 'a'")
    lines = str(error.value).splitlines()
    assert "==" in lines[0]
    assert lines[1].strip() == "i64 == 1 and s = 'a'"
    assert lines[2].index("^") == lines[1].index("= 'a'")
    with pytest.raises(ps.NotFound, match=r"orig\.ident, with space"):
        obs.select("i64 == 1 or tissu == 'lung'")
    with pytest.raises(ps.InvalidArgument, match="parentheses"):
        obs.select("i64 == 1 & i32 == 2")
    with pytest.raises(ps.InvalidArgument, match="quotes"):
        obs.select("s == lung")


def test_deep_and_long_filters(tables: list) -> None:
    obs = tables[0][0].obs
    assert obs.select("(" * 150 + "soma_joinid == 3" + ")" * 150).to_numpy().tolist() == [3]
    for deep in ("(" * 10_000 + "i64 == 1" + ")" * 10_000, "not " * 10_000 + "i64 == 1"):
        with pytest.raises(ps.InvalidArgument, match="200"):
            obs.select(deep)
    many = ", ".join(map(str, range(0, 200_000, 2)))
    assert obs.select(f"soma_joinid in [{many}]").to_numpy().tolist() == list(range(0, ROWS, 2))
    words = ", ".join(f"'w{i}'" for i in range(100_000))
    assert obs.select(f"s in [{words}]").to_numpy().tolist() == []
    joined = " or ".join(f"soma_joinid == {i}" for i in range(0, ROWS, 3)) + " or soma_joinid < 0"
    assert obs.select(joined).to_numpy().tolist() == list(range(0, ROWS, 3))
