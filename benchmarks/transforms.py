"""Cost of each transform, beside the plain loader on the same experiment; and of the statistics.

python benchmarks/transforms.py [EXPERIMENT] [--rounds 3] [--dense]

Wall time tells on a quiet machine. The processor's time of the process, over all of its threads, tells
on a busy one too: the loader keeps every core at work, so that its cells/s are those of a processor's
second times the cores.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from penstock.base.text import markdown_table
from spread import spread

DATA = Path(__file__).resolve().parent / ".data"


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


def measure(path: str, transforms: list[Any], dense: bool) -> tuple[float, float]:
    """Cells/s of an epoch in batches of 128, and cells a second of the processor's."""
    is_tokens = any(isinstance(step, ps.RankTokens) for step in transforms)
    ds = ps.Dataset(path, seed=1, sparse=not (dense or is_tokens), memory_budget="1GiB")
    ds = ds.with_settings(transforms=transforms)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for _ in ds:
        pass
    return ds.n_obs / (time.perf_counter() - begin), ds.n_obs / (time.process_time() - begin_cpu)


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", nargs="?", default=str(DATA / "census-65k"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dense", action="store_true")
    options = parser.parse_args()
    path = options.experiment
    cases = chains(path)
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, transforms in cases.items():
            seen[name].append(measure(path, transforms, options.dense))
    for which, clock in enumerate(("cells/s", "cells a second of the processor")):
        plain = statistics.median(each[which] for each in seen["plain"])
        rows = []
        for name, both in seen.items():
            speeds = [each[which] for each in both]
            rows.append((name, spread(speeds), f"{statistics.median(speeds) / plain:.2f}"))
        print(markdown_table(("transforms", clock, "of plain"), rows))
    ds = ps.Dataset(path, memory_budget="1GiB")
    rows = []
    for name, run in (
        ("gene_statistics", lambda: ps.gene_statistics(ds)),
        ("cell_statistics", lambda: ps.cell_statistics(ds)),
        ("highly_variable_genes, seurat_v3", lambda: ps.highly_variable_genes(ds)),
    ):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        run()
        wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
        rows.append((name, f"{ds.n_obs / wall:,.0f}", f"{ds.n_obs / cpu:,.0f}"))
    print(markdown_table(("statistics", "cells/s", "cells a second of the processor"), rows))


if __name__ == "__main__":
    main()
