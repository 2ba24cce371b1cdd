"""Random parts of a Dataset."""

from __future__ import annotations

import penstock as ps
import pytest
from conftest import Oracle, joinids_of
from hypothesis import given
from hypothesis import strategies as st

GOLDEN_SPLIT = [21, 29, 55, 97, 125, 195, 201, 243, 262, 280]


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
@given(weights=st.lists(st.integers(0, 20), min_size=2, max_size=6), seed=st.integers(0, 2**64 - 1))
def test_random_split_is_a_partition(soma_small: Oracle, weights: list[int], seed: int) -> None:
    if sum(weights) == 0:
        weights[0] = 1
    ds = ps.Dataset(soma_small.path)
    parts = ds.random_split(*[weight / sum(weights) for weight in weights], seed=seed)
    ids = [part.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist() for part in parts]
    assert sorted(sum(ids, [])) == soma_small.obs["soma_joinid"].tolist()
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part.n_obs - ds.n_obs * weight / sum(weights)) <= 1
    again = ds.random_split([weight / sum(weights) for weight in weights], seed=seed)
    assert [joinids_of(part) for part in again] == [joinids_of(part) for part in parts]


def test_random_split_by_sizes(soma_small: Oracle) -> None:
    ds = ps.Dataset(soma_small.path)
    a, b = ds.random_split(299, 1)
    assert (a.n_obs, b.n_obs) == (299, 1)
    other, _ = ds.random_split(299, 1, seed=1)
    assert joinids_of(a) != joinids_of(other)
    for parts in ((1.0,), (0.5, 0.6), (100, 100), (-1, 301), (0.5, "x"), (0.5, float("nan"))):
        with pytest.raises(ps.InvalidArgument):
            ds.random_split(*parts)


def test_random_split_is_the_same_everywhere(soma_small: Oracle) -> None:
    """Golden: a checkpoint's validation cells must stay validation cells."""
    _, val = ps.Dataset(soma_small.path).random_split(290, 10, seed=0)
    ids = val.obs.to_pandas(columns=["soma_joinid"])["soma_joinid"].tolist()
    assert ids == GOLDEN_SPLIT
