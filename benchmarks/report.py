"""Turns results into ``RESULTS.md``: tables with min, median and max, a ratio for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

Run = dict[str, Any]
MIB = 2**20


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Median (min to max)."""
    if not values:
        return "-"
    if len(values) == 1:
        return format(values[0], form)
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def good_runs(case: dict[str, Any], method: str) -> list[Run]:
    """The runs of a method that did not fail."""
    return [run for run in case["runs"].get(method, []) if "error" not in run]


def cells_per_second(run: Run) -> float:
    return float(run["cells"]) / float(run["seconds"])


def paired(case: dict[str, Any], ours: str, peer: str) -> list[tuple[Run, Run]]:
    """Runs of the two methods from the same turn."""
    both = zip(case["runs"].get(ours, []), case["runs"].get(peer, []), strict=False)
    return [(a, b) for a, b in both if "error" not in a and "error" not in b]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(head)
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)] + [""]


def _whole(runs: Sequence[Run]) -> str:
    if all(run["whole_epoch"] for run in runs):
        return "whole epoch"
    return f"cut: the first {min(run['cells'] for run in runs):,} cells"


def _methods(case: dict[str, Any], loader: str) -> list[str]:
    return [m for m, its_loader in case["loaders"].items() if its_loader == loader]


def _speed_rows(case: dict[str, Any]) -> list[list[str]]:
    rows = []
    first_batch_only = case["case"]["first_batch_only"]
    for method in case["runs"]:
        runs = good_runs(case, method)
        failures = [run["error"] for run in case["runs"][method] if "error" in run]
        if not runs:
            rows.append([method, f"failed: {failures[0] if failures else 'not run'}", *["-"] * 6])
            continue
        rows.append(
            [
                method,
                "-" if first_batch_only else spread([cells_per_second(run) for run in runs]),
                "-" if first_batch_only else spread([run["seconds"] for run in runs], ".2f"),
                spread([run["peak_bytes"] / MIB for run in runs]),
                spread([run["imports_bytes"] / MIB for run in runs]),
                spread([run["first_batch_seconds"] for run in runs], ".2f"),
                spread([run["import_seconds"] for run in runs], ".2f"),
                ("first batch" if first_batch_only else _whole(runs))
                + f", {len(runs)} run{'s' * (len(runs) > 1)}"
                + (", SOME FAILED" if failures else ""),
            ]
        )
    return rows


def _ratio_lines(case: dict[str, Any]) -> list[str]:
    lines = []
    for ours in _methods(case, "penstock"):
        for peer in _methods(case, "tiledbsoma_ml"):
            pairs = paired(case, ours, peer)
            if not pairs:
                continue
            speed = [cells_per_second(a) / cells_per_second(b) for a, b in pairs]
            if case["case"]["first_batch_only"]:
                first = [b["first_batch_seconds"] / a["first_batch_seconds"] for a, b in pairs]
                lines.append(f"- {ours}: first batch {spread(first, '.1f')} times as soon")
                continue
            memory = [a["peak_bytes"] / b["peak_bytes"] for a, b in pairs]
            lines.append(
                f"- {ours} against {peer}: {spread(speed, '.1f')} times the cells/s, "
                f"{spread(memory, '.2f')} of the peak memory"
            )
    return [*lines, ""] if lines else []


def _epoch_lines(case: dict[str, Any]) -> list[str]:
    lines = []
    for method in case["runs"]:
        for run in good_runs(case, method):
            if len(run["epochs"]) > 1:
                peaks = ", ".join(f"{epoch['peak'] / MIB:,.0f}" for epoch in run["epochs"])
                lines.append(f"- {method}: peak MiB after each epoch: {peaks}")
    return [*lines, ""] if lines else []


