"""`penstock.map_batches` here and on executors, beside scipy and torch."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import engines
import numpy as np
import part_functions
import penstock as ps
import pytest
import torch
from conftest import Oracle
from penstock.executors import PartFailed


@pytest.fixture(scope="module")
def pool() -> Any:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(params=["here", "threads", "processes"])
def executor(request: pytest.FixtureRequest, pool: Executor) -> Any:
    return {"here": None, "threads": ThreadPoolExecutor(3), "processes": pool}[request.param]


@pytest.mark.parametrize(("batch_size", "sparse"), [(128, False), (37, True), (5000, False)])
def test_rows_are_of_their_cells(
    pbmc3k: Oracle, executor: Any, batch_size: int, sparse: bool
) -> None:
    ds = ps.Dataset(
        pbmc3k.path, obs_query="n_counts > 2500", obs_columns=["n_counts"], batch_size=batch_size,
        sparse=sparse,
    )  # fmt: skip
    rows = ps.map_batches(
        lambda X, obs: np.column_stack([np.asarray(X.sum(axis=1)).ravel(), obs["n_counts"]]),
        ds,
        executor=executor,
    )
    kept = np.flatnonzero(pbmc3k.obs["n_counts"] > 2500)
    assert rows.joinids.tolist() == kept.tolist()
    np.testing.assert_allclose(rows.values[:, 0], np.ravel(pbmc3k.X[kept].sum(axis=1)), rtol=1e-6)
    np.testing.assert_array_equal(rows.values[:, 1], pbmc3k.obs["n_counts"].iloc[kept])


def test_a_module_is_called_with_x_alone_in_eval_mode(pbmc3k: Oracle, executor: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(pbmc3k.X.shape[1], 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4)
    )
    ds = ps.Dataset(pbmc3k.path, batch_size=300)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = ps.map_batches(model, ds, executor=executor)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), "no running mean moves"
    model.eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(pbmc3k.X.toarray().astype("float32"))).numpy()
    np.testing.assert_allclose(rows.values, expected, rtol=1e-4, atol=1e-5)


def test_the_same_bits_for_any_number_of_parts(
    pbmc3k: Oracle, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.inference import parts

    torch.manual_seed(0)
    model = torch.nn.Linear(pbmc3k.X.shape[1], 3)
    ds = ps.Dataset(pbmc3k.path, batch_size=100)
    one = ps.map_batches(model, ds).values
    for at_once in (1, 2, 5, 64):
        monkeypatch.setattr(parts, "AT_ONCE", at_once)
        np.testing.assert_array_equal(ps.map_batches(model, ds, executor=pool).values, one)


@pytest.mark.parametrize("cells", [1, 99, 100, 101, 5000])
@pytest.mark.parametrize("row_bytes", [1, 500, 10**6, 10**9])
@pytest.mark.parametrize("call_bytes", [0, 10**6, 10**8])
def test_parts_hold_every_cell_once_and_little_memory(
    cells: int, row_bytes: int, call_bytes: int
) -> None:
    from penstock.inference.parts import Parts

    parts = Parts((bytes(call_bytes), 3), cells, 100, row_bytes)
    ranges = [part.arguments[:2] for part in parts]
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == cells
    assert all(first % 100 == 0 for first, _ in ranges)
    most = max(end - first for first, end in ranges) * row_bytes
    assert most <= max(8 << 20, call_bytes, 100 * row_bytes)
    assert parts.at_once * (most + call_bytes) <= max(512 << 20, 2 * (most + call_bytes))


def test_a_large_model_is_sent_seldom() -> None:
    """No more bytes of it than of the cells, in all; in a batch at least once."""
    from penstock.inference.parts import Parts

    for cells, model, most in ((10**6, 40 << 20, 98), (10**6, 1 << 10, 64), (10_000, 100 << 20, 1)):
        assert len(list(Parts((bytes(model),), cells, 128, 40))) <= most
    wide = list(Parts((bytes(100 << 20),), 10_000, 128, 80_000))
    assert len(wide) <= 9, "a part has about as many bytes of rows as of the model"


@pytest.mark.parametrize("name", ["rows.npy", "rows.zarr"])
def test_rows_go_to_a_file(pbmc3k: Oracle, executor: Any, tmp_path: Path, name: str) -> None:
    ds = ps.Dataset(pbmc3k.path, batch_size=200)
    rows = ps.map_batches(lambda X, obs: X[:, :7], ds, out=tmp_path / name, executor=executor)
    np.testing.assert_array_equal(np.asarray(rows), pbmc3k.X[:, :7].toarray())
    assert (tmp_path / name).exists()
    with pytest.raises(ZeroDivisionError):
        ps.map_batches(fails, ds, out=tmp_path / "other.npy", executor=executor)
    assert sorted(p.name for p in tmp_path.iterdir() if "other" in p.name) == []


def fails(X: Any, obs: Any) -> Any:
    return 1 / 0


def test_every_cell_once_whatever_the_order_of_the_dataset(pbmc3k: Oracle, executor: Any) -> None:
    ds = ps.Dataset(pbmc3k.path, balance="cell_type", seed=3, drop_last=True, min_batch=60)
    joinids = ps.map_batches(lambda X, obs: obs["soma_joinid"], ds, executor=executor)
    assert joinids.values.tolist() == joinids.joinids.tolist() == list(range(ds.n_obs))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda X, obs: X[:1], "a row for each"),
        (lambda X, obs: 1.0, r"a row for each"),
        (lambda X, obs: np.array(["a"] * len(X)), "must return numbers"),
        (lambda X, obs: np.zeros((len(X), len(X))), "rows of one shape and dtype"),
        (lambda X, obs: [[1]] + [[1, 2]] * (len(X) - 1), "must return an array"),
        (lambda X, obs: (X, obs), "must return an array"),
        ("model.pt", "function must be callable"),
    ],
)
def test_what_is_no_row_for_each_cell(
    pbmc3k: Oracle, executor: Any, function: Any, says: str
) -> None:
    with pytest.raises(ps.InvalidArgument, match=says):
        ps.map_batches(function, ps.Dataset(pbmc3k.path), executor=executor)


@pytest.mark.filterwarnings("ignore::penstock.NoCellsWarning")
def test_no_cells(pbmc3k: Oracle) -> None:
    with pytest.raises(ps.InvalidArgument, match="no cell is selected"):
        ps.map_batches(fails, ps.Dataset(pbmc3k.path, obs_query="n_counts > 1000000000"))


@pytest.mark.parametrize("kind", ["processes", "loky", "dask"])
def test_a_killed_worker_and_the_call_again(kind: str, pbmc3k: Oracle, tmp_path: Path) -> None:
    """Dask runs its part again; the others lose it, and the same call completes on a new pool."""

    ds = ps.Dataset(pbmc3k.path, batch_size=50)

    def function(X: Any, obs: Any, folder: str = str(tmp_path)) -> Any:
        first = int(obs["soma_joinid"][0])
        part_functions.killing(folder, first, 1000)
        return obs["soma_joinid"]

    if kind != "dask":
        with engines.made(kind) as executor, pytest.raises(PartFailed, match="lost cells"):
            ps.map_batches(function, ds, executor=executor, out=tmp_path / "rows.npy")
        assert (tmp_path / "killed").exists()
        assert not list(tmp_path.glob("rows*"))
    with engines.made(kind) as executor:
        rows = ps.map_batches(function, ds, executor=executor, out=tmp_path / "rows.npy")
    assert (tmp_path / "killed").exists()
    assert np.asarray(rows).tolist() == list(range(ds.n_obs))


CALLER = """
import sys, time
import penstock as ps
from penstock.inference import parts

