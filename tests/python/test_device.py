"""Batches that are made on a device: what travels, what comes out, and in which order things run.

Most of it runs on the CPU, whose batches go the same way; a lane that notes what it is asked stands
in for a stream. What only a GPU can show is skipped without one.
"""

from __future__ import annotations

import gc
import importlib.util
from contextlib import contextmanager

import anndata
import numpy as np
import pandas as pd
import penstock as ps
import pytest
import scipy.sparse as sp
import tiledbsoma.io
import torch
from conftest import Oracle, write_small_tiles
from torch.utils.data import DataLoader

copier = pytest.importorskip("penstock.device.copier")

HAS_CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="torch finds no CUDA GPU")
# PyTorch's simulated accelerator, where it was built (docs/gpu-path.md).
HAS_OPENREG = importlib.util.find_spec("torch_openreg") is not None and not HAS_CUDA
if HAS_OPENREG:
    import torch_openreg  # noqa: F401

    # Its own build lacks what torch asks of every accelerator with streams.
    HAS_OPENREG = torch._C._dispatch_has_kernel_for_dispatch_key(
        "aten::record_stream", "PrivateUse1"
    )
needs_openreg = pytest.mark.skipif(
    not HAS_OPENREG, reason="torch_openreg is not installed, or not as docs/gpu-path.md says"
)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=needs_cuda),
    pytest.param("openreg", marks=needs_openreg),
]

N_CELLS = 400


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory):
    """400 cells in many fetch units."""
    return write_small_tiles(tmp_path_factory.mktemp("tiles") / "experiment", N_CELLS, 60)


def make_store(path, X: sp.csr_matrix):
    obs = pd.DataFrame({"name": "a"}, index=[f"cell{i}" for i in range(X.shape[0])])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(X.shape[1])])
    tiledbsoma.io.from_anndata(str(path), anndata.AnnData(X, obs, var), "RNA", X_layer_name="raw")
    return path


def of(path, device="cpu", **arguments) -> ps.Dataset:
    given = {"format": "torch", "obs_format": "torch", "batch_size": 33, "memory_budget": "64MiB"}
    return ps.Dataset(path, device=device, **{**given, **arguments})


LAYOUTS = {False: torch.strided, "csr": torch.sparse_csr, "coo": torch.sparse_coo}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int32", "uint8"])
@pytest.mark.parametrize("sparse", LAYOUTS)
def test_x_and_obs(census_like: Oracle, device: str, dtype: str, sparse) -> None:
    if device == "openreg" and sparse:
        pytest.skip("it has no sparse tensors")
    if dtype == "uint8":
        query = ps.AxisQuery(coords=(np.flatnonzero(census_like.X.max(axis=1).toarray() < 256),))
    else:
        query = None
    ds = of(census_like.path, device, dtype=dtype, sparse=sparse, obs_query=query, batch_size=500)
    torch_dtype = getattr(torch, dtype)
    cells = 0
    for X, obs in ds:
        assert X.device.type == obs["soma_joinid"].device.type == device
        assert (X.dtype, X.layout) == (torch_dtype, LAYOUTS[sparse])
        want = census_like.X[obs["soma_joinid"].cpu().numpy()]
        expected = torch.from_numpy(want.toarray()).to(torch_dtype)
        assert torch.equal(X.to_dense().cpu(), expected)
        if sparse == "coo":
            assert X.is_coalesced()
        cells += len(want.indptr) - 1
    assert cells == ds.n_obs


def sent_arrays(monkeypatch) -> list[list[np.dtype]]:
    """Dtypes of what is copied for each batch, X's three arrays first."""
    sent = []
    pack = copier.Staging.pack

    def noted(self, arrays):
        sent.append([dtype for _, dtype in arrays])
        return pack(self, arrays)

    monkeypatch.setattr(copier.Staging, "pack", noted)
    return sent


def test_counts_travel_narrow_and_sparse(census_like: Oracle, monkeypatch) -> None:
    sent = sent_arrays(monkeypatch)
    list(of(census_like.path, batch_size=1_000))
    assert len(sent) == 6
    assert all(each == [np.int32, np.uint16, np.uint16, np.int64] for each in sent)


