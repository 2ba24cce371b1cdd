"""First and second epoch of a process beside tiledbsoma_ml's: benchmarks/README.md.

    python benchmarks/second_epoch.py [--cells census-65k] [--rounds 3] [--dense]

tiledbsoma_ml compiles functions (numba) in the first batch of every process, which is in the first
epoch of it and in no other. Each round is a fresh process of either loader that goes through two
epochs, without imports; the page cache is warm. Kept in results/second_epoch.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import make_data
from loaders import Method, Work, versions
from machine import machine_facts, warm_page_cache
from measure import Request
from run import run_fresh

RESULTS = Path(__file__).resolve().parent / "results" / "second_epoch.json"
METHODS = (
    Method("penstock"),
    Method("penstock", memory_budget="256MiB"),
    Method("tiledbsoma_ml"),
)


def measure(work: Work, rounds: int) -> dict[str, list[list[float]]]:
    """Seconds of both epochs, a pair a round, by method."""
    seconds: dict[str, list[list[float]]] = {method.label: [] for method in METHODS}
    for _ in range(rounds):
        for method in METHODS:
            answer = run_fresh(Request(method, work, epochs=2), timeout=1800)
            if "error" in answer:
                raise SystemExit(f"{method.label}: {answer['error']}")
            seconds[method.label].append([epoch["seconds"] for epoch in answer["epochs"]])
            print(method.label, [round(each, 2) for each in seconds[method.label][-1]], flush=True)
    return seconds


def conclusions(seconds: dict[str, list[list[float]]]) -> list[str]:
    """Ratios within each round."""
    lines = []
    peers = seconds["tiledbsoma_ml"]
    for label, ours in seconds.items():
        for epoch, name in enumerate(("first", "second")):
            own = [each[epoch] for each in ours]
            ratios = [peer[epoch] / each[epoch] for peer, each in zip(peers, ours, strict=True)]
            lines.append(
                f"{label}, {name} epoch: {median(own):.2f} s ({min(own):.2f} to {max(own):.2f}), "
                f"{median(ratios):.1f} times tiledbsoma_ml's speed "
                f"({min(ratios):.1f} to {max(ratios):.1f})"
            )
    return lines


def main() -> None:
    """Measure, keep the seconds, print what they come to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", default="census-65k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dense", action="store_true")
    parsed = parser.parse_args()
    make_data.make(parsed.cells)
    path = make_data.experiment_path(parsed.cells)
    warm_page_cache(path)
    seconds = measure(Work(str(path), sparse=not parsed.dense), parsed.rounds)
    lines = conclusions(seconds)
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[f"{parsed.cells}, {'dense' if parsed.dense else 'CSR'}"] = {
        "machine": machine_facts(), "versions": versions(), "seconds": seconds, "lines": lines,
    }  # fmt: skip
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
