"""The same assertions about tiledbsoma_ml and about penstock.compat.tiledbsoma_ml."""

from __future__ import annotations

import inspect
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import tiledbsoma
import tiledbsoma_ml_cases as shared
import torch
from compat_experiments import as_process, counts, write_cells
from conftest import Oracle
from penstock.batches.obs import ObsBatches
from tiledbsoma_ml_cases import check_values, flat, joinids_of, make, ours, theirs
from torch.utils.data import DataLoader, IterableDataset

ml, cells = shared.ml, shared.cells
_start_method, _little_garbage = shared._start_method, shared._little_garbage


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


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
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


def test_obs_is_read_once_for_all_epochs(cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory budget is settled for each iterator, which is no reason to read again."""
    made: list[int] = []
    init = ObsBatches.__init__

    def counted(self: ObsBatches, *arguments: Any, **more: Any) -> None:
        made.append(1)
        init(self, *arguments, **more)

    monkeypatch.setattr(ObsBatches, "__init__", counted)
    ds = make(ours, cells, shuffle=True, batch_size=16, obs_column_names=["kind"], seed=1)
    for _ in range(3):
        assert sum(len(obs) for _, obs in ds) == ds.penstock_dataset.n_obs
    assert made == [1]


def test_names_of_other_versions() -> None:
    with pytest.raises(AttributeError, match="ExperimentDataset, whose layer_name was X_name"):
        ours.ExperimentAxisQueryIterableDataset  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'ExperimentDataset'"):
        ours.ExperimentDataSet  # noqa: B018
