"""Measures what `cache_dir` costs in the first epoch and gains later: benchmarks/README.md.

    python benchmarks/cache.py [--data EXPERIMENT] [--rounds 5]

CSR batches of 128, every measurement a process of its own, methods in turns, the page cache warm. An
epoch counts from the first batch asked for to the last one handed over, and only if it brought every
cell and every non-zero. Cache and pack are made in a folder of their own (``--work``). Kept in
results/cache.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from penstock.base.text import markdown_table
from penstock.bench.machine import described
from penstock.bench.measuring import page_cache
from spread import spread

BATCH = 128
SEED = 3
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "cache.json"

SOURCE = "the source, without cache_dir"
FILLING = "the source, first epoch with cache_dir"
FULL = "a full cache_dir"
PACK = "a pack"
SCIPY = "scipy, random rows of a matrix in memory"


# One measurement, in this process


def dataset(name: str, data: Path, work: Path) -> Any:
    """Return the dataset of a method, with the default shuffle."""
    import penstock as ps

    source = work / "pack" if name == PACK else data
    cache = {FILLING: work / "filling", FULL: work / "full"}.get(name)
    return ps.Dataset(source, sparse=True, batch_size=BATCH, seed=SEED, cache_dir=cache)


def measure(name: str, data: Path, work: Path) -> dict[str, Any]:
    """Cells, non-zeros and seconds of an epoch."""
    if name == SCIPY:
        return measure_scipy(data)
    ds = dataset(name, data, work)
    len(ds)
    cpu, begin = cpu_seconds(), time.perf_counter()
    cells = nonzeros = 0
    for X, _ in ds:
        cells += X.shape[0]
        nonzeros += X.nnz
    seconds = time.perf_counter() - begin
    return {
        "cells": cells,
        "nonzeros": nonzeros,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds() - cpu,
        "shuffle": ds.shuffle,
        "bytes_read": ds.stats.bytes_read,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure_scipy(data: Path) -> dict[str, Any]:
    """The peak is without the copies that loading makes."""
    import penstock as ps

    X = ps.Dataset(data, sparse=True, obs_columns=[]).to_anndata(max_size="32GiB").X
    order = np.random.default_rng(SEED).permutation(X.shape[0])
    cpu, begin = cpu_seconds(), time.perf_counter()
    cells = nonzeros = 0
    for first in range(0, len(order), BATCH):
        batch = X[order[first : first + BATCH]]
        cells += batch.shape[0]
        nonzeros += batch.nnz
    return {
        "cells": cells,
        "nonzeros": nonzeros,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": cpu_seconds() - cpu,
        "shuffle": "global",
        "peak_bytes": X.data.nbytes + X.indices.nbytes + X.indptr.nbytes,
    }


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# All of them in turns


def in_a_process(command: list[str]) -> dict[str, Any]:
    """The answer that a process prints last."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def command_of(name: str, options: argparse.Namespace) -> list[str]:
    """Return the command of one measurement."""
    script = [sys.executable, __file__, "--one", name]
    return [*script, "--data", str(options.data), "--work", str(options.work)]


def prepare(options: argparse.Namespace) -> None:
    """The pack, and a cache that one epoch has filled."""
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "pack").exists():
        pack = [sys.executable, "-m", "penstock", "pack", str(options.data)]
        subprocess.run([*pack, str(options.work / "pack")], check=True)
    in_a_process(command_of(FULL, options))


def run(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Every method, as often as asked for."""
    names = [SOURCE, FILLING, FULL, PACK, SCIPY]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            if name == FILLING:
                shutil.rmtree(options.work / "filling", ignore_errors=True)
            page_cache.prepare("warm", options.data)
            page_cache.prepare("warm", options.work)
            answer = in_a_process(command_of(name, options))
            whole = [answer[each] for each in ("cells", "nonzeros")]
            expected = (
                [runs[SOURCE][0][each] for each in ("cells", "nonzeros")] if runs[SOURCE] else whole
            )
            if whole != expected or (name == FULL and answer["bytes_read"]):
                raise SystemExit(f"{name}: {answer}, not {expected} cells and non-zeros")
            runs[name].append(answer)
            print(f"{name}: {answer['cells'] / answer['seconds']:,.0f} cells/s", flush=True)
    return runs


def table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Median (least to most) of each method, and within each round over the source."""
    rows = []
    for name, answers in runs.items():
        speeds = [each["cells"] / each["seconds"] for each in answers]
        ratios = [
            source["seconds"] / each["seconds"]
            for source, each in zip(runs[SOURCE], answers, strict=True)
        ]
        cpu = median(each["cpu_seconds"] / each["cells"] * 1e6 for each in answers)
        shuffle = answers[0].get("shuffle", "its own")
        rows.append((name, shuffle, spread(speeds), spread(ratios, 2), f"{cpu:.1f}"))
    return markdown_table(("", "shuffle", "cells/s", "times the source", "CPU µs a cell"), rows)


def sizes(options: argparse.Namespace, nonzeros: int) -> list[str]:
    """Return lines with the size of the cells on disk."""
    lines = []
    for what, folder in (("cache", "full"), ("pack, with obs and var", "pack")):
        files = (path for path in (options.work / folder).rglob("*") if path.is_file())
        stored = sum(path.stat().st_size for path in files)
        lines.append(f"{what}: {stored / 2**20:,.1f} MiB, {stored / nonzeros:.2f} bytes a non-zero")
    return lines


def main() -> None:
    """Measure, save the results, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=HERE / ".data" / "census-65k")
    parser.add_argument("--work", type=Path, help="for cache and pack; beside the data by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="leave cache and pack where they are")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.data = options.data.resolve()
    options.work = (options.work or options.data.with_name(options.data.name + "-cache")).resolve()
    if options.one:
        print(json.dumps(measure(options.one, options.data, options.work)))
        return
    prepare(options)
    runs = run(options)
    lines = [*table(runs).splitlines(), "", *sizes(options, runs[SOURCE][0]["nonzeros"])]
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[options.data.name] = {"machine": described(), "runs": runs, "lines": lines}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print(*lines, sep="\n")
    if not options.keep:
        shutil.rmtree(options.work)


if __name__ == "__main__":
    main()