def _reading_rows(results: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, case in results["cases"].items():
        for method in case["runs"]:
            runs = [run for run in good_runs(case, method) if run["whole_epoch"]]
            if not runs or case["case"]["epochs"] > 1 or case["case"]["n_genes"]:
                continue
            needed = case["x_data_bytes"]
            said = [run["statistics"].get("bytes_needed") for run in runs]
            rows.append(
                [
                    name,
                    method,
                    f"{needed / 1e6:,.1f}",
                    f"{said[0] / 1e6:,.1f}" if said[0] else "-",
                    spread([run["rchar_epoch"] / 1e6 for run in runs], ",.1f"),
                    spread([run["rchar_open"] / 1e6 for run in runs], ",.1f"),
                    spread([run["rchar_epoch"] / needed for run in runs], ".2f"),
                ]
            )
    return rows


def _scaling_lines(results: dict[str, Any]) -> list[str]:
    cases = results["cases"]
    small = cases.get("csr-65k")
    lines = []
    for large_name in ("csr-524k-32f", "csr-524k-1f"):
        large = cases.get(large_name)
        if not small or not large:
            continue
        for method in _methods(small, "penstock"):
            a = [run["seconds"] / run["cells"] * 1e6 for run in good_runs(small, method)]
            b = [run["seconds"] / run["cells"] * 1e6 for run in good_runs(large, method)]
            if a and b:
                change = (median(b) / median(a) - 1) * 100
                lines.append(
                    f"- {method}: {median(a):.2f} microseconds a cell at 65,536 cells, "
                    f"{median(b):.2f} in {large_name} ({change:+.0f} %)"
                )
    return ["## Cost a cell", "", *lines, ""] if lines else []


def write_report(results: dict[str, Any], path: Path) -> None:
    """Write the report."""
    machine, software = results["machine"], results["versions"]
    lines = ["# Results", ""]
    if results["note"]:
        lines += [f"**{results['note']}**", ""]
    lines += [
        f"`{results['command']}`, {results['when']}; made by `benchmarks/run.py`, not by hand.",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"{machine['system']}; Python {machine['python']}; "
        + ", ".join(f"{name} {version}" for name, version in software.items())
        + f". Load average before: {results['load_average_before']:.1f}.",
        "",
        "Batch size 128, shuffled, obs column soma_joinid. Every measurement is a fresh process, "
        "methods take turns, and the page cache is warm: all files of an experiment are read once "
        "before its case. Seconds run from opening to the last batch of the epoch, imports apart. "
        "Peak is the operating system's figure for the whole process (VmHWM). Figures are "
        "the median (min to max); ratios are taken pair by pair within a turn. A whole epoch is "
        "checked for every cell once and, in CSR, for the number of non-zeros.",
        "",
    ]
    if (path.parent / "results" / "tiledbsoma_ml" / "speed_vs_memory.png").exists():
        lines += ["![Speed against memory](results/tiledbsoma_ml/speed_vs_memory.png)", ""]
    head = ("method", "cells/s", "seconds", "peak MiB", "after imports MiB")
    head += ("first batch s", "imports s", "")
    for name, case in results["cases"].items():
        lines += [f"## {name}: {case['case']['title']}", ""]
        lines += [f"Ended {case['when']}, load average {case['load_average']:.1f}.", ""]
        if case["case"]["target"]:
            lines += [f"Asked for: {case['case']['target']}.", ""]
        lines += _table(head, _speed_rows(case)) + _ratio_lines(case) + _epoch_lines(case)
    lines += _scaling_lines(results)
    reading = _reading_rows(results)
    if reading:
        lines += [
            "## Bytes read over bytes needed",
            "",
            "Needed is the size of X/raw's data files (every tile is selected); read is rchar of "
            "the process after opening, so metadata that a loader reads late counts against it.",
            "",
        ]
        columns = ("case", "method", "needed MB", "needed by stats", "read MB", "opening MB")
        lines += _table((*columns, "read / needed"), reading)
    # Of scripts of those names, kept by hand but for consumer_time's.
    for name in ("transforms", "consumer_time", "remote", "uniform_shuffle"):
        other = path.parent / "results" / f"{name}.md"
        if other.exists():
            lines += ["", other.read_text()]
    path.write_text("\n".join(lines).rstrip() + "\n")
