"""Datasets by ids, splits and copies, of tiledbsoma_ml and of penstock.compat.tiledbsoma_ml."""

from __future__ import annotations

import pickle
from types import ModuleType

import numpy as np
import penstock as ps
import pytest
import tiledbsoma
import tiledbsoma_ml_cases as shared
import torch
from tiledbsoma_ml_cases import check_values, flat, make, ours, theirs

ml, cells = shared.ml, shared.cells
_start_method, _little_garbage = shared._start_method, shared._little_garbage


# --- by ids, splits, copies


@pytest.mark.parametrize(("ml", "source"), [(theirs, theirs), (ours, theirs), (ours, ours)])
def test_made_from_locator_and_ids(ml: ModuleType, source: ModuleType, cells) -> None:
    first = make(source, cells, n_obs=10)
    ds = ml.ExperimentDataset(
        x_locator=first.x_locator, query_ids=first.query_ids, batch_size=4, shuffle=False
    )
    assert ds.shape == (3, 3)
    assert flat(ds) == list(range(10))
    with first.x_locator.open() as (X, obs):
        assert X.shape == (42, 3)
        assert obs.count == 42


def test_ids_in_another_order_are_refused(cells) -> None:
    ds = make(ours, cells, n_obs=10)
    ids = ds.query_ids
    for wrong in (
        {"obs_joinids": ids.obs_joinids[::-1], "var_joinids": ids.var_joinids},
        {"obs_joinids": ids.obs_joinids, "var_joinids": ids.var_joinids[::-1]},
    ):
        query_ids = type(ids)(**wrong)
        with pytest.raises(ps.InvalidArgument, match="must ascend"):
            ours.ExperimentDataset(x_locator=ds.x_locator, query_ids=query_ids, shuffle=False)


METHODS = ["deterministic", "multinomial", "stochastic_rounding"]


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fracs", [(0.7, 0.3), (0.7, 0.2, 0.1), (1,), (0.25,) * 4, (0.0, 1.0)])
def test_splits_are_theirs(cells, method: str, fracs: tuple[float, ...]) -> None:
    for seed in (111, 222, 333):
        parts = [
            [
                part.query_ids.obs_joinids.tolist()
                for part in ds.random_split(*fracs, seed=seed, method=method)
            ]
            for ds in (make(theirs, cells), make(ours, cells))
        ]
        assert parts[0] == parts[1]


@pytest.mark.parametrize("n", [1, 4, 15])
def test_splits_of_ids_are_theirs(n: int) -> None:
    from penstock.compat.tiledbsoma_ml.query_ids import QueryIDs
    from tiledbsoma_ml._query_ids import QueryIDs as TheirQueryIDs

    arrays = {"obs_joinids": np.arange(n), "var_joinids": np.arange(3)}
    for method in METHODS:
        for seed in range(50):
            parts = [
                [
                    p.obs_joinids.tolist()
                    for p in ids.random_split(0.4, 0.3, 0.2, 0.1, seed=seed, method=method)
                ]
                for ids in (QueryIDs(**arrays), TheirQueryIDs(**arrays))
            ]
            assert parts[0] == parts[1]


def test_parts_are_datasets(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=4, seed=3)
    train, test = ds.random_split(0.75, 0.25, seed=1, method="deterministic")
    assert train.shape == (8, 3)
    assert test.shape == (3, 3)
    assert sorted(flat(train) + flat(test)) == list(range(42))
    assert (train.batch_size, train.seed, train.epoch) in ((4, 3, 0), (4, 3, 1))
    assert ds.shape == (11, 3)
    check_values(train)


def test_a_part_without_a_cell_is_a_warning(cells) -> None:
    with pytest.warns(
        ps.NoCellsWarning, match="part 2 of 2 of the split has none of the 42"
    ) as record:
        parts = make(ours, cells).random_split(0.999, 0.001, method="deterministic")
    assert [len(part.query_ids.obs_joinids) for part in parts] == [42, 0]
    assert [each.filename for each in record] == [__file__]


@pytest.mark.parametrize("fracs", [(0.7,), (0.999,), ()])
def test_fractions_sum_to_one(ml: ModuleType, cells, fracs) -> None:
    with pytest.raises(AssertionError, match="Fractions must sum to 1"):
        make(ml, cells).random_split(*fracs)


def test_unknown_method(ml: ModuleType, cells) -> None:
    with pytest.raises(ValueError, match="method"):
        make(ml, cells).random_split(0.5, 0.5, method="fair")


def test_a_copy_is_the_same(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=4, seed=3)
    copy = pickle.loads(pickle.dumps(ds))
    assert flat(copy) == flat(make(ml, cells, batch_size=4, seed=3))


def test_a_tutorial(ml: ModuleType, cells) -> None:
    """The calls of tiledbsoma_ml's tutorials, on a logistic regression."""
    from sklearn.preprocessing import LabelEncoder

    query = tiledbsoma.AxisQuery(value_filter="score < 5")
    with cells.axis_query("RNA", obs_query=query) as selected:
        encoder = LabelEncoder().fit(selected.obs().concat().to_pandas()["kind"].unique())
    ds = ml.ExperimentDataset(
        selected, layer_name="raw", obs_column_names=["kind"], batch_size=16, shuffle=True, seed=111
    )
    train, test = ds.random_split(0.8, 0.2, seed=1)
    assert not set(train.query_ids.obs_joinids) & set(test.query_ids.obs_joinids)
    loader = ml.experiment_dataloader(train)
    torch.manual_seed(0)
    model = torch.nn.Linear(ds.shape[1], len(encoder.classes_))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2)
    for epoch in range(8):
        train.set_epoch(epoch)
        for X, obs in loader:
            labels = torch.from_numpy(encoder.transform(obs["kind"]))
            loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(X)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    X, obs = next(iter(ml.experiment_dataloader(test)))
    predicted = encoder.inverse_transform(model(torch.from_numpy(X)).argmax(1))
    assert (predicted == obs["kind"]).mean() > 0.8
