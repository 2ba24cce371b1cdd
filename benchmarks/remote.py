"""Cells a second over HTTP with and without latency, beside the file: benchmarks/README.md.

    python benchmarks/remote.py EXPERIMENT [--latency 0.1] [--memory 2GiB] [--repeat 3]

Serves the experiment's folder (with an index, which is written into it) on loopback by
range_server.py and streams an epoch of CSR batches of 128 from it. Each figure is the median of the
repeats, which take turns. The consumer only takes batches.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import penstock as ps
from penstock.experiment.web_index import write_index


@contextmanager
def served(folder: Path, latency: float) -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("range_server.py")), str(folder)]
    server = subprocess.Popen(
        [*command, "--latency", str(latency)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


def counts(url: str) -> tuple[int, float]:
    """Requests that the server had, and the CPU seconds that it took."""
    with urllib.request.urlopen(f"{url}/-/counts") as answer:
        requests, cpu = answer.read().split()
    return int(requests), float(cpu)


def epoch(source: str | Path, memory: str, url: str | None) -> dict[str, float]:
    before = counts(url) if url else (0, 0.0)
    begin = time.perf_counter()
    experiment = ps.open(source)
    dataset = ps.Dataset(
        experiment, batch_size=128, sparse=True, memory_budget=memory, seed=0, obs_columns=[]
    )
    batches = iter(dataset)
    opened = time.perf_counter()
    middle = counts(url) if url else (0, 0.0)
    next(batches)
    first = time.perf_counter()
    for _ in batches:
        pass
    end = time.perf_counter()
    after = counts(url) if url else (0, 0.0)
    stats = dataset.stats
    return {
        "cells/s": stats.cells / (end - opened),
        "seconds": end - opened,
        "opening": opened - begin,
        "opening requests": middle[0] - before[0],
        "first batch": first - opened,
        "requests": stats.requests,
        "server requests": after[0] - middle[0],
        "amplification": stats.read_amplification,
        "server cpu": after[1] - middle[1],
        "units in shuffle": stats.units_in_shuffle,
        "GB/s": stats.bytes_read / (end - opened) / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--repeat", type=int, default=3)
    parsed = parser.parse_args()
    folder = parsed.experiment.resolve()
    index, _, _ = write_index(folder)
    try:
        seen = measure(folder, parsed)
    finally:
        index.unlink()
    report(seen)


def measure(folder: Path, parsed: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    with served(folder, 0.0) as near, served(folder, parsed.latency) as far:
        cases = {
            "file": (folder, None),
            "http": (near, near),
            f"http, {parsed.latency:g} s": (far, far),
        }
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
        for _ in range(parsed.repeat):
            for name, (source, url) in cases.items():
                seen[name].append(epoch(source, parsed.memory, url))
                print(
                    name,
                    {key: round(value, 3) for key, value in seen[name][-1].items()},
                    flush=True,
                )
    return seen


def report(seen: dict[str, list[dict[str, float]]]) -> None:
    """Print a table of medians."""
    print()
    names = list(next(iter(seen.values()))[0])
    print("| |", " | ".join(names), "|")
    print("|---|", "---|" * len(names), sep="")
    for name, runs in seen.items():
        medians = [statistics.median(run[each] for run in runs) for each in names]
        print(f"| {name} |", " | ".join(f"{value:,.4g}" for value in medians), "|")


if __name__ == "__main__":
    main()
