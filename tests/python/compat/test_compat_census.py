"""penstock.compat.census against the documentation of cellxgene_census.experimental.ml."""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import penstock as ps
import penstock.compat.census as census_ml
import penstock.compat.census.pp
import pytest
import tiledbsoma
import torch
from compat_experiments import as_process, counts, write_cells
from conftest import ROOT, read_with_tiledbsoma
from penstock.compat.census import (
    BatchEncoder,
    Encoder,
    ExperimentDataPipe,
    LabelEncoder,
    Stats,
    experiment_dataloader,
)
from torch.utils.data import DataLoader, IterableDataset


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory):
    """42 cells, 3 genes."""
    with write_cells(tmp_path_factory.mktemp("census") / "exp", np.arange(42)) as experiment:
        yield experiment


def make(experiment, n_obs: int | None = None, **arguments) -> ExperimentDataPipe:
    if n_obs is not None:
        arguments["obs_query"] = tiledbsoma.AxisQuery(coords=(slice(0, n_obs - 1),))
    if not arguments.get("encoders"):
        arguments = {"obs_column_names": ["soma_joinid"], **arguments}
    return ExperimentDataPipe(experiment, "RNA", "raw", **arguments)


def joinids_of(pipe: ExperimentDataPipe, batches=None) -> list[int]:
    """The first column of obs, decoded."""
    encoder = pipe.obs_encoders["soma_joinid"]
    first = [labels[..., 0].reshape(-1) for _, labels in (pipe if batches is None else batches)]
    return encoder.inverse_transform(torch.cat(first)).tolist() if first else []


# --- names and signatures


def test_signatures() -> None:
    signature = inspect.signature(ExperimentDataPipe).parameters
    assert {name: p.default for name, p in signature.items()} == {
        "experiment": inspect.Parameter.empty,
        "measurement_name": "RNA",
        "X_name": "raw",
        "obs_query": None,
        "var_query": None,
        "obs_column_names": (),
        "batch_size": 1,
        "shuffle": True,
        "seed": None,
        "return_sparse_X": False,
        "soma_chunk_size": 64,
        "use_eager_fetch": True,
        "shuffle_chunk_count": 2000,
        "encoders": None,
        "max_batches": None,
        "uneven": "drop",
        "shard": True,
    }
    assert list(signature) == [
        "experiment", "measurement_name", "X_name", "obs_query", "var_query", "obs_column_names",
        "batch_size", "shuffle", "seed", "return_sparse_X", "soma_chunk_size", "use_eager_fetch",
        "shuffle_chunk_count", "encoders", "max_batches", "uneven", "shard",
    ]  # fmt: skip
    assert [name for name, p in signature.items() if p.kind == p.KEYWORD_ONLY] == [
        "max_batches", "uneven", "shard",
    ]  # fmt: skip
    loader = inspect.signature(experiment_dataloader).parameters
    assert list(loader) == ["datapipe", "num_workers", "dataloader_kwargs"]
    assert list(inspect.signature(LabelEncoder).parameters) == ["col"]
    assert list(inspect.signature(BatchEncoder).parameters) == ["cols", "name"]


def test_modules_have_the_names_of_theirs() -> None:
    from penstock.compat.census import encoders, pytorch

    for name in ("ExperimentDataPipe", "experiment_dataloader", "Stats", "ObsAndXDatum"):
        assert hasattr(pytorch, name)
    for name in ("Encoder", "LabelEncoder", "BatchEncoder"):
        assert getattr(encoders, name) is getattr(census_ml, name)


# --- batches


