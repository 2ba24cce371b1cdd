"""Sampling of cells by weights, by class or by number, on any number of processes."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import scipy.stats
import tiledbsoma.io
from conftest import Oracle
from hypothesis import given
from hypothesis import strategies as st

ID = "soma_joinid"


def dataset(oracle: Oracle, **arguments: Any) -> ps.Dataset:
    return ps.Dataset(oracle.path, layer="raw", sparse=True, **{"batch_size": 64, **arguments})


def joinids(ds: ps.Dataset) -> list[int]:
    return [int(each) for _, obs in ds for each in obs[ID]]


def drawn(ds: ps.Dataset, epochs: int) -> Counter[int]:
    times: Counter[int] = Counter()
    for _ in range(epochs):
        times.update(joinids(ds))
    return times


def assert_in_proportion(times: Counter[int], weights: np.ndarray) -> None:
    """A chi-square test, for cells 0, 1, … of these weights."""
    seen = np.array([times[i] for i in range(len(weights))])
    assert seen[weights == 0].sum() == 0
    expected = seen.sum() * weights / weights.sum()
    some = weights > 0
    assert scipy.stats.chisquare(seen[some], expected[some]).pvalue > 1e-4


# --- what is drawn


def test_weights_are_kept_to(pbmc3k: Oracle) -> None:
    random = np.random.default_rng(1)
    weights = random.lognormal(0, 0.7, len(pbmc3k.obs)) * (random.random(len(pbmc3k.obs)) < 0.8)
    given = weights.copy()
    ds = dataset(pbmc3k, weights=given)
    given[:] = 1  # the array is its owner's, to do with as they like
    assert_in_proportion(drawn(ds, 30), weights)


def test_a_column_of_obs_as_weights_is_the_array_of_its_values(pbmc3k: Oracle) -> None:
    values = pbmc3k.obs["n_counts"].to_numpy()
    by_name = dataset(pbmc3k, weights="n_counts")
    assert joinids(by_name) == joinids(dataset(pbmc3k, weights=values))
    assert_in_proportion(drawn(by_name, 20), values.astype(float))


def test_batches_hold_the_cells_that_were_drawn(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k, weights="n_counts", obs_columns=[ID, "cell_type", "n_counts"])
    indexed = pbmc3k.obs.set_index(ID)
    repeated = 0
    for X, obs in ds:
        rows = obs[ID]
        repeated += len(rows) - len(set(rows.tolist()))
        assert (pbmc3k.X[rows] != X).nnz == 0
        assert obs["cell_type"].tolist() == indexed.loc[rows, "cell_type"].tolist()
        assert obs["n_counts"].tolist() == indexed.loc[rows, "n_counts"].tolist()
    assert repeated > 0


def test_balance_makes_classes_equally_frequent(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k, balance="cell_type")
    classes = pbmc3k.obs["cell_type"].astype(str).to_numpy()
    counts = Counter(classes)
    weights = np.array([1 / counts[each] for each in classes])
    assert_in_proportion(drawn(ds, 30), weights)


@pytest.mark.parametrize("temperature", [1, 2.5])
def test_balance_with_a_temperature(pbmc3k: Oracle, temperature: float) -> None:
    ds = dataset(pbmc3k, balance=ps.Balance("cell_type", temperature=temperature))
    classes = pbmc3k.obs["cell_type"].astype(str).to_numpy()
    counts = Counter(classes)
    weights = np.array([counts[each] ** (1 / temperature) / counts[each] for each in classes])
    assert_in_proportion(drawn(ds, 30), weights)


def test_balance_with_shares(pbmc3k: Oracle) -> None:
    classes = pbmc3k.obs["cell_type"].astype(str).to_numpy()
    first, second = sorted(set(classes))[:2]
    ds = dataset(pbmc3k, balance=ps.Balance("cell_type", shares={first: 3, second: 1}))
    counts = Counter(classes)
    share = {first: 3 / counts[first], second: 1 / counts[second]}
    assert_in_proportion(drawn(ds, 10), np.array([share.get(each, 0.0) for each in classes]))


def test_cells_without_a_class_are_one(tmp_path: Path) -> None:
    labels = np.array([None] * 60 + ["a"] * 30 + ["b"] * 10, object)
    obs = pd.DataFrame({"label": pd.Categorical(labels)}, index=[f"c{i}" for i in range(100)])
    cells = anndata.AnnData(sp.csr_matrix(np.ones((100, 3), np.float32)), obs=obs)
    path = str(tmp_path / "experiment")
    tiledbsoma.io.from_anndata(path, cells, measurement_name="RNA", X_layer_name="raw")
    ds = ps.Dataset(path, layer="raw", sparse=True, balance="label")
    assert_in_proportion(drawn(ds, 60), np.array([1 / 60] * 60 + [1 / 30] * 30 + [1 / 10] * 10))


def test_without_replacement_a_cell_comes_once(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k, num_samples=500)
    epochs = [joinids(ds), joinids(ds)]
    assert all(len(each) == len(set(each)) == 500 for each in epochs)
    assert set(epochs[0]) != set(epochs[1])
    weights = np.zeros(len(pbmc3k.obs))
    weights[100:900] = 1
    ds = dataset(pbmc3k, weights=weights, replacement=False)
    assert sorted(joinids(ds)) == list(range(100, 900))
    assert len(ds) == -(-800 // 64)


def test_replacement_alone_is_a_bootstrap(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k, replacement=True)
    times = drawn(ds, 1)
    assert times.total() == len(pbmc3k.obs)
    assert 0.6 < len(times) / len(pbmc3k.obs) < 0.66  # 1 - 1/e
    assert_in_proportion(drawn(ds, 20), np.ones(len(pbmc3k.obs)))


# --- with everything else


@given(
    seed=st.integers(0, 2**32),
    world=st.integers(1, 4),
    samples=st.integers(1, 3000),
    batch=st.integers(1, 300),
    uneven=st.sampled_from(["drop", "pad", "exact"]),
)
def test_ranks_share_what_was_drawn(
    soma_small: Oracle, seed: int, world: int, samples: int, batch: int, uneven: str
) -> None:
    weights = np.random.default_rng(seed).exponential(size=len(soma_small.obs)) ** 2
    if uneven != "pad":  # an epoch without a batch is an error
        samples = max(samples, world)
    alone = dataset(soma_small, seed=seed, weights=weights, num_samples=samples)
    ranks = [
        alone.with_settings(rank=rank, world_size=world, uneven=uneven, batch_size=batch)
        for rank in range(world)
    ]
    lengths = {len(each) for each in ranks}
    assert len(lengths) == 1
    together: Counter[int] = Counter()
    for each in ranks:
        batches = list(each)
        assert len(batches) in lengths
        for _, obs in batches:
            together.update(obs[ID].tolist())
    whole = drawn(alone, 1)
    if uneven == "exact":
        assert together == whole
    elif uneven == "drop":
        assert together <= whole
        assert whole.total() - together.total() < world
    else:
        assert whole <= together
        assert together.total() - whole.total() < world


@pytest.mark.parametrize("workers", [1, 3])
def test_dataloader_workers(pbmc3k: Oracle, workers: int) -> None:
    weights = np.linspace(0, 2, len(pbmc3k.obs))
    ds = dataset(pbmc3k, weights=weights, num_samples=1500)
    alone = drawn(ds.with_settings(), 1)
    loader = ps.dataloader(ds, num_workers=workers)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-1500 // 64)
    assert Counter(int(each) for _, obs in batches for each in obs[ID]) == alone


def test_resume_gives_the_batches_that_were_left(pbmc3k: Oracle) -> None:
    arguments = {"weights": "n_counts", "num_samples": 1200, "memory_budget": "64MiB"}
    whole = [obs[ID].tolist() for _, obs in dataset(pbmc3k, **arguments)]
    first = dataset(pbmc3k, **arguments)
    batches = iter(first)
    for _ in range(7):
        next(batches)
    state = first.state_dict()
    second = dataset(pbmc3k, **arguments)
    second.load_state_dict(state)
    assert [obs[ID].tolist() for _, obs in second] == whole[7:]


@pytest.mark.parametrize("replacement", [True, False])
def test_resume_in_another_shape_draws_what_is_left(pbmc3k: Oracle, replacement: bool) -> None:
    arguments = {"weights": "n_counts", "num_samples": 1200, "replacement": replacement}
    first = dataset(pbmc3k, **arguments)
    batches = iter(first)
    got = [int(each) for _ in range(7) for each in next(batches)[1][ID]]
    second = dataset(pbmc3k, **arguments, batch_size=50)
    second.load_state_dict(first.state_dict())
    batches = iter(second)
    got += [int(each) for _ in range(3) for each in next(batches)[1][ID]]
    third = dataset(pbmc3k, **arguments, batch_size=33, seed=5)
    third.load_state_dict(second.state_dict())
    got += joinids(third)
    assert len(got) == 1200
    if not replacement:
        assert len(set(got)) == 1200
    assert len(joinids(third)) == 1200  # the next epoch is whole again


def drawn_in_two_shapes(oracle: Oracle, taken: int, **arguments: Any) -> list[int]:
    """Cells of an epoch whose batches become smaller twice."""
    first = dataset(oracle, **arguments)
    batches = iter(first)
    got = [int(each) for _ in range(taken) for each in next(batches)[1][ID]]
    second = dataset(oracle, **arguments, batch_size=50)
    second.load_state_dict(first.state_dict())
    batches = iter(second)
    got += [int(each) for _ in range(2) for each in next(batches)[1][ID]]
    third = dataset(oracle, **arguments, batch_size=33)
    third.load_state_dict(second.state_dict())
    return got + joinids(third)


@pytest.mark.parametrize("num_samples", [None, 900])
@pytest.mark.parametrize("kind", ["equal", "temperature", "shares"])
def test_resume_in_another_shape_keeps_the_balance(
    pbmc3k: Oracle, kind: str, num_samples: int | None
) -> None:
    classes = pbmc3k.obs["cell_type"].astype(str)
    counts = classes.value_counts()
    common, rare = counts.index[0], counts.index[-1]
    share = dict.fromkeys(counts.index, 1.0)
    balance: Any = "cell_type"
    if kind == "temperature":
        balance = ps.Balance("cell_type", temperature=2)
        share = {name: count**0.5 for name, count in counts.items()}
    elif kind == "shares":  # all of the rare class are drawn long before the end
        share = {common: 1.0, rare: 1000.0}
        balance = ps.Balance("cell_type", shares=share)
    weights = np.array([share.get(each, 0.0) / counts[each] for each in classes])
    arguments = {"replacement": False, "num_samples": num_samples}
    for taken in (5, 12):
        got = drawn_in_two_shapes(pbmc3k, taken, balance=balance, **arguments)
        assert len(got) == len(set(got)) == (num_samples or np.count_nonzero(weights))
        assert (weights[got] > 0).all()
        # Weights that cannot change draw nearly the same cells; they are rounded otherwise.
        by_weights = drawn_in_two_shapes(pbmc3k, taken, weights=weights, **arguments)
        assert len(set(got) & set(by_weights)) >= 0.99 * len(got)


def test_resume_where_few_cells_of_the_shares_are_left(pbmc3k: Oracle) -> None:
    rare = pbmc3k.obs["cell_type"].astype(str).value_counts().index[-1]
    balance = ps.Balance("cell_type", shares={rare: 1})
    arguments = {"balance": balance, "replacement": False}
    first = dataset(pbmc3k, **arguments, batch_size=4, min_batch=2)
    batches = iter(first)
    got = [int(each) for _ in range(len(first) - 1) for each in next(batches)[1][ID]]
    second = dataset(pbmc3k, **arguments, batch_size=7)
    second.load_state_dict(first.state_dict())
    got += joinids(second)
    assert sorted(got) == np.flatnonzero(pbmc3k.obs["cell_type"] == rare).tolist()


def test_a_part_without_a_class_of_the_shares(pbmc3k: Oracle) -> None:
    """Classes are balanced over the part's own cells."""
    classes = pbmc3k.obs["cell_type"].astype(str).to_numpy()
    first, second = sorted(set(classes))[:2]
    ds = dataset(pbmc3k, balance=ps.Balance("cell_type", shares={first: 3, second: 1}))
    seen = set()
    count = len(set(classes))
    with pytest.warns(UserWarning, match="every part of the split draws"):
        parts = ds.random_split(*[1 / count] * count, group="cell_type")
    for part in parts:
        own = set(classes[part.obs.to_pandas(columns=[ID])[ID]])
        if not own & {first, second}:
            with pytest.raises(ps.InvalidArgument, match="weights are 0"):
                iter(part)
            continue
        for each in (part, part.with_settings(num_samples=300)):
            drawn_classes = set(classes[joinids(each)])
            assert drawn_classes == own & {first, second}
        seen |= drawn_classes
        if not own >= {first, second}:
            with pytest.raises(ps.InvalidArgument, match="no selected cell has cell_type"):
                part.with_settings(balance=ds.reader.settings.sampling.balance)
    assert seen == {first, second}


