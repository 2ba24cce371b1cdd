"""Batches made on a GPU, beside dense batches that the loop copies: alone, and under a training step.

python benchmarks/device_batches.py [--data benchmarks/.data/census-65k]

8,000 genes, batches of 512, four epochs of each; from the second on the cells are in memory. The step
is 20 products with a matrix of 8,000 x 2,048, queued without a wait. Prints cells/s of each epoch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import torch
from detected_genes import most_detected_genes

EPOCHS, BATCH, GENES = 4, 512, 8_000


def on_gpu(X: torch.Tensor) -> torch.Tensor:
    return X if X.is_cuda else X.to("cuda", non_blocking=True)


def cells_per_second(batches: Iterable[Any], n_obs: int, step: Callable[[Any], None]) -> int:
    begun = time.perf_counter()
    for X, _ in batches:
        step(X)
    torch.cuda.synchronize()
    return round(n_obs / (time.perf_counter() - begun))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / ".data" / "census-65k")
    path = parser.parse_args().data
    genes = ps.AxisQuery(coords=(np.load(most_detected_genes(path, GENES)),))
    weights = torch.randn(GENES, 2_048, device="cuda")

    def nothing(X: torch.Tensor) -> None:
        pass

    def products(X: torch.Tensor) -> None:
        moved = on_gpu(X)
        for _ in range(20):
            moved @ weights

    print(torch.cuda.get_device_name())
    for name, arguments, step in [
        ("device, dense", {"device": "cuda"}, nothing),
        ("device, CSR", {"device": "cuda", "sparse": "csr"}, nothing),
        ("dense and copied", {}, lambda X: on_gpu(X).sum()),
        ("device, dense, 20 products", {"device": "cuda"}, products),
        ("dense and copied, 20 products", {}, products),
    ]:
        ds = ps.Dataset(
            path, var_query=genes, batch_size=BATCH, memory_budget="2GiB", format="torch",
            obs_format="torch", **arguments,
        )  # fmt: skip
        print(name, [cells_per_second(ds, ds.n_obs, step) for _ in range(EPOCHS)], flush=True)
    X = torch.rand(BATCH, GENES, device="cuda")
    n_obs = 128 * BATCH
    alone = [cells_per_second([(X, None)] * 128, n_obs, products) for _ in range(EPOCHS)]
    print("20 products alone", alone)


if __name__ == "__main__":
    main()
