"""The side-by-side benchmark: ``python benchmarks/run.py`` (``make bench``).

Makes its data where missing, then measures every case: methods in turns, each in a fresh process,
the page cache warmed before a case by reading all of the experiment's files. Writes
``results/tiledbsoma_ml/latest.json``, ``RESULTS.md`` and a plot. ``--cases``, ``--only`` and ``--max-seconds``
cut it short; what was cut is labelled so.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import make_data
from cases import CASES, Case
from loaders import Method, Work, versions
from machine import machine_facts, most_detected_genes, warm_page_cache, x_file_sizes
from measure import Request
from plot import write_plots
from report import write_report

HERE = Path(__file__).resolve().parent


def run_fresh(request: Request, timeout: float) -> dict[str, Any]:
    """Run one measurement in a fresh process; a failure comes back as {"error": …}."""
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "measure.py")],
            input=json.dumps(dataclasses.asdict(request)),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout:.0f} s"}
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        last = said[-1] if said else "nothing on standard error"
        return {"error": f"exit status {done.returncode}: {last}"}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _work(case: Case, experiment: Path) -> Work:
    genes = None
    if case.n_genes is not None:
        keep_at = make_data.data_folder() / f"{case.experiment}.{case.n_genes}-genes.npy"
        genes = str(most_detected_genes(experiment, case.n_genes, keep_at))
    return Work(str(experiment), case.sparse, genes_path=genes)


def _check(answer: dict[str, Any], case: Case, facts: dict[str, Any]) -> str | None:
    """Whether a whole epoch brought every cell once and every non-zero."""
    if "error" in answer or not answer["whole_epoch"] or case.first_batch_only:
        return None
    n = facts["n_cells"]
    if answer["cells"] != n or answer["joinid_sum"] != n * (n - 1) // 2:
        return f"{answer['cells']} cells with joinid sum {answer['joinid_sum']}, not each of {n}"
    if case.n_genes is None and answer["nonzeros"] not in (None, facts["n_nonzeros"]):
        return f"{answer['nonzeros']} non-zeros, not {facts['n_nonzeros']}"
    return None


def _wanted(method: Method, only: str | None) -> bool:
    return only is None or method.loader == only


def run_case(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the case's methods in turns."""
    experiment = make_data.experiment_path(case.experiment)
    facts = make_data.facts(case.experiment)
    data_bytes, metadata_bytes = x_file_sizes(experiment)
    work = _work(case, experiment)
    warm_page_cache(experiment)
    methods = [m for m in case.methods if _wanted(m, options.only)]
    peer_repeats = options.peer_repeats or case.peer_repeats or options.repeats
    runs: dict[str, list[dict[str, Any]]] = {m.label: [] for m in methods}
    for repeat in range(options.repeats):
        for method in methods:
            peer = method.loader != "penstock"
            if peer and repeat >= peer_repeats:
                continue
            request = Request(
                method,
                work,
                epochs=case.epochs,
                max_batches=1 if case.first_batch_only else None,
                max_seconds=options.max_seconds if peer else None,
                cut_cells=method.io_batch_size or 65_536,
            )
            answer = run_fresh(request, options.timeout)
            problem = _check(answer, case, facts)
            if problem:
                answer = {"error": f"wrong result: {problem}"}
            runs[method.label].append(answer)
            print(f"  {case.name}  {method.label}  {_line(answer)}", flush=True)
    return {
        "case": dataclasses.asdict(case) | {"methods": [m.label for m in methods]},
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load_average": os.getloadavg()[0],
        "loaders": {m.label: m.loader for m in methods},
        "x_data_bytes": data_bytes,
        "x_metadata_bytes": metadata_bytes,
        "experiment": facts,
        "runs": runs,
    }


def _line(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"failed: {answer['error']}"
    speed = answer["cells"] / answer["seconds"]
    whole = "" if answer["whole_epoch"] else f" (the first {answer['cells']:,} cells)"
    return (
        f"{speed:,.0f} cells/s{whole}, {answer['seconds']:.2f} s, first batch "
        f"{answer['first_batch_seconds']:.2f} s, peak {answer['peak_bytes'] / 2**20:,.0f} MiB"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=names, default=names, metavar="CASE")
    parser.add_argument("--only", choices=("penstock", "tiledbsoma_ml"), help="one loader alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-repeats", type=int, help="of tiledbsoma_ml; 2 where it is slow")
    parser.add_argument(
        "--max-seconds",
        type=float,
        help="cut tiledbsoma_ml's epochs at the first io batch that ends after this time; its "
        "cells/s are then of the part it did",
    )
    parser.add_argument("--timeout", type=float, default=1_800.0, help="of one measurement")
    parser.add_argument("--note", default="", help="put at the head of the report")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the report")
    parser.add_argument(
        "--keep", action="store_true", help="keep the other cases of earlier results"
    )
    return parser.parse_args()


def main() -> int:
    options = _options()
    cases = [case for case in CASES if case.name in options.cases]
    for name in dict.fromkeys(case.experiment for case in cases):
        make_data.make(name)
    results_path = options.output / "results" / "tiledbsoma_ml" / "latest.json"
    results_path.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "command": shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
        "note": options.note,
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": machine_facts(),
        "load_average_before": os.getloadavg()[0],
        "versions": versions(),
        "cases": {},
    }
    if options.keep and results_path.exists():
        results["cases"] = json.loads(results_path.read_text())["cases"]
    for case in cases:
        print(f"{case.name}: {case.title}", flush=True)
        results["cases"][case.name] = run_case(case, options)
        results_path.write_text(json.dumps(results, indent=1) + "\n")
    write_plots(results, results_path.parent)
    write_report(results, options.output / "RESULTS.md")
    print(f"written: {options.output / 'RESULTS.md'}")
    answers = [a for c in cases for r in results["cases"][c.name]["runs"].values() for a in r]
    return 1 if any("error" in answer for answer in answers) else 0


if __name__ == "__main__":
    sys.exit(main())
