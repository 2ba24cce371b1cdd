"""The plan's estimates of the shuffle agree with its batches."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.stats
from conftest import Oracle, write_small_tiles
from hypothesis import given
from hypothesis import strategies as st
from penstock.plan.uniform_entropy import uniform_entropy


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 cells of 12 datasets, each stored together, in many fetch units."""
    sizes = np.random.default_rng(0).multinomial(6000, np.arange(1, 13) / 78)
    obs = pd.DataFrame(
        {"dataset_id": np.repeat([f"d{i}" for i in range(12)], sizes), "weight": np.arange(6000.0)},
        index=[f"cell{i}" for i in range(6000)],
    )
    path = tmp_path_factory.mktemp("datasets") / "experiment"
    return write_small_tiles(path, 6000, 60, obs=obs)


def dataset(path: Path, **arguments: Any) -> ps.Dataset:
    return ps.Dataset(
        path,
        layer="raw",
        sparse=True,
        obs_columns=["dataset_id"],
        **{"batch_size": 64, **arguments},
    )


def entropy(labels: Any) -> float:
    return float(scipy.stats.entropy(list(Counter(labels).values()), base=2))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"memory_budget": "500KB"},
        {"shuffle": False},
        {"weights": "weight", "num_samples": 2000},
        {"rank": 1, "world_size": 3, "uneven": "exact"},
        {"obs_query": "weight > 900", "batch_size": 37},
    ],
)
def test_it_tells_the_entropy_of_the_batches(stored: Path, arguments: Any) -> None:
    ds = dataset(stored, **arguments)
    ds.set_epoch(3)
    report = ds.shuffle_report("dataset_id")
    assert ds.epoch == 3
    seen = [entropy(obs["dataset_id"].tolist()) for _, obs in ds]
    np.testing.assert_allclose(report.batch_entropy, seen, atol=1e-9)
    stats = ds.stats
    assert report.units == stats.units
    assert report.units_in_shuffle == stats.units_in_shuffle
    assert report.planned_bytes == stats.planned_bytes
    assert report.units > 10
    if "obs_query" not in arguments and "weights" not in arguments:
        assert report.read_amplification == pytest.approx(stats.read_amplification, rel=0.05)
    assert report.share == pytest.approx(np.mean(seen) / report.uniform_entropy)
    first = np.mean(seen[: max(1, len(seen) // 20)])
    assert report.first_twentieth_share == pytest.approx(first / report.uniform_entropy)


def test_all_in_memory_is_as_good_as_uniform(stored: Path) -> None:
    report = dataset(stored, memory_budget="4GiB").shuffle_report("dataset_id")
    assert report.units_in_shuffle == report.units
    assert report.share == pytest.approx(1, abs=0.01)
    in_order = dataset(stored, shuffle=False).shuffle_report("dataset_id")
    assert in_order.share < 0.3
    assert "of the entropy of a uniform shuffle" in repr(report)


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.integers(1, 130),
    st.integers(0, 2**32 - 1),
)
def test_uniform_entropy_is_that_of_random_batches(counts, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    drawn = random.multivariate_hypergeometric(counts, min(size, len(labels)), size=3000)
    shares = drawn / drawn.sum(axis=1, keepdims=True)
    bits = -np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1)), 0).sum(axis=1)
    error = 6 * bits.std() / math.sqrt(len(bits)) + 1e-6
    assert uniform_entropy(np.array(counts), size) == pytest.approx(bits.mean(), abs=error)


@pytest.mark.parametrize(
    ("counts", "size"),
    [([3, 5, 9], 4), ([1, 1, 1], 3), ([10**6, 1, 40_000], 128), ([2_000] * 30, 4_096), ([7], 5)],
)
def test_uniform_entropy_is_the_sum_over_the_hypergeometric(counts, size: int) -> None:
    total, expected = sum(counts), 0.0
    for own in counts:
        x = np.arange(1, min(size, own) + 1)
        chance = scipy.stats.hypergeom.pmf(x, total, own, size)
        expected -= (chance * x / size * np.log2(x / size)).sum()
    assert uniform_entropy(np.array(counts), size) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_uniform_shuffle_of_what_is_drawn(stored: Path) -> None:
    """Cells of two datasets alone, equally often: a bit, and not what all cells have."""
    labels = ps.Dataset(stored).obs.to_pandas(columns=["dataset_id"])["dataset_id"]
    sizes = labels.value_counts()
    weights = labels.map({"d3": 1 / sizes["d3"], "d9": 1 / sizes["d9"]}).fillna(0).astype(float)
    ds = dataset(stored, weights=weights.to_numpy(), num_samples=64 * 40)
    report = ds.shuffle_report("dataset_id")
    assert report.uniform_entropy == pytest.approx(1, abs=0.02)
    assert 0.8 < report.share < 1.02
    alone = dataset(stored, balance=ps.Balance("dataset_id", shares={"d3": 1}))
    assert (alone.shuffle_report("dataset_id").uniform_entropy, alone.n_obs) == (0, 6000)


def test_all_in_memory_is_enough_for_any_share(stored: Path) -> None:
    """A uniform shuffle's own batches are now above their mean and now below it."""
    for seed in range(50):
        report = dataset(stored, seed=seed, memory_budget="1GiB").shuffle_report("dataset_id")
        if report.share < 1:
            break
    assert report.share < 1
    assert report.budget_for(1) <= 2**30