parts._PART_BYTES = 1 << 20

def slow(X, obs):
    if obs["soma_joinid"][0] >= 2000:
        print("here", flush=True)
        time.sleep(600)
    return X[:, :1000]

from concurrent.futures import ThreadPoolExecutor
executor = ThreadPoolExecutor(1) if sys.argv[3] == "threads" else None
ps.map_batches(slow, ps.Dataset(sys.argv[1], batch_size=50), out=sys.argv[2], executor=executor)
"""


@pytest.mark.parametrize(
    ("name", "files", "executor"),
    [
        ("rows.npy", {"rows.npy", "rows.joinids.npy"}, ""),
        ("rows.zarr", {"rows.zarr"}, "threads"),
    ],
)
def test_the_caller_is_killed(
    pbmc3k: Oracle, tmp_path: Path, name: str, files: set[str], executor: str
) -> None:
    """In the midst of writing. There is no file, and the same call then writes all of it."""
    out = tmp_path / name
    command = [sys.executable, "-c", CALLER, str(pbmc3k.path), str(out), executor]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "here\n"
        caller.kill()
    assert caller.returncode == -signal.SIGKILL
    left = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert left > 1 << 20, "rows had been written"
    assert not out.exists()
    rows = ps.map_batches(lambda X, obs: X[:, :1000], ps.Dataset(pbmc3k.path), out=out)
    np.testing.assert_array_equal(np.asarray(rows), pbmc3k.X[:, :1000].toarray())
    assert {path.name for path in tmp_path.iterdir()} == files


def test_forked_workers_do_not_wait_for_threads_of_torch(pbmc3k: Oracle) -> None:
    """A forked child does not have the threads that OpenMP made in its parent, and waited for them."""
    torch.set_num_threads(2)
    try:
        model = torch.nn.Linear(pbmc3k.X.shape[1], 512)
        ds = ps.Dataset(pbmc3k.path, batch_size=512)
        one = ps.map_batches(model, ds).values
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
            two = ps.map_batches(model, ds, executor=executor).values
    finally:
        torch.set_num_threads(1)
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_parts_of_a_module_keep_their_mode(pbmc3k: Oracle) -> None:
    model = torch.nn.Sequential(
        torch.nn.BatchNorm1d(pbmc3k.X.shape[1]), torch.nn.Linear(pbmc3k.X.shape[1], 2)
    )
    model[0].eval()
    ps.map_batches(model, ps.Dataset(pbmc3k.path, sparse=False))
    assert [model.training, model[0].training, model[1].training] == [True, False, True]


def test_a_module_of_sparse_batches(pbmc3k: Oracle) -> None:
    class Sums(torch.nn.Module):
        def forward(self, X: Any) -> Any:
            assert X.layout == torch.sparse_csr
            return X.to_dense().sum(dim=1)

    rows = ps.map_batches(Sums(), ps.Dataset(pbmc3k.path, sparse=True, batch_size=500))
    np.testing.assert_allclose(rows.values, np.ravel(pbmc3k.X.sum(axis=1)), rtol=1e-6)


def test_rows_must_be_alike_in_a_part(pbmc3k: Oracle, executor: Any) -> None:
    def changing(X: Any, obs: Any) -> Any:
        return np.zeros(len(X), np.float64 if obs["soma_joinid"][0] else np.int64)

    with pytest.raises(ps.InvalidArgument, match=r"int64 and .* of float64"):
        ps.map_batches(changing, ps.Dataset(pbmc3k.path, batch_size=30), executor=executor)


def test_a_function_that_maps_itself(pbmc3k: Oracle) -> None:
    """On the thread of the part: it holds the lock of the process already."""
    ds = ps.Dataset(pbmc3k.path, batch_size=1000)
    inner = ds[:40]

    def outer(X: Any, obs: Any) -> Any:
        total = ps.map_batches(lambda X, obs: X.sum(axis=1), inner, executor=Here())
        return np.full(len(X), total.values.sum())

    rows = ps.map_batches(outer, ds, executor=Here())
    np.testing.assert_allclose(rows.values, pbmc3k.X[:40].sum(), rtol=1e-6)


class Here(Executor):
    """Runs a call when it is submitted."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_only_rank_0_writes(
    pbmc3k: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ps.InvalidArgument, match="only rank 0 can write"):
        ps.map_batches(fails, ps.Dataset(pbmc3k.path), out=tmp_path / "rows.npy")


