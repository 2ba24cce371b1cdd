"""The same assertions about tiledbsoma_ml and about penstock.compat.tiledbsoma_ml."""

from __future__ import annotations

import gc
import importlib
import inspect
import multiprocessing
import pickle
from types import ModuleType

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import tiledbsoma
import torch
from compat_experiments import as_process, counts, write_cells
from conftest import Oracle
from torch.utils.data import DataLoader, IterableDataset

THEIRS, OURS = "tiledbsoma_ml", "penstock.compat.tiledbsoma_ml"

theirs = importlib.import_module(THEIRS)
ours = importlib.import_module(OURS)


@pytest.fixture(params=[THEIRS, OURS])
def ml(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture(autouse=True)
def _start_method():
    """tiledbsoma_ml sets the start method of the whole process."""
    before = multiprocessing.get_start_method()
    yield
    torch.multiprocessing.set_start_method(before, force=True)


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """tiledbsoma_ml collects garbage for every block that it reads: seconds a test otherwise."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory):
    """42 cells, 3 genes."""
    with write_cells(tmp_path_factory.mktemp("compat") / "exp", np.arange(42)) as experiment:
        yield experiment


def make(ml: ModuleType, experiment, n_obs: int | None = None, **arguments):
    coords = (slice(None),) if n_obs is None else (slice(0, n_obs - 1),)
    arguments = {"layer_name": "raw", **arguments}
    with experiment.axis_query("RNA", obs_query=tiledbsoma.AxisQuery(coords=coords)) as query:
        return ml.ExperimentDataset(query, **arguments)


def joinids_of(batches) -> list[list[int]]:
    return [obs["soma_joinid"].tolist() for _, obs in batches]


def flat(batches) -> list[int]:
    return [joinid for batch in joinids_of(batches) for joinid in batch]


def check_values(batches) -> None:
    for X, obs in batches:
        dense = X.toarray() if sp.issparse(X) else np.atleast_2d(X)
        np.testing.assert_array_equal(dense, counts(obs["soma_joinid"]), strict=True)


# --- names, signatures, attributes


@pytest.mark.parametrize(
    "name",
    [
        "ExperimentDataset.__init__",
        "ExperimentDataset.random_split",
        "ExperimentDataset.set_epoch",
        "experiment_dataloader",
    ],
)
def test_signatures_are_theirs(name: str) -> None:
    def parameters(module: ModuleType):
        found = module
        for part in name.split("."):
            found = getattr(found, part)
        signature = inspect.signature(found).parameters.values()
        return [(p.name, p.kind, p.default) for p in signature]

    assert parameters(ours) == parameters(theirs)


def test_names_are_theirs() -> None:
    assert set(theirs.__all__) <= set(dir(ours))
    for name in dir(theirs.ExperimentDataset):
        if not name.startswith("_"):
            assert hasattr(ours.ExperimentDataset, name) or name in (
                "obs_column_names", "batch_size", "io_batch_size", "shuffle", "shuffle_chunk_size",
                "return_sparse_X", "use_eager_fetch",
            )  # fmt: skip


def test_attributes(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=5, seed=7)
    assert isinstance(ds, IterableDataset)
    assert ds.measurement_name == "RNA"
    assert ds.layer_name == "raw"
    assert ds.obs_column_names == ["soma_joinid"]
    assert (ds.batch_size, ds.io_batch_size, ds.shuffle_chunk_size) == (5, 65536, 64)
    assert (ds.shuffle, ds.return_sparse_X, ds.use_eager_fetch) == (True, False, True)
    assert (ds.seed, ds.epoch, ds.rank, ds.world_size) == (7, 0, 0, 1)
    assert ds.query_ids.obs_joinids.tolist() == list(range(42))
    assert ds.query_ids.var_joinids.tolist() == [0, 1, 2]
    assert ds.x_locator.uri == cells.uri
    assert ds.x_locator.tiledb_timestamp_ms == cells.tiledb_timestamp_ms
    assert 0 <= make(ml, cells).seed < 2**32
    ds.set_epoch(3)
    assert ds.epoch == 3


@pytest.mark.parametrize("batch_size", [1, 3, 10, 100])
def test_shape_is_batches_and_genes(ml: ModuleType, cells, batch_size: int) -> None:
    ds = make(ml, cells, n_obs=10, batch_size=batch_size)
    assert ds.shape == (-(-10 // batch_size), 3)
    assert len(ds) == ds.shape[0] == len(list(ds))


# --- batches


@pytest.mark.parametrize("io_batch_size", [2, 6, 10])
@pytest.mark.parametrize("return_sparse_X", [False, True])
@pytest.mark.parametrize("use_eager_fetch", [False, True])
def test_stored_order(ml, cells, io_batch_size, return_sparse_X, use_eager_fetch) -> None:
    ds = make(
        ml,
        cells,
        n_obs=10,
        shuffle=False,
        batch_size=3,
        io_batch_size=io_batch_size,
        return_sparse_X=return_sparse_X,
        use_eager_fetch=use_eager_fetch,
    )
    batches = list(ds)
    assert joinids_of(batches) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert all(isinstance(X, sp.csr_matrix) == return_sparse_X for X, _ in batches)
    check_values(batches)


@pytest.mark.parametrize("return_sparse_X", [False, True])
def test_shuffled_cells_come_once_each(ml: ModuleType, cells, return_sparse_X: bool) -> None:
    ds = make(ml, cells, batch_size=4, seed=111, return_sparse_X=return_sparse_X)
    batches = list(ds)
    assert [len(ids) for ids in joinids_of(batches)] == [4] * 10 + [2]
    assert sorted(flat(batches)) == list(range(42)) != flat(batches)
    check_values(batches)
    assert flat(make(ml, cells, batch_size=4, seed=111)) == flat(batches)
    assert flat(make(ml, cells, batch_size=4, seed=112)) != flat(batches)


def test_one_cell_a_batch(ml: ModuleType, cells) -> None:
    batches = list(make(ml, cells, n_obs=3, shuffle=False))
    assert [X.shape for X, _ in batches] == [(3,)] * 3
    assert [obs.shape for _, obs in batches] == [(1, 1)] * 3
    np.testing.assert_array_equal(batches[1][0], counts([1])[0], strict=True)
    sparse = list(make(ml, cells, n_obs=3, shuffle=False, return_sparse_X=True))
    assert [X.shape for X, _ in sparse] == [(1, 3)] * 3


def test_obs_is_a_frame_of_the_columns_in_their_order(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, shuffle=False, batch_size=4, obs_column_names=["score", "label", "kind"])
    obs = list(ds)[1][1]
    expected = pd.DataFrame(
        {
            "score": [0.5, 0.625, 0.75, 0.875],
            "label": ["4", "5", "6", "7"],
            "kind": pd.Categorical(["even", "odd"] * 2, ["even", "odd", "unused"]),
        }
    )
    pd.testing.assert_frame_equal(obs, expected)


def test_obs_of_real_columns_is_theirs(soma_small: Oracle) -> None:
    columns = soma_small.obs.columns.tolist()
    frames = []
    with tiledbsoma.open(str(soma_small.path)) as experiment:
        for ml in (theirs, ours):
            ds = make(ml, experiment, shuffle=False, batch_size=37, obs_column_names=columns)
            frames.append([obs for _, obs in ds])
    for their_obs, our_obs in zip(*frames, strict=True):
        pd.testing.assert_frame_equal(our_obs, their_obs)


@pytest.mark.parametrize("value_type", ["float32", "float64", "uint16"])
def test_dtype_of_x_is_the_stored_one(ml: ModuleType, tmp_path, value_type: str) -> None:
    import pyarrow as pa

    with write_cells(tmp_path / "exp", np.arange(6), value_type=getattr(pa, value_type)()) as cells:
        for sparse in (False, True):
            X, obs = next(iter(make(ml, cells, batch_size=6, return_sparse_X=sparse)))
            dense = X.toarray() if sparse else X
            expected = counts(obs["soma_joinid"]).astype(value_type)
            np.testing.assert_array_equal(dense, expected, strict=True)


def test_joinids_may_be_large(ml: ModuleType, tmp_path) -> None:
    joinids = np.arange(100_000_000, 100_000_003)
    with write_cells(tmp_path / "exp", joinids) as cells:
        batches = list(make(ml, cells, shuffle=False, batch_size=3))
    assert joinids_of(batches) == [joinids.tolist()]
    check_values(batches)


def test_nothing_selected(ml: ModuleType, cells) -> None:
    query = tiledbsoma.AxisQuery(coords=([],))
    with cells.axis_query("RNA", obs_query=query) as selected:
        ds = ml.ExperimentDataset(selected, layer_name="raw", batch_size=3)
    assert ds.shape == (0, 3)
    with pytest.raises(StopIteration):
        next(iter(ds))


def test_genes_of_the_query(ml: ModuleType, cells) -> None:
    query = tiledbsoma.AxisQuery(coords=([2, 0],))
    with cells.axis_query("RNA", var_query=query) as selected:
        ds = ml.ExperimentDataset(selected, layer_name="raw", batch_size=42)
    X, obs = next(iter(ds))
    assert ds.shape == (1, 2)
    np.testing.assert_array_equal(X, counts(obs["soma_joinid"])[:, [0, 2]])


# --- ranks and workers


@pytest.mark.parametrize(("n_obs", "seed"), [(40, None), (41, 111), (42, 111)])
def test_ranks_and_workers_share_the_cells(ml: ModuleType, cells, n_obs: int, seed) -> None:
    seen, cells_of_rank = [], []
    for rank in range(2):
        of_rank = []
        for worker in range(2):
            with as_process(rank, 2, worker, 2):
                ds = make(
                    ml, cells, n_obs, shuffle=seed is not None, seed=seed, batch_size=3,
                    shuffle_chunk_size=2, io_batch_size=4,
                )  # fmt: skip
                batches = list(ds)
                assert (ds.rank, ds.world_size) == (rank, 2)
                assert ds.shape == (len(batches), 3)
            check_values(batches)
            of_rank += flat(batches)
        cells_of_rank.append(len(of_rank))
        seen += of_rank
    assert cells_of_rank == [n_obs // 2] * 2
    assert len(set(seen)) == len(seen) == n_obs // 2 * 2
    assert set(seen) <= set(range(n_obs))


# tiledbsoma_ml spawns workers, which takes seconds: it has them in the tests of faults alone.
@pytest.mark.parametrize(("ml", "num_workers"), [(theirs, 0), (ours, 0), (ours, 2)])
def test_dataloader(ml: ModuleType, cells, num_workers: int) -> None:
    ds = make(ml, cells, batch_size=5, seed=1, obs_column_names=["soma_joinid", "kind"])
    loader = ml.experiment_dataloader(ds, num_workers=num_workers)
    assert isinstance(loader, DataLoader)
    batches = list(loader)
    assert sorted(flat(batches)) == list(range(42))
    assert all(isinstance(X, np.ndarray) and isinstance(obs, pd.DataFrame) for X, obs in batches)
    check_values(batches)


def test_dataloader_takes_a_collate_fn(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=5)
    loader = ml.experiment_dataloader(ds, collate_fn=lambda batch: torch.from_numpy(batch[0]))
    assert [X.shape[0] for X in loader] == [5] * 8 + [2]


# --- what is refused


@pytest.mark.parametrize("argument", ["shuffle", "batch_size", "sampler", "batch_sampler"])
def test_dataloader_refuses_what_the_dataset_does(ml: ModuleType, argument: str) -> None:
    with pytest.raises(ValueError, match=argument):
        ml.experiment_dataloader(object(), **{argument: 3})


def test_no_batch_by_number(ml: ModuleType, cells) -> None:
    with pytest.raises(NotImplementedError):
        make(ml, cells)[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"obs_column_names": ()},
        {"batch_size": 0},
        {"io_batch_size": 0},
        {"shuffle_chunk_size": 0},
        {"io_batch_size": 100, "shuffle_chunk_size": 64},
        {"layer_name": None},
    ],
)
def test_refused_arguments(ml: ModuleType, cells, arguments: dict) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        make(ml, cells, **arguments)


def test_no_such_layer_is_a_key_error(ml: ModuleType, cells) -> None:
    with pytest.raises(KeyError, match="nope"):
        next(iter(make(ml, cells, layer_name="nope")))


def test_messages_of_missing_names_are_not_quoted(cells) -> None:
    with pytest.raises(ps.NotFound, match=r"^there is no layer 'nope'; ") as error:
        make(ours, cells, layer_name="nope")
    copied = pickle.loads(pickle.dumps(error.value))
    assert (type(copied), str(copied)) == (type(error.value), str(error.value))
    with pytest.raises(ps.NotFound, match="no column 'nope'"):
        make(ours, cells, obs_column_names=["nope"])


def test_block_sizes_need_not_fit_without_shuffle(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, shuffle=False, io_batch_size=100, shuffle_chunk_size=64, batch_size=42)
    assert flat(ds) == list(range(42))


def test_either_query_or_ids(ml: ModuleType, cells) -> None:
    ds = make(ml, cells)
    locator, ids = ds.x_locator, ds.query_ids
    with cells.axis_query("RNA") as query:
        for arguments in (
            {},
            {"query": query},
            {"layer_name": "raw"},
            {"x_locator": locator},
            {"query_ids": ids},
            {"query": query, "layer_name": "raw", "x_locator": locator},
            {"query": query, "layer_name": "raw", "query_ids": ids},
            {"query": query, "x_locator": locator, "query_ids": ids},
            {"layer_name": "raw", "x_locator": locator, "query_ids": ids},
        ):
            with pytest.raises(ValueError, match="query_ids"):
                ml.ExperimentDataset(**arguments)


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


# --- what tiledbsoma_ml 0.1.0 gets wrong


def is_ours(ml: ModuleType) -> bool:
    return ml.__name__ == OURS


def test_fault_the_order_is_the_same_every_epoch(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=5, seed=1)
    orders = []
    for epoch in range(2):
        ds.set_epoch(epoch)
        orders.append(flat(ds))
    assert (orders[0] != orders[1]) == is_ours(ml)


def test_fault_a_rank_sees_the_same_slice_every_epoch(ml: ModuleType, cells) -> None:
    with as_process(rank=1, world_size=2):
        ds = make(ml, cells, batch_size=5, seed=1)
        slices = []
        for epoch in range(2):
            ds.set_epoch(epoch)
            slices.append(sorted(flat(ds)))
    assert (slices[0] != slices[1]) == is_ours(ml)
    assert (slices[0] != list(range(21, 42))) == is_ours(ml)


def test_fault_len_with_workers(ml: ModuleType, cells) -> None:
    loader = ml.experiment_dataloader(make(ml, cells, batch_size=10), num_workers=2)
    length = len(loader)
    if is_ours(ml):
        batches = list(loader)
        assert length == len(batches) == 5
    else:
        with pytest.warns(UserWarning, match="Length of IterableDataset"):
            batches = list(loader)
        assert (length, len(batches)) == (5, 6)
    assert sorted(flat(batches)) == list(range(42))
    check_values(batches)


def test_fault_csr_with_workers_is_refused(ml: ModuleType, cells) -> None:
    ds = make(ml, cells, batch_size=11, return_sparse_X=True)
    # One for the peer: a second would still be starting when the first has failed.
    loader = ml.experiment_dataloader(ds, num_workers=2 if is_ours(ml) else 1)
    if is_ours(ml):
        batches = list(loader)
        assert sorted(flat(batches)) == list(range(42))
        check_values(batches)
    else:
        with pytest.raises(NotImplementedError):
            next(iter(loader))


# --- ours alone


def test_ranks_without_a_seed_have_one_order(cells) -> None:
    seen = []
    for rank in range(2):
        with as_process(rank, 2):
            seen += flat(make(ours, cells, batch_size=5))
    assert sorted(seen) == list(range(42))


def test_ranks_without_a_seed_split_alike(cells) -> None:
    splits = []
    for rank in range(2):
        with as_process(rank, 2):
            splits.append(
                make(ours, cells).random_split(0.5, 0.5)[0].query_ids.obs_joinids.tolist()
            )
    assert splits[0] == splits[1]


def test_the_budget_follows_the_block(cells) -> None:
    def budget(**arguments) -> int:
        ds = make(ours, cells, **arguments)
        iter(ds)
        return ds.penstock_dataset._settings.memory_budget

    assert budget() == 2**30 + 8 * 12
    assert budget(io_batch_size=2**18) == 2**32 + 8 * 12
    assert budget(io_batch_size=64) == 2**29 + 8 * 12
    assert budget(shuffle=False) == 2**29 + 8 * 12
    with as_process(worker=0, num_workers=4):
        assert budget() == 4 * (2**29 + 8 * 12)


def test_workers_that_are_spawned_and_kept_see_the_epoch(cells) -> None:
    """The calls of the tutorial of several workers."""
    ds = make(ours, cells, batch_size=4, seed=3)
    loader = ours.experiment_dataloader(
        ds, num_workers=2, persistent_workers=True, multiprocessing_context="spawn"
    )
    orders = []
    for epoch in (0, 1, 0):
        ds.set_epoch(epoch)
        orders.append(flat(loader))
        assert sorted(orders[-1]) == list(range(42))
    assert orders[0] == orders[2] != orders[1]
