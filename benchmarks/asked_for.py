"""The figures of results/asked-for.md: Penstock beside annbatch, threads, processes, the decode bound.

    penstock bench peers install annbatch       # needs Python 3.12 or newer
    make benchmarks/.data/census-{65k,262k,524k-32f}
    python benchmarks/asked_for.py [EXPERIMENT] [--rounds 7]

Each case is a command of ``penstock bench``, which it prints. A row a run is kept in
results/asked-for.json, with the ratios; rows of cases that are not named by --cases stay.
About 15 minutes with nothing else running; annbatch's collection is made once, and kept.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import penstock
from detected_genes import most_detected_genes
from penstock.bench.machine import described
from penstock.bench.measuring import decode_bound as bound
from penstock.bench.reports.comparison import Spread, best_of, contestants, good, ratio_line
from penstock.bench.reports.results_file import read

HERE = Path(__file__).resolve().parent
DATA = HERE / ".data"
PEER_BLOCKS = ("-b", "16x1024", "-b", "32x512", "-b", "64x512", "-b", "64x256", "-b", "128x256")
COMPARE = ("compare", "-m", "penstock,annbatch", *PEER_BLOCKS, "--memory-budget", "256MiB")
#: name: arguments of `penstock bench`; EXPERIMENT, LARGER, LARGEST and GENES stand for paths.
CASES: dict[str, tuple[str, ...]] = {
    "csr": (*COMPARE, "EXPERIMENT"),
    "csr, 262,144 cells": (*COMPARE, "LARGER"),
    "dense": (*COMPARE, "--dense", "EXPERIMENT"),
    "dense, 8,000 genes": (*COMPARE, "--dense", "--genes", "GENES", "EXPERIMENT"),
    "csr, 524,288 cells": (
        "compare",
        "-m",
        "penstock",
        "--memory-budget",
        "256MiB,2GiB",
        "LARGEST",
    ),
    "threads": ("scale", "threads=1,2", "--on", "EXPERIMENT"),
    "processes": ("scale", "processes=1,2", "--threads", "1", "--on", "EXPERIMENT"),
}
DECODE = "decode bound"
KEPT = (
    "contestant", "method", "round", "epoch", "process", "processes", "status", "start_dt", "sha", "sparse", "n_cols",
    "memory_budget", "threads", "batch_size", "chunks_per_block", "chunk_size", "total_n_rows",
    "whole_epoch", "cells_per_second", "epoch_cells_per_second", "first_batch_seconds",
    "epoch_seconds", "cpu_seconds", "max_mem", "peak_rss", "bytes_read", "cache_resident",
    "load_average",
)  # fmt: skip


def measure(arguments: tuple[str, ...], paths: dict[str, str], rounds: int) -> dict[str, Any]:
    """Rows of a command of the suite, without what tells of this machine's folders and users.

    What packages each method ran with comes once.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = f"{folder}/epochs.parquet"
        given = [paths.get(each, each) for each in arguments]
        command = ["bench", *given, "-R", str(rounds), "-d", results]
        print(f"$ penstock {shlex.join(command)}", flush=True)
        subprocess.run([sys.executable, "-m", "penstock", *command], check=True)
        rows = read(results).to_pylist()
    return {
        "versions": {row["method"]: json.loads(row["versions"] or "{}") for row in rows},
        "rows": [{name: row[name] for name in KEPT if row.get(name) is not None} for row in rows],
    }


PARTS = (("rows",), ("columns",), ("values",), ("columns", "values"), ("rows", "columns", "values"))


def decode_bound(path: str) -> list[str]:
    """Measure decompressing and un-shuffling the same tiles alone, by one thread and by two."""
    array, n_cells = f"{path}/ms/RNA/X/raw", penstock.open(path).n_obs
    lines = []
    for parts in PARTS:
        one, two = (bound.measure(array, n_cells, n, 5, parts).cells_per_second for n in (1, 2))
        lines.append(f"{' + '.join(parts)}: {one:,.0f} cells/s by one thread, {two:,.0f} by two")
    return lines