def test_a_state_of_other_weights_is_refused(pbmc3k: Oracle) -> None:
    first = dataset(pbmc3k, weights="n_counts")
    next(iter(first))
    second = dataset(pbmc3k)
    second.load_state_dict(first.state_dict())
    with pytest.raises(ps.InvalidArgument, match="weights, balance, replacement and num_samples"):
        iter(second)


def test_parts_draw_with_the_weights_of_their_cells(pbmc3k: Oracle) -> None:
    weights = np.random.default_rng(3).exponential(size=len(pbmc3k.obs))
    with pytest.warns(UserWarning, match="every part of the split draws"):
        parts = dataset(pbmc3k, weights=weights).random_split(0.7, 0.3)
    for part in parts:
        own = np.zeros(len(pbmc3k.obs))
        rows = part.obs.to_pandas(columns=[ID])[ID].to_numpy()
        own[rows] = weights[rows]
        assert_in_proportion(drawn(part, 20), own)
        copy = pickle.loads(pickle.dumps(part))
        copy.set_epoch(0)
        part.set_epoch(0)
        assert joinids(copy) == joinids(part)


def test_settings_change_one_at_a_time(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k, weights="n_counts", num_samples=100)
    assert len(joinids(ds.with_settings(num_samples=200))) == 200
    assert len(joinids(ds.with_settings(balance="cell_type"))) == len(pbmc3k.obs)
    plain = list(range(len(pbmc3k.obs)))
    assert joinids(ds.with_settings(shuffle=False)) == plain
    assert sorted(joinids(ds.with_settings(weights=None))) == plain
    assert [obs[ID].tolist() for _, obs in [ds.head(3)]] == [[0, 1, 2]]


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_an_empty_selection_is_an_empty_epoch(pbmc3k: Oracle) -> None:
    ds = dataset(pbmc3k, obs_query="n_counts < 0", balance="cell_type")
    assert len(ds) == 0
    assert list(ds) == []


