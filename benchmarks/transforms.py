"""Cost of each transform, beside the plain loader on the same experiment; and of the statistics.

python benchmarks/transforms.py [EXPERIMENT] [--rounds 3] [--dense]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import penstock as ps
from make_data import data_folder


def chains(path: str) -> dict[str, list[Any]]:
    """Name to transforms; per-gene numbers are invented."""
    names = ps.Dataset(path).var_names
    random = np.random.default_rng(0)
    some = random.permutation(len(names))[:2000]
    std = random.uniform(0.5, 2, len(names))
    by_name = dict(zip(names, std.tolist(), strict=True))
    tokens = {name: i + 4 for i, name in enumerate(names)}
    normal = [ps.NormalizeTotal(1e4), ps.Log1p()]
    return {
        "plain": [],
        "NormalizeTotal": [ps.NormalizeTotal(1e4)],
        "NormalizeTotal of an obs column": [ps.NormalizeTotal(1e4, totals="raw_sum")],
        "Log1p": [ps.Log1p()],
        "Clip": [ps.Clip(high=10)],
        "Binarize": [ps.Binarize()],
        "Scale": [ps.Scale(std)],
        "NormalizeTotal, Log1p": normal,
        "SelectGenes, 2,000 of them": [ps.SelectGenes(some)],
        "Log1p, then SelectGenes": [ps.Log1p(), ps.SelectGenes(some)],
        "RankTokens, 2,048": [ps.RankTokens(by_name, tokens)],
        "RankTokens, 4,096": [ps.RankTokens(by_name, tokens, max_tokens=4096)],
        "numpy.log1p as a callable": [_log1p],
    }


def _log1p(X: Any) -> Any:
    return X.log1p() if hasattr(X, "log1p") else np.log1p(X)


def measure(path: str, transforms: list[Any], dense: bool) -> float:
    """Cells/s of an epoch in batches of 128."""
    is_tokens = any(isinstance(step, ps.RankTokens) for step in transforms)
    ds = ps.Dataset(path, seed=1, sparse=not (dense or is_tokens), memory_budget="1GiB")
    ds = ds.with_settings(transforms=transforms)
    begin = time.perf_counter()
    for _ in ds:
        pass
    return ds.n_obs / (time.perf_counter() - begin)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", nargs="?", default=str(data_folder() / "census-65k"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dense", action="store_true")
    options = parser.parse_args()
    path = options.experiment
    cases = chains(path)
    seen: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, transforms in cases.items():
            seen[name].append(measure(path, transforms, options.dense))
    plain = statistics.median(seen["plain"])
    for name, speeds in seen.items():
        middle = statistics.median(speeds)
        print(
            f"{name:34s} {min(speeds):9,.0f} {middle:9,.0f} {max(speeds):9,.0f} cells/s "
            f"(min, median, max)  {middle / plain:5.2f} of plain"
        )
    ds = ps.Dataset(path, memory_budget="1GiB")
    for name, run in (
        ("gene_statistics", lambda: ps.gene_statistics(ds)),
        ("cell_statistics", lambda: ps.cell_statistics(ds)),
        ("highly_variable_genes, seurat_v3", lambda: ps.highly_variable_genes(ds)),
    ):
        begin = time.perf_counter()
        run()
        print(f"{name:34s} {ds.n_obs / (time.perf_counter() - begin):9,.0f} cells/s")


if __name__ == "__main__":
    main()