@pytest.mark.parametrize("use_eager_fetch", [False, True])
@pytest.mark.parametrize("soma_chunk_size", [2, 64, None])
@pytest.mark.parametrize("return_sparse_X", [False, True])
def test_stored_order(cells, use_eager_fetch, soma_chunk_size, return_sparse_X) -> None:
    pipe = make(
        cells,
        n_obs=8,
        obs_column_names=["label"],
        shuffle=False,
        batch_size=3,
        soma_chunk_size=soma_chunk_size,
        use_eager_fetch=use_eager_fetch,
        return_sparse_X=return_sparse_X,
    )
    batches = list(pipe)
    assert [labels.tolist() for _, labels in batches] == [
        [[0], [1], [2]],
        [[3], [4], [5]],
        [[6], [7]],
    ]
    X = [X.to_dense() if return_sparse_X else X for X, _ in batches]
    np.testing.assert_array_equal(torch.cat(X).numpy(), counts(range(8)), strict=True)
    assert all((X.layout == torch.sparse_coo) == return_sparse_X for X, _ in batches)


@pytest.mark.parametrize("return_sparse_X", [False, True])
def test_one_cell_a_batch(cells, return_sparse_X: bool) -> None:
    pipe = make(
        cells, n_obs=4, obs_column_names=["label", "kind"], shuffle=False,
        return_sparse_X=return_sparse_X,
    )  # fmt: skip
    batches = list(pipe)
    assert [tuple(X.shape) for X, _ in batches] == [(3,)] * 4
    assert [labels.tolist() for _, labels in batches] == [[0, 0], [1, 1], [2, 0], [3, 1]]
    np.testing.assert_array_equal(batches[1][0].to_dense().numpy(), counts([1])[0], strict=True)


def test_shuffled_cells_come_once_each(cells) -> None:
    pipe = make(cells, batch_size=5, seed=1)
    batches = list(pipe)
    joinids = joinids_of(pipe, batches)
    assert sorted(joinids) == list(range(42)) != joinids
    np.testing.assert_array_equal(torch.cat([X for X, _ in batches]), counts(joinids))
    assert joinids_of(make(cells, batch_size=5, seed=1)) == joinids
    assert joinids_of(make(cells, batch_size=5, seed=2)) != joinids
    assert joinids_of(pipe) != joinids  # the second epoch


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_nothing_selected(cells) -> None:
    query = tiledbsoma.AxisQuery(coords=([],))
    pipe = ExperimentDataPipe(cells, obs_query=query, obs_column_names=["label"], batch_size=3)
    assert pipe.shape == (0, 3)
    assert len(pipe) == 0
    with pytest.raises(StopIteration):
        next(iter(pipe))


def test_shape_is_cells_and_genes(cells) -> None:
    query = tiledbsoma.AxisQuery(value_filter="kind == 'odd'")
    genes = tiledbsoma.AxisQuery(coords=([0, 2],))
    pipe = ExperimentDataPipe(cells, obs_query=query, var_query=genes, batch_size=4)
    assert pipe.shape == (21, 2)
    assert len(pipe) == 6
    assert [tuple(labels.shape) for _, labels in pipe] == [(4, 0)] * 5 + [(1, 0)]


@pytest.mark.parametrize("value_type", ["float32", "float64", "int32"])
def test_dtype_of_x_is_the_stored_one(tmp_path, value_type: str) -> None:
    import pyarrow as pa

    with write_cells(tmp_path / "exp", np.arange(6), value_type=getattr(pa, value_type)()) as cells:
        for sparse in (False, True):
            X, _ = next(iter(make(cells, batch_size=6, return_sparse_X=sparse)))
            assert X.dtype == getattr(torch, value_type)


def test_joinids_may_be_large(tmp_path) -> None:
    joinids = np.arange(100_000_000, 100_000_003)
    with write_cells(tmp_path / "exp", joinids) as cells:
        pipe = make(cells, batch_size=3)
        assert sorted(joinids_of(pipe)) == joinids.tolist()


# --- encoders


def test_default_encoders(cells) -> None:
    pipe = make(cells, obs_column_names=["label", "kind"], batch_size=42, shuffle=False)
    _, labels = next(iter(pipe))
    assert labels.dtype == torch.int64
    assert list(pipe.obs_encoders) == ["label", "kind"]
    assert pipe.obs_encoders["kind"].classes_.tolist() == ["even", "odd"]
    label = pipe.obs_encoders["label"]
    assert label.classes_.tolist() == sorted(map(str, range(42)))
    assert label.inverse_transform(labels[:, :1]).tolist() == [str(i) for i in range(42)]
    kind = pipe.obs_encoders["kind"]
    assert kind.inverse_transform(labels[:, 1].numpy()).tolist() == ["even", "odd"] * 21