# --- bad input


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "no_such"}, "no_such"),
        ({"weights": "cell_type"}, "weights='cell_type': a weight must be a number"),
        ({"weights": [1.0, 2.0]}, "2,638 selected cells|2638 selected cells"),
        ({"weights": [[1.0]] * 2638}, "shape"),
        ({"weights": [float("nan")] * 2638}, "row 0 has nan"),
        ({"weights": [-1.0] * 2638}, "row 0 has -1"),
        ({"weights": [0.0] * 2638}, "all 2638 weights are 0"),
        ({"weights": ["a"] * 2638}, "a number for each selected cell"),
        ({"weights": "n_counts", "balance": "cell_type"}, "give one"),
        ({"balance": "no_such"}, "no_such"),
        ({"balance": ID}, "no two cells share"),
        ({"balance": 3}, "a column of obs or a Balance"),
        ({"num_samples": 0}, "num_samples must be 1 or more"),
        ({"num_samples": 2**40, "replacement": True}, "num_samples must be 4294967295 or less"),
        ({"num_samples": 3000}, "without replacement it must be at most the 2,638 cells;"),
        ({"num_samples": 10, "obs_query": "n_counts < 0"}, "0 cells|no cell"),
        ({"weights": "n_counts", "shuffle": False}, "shuffle must be True"),
        ({"replacement": "yes"}, "replacement must be True or False"),
    ],
)
def test_bad_arguments(pbmc3k: Oracle, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ps.InvalidArgument, ps.NotFound), match=message):
        dataset(pbmc3k, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.5}, "1 or more"),
        ({"temperature": float("nan")}, "must be a number"),
        ({"temperature": "hot"}, "must be a number"),
        ({"shares": {}}, "map classes to numbers"),
        ({"shares": {"a": -1}}, "0 or more"),
        ({"shares": {"a": "much"}}, "0 or more"),
        ({"shares": {"a": float("inf")}}, "0 or more"),
        ({"shares": {"a": float("nan")}}, "0 or more"),
        ({"shares": {"a": 0}}, "all shares are 0"),
        ({"shares": {"a": 1}, "temperature": 2}, "give no temperature"),
    ],
)
def test_bad_balance(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.InvalidArgument, match=message):
        ps.Balance("cell_type", **arguments)


def test_shares_of_a_class_without_cells(pbmc3k: Oracle) -> None:
    with pytest.raises(
        ps.InvalidArgument, match="no selected cell has cell_type 'neuron'; its values are"
    ):
        dataset(pbmc3k, balance=ps.Balance("cell_type", shares={"neuron": 1}))
