"""A damaged state dict loads or raises a Penstock error, in little memory."""

from __future__ import annotations

import copy
import random
import resource
from collections.abc import Iterator
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import Oracle
from penstock.plan.shard import MOST_RANKS

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**32, 2**63, 2**64, 2**70, 10**5000, 0.5, 1e300,
    float("nan"), float("inf"), "", "x", "exact", "float64", b"x", [], [None], [[]], (), {},
    {"x": 1}, object(), int, np.array(1), np.arange(3), np.int64(1), np.bool_(True),
]  # fmt: skip


def saved(path: Any, taken: int = 2, **arguments: Any) -> tuple[ps.Dataset, dict[str, Any]]:
    ds = ps.Dataset(path, sparse=True, batch_size=16, **arguments)
    batches = iter(ds)
    for _ in range(taken):
        next(batches)
    return ds.with_settings(), ds.state_dict()


@pytest.fixture(scope="module")
def states(soma_small: Oracle) -> list[tuple[ps.Dataset, dict[str, Any]]]:
    made = [
        saved(soma_small.path),
        saved(soma_small.path, shuffle=False, uneven="exact"),
        saved(soma_small.path, shuffle="global", seed=3),
        saved(soma_small.path, shuffle="chunks", chunk_size=8, chunks_per_block=4),
        saved(soma_small.path, weights="soma_joinid", num_samples=100),
        saved(soma_small.path, rank=1, world_size=3, uneven="pad", drop_last=True),
    ]
    ds, state = made[0]  # two segments: the second in other batches
    other = ds.with_settings(batch_size=10)
    other.load_state_dict(state)
    next(iter(other))
    return [*made, (ds.with_settings(batch_size=10), other.state_dict())]


def places(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is a value in the state."""
    yield path
    if isinstance(state, dict):
        for name in state:
            yield from places(state[name], (*path, name))
    elif isinstance(state, list):
        for i in range(len(state)):
            yield from places(state[i], (*path, i))


def changed(state: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    other = copy.deepcopy(state)
    inner = other
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return other


def without(state: Any, path: tuple[Any, ...]) -> Any:
    other = copy.deepcopy(state)
    inner = other
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return other


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(ds: ps.Dataset, state: Any) -> bool:
    """Load and read on; whether it was accepted."""
    fresh = ds.with_settings()
    try:
        fresh.load_state_dict(state)
        next(iter(fresh), None)
        fresh.state_dict()
    except ps.PenstockError:
        return False
    return True


@pytest.mark.filterwarnings("ignore:rank")
def test_every_value_of_real_states_replaced_or_left_out(
    states: list[tuple[ps.Dataset, dict[str, Any]]],
) -> None:
    assert all(check(ds, state) for ds, state in states)
    before, tried, accepted = peak_mebibytes(), 0, 0
    for ds, state in states:
        for path in places(state):
            damaged = [changed(state, path, value) for value in ODD]
            if path:
                damaged.append(without(state, path))
            for each in damaged:
                tried += 1
                accepted += check(ds, each)
        check(ds, {**state, "more": object()})
    assert tried > 3000
    assert 0 < accepted < tried / 3
    assert peak_mebibytes() - before < 200


def test_several_values_at_once(states: list[tuple[ps.Dataset, dict[str, Any]]]) -> None:
    random_ = random.Random(0)
    before = peak_mebibytes()
    for _ in range(1500):
        ds, state = random_.choice(states)
        for _ in range(random_.randint(2, 4)):
            inside = [path for path in places(state) if len(path) > 1]
            if inside:
                value = random_.choice([*ODD, 65536, 4096, 10**6, 2**31 - 1, "pad", "int64"])
                state = changed(state, random_.choice(inside), value)
        check(ds, state)
    assert peak_mebibytes() - before < 200


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", 2**40, "batch_size must be an integer from 1 to 2147483647, got 1099511"),
        ("uneven", "x", 'uneven must be one of drop, pad, exact, got "x"'),
        ("world_size", 2**31, f"world_size must be an integer from 1 to {MOST_RANKS}"),
        ("dtype", "complex64", "dtype must be one of float32"),
        ("min_batch", 2**70, "min_batch must be an integer from 1 to 2147483647, got 1.1805916"),
    ],
)
def test_the_message_names_the_value(
    states: list[tuple[ps.Dataset, dict[str, Any]]], name: str, value: Any, message: str
) -> None:
    ds, state = states[0]
    with pytest.raises(ps.InvalidArgument, match=rf"^the state is damaged: {message}"):
        ds.load_state_dict(changed(state, ("segments", 0, name), value))
    with pytest.raises(ps.InvalidArgument, match=f"^the state is damaged: {name} is missing"):
        ds.load_state_dict(without(state, ("segments", 0, name)))


def test_ranks_are_bounded(soma_small: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ps.InvalidArgument, match=f"world_size must be {MOST_RANKS} or less"):
        ps.Dataset(soma_small.path, rank=0, world_size=2**31)
    before = peak_mebibytes()
    assert len(ps.Dataset(soma_small.path, rank=0, world_size=MOST_RANKS, uneven="pad")) == 1
    assert peak_mebibytes() - before < 100
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(2**31))
    with pytest.raises(ps.InvalidArgument, match="WORLD_SIZE must be"):
        len(ps.Dataset(soma_small.path))
