"""Random value filters as trees, and tables for them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from soma_tables import dictionary

ROWS = 60
STRINGS = ["", "a", "ab", "b", "B", "é", "z", "a b", "it's", 'say "x"', "\u4e2d", "a\\b"]
CATEGORIES = ["lung", "liver", "", "tongue", "Lung"]
LEVELS = ["low", "mid", "high"]
NUMBERS = [3, 1, 2, 250]
INTEGER_TYPES = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e30, math.inf, -math.inf, math.nan, 2.0**24, 3.5]
TIMES = ["t_ns", "t_us", "t_s"]


def make_table(seed: int) -> pa.Table:
    """ROWS rows with a column of every kind; strings, numbers and nulls that filters ask for."""
    random = np.random.default_rng(seed)

    def pick(values: list, nulls: bool = False) -> list:
        drawn = [values[i] for i in random.integers(0, len(values), ROWS)]
        return [None if nulls and random.random() < 0.2 else value for value in drawn]

    columns: dict[str, pa.Array] = {"soma_joinid": pa.array(np.arange(ROWS), pa.int64())}
    for name, dtype in INTEGER_TYPES.items():
        info = np.iinfo(dtype)
        pool = [info.min, info.max, 0, 1, 2, 3, 100] + ([-1, -2] if info.min < 0 else [4, 5])
        columns[name] = pa.array(np.array(pick(pool), dtype=dtype))
    columns["f32"] = pa.array(np.array(pick(FLOATS), dtype=np.float32))
    columns["f64"] = pa.array(np.array(pick(FLOATS), dtype=np.float64))
    columns["b"] = pa.array(pick([True, False]), pa.bool_())
    columns["s"] = pa.array(pick(STRINGS), pa.large_string())
    columns["c"] = dictionary(pick(CATEGORIES), CATEGORIES, pa.large_string(), False)
    columns["o"] = dictionary(pick(LEVELS), LEVELS, pa.large_string(), True)
    columns["ci"] = dictionary(pick(NUMBERS), NUMBERS, pa.int64(), False)
    for name in TIMES:
        unit = name.removeprefix("t_")
        columns[name] = pa.array(pick([0, 1, 5, 10**6, -3]), pa.int64()).cast(pa.timestamp(unit))
    columns["n"] = pa.array(pick([0, 1, 2, 3], nulls=True), pa.int64())
    columns["nf"] = pa.array(pick([0.0, 1.0, 2.5], nulls=True), pa.float64())
    columns["nb"] = pa.array(pick([True, False], nulls=True), pa.bool_())
    columns["ns"] = pa.array(pick(STRINGS, nulls=True), pa.large_string())
    columns["nc"] = dictionary(pick(CATEGORIES, nulls=True), CATEGORIES, pa.large_string(), False)
    columns["orig.ident"] = pa.array(pick(STRINGS), pa.large_string())
    columns["with space"] = pa.array(pick([1, 2, 3]), pa.int32())
    nullable = {"n", "nf", "nb", "ns", "nc"}
    return pa.table(
        list(columns.values()),
        schema=pa.schema(
            [pa.field(name, c.type, nullable=name in nullable) for name, c in columns.items()]
        ),
    )


# Filters as trees, so that `not`, which tiledbsoma 1.x does not take, can be written for it with the
# comparisons turned around.

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "==",
           "in": "not in", "not in": "in"}  # fmt: skip
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
COLUMNS = [*make_table(0).column_names, "missing"]


def column_text(name: str) -> st.SearchStrategy[str]:
    quoted = [f'attr("{name}")', f"attr('{name}')"]
    return st.sampled_from(quoted if not name.isidentifier() else [name, name, name, *quoted])


def string_text(value: str) -> st.SearchStrategy[str]:
    escaped = "".join(f"\\u{ord(c):04x}" for c in value)
    return st.sampled_from([repr(value), f'"{escaped}"', f"val({value!r})", f"'''{escaped}'''"])


def number_text() -> st.SearchStrategy[str]:
    integers = st.one_of(
        st.integers(-3, 5),
        st.sampled_from(
            [100, 127, 128, 255, 256, 2**24, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64]
        ),
        st.sampled_from([-128, -129, -(2**31), -(2**63), -(2**63) - 1, 10**6, 250]),
    )
    floats = st.one_of(
        st.sampled_from(
            ["0.0", "1.0", "1.9", "0.1", "1e30", "1e999", "3.5", "2.5", "1_0.5", "5e-1"]
        ),
        st.floats(-10, 300, allow_nan=False).map(repr).filter(lambda t: not t.startswith("-")),
    )
    return st.one_of(
        integers.map(str),
        st.integers(0, 300).map(hex),
        floats,
        floats.map(lambda text: f"-{text}"),
        st.sampled_from(
            ["True", "False", "1_0", "0b11", "0o7", "val(1)", "val(2.5)", "(1)", "- -1"]
        ),
    )


def value_of(text: str) -> float:
    """A number of a filter as Python reads it."""
    return eval(text, {"val": lambda value: value})  # our own texts


def fitting_number(name: str) -> st.SearchStrategy[str]:
    """Numbers that a column can have. Others tiledbsoma cuts off, wraps or refuses."""
    if name in {"f32", "f64", "nf"}:
        return number_text()
    info = np.iinfo(INTEGER_TYPES.get(name, np.int64))
    low, high = (0, 1) if name in {"b", "nb"} else (int(info.min), int(info.max))
    edges = st.sampled_from([low, high]).map(str)
    return st.one_of(edges, number_text()).filter(
        lambda text: low <= value_of(text) <= high and value_of(text) == int(value_of(text))
    )


def proper_number(name: str) -> st.SearchStrategy[str]:
    """What tiledbsoma takes for a column of numbers: of its type, and within its bounds."""
    if name in INTEGER_TYPES:
        info = np.iinfo(INTEGER_TYPES[name])
        edges = st.sampled_from([info.min, info.max, 0, 1, 2, 3, 100])
        return st.one_of(edges, st.integers(max(info.min, -3), 5)).map(str)
    if name in {"b", "nb"}:
        return st.sampled_from(["True", "False"])
    if name in {"f32", "f64", "nf"}:
        return st.sampled_from(["0.0", "1.0", "0.1", "2.5", "3.5", "1e30", "-1.5", "-0.0"])
    if name == "ci":
        return st.sampled_from([str(number) for number in [*NUMBERS, 7]])
    return st.sampled_from(["0", "1", "2", "3", "5", "59", "1000000"])


def is_float(text: str) -> bool:
    """Whether a value of a filter is a number with a point or an exponent."""
    return isinstance(value_of(text), float)


@st.composite
def value_text(draw: st.DrawFn, name: str, proper: bool) -> str:
    is_string = name in {"s", "c", "o", "ns", "nc", "orig.ident"}
    unheard = [] if proper else ["unheard of"]
    likely_words = {"c": CATEGORIES, "nc": CATEGORIES, "o": LEVELS}.get(name, STRINGS)
    words = likely_words if proper else STRINGS + CATEGORIES + LEVELS + unheard
    strings = st.sampled_from(words).flatmap(string_text)
    if proper:
        return draw(strings if is_string else proper_number(name))
    numbers = number_text() if is_string or name == "missing" else fitting_number(name)
    likely, unlikely = (strings, numbers) if is_string else (numbers, strings)
    return draw(unlikely if draw(st.integers(0, 19)) == 0 else likely)


@st.composite
def comparison(draw: st.DrawFn, proper: bool) -> tuple:
    name = draw(st.sampled_from(COLUMNS[:-1] if proper else COLUMNS))
    column = draw(column_text(name))
    value = value_text(name, proper)
    # tiledbsoma orders the categories of ordered enumerations alone.
    unordered = proper and name in {"c", "nc", "ci"}
    kind = draw(st.integers(0, 9))
    if kind < 6:
        op = draw(st.sampled_from(["==", "!="] if unordered else list(MIRRORED)))
        return ("compare", column, op, draw(value), draw(st.booleans()))
    if kind < 7 and not unordered:
        ops = [draw(st.sampled_from(["<", "<=", ">", ">="])) for _ in range(2)]
        return ("chain", draw(value), ops[0], column, ops[1], draw(value))
    # Signed numbers in lists, and lists for these types, are beyond tiledbsoma.
    if name in {"b", "nb", "u8", "i16"} or (proper and name in TIMES):
        return ("compare", column, "!=", draw(value), False)
    whole = name not in {"f32", "f64", "nf"}  # tiledbsoma refuses 1.0 in a list for integers
    unsigned = value.filter(
        lambda text: not text.startswith(("-", "(-", "- ")) and not (whole and is_float(text))
    )
    values = draw(st.lists(unsigned, min_size=1, max_size=4))
    return ("in", column, draw(st.sampled_from(["in", "not in"])), values)


def trees(proper: bool) -> st.SearchStrategy[tuple]:
    """Filters as trees: proper ones, which tiledbsoma answers, or any."""
    return st.recursive(
        comparison(proper),
        lambda inner: st.one_of(
            st.tuples(
                st.sampled_from(["and", "or"]), st.booleans(),
                st.lists(inner, min_size=2, max_size=3),
            ),
            st.tuples(st.just("not"), inner),
        ),
        max_leaves=5,
    )  # fmt: skip


def render(node: tuple, negate: bool, with_not: bool) -> str:
    """The text of a filter; without `not` when `with_not` is false."""
    if node[0] == "not":
        if with_not:
            return f"(not {render(node[1], False, True)})"
        return render(node[1], not negate, False)
    if node[0] in ("and", "or"):
        word = {"and": "or", "or": "and"}[node[0]] if negate else node[0]
        op = {"and": "&", "or": "|"}[word] if node[1] else word
        return "(" + f" {op} ".join(render(child, negate, with_not) for child in node[2]) + ")"
    if node[0] == "in":
        op = NEGATED[node[2]] if negate else node[2]
        return f"({node[1]} {op} [{', '.join(node[3])}])"
    if node[0] == "compare":
        _, column, op, value, mirrored = node
        op = NEGATED[op] if negate else op
        return f"({value} {MIRRORED[op]} {column})" if mirrored else f"({column} {op} {value})"
    _, low, first, column, second, high = node
    if not negate:
        return f"({low} {first} {column} {second} {high})"
    return f"(({low} {NEGATED[first]} {column}) or ({column} {NEGATED[second]} {high}))"