ODD = [65_535.0, 65_536.0, 70_001.0, -3.0, 0.25, 1e30, 2.0**24]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_values_that_are_not_narrow_come_whole(tmp_path, monkeypatch, odd: float, dtype) -> None:
    X = sp.random(40, 30, 0.3, "csr", np.float32, random_state=0)
    X.data = np.arange(1, X.nnz + 1, dtype=np.float32)
    X.data[X.indptr[7]] = odd
    path = make_store(tmp_path / "odd", X)
    sent = sent_arrays(monkeypatch)
    got = torch.cat([X for X, _ in of(path, shuffle=False, dtype=dtype, batch_size=10)])
    assert torch.equal(got, torch.from_numpy(X.toarray()).to(getattr(torch, dtype)))
    first = np.uint16 if odd == 65_535 else np.float64 if dtype == "float64" else np.float32
    assert [each[2] for each in sent] == [first, np.uint16, np.uint16, np.uint16]


def centred(X) -> list:
    shift = np.linspace(-1, 1, X.shape[1])
    return [ps.NormalizeTotal(100), ps.Scale(np.ones(X.shape[1]), mean=shift), ps.Clip(-3, 3)]


def halved(X):
    return X / 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_values_around_a_mean_come_as_they_are(census_like: Oracle, device, dtype: str) -> None:
    """The engine makes whole rows, in the order of a dataset without a device."""
    wide = "float64" if dtype == "float64" else "float32"
    settings = {"batch_size": 500, "transforms": [*centred(census_like.X), halved]}
    plain = ps.Dataset(census_like.path, dtype=wide, memory_budget="64MiB", **settings)
    ds = of(census_like.path, device, dtype=dtype, **settings)
    for (X, obs), (want, want_obs) in zip(ds, plain, strict=True):
        assert (X.device.type, X.dtype) == (device, getattr(torch, dtype))
        assert obs["soma_joinid"].tolist() == want_obs["soma_joinid"].tolist()
        want = torch.from_numpy(want * 2).to(X.dtype) / 2
        assert torch.equal(X.cpu(), want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("token_dtype", ["int64", "int32"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tokens_come_as_they_are(census_like: Oracle, device, token_dtype: str, dtype: str) -> None:
    names = ps.Dataset(census_like.path).var_names
    ranks = ps.RankTokens(
        {name: 1 + i % 5 for i, name in enumerate(names)},
        {name: i + 3 for i, name in enumerate(names)},
        max_tokens=64,
        cls_token=1,
        dtype=token_dtype,
    )
    settings = {"batch_size": 500, "transforms": [ranks]}
    plain = ps.Dataset(census_like.path, memory_budget="64MiB", **settings)
    ds = of(census_like.path, device, dtype=dtype, **settings)
    for (X, obs), (want, want_obs) in zip(ds, plain, strict=True):
        assert isinstance(X, ps.Tokens)
        assert {X.ids.device.type, X.lengths.device.type} == {device}
        assert X.ids.dtype == getattr(torch, token_dtype)
        assert torch.equal(X.ids.cpu(), torch.from_numpy(want.ids))
        assert torch.equal(X.lengths.cpu(), torch.from_numpy(want.lengths))
        assert obs["soma_joinid"].tolist() == want_obs["soma_joinid"].tolist()


def test_whole_rows_go_on_with_and_without_a_device(tiled) -> None:
    """The engine makes the same, so that a state of one is one of the other."""
    settings = {"transforms": [ps.Scale(np.ones(60), mean=np.ones(60))], "batch_size": 33}
    plain = ps.Dataset(tiled, memory_budget="64MiB", **settings)
    whole = [obs["soma_joinid"].tolist() for _, obs in plain]
    ds = of(tiled, **settings)
    batches = iter(ds)
    next(batches)
    plain = ps.Dataset(tiled, memory_budget="64MiB", **settings)
    plain.load_state_dict(ds.state_dict())
    assert [obs["soma_joinid"].tolist() for _, obs in plain] == whole[1:]


def test_float16_of_values_around_a_mean(tmp_path) -> None:
    path = make_store(tmp_path / "one", sp.csr_matrix(np.ones((3, 2), np.float32)))
    with pytest.raises(ps.InvalidArgument, match=r"does not fit float16.* -70000"):
        next(iter(of(path, dtype="float16", transforms=[ps.Scale([1, 1], mean=[70_001, 0])])))


def test_float16_refuses_what_it_cannot_hold(tmp_path) -> None:
    X = sp.csr_matrix(np.array([[0, 65_504.0], [1, 0]], np.float32))
    ds = of(make_store(tmp_path / "most", X), dtype="float16", shuffle=False)
    assert next(iter(ds))[0].tolist() == X.toarray().tolist()
    for name, value in [("beyond", 65_505.0), ("more", 70_000.0), ("less", -70_000.0)]:
        X = sp.csr_matrix(np.array([[0, value], [1, 0]], np.float32))
        for sparse in (False, True):
            path = tmp_path / name
            if not path.exists():
                make_store(path, X)
            with pytest.raises(ps.InvalidArgument, match=r"does not fit float16.*bfloat16"):
                list(of(path, dtype="float16", sparse=sparse))


def test_half_dtypes_without_a_device(tiled) -> None:
    whole = torch.cat([X for X, _ in of(tiled, None, shuffle=False)])
    for dtype in (torch.bfloat16, "float16"):
        ds = of(tiled, None, shuffle=False, dtype=dtype)
        got = torch.cat([X for X, _ in ps.dataloader(ds, num_workers=2)])
        got = got[torch.cat([obs["soma_joinid"] for _, obs in ps.dataloader(ds, num_workers=2)])]
        assert got.dtype == getattr(torch, str(dtype).removeprefix("torch."))
        assert sorted(got.float().sum(1).tolist()) == sorted(
            whole.to(got.dtype).float().sum(1).tolist()
        )


def test_duplicates_are_summed_when_made_dense(tmp_path) -> None:
    from penstock.device.matrix import place_matrix

    arrays = [torch.tensor(each, dtype=torch.int32) for each in ([0, 3, 4], [1, 1, 2, 0])]
    values = torch.tensor([300, 3, 5, 7], dtype=torch.int32)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        X, _ = place_matrix(None, *arrays, values, (2, 3), dtype, False)
        assert torch.equal(X, torch.tensor([[0, 303, 5], [7, 0, 0]]).to(dtype))


# What runs when


class NotingLane:
    """Notes what it is asked; its work is done by the time that it is waited for."""

    pins_memory = False
    runs_beside = True

    def __init__(self) -> None:
        self.notes: list[tuple] = []
        self.inside = False

    @contextmanager
    def queue(self):
        self.inside = True
        yield
        self.inside = False

    def mark(self):
        assert self.inside
        self.notes.append(("mark", len(self.notes)))
        return len(self.notes) - 1

    def wait(self, mark) -> None:
        self.notes.append(("wait", mark))

    def hand_over(self, mark, tensors) -> None:
        self.notes.append(("hand over", mark, list(tensors)))


@pytest.fixture
def lane(monkeypatch) -> NotingLane:
    noting = NotingLane()
    monkeypatch.setattr(copier, "lane_of", lambda device: noting)
    return noting


@pytest.fixture
def all_ready(monkeypatch):
    """The loader always has the next batch by the time that one is asked for."""
    from penstock.epoch_iterator import EpochProgress

    monkeypatch.setattr(
        EpochProgress, "is_ready", property(lambda progress: progress.loader is not None)
    )


def test_the_next_batch_is_sent_before_one_is_handed_over(tiled, lane, all_ready) -> None:
    ds = of(tiled)
    assert len(list(ds)) == 13
    kinds = [note[0] for note in lane.notes]
    # Each batch: its copy's end, its work's end. The second is sent before the first is handed over,
    # and memory is filled again from the third on, once its copy is done.
    assert kinds[:5] == ["mark", "mark", "mark", "mark", "hand over"]
    rest = ["wait", "mark", "mark", "hand over"]
    assert kinds[5:] == [*(rest * 11), "hand over"]
    copied = [note[1] for note in lane.notes if note[0] == "mark"][::2]
    waited = [note[1] for note in lane.notes if note[0] == "wait"]
    assert waited == copied[:-2], "each piece of memory waits for its own copy"
    handed = [note[1] for note in lane.notes if note[0] == "hand over"]
    assert handed == [note[1] for note in lane.notes if note[0] == "mark"][1::2]


@pytest.mark.parametrize("sparse", LAYOUTS)
def test_all_memory_of_a_batch_is_handed_over(tiled, lane, all_ready, sparse) -> None:
    for number, (X, obs) in enumerate(of(tiled, sparse=sparse)):
        if sparse == "csr":
            parts = [X.crow_indices(), X.col_indices(), X.values()]
        elif sparse == "coo":
            parts = [X.indices(), X.values()]
        else:
            parts = [X]
        handed = [note for note in lane.notes if note[0] == "hand over"][number][2]
        told = {each.untyped_storage().data_ptr() for each in handed}
        assert {each.untyped_storage().data_ptr() for each in [*parts, obs["soma_joinid"]]} <= told


def test_batches_do_not_share_memory_that_is_filled_again(tiled, lane, all_ready) -> None:
    kept = list(of(tiled, shuffle=False, sparse="csr"))
    plain = list(of(tiled, None, shuffle=False, sparse="csr"))
    for (X, obs), (expected, expected_obs) in zip(kept, plain, strict=True):
        assert torch.equal(X.to_dense(), expected.to_dense())
        assert torch.equal(obs["soma_joinid"], expected_obs["soma_joinid"])
        assert obs["soma_joinid"].untyped_storage().nbytes() == 8 * len(X)  # labels may be kept


def test_what_is_ahead_is_not_counted(tiled, lane, all_ready) -> None:
    ds = of(tiled)
    whole = [obs["soma_joinid"].tolist() for _, obs in ds]
    ds.set_epoch(0)
    batches = iter(ds)
    for taken in range(1, 13):
        next(batches)
        state = ds.state_dict()
        assert state["segments"][-1]["batches"] == taken
        again = of(tiled)
        again.load_state_dict(state)
        assert [obs["soma_joinid"].tolist() for _, obs in again] == whole[taken:]
    next(batches)
    assert ds.state_dict()["epoch"] == 1
    assert next(batches, None) is None


def test_an_error_comes_in_its_turn(tiled, lane, all_ready, monkeypatch) -> None:
    send, sent = copier.DeviceCopier.send, []

    def failing(self, X, obs):
        sent.append(X)
        if len(sent) == 3:
            raise ps.InvalidArgument("the third")
        return send(self, X, obs)

    monkeypatch.setattr(copier.DeviceCopier, "send", failing)
    batches = iter(of(tiled))
    next(batches)
    next(batches)
    with pytest.raises(ps.InvalidArgument, match="the third"):
        next(batches)
    assert next(batches, None) is None


def test_a_batch_that_is_not_there_is_not_waited_for(tiled, lane, monkeypatch) -> None:
    from penstock.epoch_iterator import EpochProgress

    monkeypatch.setattr(EpochProgress, "is_ready", False)
    assert len(list(of(tiled))) == 13
    kinds = [note[0] for note in lane.notes if note[0] != "wait"]
    assert kinds == ["mark", "mark", "hand over"] * 13


def test_the_loader_says_when_it_is_ready(tiled) -> None:
    iterator = iter(of(tiled, None))
    progress = iterator._progress
    assert not progress.is_ready  # nothing runs yet
    next(iterator)
    for _ in range(13):
        waited = 0
        while not progress.is_ready and waited < 10_000:
            gc.collect()
            waited += 1
        assert progress.is_ready
        next(iterator, None)
    assert not progress.is_ready


def test_it_says_where(tiled) -> None:
    assert "float32 torch.Tensor on cpu" in repr(of(tiled))
    assert "bfloat16 torch.Tensor (sparse CSR)" in repr(
        of(tiled, None, dtype="bfloat16", sparse=True)
    )


# What is refused


def test_bad_arguments(tiled) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"device='cpu' needs format='torch'"):
        ps.Dataset(tiled, device="cpu")
    with pytest.raises(ps.InvalidArgument, match=r"dtype='bfloat16' needs format='torch'"):
        ps.Dataset(tiled, dtype=torch.bfloat16)
    for bad in ("gpu", 1.5, "cuda:x"):
        with pytest.raises(ps.InvalidArgument, match="such as 'cuda'"):
            of(tiled, bad)
    with pytest.raises(ps.InvalidArgument, match=r"device='meta' holds no numbers"):
        of(tiled, "meta")
    if not torch.backends.mps.is_available():
        with pytest.raises(ps.InvalidArgument, match=r"device='mps' cannot be used by torch here"):
            of(tiled, "mps")
    with pytest.raises(ps.InvalidArgument, match=r"uint32.*float32 or int64"):
        of(tiled, dtype="uint32")


@pytest.mark.skipif(HAS_CUDA, reason="there is a GPU")
def test_cuda_where_there_is_none(tiled) -> None:
    for device in ("cuda", "cuda:0", torch.device("cuda")):
        with pytest.raises(ps.InvalidArgument, match="finds no CUDA GPU here"):
            of(tiled, device)


@needs_cuda
def test_a_gpu_that_is_not_there(tiled) -> None:
    with pytest.raises(ps.InvalidArgument, match=f"finds {torch.cuda.device_count()} CUDA GPUs"):
        of(tiled, f"cuda:{torch.cuda.device_count()}")


def test_a_device_is_for_the_main_process(tiled, monkeypatch) -> None:
    from penstock import loader_settings

    monkeypatch.setattr(loader_settings, "checked_device", str)  # as on a machine with a GPU
    ds = of(tiled, "cuda")
    with pytest.raises(ps.InvalidArgument, match="num_workers=0"):
        ps.dataloader(ds, num_workers=2)
    with pytest.raises(ps.InvalidArgument, match=r"DataLoader worker.*num_workers=0.*pin_memory"):
        list(DataLoader(ds, batch_size=None, num_workers=1))


def test_dataloader_in_the_main_process(tiled) -> None:
    ds = of(tiled, obs_format="arrays", obs_columns=["soma_joinid", "obs_id"])
    for X, obs in ps.dataloader(ds):
        assert X.layout == torch.strided
        assert isinstance(obs["soma_joinid"], torch.Tensor)
        assert obs["obs_id"].dtype == object


# On an accelerator that is simulated


@needs_openreg
@pytest.mark.parametrize("obs_format", ["torch", "pandas"])
def test_streams_keep_their_order(tiled, monkeypatch, obs_format: str) -> None:
    """Copies that are slow: batches are whole, and staging memory is not filled while they run.

    OPENREG_COPY_MS is of a build whose copies are queued; where they block, nothing can be early.
    """
    monkeypatch.setenv("OPENREG_COPY_MS", "20")
    whole = {"shuffle": False, "transforms": [ps.Scale(np.ones(60), mean=np.ones(60))]}
    plain = list(of(tiled, None, obs_format=obs_format, **whole))
    kept = list(of(tiled, "openreg", obs_format=obs_format, **whole))
    for (X, _), (want, _) in zip(kept, plain, strict=True):
        assert torch.equal(X.cpu(), want)


@needs_openreg
def test_a_batch_is_handed_over_before_it_is_there(tiled, monkeypatch) -> None:
    """The step reads each batch at once, on its own stream."""
    monkeypatch.setenv("OPENREG_COPY_MS", "20")
    whole = {"shuffle": False, "transforms": [ps.Scale(np.ones(60), mean=np.ones(60))]}
    plain = of(tiled, None, obs_format="pandas", **whole)
    ds = of(tiled, "openreg", obs_format="pandas", **whole)
    for (X, _), (want, _) in zip(ds, plain, strict=True):
        assert torch.equal((X + 1).cpu(), want + 1)


@needs_openreg
def test_training_on_the_simulated_accelerator(census_like: Oracle) -> None:
    losses = {}
    for device in ("cpu", "openreg"):
        weights = torch.zeros(census_like.X.shape[1], 1).to(device).requires_grad_()
        losses[device] = []
        for X, obs in of(census_like.path, device, batch_size=500):
            target = (obs["soma_joinid"] % 2).to(torch.float32)[:, None]
            loss = (torch.log1p(X) @ weights - target).square().mean()
            (gradient,) = torch.autograd.grad(loss, weights)
            weights = (weights - 1e-5 * gradient).detach().requires_grad_()
            losses[device].append(loss.item())
    assert losses["openreg"] == pytest.approx(losses["cpu"], rel=1e-5)


# On a GPU


@needs_cuda
@pytest.mark.parametrize("sparse", LAYOUTS)
@pytest.mark.parametrize("beside", [False, True])
def test_memory_is_safe_across_streams(census_like: Oracle, sparse, beside: bool) -> None:
    """Slow steps on a stream of the user's, batches dropped at once: sums must still be right."""
    stream = torch.cuda.Stream() if beside else torch.cuda.current_stream()
    ds = of(census_like.path, "cuda", sparse=sparse, batch_size=100)
    sums, joinids = [], []
    with torch.cuda.stream(stream):
        for X, obs in ds:
            torch.cuda._sleep(2_000_000)
            values = X if sparse is False else X.values() if sparse == "csr" else X._values()
            sums.append(values.double().sum())
            joinids.append(obs["soma_joinid"].clone())
            del X, obs, values
    stream.synchronize()
    for got, ids in zip(sums, joinids, strict=True):
        assert got.item() == census_like.X[ids.cpu().numpy()].sum(dtype=np.float64)


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_training_in_half_precision(census_like: Oracle, dtype) -> None:
    torch.manual_seed(0)
    ds = of(census_like.path, "cuda", dtype=dtype, batch_size=200)
    model = torch.nn.Linear(ds.n_vars, 1).to("cuda", dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    losses = []
    for _ in range(3):
        for X, obs in ds:
            target = (obs["soma_joinid"] % 2).to(dtype)[:, None]
            loss = (model(torch.log1p(X)) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    losses = torch.stack(losses).float()
    assert torch.isfinite(losses).all()
    assert losses[-10:].mean() < losses[:10].mean()


@needs_cuda
def test_copies_overlap_the_step(census_like: Oracle) -> None:
    """The trace shows a copy to the device that runs while a kernel of the step does."""
    from torch.profiler import ProfilerActivity, profile

    ds = of(census_like.path, "cuda", batch_size=500)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in ds:
            torch.cuda._sleep(50_000_000)
        torch.cuda.synchronize()
    spans = [
        (event.name, event.time_range.start, event.time_range.end) for event in profiled.events()
    ]
    sleeps = [(begin, end) for name, begin, end in spans if "spin" in name or "sleep" in name]
    copies = [(begin, end) for name, begin, end in spans if "Memcpy HtoD" in name]
    assert any(b < end and e > begin for begin, end in sleeps for b, e in copies)


@needs_cuda
def test_staging_memory_is_page_locked() -> None:
    from penstock.device.staging import Staging

    memory, _ = Staging(pin=True).pack([(np.arange(5), np.dtype(np.int64))])
    assert memory.is_pinned()


@needs_cuda
@pytest.mark.parametrize("sparse", LAYOUTS)
@pytest.mark.parametrize("workers", [0, 2])
def test_pin_memory_of_the_dataloader(tiled, sparse, workers: int) -> None:
    loader = ps.dataloader(of(tiled, None, sparse=sparse), num_workers=workers, pin_memory=True)
    for X, obs in loader:
        assert (X.values() if sparse == "csr" else X).is_pinned()
        assert obs["soma_joinid"].is_pinned()
        X.to("cuda", non_blocking=True)
