"""Parsing of the benchmark's command line, and errors for invalid arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock import InvalidArgument
from penstock.bench.block_spec import BlockSpec, parse_block_specs
from penstock.bench.dataset_slice import DatasetSlice, value_filter
from penstock.bench.methods import METHODS, parse_methods
from penstock.bench.scale import parse_axis

SPACES = st.sampled_from(["", " ", "  "])
NUMBERS = st.integers(1, 4096)


@given(NUMBERS, NUMBERS, SPACES)
def test_chunks_of_a_size(chunks: int, size: int, space: str) -> None:
    assert parse_block_specs(f"{space}{chunks}x{size}{space}") == [BlockSpec(chunks, size)]
    assert parse_block_specs(str(size)) == [BlockSpec(1, size)]


@given(NUMBERS, NUMBERS, SPACES)
def test_blocks_that_divide(chunks: int, size: int, space: str) -> None:
    (spec,) = parse_block_specs(f"{chunks * size}{space}/{space}{chunks}")
    assert (spec.chunks_per_block, spec.chunk_size, spec.block_size) == (
        chunks, size, chunks * size,
    )  # fmt: skip


@given(NUMBERS, NUMBERS)
def test_blocks_that_do_not(block: int, chunks: int) -> None:
    if block % chunks:
        with pytest.raises(InvalidArgument, match="do not divide"):
            parse_block_specs(f"{block} / {chunks}")


@given(st.integers(0, 12), st.integers(0, 12), SPACES)
def test_ranges_of_doubling_chunks(first: int, last: int, space: str) -> None:
    specs = parse_block_specs(f"131072{space}/{space}[{2**first},{space}{2**last}]")
    step = 1 if last >= first else -1
    assert [s.chunks_per_block for s in specs] == [
        2**power for power in range(first, last + step, step)
    ]
    assert {s.block_size for s in specs} == {131072}


def test_alb_example() -> None:
    specs = parse_block_specs("131072 / [1,4096]")
    assert [s.chunk_size for s in specs] == [2**p for p in range(17, 4, -1)]


@pytest.mark.parametrize(
    "text", ["", "x", "64x", "x64", "0", "0x64", "64x0", "1/0", "128/[0,4]", "128/[1,2", "-1", "1.5",
             "128 / [1,2,3]", "64x64x64", "9" * 30]
)  # fmt: skip
def test_no_block(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"block|divide"):
        parse_block_specs(text)


@given(st.text(max_size=12))
def test_any_text_is_blocks_or_a_clear_error(text: str) -> None:
    try:
        specs = parse_block_specs(text)
    except InvalidArgument:
        return
    assert specs
    assert all(spec.block_size >= 1 for spec in specs)


@given(st.integers(0, 200), st.integers(1, 200), st.booleans())
def test_slices_round_trip(start: int, length: int, by_size: bool) -> None:
    chosen = DatasetSlice(start, start + length, by_size)
    assert DatasetSlice.parse(str(chosen)) == chosen


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.data())
def test_slices_choose(sizes: list[int], data: st.DataObject) -> None:
    ids = [f"d{i}" for i in range(len(sizes))]
    start = data.draw(st.integers(0, len(ids) - 1))
    end = data.draw(st.one_of(st.none(), st.integers(start + 1, len(ids) + 3)))
    assert DatasetSlice(start, end).of(ids, sizes) == ids[start:end]
    chosen = DatasetSlice(start, end, True).of(ids, sizes)
    ordered = [ids[i] for i in sorted(range(len(ids)), key=lambda i: (sizes[i], i))]
    assert chosen == ordered[start:end]


@pytest.mark.parametrize("text", ["", "5", "a:b", "-1:4", "4:4", "5:2", "x:3", "1:2:3"])
def test_no_slice(text: str) -> None:
    with pytest.raises(InvalidArgument, match="slice of datasets"):
        DatasetSlice.parse(text)


def test_slice_of_too_few_datasets() -> None:
    with pytest.raises(InvalidArgument, match="is empty"):
        DatasetSlice(3, 5).of(["a", "b"], [1, 1])


def test_filter_of_datasets() -> None:
    assert value_filter(["a", "b-1"]) == "dataset_id in ['a', 'b-1']"


def test_methods_by_name_and_prefix() -> None:
    assert [m.name for m in parse_methods("penstock, np,ANNB")] == [
        "penstock", "np.array", "annbatch",
    ]  # fmt: skip
    assert [m.name for m in parse_methods("tiledbsoma_ml,tile")] == ["tiledbsoma_ml"]
    assert [m.name for m in parse_methods("all")] == list(METHODS)


@pytest.mark.parametrize(("text", "words"), [
    ("nothing", "is no method: penstock, "), ("ann", "begins several methods: annbatch, "),
    ("", "is no method"), ("penstock,,", "is no method"),
])  # fmt: skip
def test_unknown_methods(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        parse_methods(text)


def test_axes() -> None:
    assert parse_axis("cells=1_000,2000") == ("cells", [1000.0, 2000.0])
    for text in ("cells", "cells=", "size=3", "cells=a", "cells=0", "genes=1,-2", "cells=nan"):
        with pytest.raises(InvalidArgument, match="axis"):
            parse_axis(text)