def test_uniform_entropy_of_a_batch_of_everything() -> None:
    """However large the batch, in little memory."""
    counts = np.array([10**8, 3 * 10**8])
    assert uniform_entropy(counts, 2**31 - 1) == pytest.approx(scipy.stats.entropy([1, 3], base=2))
    assert uniform_entropy(counts, 10**8) == pytest.approx(scipy.stats.entropy([1, 3], base=2))


def test_uniform_entropy_of_many_cells() -> None:
    counts = np.full(300, 10**6)
    bits = np.log2(300) - (300 - 1) / (2 * 4096 * math.log(2))  # Miller and Madow, first order
    assert uniform_entropy(counts, 4096) == pytest.approx(bits, abs=2e-3)


def test_the_budget_for_a_share_reaches_it(stored: Path) -> None:
    ds = dataset(stored, memory_budget="500KB")
    report = ds.shuffle_report("dataset_id")
    wanted = (report.share + 1) / 2
    budget = report.budget_for(wanted)
    assert ds.shuffle_report("dataset_id", memory_budget=budget).share >= wanted
    less = ds.shuffle_report("dataset_id", memory_budget=int(budget / 1.1))
    assert less.share < wanted
    with pytest.raises(ps.InvalidArgument, match="above 0 and at most 1"):
        report.budget_for(1.5)


def test_the_plot(stored: Path, tmp_path: Path) -> None:
    report = dataset(stored).shuffle_report("dataset_id")
    report.plot(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_reports_are_values(stored: Path) -> None:
    report = dataset(stored).shuffle_report("dataset_id")
    copy = pickle.loads(pickle.dumps(report))
    assert copy.share == report.share
    with pytest.raises(ps.InvalidArgument, match="not made by"):
        copy.budget_for(0.9)


def test_bad_arguments(stored: Path) -> None:
    ds = dataset(stored)
    with pytest.raises(ps.NotFound, match="no_such"):
        ds.shuffle_report("no_such")
    with pytest.raises(ps.ResourceExhausted, match="needed at least"):
        ds.shuffle_report("dataset_id", memory_budget="1KiB")


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 6001, "drop_last": True},
        {"batch_size": 6002, "min_batch": 6001},
        {"rank": 0, "world_size": 6001},
        {"rank": 0, "world_size": 6001, "uneven": "exact"},
        {"num_samples": 20, "drop_last": True},
    ],
)
def test_an_epoch_without_a_batch_is_the_error_that_iterating_is(
    stored: Path, arguments: dict[str, Any]
) -> None:
    ds = dataset(stored, **arguments)
    with pytest.raises(ps.InvalidArgument) as iterating:
        iter(ds)
    with pytest.raises(ps.InvalidArgument) as reporting:
        ds.shuffle_report("dataset_id")
    assert str(reporting.value) == str(iterating.value)


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_no_cell_is_nothing_to_report_on(stored: Path) -> None:
    empty = dataset(stored, obs_query="weight < 0")
    with pytest.raises(ps.InvalidArgument, match="no cell is selected, so there is no shuffle"):
        empty.shuffle_report("dataset_id")


GENES = np.arange(200)  # in the first of two columns of tiles


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"var_query": ps.AxisQuery(coords=(GENES,))},
        {"transforms": [ps.SelectGenes(GENES)]},
        {"transforms": [ps.SelectGenes(GENES)], "memory_budget": "24MiB"},
        {"obs_query": ps.AxisQuery(coords=(slice(2100, 3000),))},
        {"rank": 1, "world_size": 3, "uneven": "exact"},
        {"weights": "soma_joinid", "num_samples": 2000},
        {"weights": "soma_joinid", "num_samples": 20},
        {"shuffle": "chunks", "chunks_per_block": 4},
        {"shuffle": "global", "memory_budget": "72MiB"},
    ],
)
@pytest.mark.filterwarnings("ignore::penstock.plan.shuffle_cost.ReadAgainWarning")
def test_bytes_told_are_the_bytes_that_the_epoch_reads(census_like: Oracle, arguments: Any) -> None:
    ds = ps.Dataset(census_like.path, sparse=True, keep=False, **arguments)
    report, plan = ds.shuffle_report("dataset_id"), ds.plan()
    assert sum(1 for _ in ds) == len(ds)
    stats = ds.stats
    assert stats.planned_bytes_read == plan.planned_bytes_read > 0
    assert plan.planned_bytes_read == stats.bytes_read
    assert report.read_amplification == stats.read_amplification
    # What is kept in memory may be read less often.
    kept = ds.with_settings(keep=True)
    planned = kept.plan().planned_bytes_read
    assert sum(1 for _ in kept) == len(kept)
    assert 0 < kept.stats.bytes_read <= planned <= plan.planned_bytes_read


@pytest.mark.parametrize("genes", [None, ps.AxisQuery(coords=(GENES,))])
def test_bytes_told_of_a_join_and_of_a_pack(
    census_like: Oracle, tmp_path: Path, genes: Any
) -> None:
    ps.pack(census_like.path, tmp_path / "pack")
    for source, shuffle in (
        ([census_like.path, tmp_path / "pack"], "scatter"),
        (tmp_path / "pack", "scatter"),
    ):
        ds = ps.Dataset(source, sparse=True, var_query=genes, shuffle=shuffle)
        report = ds.shuffle_report("dataset_id")
        assert sum(1 for _ in ds) == len(ds)
        assert report.read_amplification == pytest.approx(ds.stats.read_amplification, rel=0.02)
    each = ps.Dataset(tmp_path / "pack", var_query=genes, shuffle="global")
    report = each.shuffle_report("dataset_id")
    assert (report.units, report.read_amplification) == (0, None)
    assert "not known in advance" in str(report)