def test_label_encoder_is_that_of_scikit_learn() -> None:
    from sklearn.preprocessing import LabelEncoder as Reference

    columns = [
        pd.Series(["b", "a", "c", "a"]),
        pd.Series(["b", None, "a", "a", None]),
        pd.Series(pd.Categorical(["x", "y", None, "x"], ["y", "x", "z"])),
        pd.Series(pd.Categorical(["x", "y", "x"], ["y", "x", "z"])),
        pd.Series([3, 1, 2, 1], dtype="int64"),
        pd.Series([0.5, np.nan, -1.0]),
        pd.Series([True, False, True]),
        pd.Series([], dtype="float64"),
    ]
    for column in columns:
        reference = Reference().fit(column.unique())
        encoder = LabelEncoder("column")
        frame = pd.DataFrame({"column": column})
        encoder.fit(frame)
        assert list(map(repr, encoder.classes_)) == list(map(repr, reference.classes_))
        codes = encoder.transform(frame)
        np.testing.assert_array_equal(codes, reference.transform(column))
        decoded = encoder.inverse_transform(codes)
        assert list(map(repr, decoded)) == list(map(repr, reference.inverse_transform(codes)))


def test_label_encoder_refuses_what_it_has_not_seen() -> None:
    encoder = LabelEncoder("column")
    with pytest.raises(ValueError, match="not fitted"):
        encoder.transform(pd.DataFrame({"column": ["a"]}))
    encoder.fit(pd.DataFrame({"column": ["a", "b"]}))
    with pytest.raises(ValueError, match=r"\['c'\]"):
        encoder.transform(pd.DataFrame({"column": ["a", "c"]}))
    for codes in ([2], [-1]):
        with pytest.raises(ValueError, match=r"not in \[0, 2\)"):
            encoder.inverse_transform(codes)


def test_batch_encoder(cells) -> None:
    pipe = make(
        cells, n_obs=3, encoders=[BatchEncoder(["label", "kind"])], batch_size=3, shuffle=False
    )
    _, labels = next(iter(pipe))
    assert labels.tolist() == [[0], [1], [2]]
    encoder = pipe.obs_encoders["batch"]
    assert encoder.classes_.tolist() == ["0even", "1odd", "2even"]
    assert encoder.inverse_transform(labels).tolist() == ["0even", "1odd", "2even"]
    assert BatchEncoder(["kind"], name="other").name == "other"


class HalfScore(Encoder):
    """An encoder of a user's: needs the frame's categories, and what it learned from all cells."""

    def fit(self, obs: pd.DataFrame) -> None:
        assert len(obs) == 42
        self.mean = obs["score"].mean()

    def transform(self, df: pd.DataFrame) -> pd.Series:
        assert df.index.name == "soma_joinid"
        assert df.index.tolist() == df["soma_joinid"].tolist()
        return (df["score"] - self.mean) / 2 + df["kind"].cat.codes

    def inverse_transform(self, encoded_values):
        raise NotImplementedError

    @property
    def name(self) -> str:
        return "half_score"

    @property
    def columns(self) -> list[str]:
        return ["score", "kind"]


def test_an_encoder_of_the_users(cells) -> None:
    encoders = [LabelEncoder("soma_joinid"), HalfScore(), LabelEncoder("kind")]
    pipe = make(cells, encoders=encoders, batch_size=8, seed=0)
    assert pipe.obs_column_names == ["soma_joinid", "score", "kind"]
    rows = torch.cat([labels for _, labels in pipe])
    assert rows.dtype == torch.float64
    joinids = rows[:, 0].numpy()
    np.testing.assert_allclose(rows[:, 1], (joinids / 8 - 41 / 16) / 2 + joinids % 2)
    np.testing.assert_array_equal(rows[:, 2], joinids % 2)


