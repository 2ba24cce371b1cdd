"""Training of scVI measured as cells, processes, layout and shuffle vary.

Each measurement is ``penstock train MODEL … --trace`` in a process of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from penstock.base.text import count, markdown_table, plural

from .machine import described, machine_facts

_FACTS = ("host", "instance_type", "cpu", "cores", "memory_bytes", "system", "sha")
_LAST_STEPS = 20


@dataclass(frozen=True)
class Case:
    """Values of what varies. `cells` are the first ones of the experiment; None means all."""

    cells: int | None = None
    devices: int = 1
    layout: str = "sparse"
    shuffle: str = "true"

    def arguments(self, batch_size: int) -> list[str]:
        """Return the arguments of ``penstock train``; processes share the batch."""
        found = ["--devices", str(self.devices), "--shuffle", self.shuffle]
        found += ["--batch-size", str(batch_size // self.devices)]
        found += ["--cells", str(self.cells)] if self.cells is not None else []
        return found + (["--dense"] if self.layout == "dense" else [])


@dataclass(frozen=True)
class Cases:
    """All combinations of the values of the axes."""

    cells: Sequence[int | None] = (None,)
    devices: Sequence[int] = (1,)
    layouts: Sequence[str] = ("sparse",)
    shuffles: Sequence[str] = ("true",)

    def __iter__(self) -> Iterator[Case]:
        axes = self.cells, self.devices, self.layouts, self.shuffles
        return itertools.starmap(Case, itertools.product(*axes))

    def line(self, case: Mapping[str, Any]) -> str:
        """Return the name of a case's line over cells: the values of the other axes that vary."""
        parts = []
        if len(self.devices) > 1:
            parts.append(plural(int(case["devices"]), "process"))
        if len(self.layouts) > 1:
            parts.append(str(case["layout"]))
        if len(self.shuffles) > 1:
            parts.append(
                "stored order" if case["shuffle"] == "none" else f"shuffle {case['shuffle']}"
            )
        return ", ".join(parts) or "training"


