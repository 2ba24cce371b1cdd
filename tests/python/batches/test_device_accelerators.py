"""Batches that are made on a device: tests that need a GPU or a simulated accelerator."""

from __future__ import annotations

import device_stores as stores
import numpy as np
import penstock as ps
import pytest
import torch
from conftest import Oracle
from device_stores import LAYOUTS, needs_cuda, needs_openreg, of

copier = pytest.importorskip("penstock.batches.device.copier")

tiled = stores.tiled


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


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_training_in_half_precision(census_like: Oracle, dtype, device: str) -> None:
    torch.manual_seed(0)
    ds = of(census_like.path, device, dtype=dtype, batch_size=200)
    model = torch.nn.Linear(ds.n_vars, 1).to(device, dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
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
    from penstock.batches.device.staging import Staging

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