def test_encoders_are_checked(cells) -> None:
    with pytest.raises(ValueError, match="names of their own"):
        make(cells, encoders=[LabelEncoder("label"), LabelEncoder("label")])
    with pytest.raises(ValueError, match="Cannot specify both `obs_column_names` and `encoders`"):
        ExperimentDataPipe(cells, obs_column_names=["label"], encoders=[LabelEncoder("label")])
    with pytest.raises(ps.NotFound, match="no column 'labels'"):
        make(cells, obs_column_names=["labels"])
    with pytest.raises(KeyError, match=r"^there is no layer 'nope'; "):
        ExperimentDataPipe(cells, X_name="nope")


def test_labels_of_a_selection_leave_out_what_it_has_not(cells) -> None:
    query = tiledbsoma.AxisQuery(value_filter="kind == 'odd'")
    pipe = make(cells, obs_query=query, obs_column_names=["kind"], batch_size=21)
    assert pipe.obs_encoders["kind"].classes_.tolist() == ["odd"]
    _, labels = next(iter(pipe))
    assert labels.unique().tolist() == [0]


# --- ranks, workers, loader


def test_ranks_and_workers_share_the_cells(cells) -> None:
    for n_obs, world_size in ((12, 3), (42, 4), (5, 2)):
        seen, batches_of_rank = [], []
        for rank in range(world_size):
            with as_process(rank, world_size):
                length = len(make(cells, n_obs, seed=1, batch_size=2))
            made = 0
            for worker in range(2):
                with as_process(rank, world_size, worker, 2):
                    pipe = make(cells, n_obs, seed=1, batch_size=2)
                    batches = list(pipe)
                seen += joinids_of(pipe, batches)
                made += len(batches)
            assert made == length
            batches_of_rank.append(made)
        assert len(set(batches_of_rank)) == 1
        assert len(set(seen)) == len(seen) == n_obs // world_size * world_size