def measure(
    cases: Cases, command: Sequence[str], batch_size: int, rounds: int, folder: Path,
    say: Callable[[str], object], timeout: float = 7200.0,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measure the cases in turns, in reverse order every other round; return a row for each.

    Parameters
    ----------
    cases : Cases
        What varies.
    command : sequence of str
        Arguments of ``penstock train`` that are the same for all.
    batch_size : int
        Cells in a step of all processes together.
    rounds : int
        Measurements of each case.
    folder : Path
        Gets ``training.parquet`` and ``traces/``.
    say : callable
        Prints a line.
    timeout : float
        Seconds after which a measurement fails.
    """
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(rounds):
        in_order = list(cases)
        for case in in_order if number % 2 == 0 else reversed(in_order):
            row = _run(case, [*command, *case.arguments(batch_size)], folder, number, timeout)
            rows.append(row)
            _save(rows, folder / "training.parquet")
            told = f"{row['seconds']:,.1f} s" if row["status"] == "ok" else row["error"]
            say(f"round {number + 1}, {_told(case)}: {told}")
    return rows


def _told(case: Case) -> str:
    cells = "all cells" if case.cells is None else plural(case.cells, "cell")
    order = "stored order" if case.shuffle == "none" else f"shuffle {case.shuffle}"
    return f"{cells}, {plural(case.devices, 'process')}, {case.layout}, {order}"


def _run(
    case: Case, command: Sequence[str], folder: Path, number: int, timeout: float
) -> dict[str, Any]:
    from penstock.scvi.run.trace import read_trace

    facts = {name: value for name, value in machine_facts().items() if name in _FACTS}
    row: dict[str, Any] = {**asdict(case), "round": number, **facts}
    row |= {"seconds": None, "peak_rss": None, "steps": None, "loss": None}
    with tempfile.TemporaryDirectory() as output:
        call = [sys.executable, "-m", "penstock", "train", *command]
        try:
            done = subprocess.run(
                [*call, "--trace", "--output", output], capture_output=True, text=True,
                timeout=timeout, env={**os.environ, "MPLBACKEND": "Agg"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {**row, "status": "timeout", "error": f"not done after {timeout:g} s"}
        if done.returncode:
            error = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
            return {**row, "status": "failed", "error": error[0].removeprefix("penstock: ")}
        trace = Path(output) / "trace.csv"
        frame = read_trace(trace)
        shutil.copyfile(trace, folder / "traces" / f"{_file_name(row)}.csv")
        row["seconds"] = json.loads((Path(output) / "trace.json").read_text())["train_seconds"]
    return row | {
        "status": "ok",
        "error": None,
        "peak_rss": int(frame["rss"].max()),
        "steps": len(frame),
        "loss": float(frame["loss"].tail(_LAST_STEPS).mean()),
    }


def _file_name(row: Mapping[str, Any]) -> str:
    cells = "all" if row["cells"] is None else row["cells"]
    return f"{cells}-{row['devices']}-{row['layout']}-{row['shuffle']}-{row['round']}"


def _save(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import pandas as pd

    pd.DataFrame(rows).astype({"cells": "Int64"}).to_parquet(path)


def table(cases: Cases, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table: median (least to most) seconds, and times the first line's."""
    head = (
        "cells",
        "",
        "seconds of training",
        "times the first",
        "memory of rank 0, MiB",
        "loss at the end",
    )
    lines = []
    for case in cases:
        mine = [row for row in rows if {**row, **asdict(case)} == row]
        good = [row for row in mine if row["status"] == "ok"]
        name = cases.line(asdict(case))
        cells = "all" if case.cells is None else count(case.cells)
        if not good:
            lines.append([cells, name, mine[0]["error"] if mine else "not measured"])
            continue
        seconds = [row["seconds"] for row in good]
        first = [row for row in rows if row["cells"] == case.cells and row["status"] == "ok"
                 and cases.line(row) == cases.line(asdict(next(iter(cases))))]  # fmt: skip
        by_round = {row["round"]: row["seconds"] for row in first}
        ratios = [
            row["seconds"] / by_round[row["round"]] for row in good if row["round"] in by_round
        ]
        lines.append([
            cells,
            name,
            f"{median(seconds):,.1f} ({min(seconds):,.1f} to {max(seconds):,.1f})",
            f"{median(ratios):.2f}" if ratios else "-",
            f"{median(row['peak_rss'] for row in good) / 2**20:,.0f}",
            f"{median(row['loss'] for row in good):,.1f}",
        ])  # fmt: skip
    return markdown_table(head, lines)


def draw(cases: Cases, rows: Sequence[Mapping[str, Any]], folder: Path, title: str) -> list[Path]:
    """Draw seconds and memory by cells, and the traces of the most cells; return the paths."""
    from penstock.scvi.run.trace import read_trace
    from penstock.scvi.run.trace_plot import draw_traces

    drawn = []
    good = [row for row in rows if row["status"] == "ok"]
    if len(cases.cells) > 1:
        drawn.append(folder / "training.png")
        _draw_by_cells(cases, good, drawn[-1], title)
    most = max(cases.cells, key=lambda cells: float("inf") if cells is None else cells)
    traces = {
        cases.line(row): read_trace(folder / "traces" / f"{_file_name(row)}.csv")
        for row in reversed(good)  # the first round is kept
        if row["cells"] == most
    }
    if traces:
        cells = "all cells" if most is None else plural(most, "cell")
        drawn.append(folder / "traces.png")
        ordered = {cases.line(asdict(case)): None for case in cases}
        draw_traces(
            {name: traces[name] for name in ordered if name in traces},
            drawn[-1],
            f"{title}, {cells}",
            f"{described()}; one run of each",
        )
    return drawn


def _draw_by_cells(cases: Cases, rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    from matplotlib.figure import Figure  # pyplot would change a notebook's backend

    figure = Figure(figsize=(10.4, 4.2), dpi=120)
    places = figure.subplots(1, 2)
    panels = (
        ("seconds", 1.0, "seconds of training"),
        ("peak_rss", 2.0**30, "memory of rank 0 after a step (GiB)"),
    )
    for plot, (column, unit, words) in zip(places, panels, strict=True):
        for name in dict.fromkeys(cases.line(asdict(case)) for case in cases):
            mine = [row for row in rows if cases.line(row) == name and row["cells"] is not None]
            cells = sorted({row["cells"] for row in mine})
            of_each = [
                [row[column] / unit for row in mine if row["cells"] == each] for each in cells
            ]
            (line,) = plot.plot(cells, list(map(median, of_each)), "o-", label=name, linewidth=1)
            least, most = list(map(min, of_each)), list(map(max, of_each))
            plot.vlines(cells, least, most, color=line.get_color(), linewidth=3, alpha=0.4)
        plot.set(xlabel="cells", ylabel=words)
        plot.set_xlim(left=0)
        plot.set_ylim(0, 1.1 * max([1e-3, *(row[column] / unit for row in rows)]))
        plot.xaxis.set_major_formatter("{x:,.0f}")
        plot.grid(alpha=0.3)
        plot.spines[["top", "right"]].set_visible(False)
    places[0].legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    number = max((row["round"] for row in rows), default=0) + 1
    spread = "a point is a run" if number == 1 else f"median, least and most of {number} runs"
    detail = f"{described()}; {spread}"
    figure.text(0.5, 0.9, detail, ha="center", va="center", fontsize=8, color="dimgrey")
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.savefig(path)
