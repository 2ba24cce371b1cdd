"""The acts of the demo, one after the other."""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
import time
from pathlib import Path

import torch

from penstock import __version__
from penstock.base.text import size
from penstock.examples.bundled import unpack
from penstock.experiment.data_frame import DataFrame
from penstock.experiment.experiment import Experiment, open_stored

from . import plot
from .console import Screen
from .training import Job, Result, check_label, stream, train

#: The barcodes of the real cells order them by chance.
REAL_NOTE = "Stored in mixed order: shuffling makes little difference."
MADE_NOTE = "Stored dataset by dataset: without shuffling the loss jumps and accuracy suffers."
#: Real cell types are not told apart without an error.
_DISTINCTNESS = 0.3
MADE_DETAIL = (
    "The array settings and obs columns of the CELLxGENE Census with invented counts: "
    "datasets, tissues,\nassays and cell types with effects of their own."
)


def play(parsed: argparse.Namespace) -> None:
    """Run the demo with the command line's arguments."""
    screen = Screen()
    output = Path(parsed.output)
    output.mkdir(parents=True, exist_ok=True)
    _check_writable(output)
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    start = time.perf_counter()
    screen.console.print(f"[bold]Penstock {__version__}[/] [dim]on {cores} cores[/]")
    if parsed.data is not None:
        results = [_own_cells(screen, parsed)]
    else:
        results = [_real_cells(screen, parsed), _made_cells(screen, parsed, output)]
    png, page = output / "penstock-demo.png", output / "penstock-demo.html"
    plot.save_png(results, png)
    plot.save_html(results, page)
    screen.console.print()
    screen.say(f"Done in {time.perf_counter() - start:.0f} s. The picture: {png} and {page}")
    _what_next(screen, parsed, output)


def _real_cells(screen: Screen, parsed: argparse.Namespace) -> Result:
    screen.heading(
        "1",
        "Real cells",
        "2,638 blood cells of a healthy donor (10x Genomics, 3k PBMC): who is who?",
    )
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        experiment = open_stored(unpack(Path(folder)))
        job = Job(
            experiment,
            "cell_type",
            epochs=max(parsed.epochs, 5),
            batch_size=64,
            memory_budget=parsed.memory,
        )
        return _act(screen, job, "Real blood cells, 8 cell types", note=REAL_NOTE)


def _made_cells(screen: Screen, parsed: argparse.Namespace, output: Path) -> Result:
    screen.heading("2", "At scale", MADE_DETAIL)
    path = output / f"census-like-{parsed.cells}.soma"
    _make(screen, path, parsed.cells)
    experiment = open_stored(path)
    job = Job(experiment, "cell_type", epochs=parsed.epochs, memory_budget=parsed.memory)
    with screen.progress() as progress:
        everything = stream(job, progress)
    screen.streamed(everything)
    # Several tissues, one after the other in stored order, like datasets of the Census: without
    # shuffling, the loss jumps.
    tissues, count = _largest_tissues(experiment.obs, 3)
    job.obs_query = f"tissue_general in {tissues} and is_primary_data == True"
    screen.say(f'Now only {count:,} of them: "{job.obs_query}"')
    title = f"Census-like cells of {', '.join(tissues)}"
    return _act(screen, job, title, streams=False, note=MADE_NOTE)


def _make(screen: Screen, path: Path, n_cells: int) -> None:
    if path.exists():
        screen.say(f"{path} is there from an earlier run.")
        return
    from penstock.synthetic import make_experiment

    with screen.progress() as progress:
        advance = progress("make the experiment", n_cells)
        done = 0

        def on_progress(written: int, _: int) -> None:
            nonlocal done
            advance(written - done)
            done = written

        made = make_experiment(
            path, n_cells=n_cells, distinctness=_DISTINCTNESS, progress=on_progress
        )
    screen.say(
        f"Made {path}: {made.n_cells:,} cells × {made.n_genes:,} genes, "
        f"{size(made.n_bytes)}, in {made.seconds:.0f} s"
    )


def _largest_tissues(obs: DataFrame, how_many: int) -> tuple[list[str], int]:
    """Return the tissues with the most primary cells, and their number of cells in total."""
    import numpy as np

    column = obs.read(["tissue_general"], "is_primary_data == True")["tissue_general"]
    names, counts = np.unique(column.to_numpy().astype(str), return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:how_many]
    return [str(name) for name in names[largest]], int(counts[largest].sum())


def _own_cells(screen: Screen, parsed: argparse.Namespace) -> Result:
    experiment: Experiment = open_stored(parsed.data)
    screen.heading("1", "Your cells", experiment.uri)
    job = Job(
        experiment,
        parsed.label,
        measurement=parsed.measurement,
        layer=parsed.layer,
        obs_query=parsed.filter,
        epochs=parsed.epochs,
        memory_budget=parsed.memory,
    )
    return _act(screen, job, f"{Path(experiment.uri).name}: {parsed.label}")


def _act(screen: Screen, job: Job, title: str, streams: bool = True, note: str = "") -> Result:
    result = Result(title, job.label, note)
    check_label(job)
    if streams:
        with screen.progress() as progress:
            result.streamed = stream(job, progress)
        screen.streamed(result.streamed)
    for name in (plot.SHUFFLED, plot.IN_ORDER):
        with screen.progress() as progress:
            shuffle = name == plot.SHUFFLED
            result.histories[name], result.classes = train(job, shuffle, progress)
    screen.say(
        f"A logistic regression learns {len(result.classes)} classes of {job.label} from 80 % of "
        "the cells and is tested on the rest:"
    )
    screen.table(result)
    if note:
        screen.say(note)
    return result


def _check_writable(output: Path) -> None:
    with tempfile.TemporaryFile(dir=output) as file:
        file.write(b"\0")


def _what_next(screen: Screen, parsed: argparse.Namespace, output: Path) -> None:
    screen.console.print()
    screen.console.print("[bold]Next[/]")
    if parsed.data is not None:
        path = parsed.data
        screen.say(f"penstock info {shlex.quote(str(path))}")
    else:
        path = output / f"census-like-{parsed.cells}.soma"
        screen.say(f"penstock info {shlex.quote(str(path))}")
        screen.say("penstock demo --data YOUR_EXPERIMENT --label cell_type")
    query = "" if parsed.data is not None else ", obs_query=\"tissue_general == 'lung'\""
    screen.say(
        f"python: import penstock as ps; ds = ps.Dataset({str(path)!r}{query}); "
        "X, obs = next(iter(ds))"
    )