def conclusions(case: str, rows: list[dict[str, Any]], paths: dict[str, str]) -> list[str]:
    """The ratios of a case, taken within rounds."""
    if case in ("threads", "processes"):
        return _scaling(case, rows)
    if "LARGEST" in CASES[case]:
        return _of_the_bound(rows, paths["LARGEST"])
    ours = best_of(rows, "penstock")
    others = sorted({row["contestant"] for row in rows if row["method"] != "penstock"})
    if ours is None or not others:
        return [f"{case}: one side is missing"]
    best = best_of(rows, "annbatch")
    lines = [(other == best, ratio_line(rows, ours, other)) for other in others]
    return [f"{text}{' (its fastest)' if fastest else ''}" for fastest, text in lines if text]


def _of_the_bound(rows: list[dict[str, Any]], path: str) -> list[str]:
    """Speeds by contestant, and the share that they are of the same experiment's decode bound."""
    array, n_cells = f"{path}/ms/RNA/X/raw", penstock.open(path).n_obs
    most = bound.measure(array, n_cells, 2, 5, ("columns", "values")).cells_per_second
    lines = [f"decode bound, columns + values: {most:,.0f} cells/s by two threads"]
    for name, mine in contestants(good(rows)).items():
        for column, words in (
            ("epoch_cells_per_second", "whole epoch"),
            ("cells_per_second", "after the first batch"),
        ):
            speeds = Spread.of([float(row[column]) for row in mine])
            if speeds is not None:
                lines.append(
                    f"{name}, {words}: {speeds.text()} cells/s, {speeds.middle / most:.0%} of it"
                )
    return lines


def _scaling(case: str, rows: list[dict[str, Any]]) -> list[str]:
    """Cells a second of two over one, all processes together, round by round."""
    speeds: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        count = int(row["threads"] if case == "threads" else row["processes"])
        key = (int(row["round"]), count)
        speeds.setdefault(key, []).append(float(row["epoch_cells_per_second"]))
    rounds = sorted({number for number, _ in speeds})
    gains = [sum(speeds[number, 2]) / sum(speeds[number, 1]) for number in rounds]
    lines = [
        f"two {case}: {median(gains):.2f} ({min(gains):.2f} to {max(gains):.2f}) times the speed of one"
    ]
    if case == "processes":
        fair = [min(speeds[number, 2]) / max(speeds[number, 2]) for number in rounds]
        lines.append(f"the slower of two has {median(fair):.0%} of the faster one's speed")
    return lines


def main() -> None:
    """Measure the cases, keep the rows, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("experiment", nargs="?", default=DATA / "census-65k", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    names = (*CASES, DECODE)
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "asked-for.json")
    parsed = parser.parse_args()
    kept = json.loads(parsed.output.read_text()) if parsed.output.exists() else {}
    path = parsed.experiment.resolve()
    paths = {
        "EXPERIMENT": str(path),
        "GENES": str(most_detected_genes(path)),
        "LARGER": str(DATA / "census-262k"),
        "LARGEST": str(DATA / "census-524k-32f"),
    }
    for case in parsed.cases:
        if case == DECODE:
            found: dict[str, Any] = {"lines": decode_bound(str(path))}
        else:
            measured = measure(CASES[case], paths, parsed.rounds)
            found = {"command": shlex.join(("penstock", "bench", *CASES[case])),
                     "lines": conclusions(case, measured["rows"], paths), **measured}  # fmt: skip
        kept[case] = {"machine": described(), **found}
        parsed.output.write_text(json.dumps(kept, indent=1, default=str) + "\n")
    for case in parsed.cases:
        print(case, *(f"  {line}" for line in kept[case]["lines"]), sep="\n")


if __name__ == "__main__":
    main()