@pytest.mark.parametrize("return_sparse_X", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_dataloader(cells, num_workers: int, return_sparse_X: bool) -> None:
    pipe = make(cells, batch_size=5, return_sparse_X=return_sparse_X)
    loader = experiment_dataloader(pipe, num_workers=num_workers)
    assert isinstance(loader, DataLoader)
    batches = list(loader)
    assert len(batches) == len(loader) == 9
    joinids = joinids_of(pipe, batches)
    assert sorted(joinids) == list(range(42))
    X = torch.cat([X.to_dense() for X, _ in batches])
    np.testing.assert_array_equal(X.numpy(), counts(joinids))


@pytest.mark.parametrize(
    "argument", ["shuffle", "batch_size", "sampler", "batch_sampler", "collate_fn"]
)
def test_dataloader_refuses_what_the_pipe_does(argument: str) -> None:
    with pytest.raises(ValueError, match=argument):
        experiment_dataloader(object(), **{argument: 3})


def test_dataloader_refuses_an_order_of_nobody(cells) -> None:
    with pytest.raises(ValueError, match="in_order"):
        experiment_dataloader(make(cells), num_workers=2, in_order=False)


def test_no_batch_by_number(cells) -> None:
    with pytest.raises(NotImplementedError):
        make(cells)[0]


def first_column(batch) -> list[int]:
    return batch[1][:, 0].tolist()


def test_torch_has_its_functional_pipes(cells) -> None:
    pipe = make(cells, batch_size=5)
    assert isinstance(pipe, IterableDataset)
    columns = pipe.map(first_column)
    assert len(columns) == 9
    for num_workers in (0, 2):
        codes = sum(experiment_dataloader(columns, num_workers=num_workers), [])
        assert sorted(codes) == list(range(42))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pipe.nothing


# --- splits, stats, copies


def test_random_split(cells) -> None:
    pipe = make(cells, n_obs=10, batch_size=1, seed=3)
    train, test = pipe.random_split(weights={"train": 0.7, "test": 0.3}, seed=1234)
    assert (len(train), len(test)) == (7, 3)
    assert (train.shape, test.shape) == ((7, 3), (3, 3))
    first = [joinids_of(part) for part in (train, test)]
    assert sorted(first[0] + first[1]) == list(range(10))
    # The parts stay what they are in every epoch.
    assert [sorted(joinids_of(part)) for part in (train, test)] == [sorted(ids) for ids in first]
    again = pipe.random_split(weights={"train": 7, "test": 3}, seed=1234, total_length=10)
    assert [sorted(joinids_of(part)) for part in again] == [sorted(ids) for ids in first]
    (target,) = [pipe.random_split(weights={"a": 7, "b": 3}, seed=1234, target="b")]
    assert sorted(joinids_of(target)) == sorted(first[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ps.NoCellsWarning)
        assert pipe.random_split(weights={"all": 2})[0].shape == (10, 3)
    with pytest.warns(ps.NoCellsWarning, match="part 'b' of the split has none of the 10 cells"):
        assert pipe.random_split(weights={"a": 1, "b": 0})[1].shape == (0, 3)
    assert len(list(experiment_dataloader(train))) == 7
    assert train.obs_encoders["soma_joinid"] is pipe.obs_encoders["soma_joinid"]


def test_random_split_refuses(cells) -> None:
    pipe = make(cells)
    with pytest.raises(KeyError, match="validation"):
        pipe.random_split(weights={"train": 1, "test": 1}, target="validation")
    for weights in ({}, {"a": 0}, {"a": -1, "b": 2}, {"a": float("nan")}):
        with pytest.raises(ValueError, match="weights"):
            pipe.random_split(weights=weights)


def test_stats(cells) -> None:
    pipe = make(cells, batch_size=5)
    assert pipe.stats() == Stats()
    for epoch in (1, 2):
        list(pipe)
        stats = pipe.stats()
        assert (stats.n_obs, stats.nnz) == (42 * epoch, 63 * epoch)
        assert stats.n_soma_chunks >= 1  # the second epoch comes from memory
        assert stats.elapsed >= 0
    assert str(Stats(1, 2, 3.0, 4)) == "n_soma_chunks=4, n_obs=1, nnz=2, elapsed=0:00:03"
    total = Stats(1, 2, 3.0, 4)
    total += Stats(1, 1, 1.0, 1)
    assert total == Stats(2, 3, 4.0, 5)


def test_stats_are_those_of_the_parts_too(cells) -> None:
    pipe = make(cells, batch_size=5)
    train, test = pipe.random_split(weights={"train": 0.8, "test": 0.2}, seed=1)
    list(train)
    assert pipe.stats().n_obs == train.stats().n_obs == train.shape[0]
    list(test)
    list(pipe)
    assert pipe.stats().n_obs == 84
    first, _ = train.random_split(weights={"a": 1, "b": 1})
    list(first)
    assert pipe.stats().n_obs == 84 + first.shape[0]
    assert pickle.loads(pickle.dumps(pipe)).stats().n_obs == 0


def test_max_batches(cells) -> None:
    pipe = make(cells, batch_size=5, max_batches=3)
    assert len(pipe) == 3
    epochs = [joinids_of(pipe) for _ in range(3)]
    assert [len(set(epoch)) for epoch in epochs] == [15, 15, 15]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert pipe.stats().n_obs == 45
    part, _ = pipe.random_split(weights={"a": 0.5, "b": 0.5})
    assert len(part) == 3
    assert len(make(cells, batch_size=5, max_batches=30)) == 9
    with pytest.raises(ps.InvalidArgument, match="DataLoader workers are several"):
        list(experiment_dataloader(pipe, num_workers=1))
    assert len(make(cells, batch_size=5, max_batches=0)) == 9
    with pytest.raises(ps.InvalidArgument, match="max_batches must be 0 or more"):
        make(cells, max_batches=-1)


def test_what_ranks_get(cells) -> None:
    def of_ranks(**arguments) -> list[list[int]]:
        found = []
        for rank in range(4):
            with as_process(rank, 4):
                found.append(joinids_of(make(cells, batch_size=4, seed=1, **arguments)))
        return found

    assert [len(each) for each in of_ranks()] == [10] * 4
    padded = of_ranks(uneven="pad")
    assert [len(each) for each in padded] == [11] * 4
    assert set().union(*padded) == set(range(42))
    exact = of_ranks(uneven="exact")
    assert sorted(sum(exact, [])) == list(range(42))
    assert [sorted(each) for each in of_ranks(shard=False)] == [list(range(42))] * 4


def test_a_copy_is_the_same(cells) -> None:
    encoders = [LabelEncoder("soma_joinid"), BatchEncoder(["kind", "label"])]
    pipe = make(cells, encoders=encoders, batch_size=4, seed=3)
    copy = pickle.loads(pickle.dumps(pipe))
    assert joinids_of(copy) == joinids_of(pipe)
    assert list(copy.obs_encoders) == ["soma_joinid", "batch"]


def test_the_budget_follows_the_block(cells) -> None:
    def budget(**arguments) -> int:
        pipe = make(cells, **arguments)
        iter(pipe)
        return pipe.penstock_dataset.reader.settings.memory_budget

    assert budget() == 64 * 2000 * 2**14 + 8 * 12
    assert budget(soma_chunk_size=2048) == 2048 * 2000 * 2**14 + 8 * 12
    for small in ({"shuffle": False}, {"soma_chunk_size": None}, {"shuffle_chunk_count": None}):
        assert budget(**small) == 2**29 + 8 * 12


def test_the_tutorial(cells) -> None:
    """The calls of the Census's tutorial, on a logistic regression."""
    pipe = census_ml.ExperimentDataPipe(
        cells,
        measurement_name="RNA",
        X_name="raw",
        obs_query=tiledbsoma.AxisQuery(value_filter="score < 5"),
        obs_column_names=["kind"],
        batch_size=16,
        shuffle=True,
        soma_chunk_size=10_000,
    )
    assert pipe.shape == (40, 3)
    train, test = pipe.random_split(weights={"train": 0.8, "test": 0.2}, seed=1)
    loader = census_ml.experiment_dataloader(train)
    encoder = pipe.obs_encoders["kind"]
    torch.manual_seed(0)
    model = torch.nn.Linear(pipe.shape[1], len(encoder.classes_))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2)
    for _ in range(8):
        for X, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(X.float()), labels.flatten().long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    X, labels = next(iter(census_ml.experiment_dataloader(test)))
    predicted = encoder.inverse_transform(model(X).argmax(1).cpu())
    assert (predicted == encoder.inverse_transform(labels.ravel().numpy())).mean() > 0.7


def test_the_example_of_the_docs(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    page = (ROOT / "docs" / "guides" / "compat.md").read_text()
    names: dict = {}
    exec("".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), names)
    stored = read_with_tiledbsoma(Path(ps.example("census-like")))
    cells = stored.obs.query("tissue_general == 'blood' and is_primary_data == True")
    assert names["pipe"].shape[0] == len(cells) > 0
    X, labels = names["X"], names["labels"]
    assert X.shape == (len(labels), stored.X.shape[1])
    assert names["pipe"].obs_encoders["cell_type"].classes_.tolist() == sorted(
        cells["cell_type"].unique()
    )
    assert len(names["genes"]) == stored.X.shape[1]


def test_names_of_the_original_that_are_elsewhere() -> None:
    for name, instead in [
        ("open_soma", r"ps\.open_census"),
        ("get_presence_matrix", "penstock does not read it"),
        ("experimental", r"compat\.census\.pp"),
        ("ExperimentDatapipe", "did you mean 'ExperimentDataPipe'"),
    ]:
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{instead}"):
            getattr(census_ml, name)
    with pytest.raises(AttributeError, match=r"mean_variance.*penstock\.gene_statistics"):
        penstock.compat.census.pp.mean_variance  # noqa: B018
