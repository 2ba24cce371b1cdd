"""Batches that are made on a device: copied data, results and errors.

Most tests run on the CPU, whose batches use the same code.
"""

from __future__ import annotations

import device_stores as stores
import numpy as np
import penstock as ps
import pytest
import scipy.sparse as sp
import torch
from conftest import Oracle
from device_stores import (
    DEVICES,
    HAS_CUDA,
    LAYOUTS,
    centred,
    halved,
    make_store,
    needs_cuda,
    of,
    sent_arrays,
)
from torch.utils.data import DataLoader

copier = pytest.importorskip("penstock.batches.device.copier")

tiled = stores.tiled


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


def test_whole_rows_resume_with_and_without_a_device(tiled) -> None:
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
    from penstock.batches.device.matrix import place_matrix

    arrays = [torch.tensor(each, dtype=torch.int32) for each in ([0, 3, 4], [1, 1, 2, 0])]
    values = torch.tensor([300, 3, 5, 7], dtype=torch.int32)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        X, _ = place_matrix(None, *arrays, values, (2, 3), dtype, False)
        assert torch.equal(X, torch.tensor([[0, 303, 5], [7, 0, 0]]).to(dtype))


# What is refused


def test_bad_arguments(tiled) -> None:
    with pytest.raises(ps.InvalidArgument, match=r"device='cpu' needs format='torch'"):
        ps.Dataset(tiled, format="numpy", device="cpu")
    with pytest.raises(ps.InvalidArgument, match=r"dtype='bfloat16' needs format='torch'"):
        ps.Dataset(tiled, format="numpy", dtype=torch.bfloat16)
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
    from penstock.plan import settings as loader_settings

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