def test_wide_rows_take_little_memory(pbmc3k: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are cut by the size of a row of the first batch."""
    from penstock.inference import parts

    monkeypatch.setattr(parts, "_PART_BYTES", 1 << 20)
    monkeypatch.setattr("penstock.executors.parts._BYTES", 4 << 20)
    seen: list[int] = []

    class Noting(Here):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            first, end = args[2][:2]
            seen.append(end - first)
            return super().submit(fn, *args, **kwargs)

    ds = ps.Dataset(pbmc3k.path, batch_size=50)
    rows = ps.map_batches(lambda X, obs: X[:, :1000], ds, executor=Noting())
    assert rows.shape == (ds.n_obs, 1000)
    assert max(seen) * 1000 * 4 <= 1 << 20
    assert sum(seen) == ds.n_obs


@pytest.mark.parametrize("name", ["rows.npy", "rows.zarr"])
def test_two_calls_write_at_once(pbmc3k: Oracle, tmp_path: Path, name: str) -> None:
    """Each writes files of its own. The last to end leaves its rows, whole."""
    ds, out = ps.Dataset(pbmc3k.path, batch_size=50), tmp_path / name
    begun, other_ended = threading.Event(), threading.Event()

    def slow(X: Any, obs: Any) -> Any:
        if obs["soma_joinid"][0] >= 1000:
            begun.set()
            assert other_ended.wait(60)
        return obs["soma_joinid"] + 1

    def ends(X: Any, obs: Any) -> Any:
        return -obs["soma_joinid"]

    def fails(X: Any, obs: Any) -> Any:
        raise KeyError("no such cell")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ps.map_batches, slow, ds, out=out)
        assert begun.wait(60)
        with pytest.raises(KeyError):
            ps.map_batches(fails, ds, out=out)
        second = np.asarray(ps.map_batches(ends, ds, out=out))
        np.testing.assert_array_equal(second, -np.arange(ds.n_obs))
        other_ended.set()
        rows = np.asarray(first.result())
    np.testing.assert_array_equal(rows, np.arange(ds.n_obs) + 1)
    assert not list(tmp_path.glob("*.partial"))
