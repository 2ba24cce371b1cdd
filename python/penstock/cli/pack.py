"""``penstock pack``: copy an experiment into a pack, whose cells can be read one by one."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.base.text import plural, printable, size
from penstock.base.validation import checked_int, parse_memory_size
from penstock.cli.parser import add_command
from penstock.cli.storage_option import add_storage_option, storage_options_of
from penstock.experiment.packs.job import ROWS_PER_FILE
from penstock.experiment.packs.pack import pack, pack_part
from penstock.experiment.packs.parts import MOST_PARTS

if TYPE_CHECKING:
    from penstock.experiment.packs.job import PackProgress

#: Passes over a matrix by genes: one counts, one or more read.
_LEAST_PASSES = 2


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "pack",
        help="copy an experiment into a pack, from which any single cell can be read",
        description="Makes a pack: a copy of an experiment's obs, var and layers of X in Penstock's own "
        "format. Any cell of a pack can be read by itself. So a first epoch from a local disk is fast, and "
        "its shuffle is exactly uniform. If the command is stopped, run it again to resume.",
        examples=(
            "penstock pack cells.soma cells.pack",
            "penstock pack census/homo_sapiens tongue.pack --obs-query \"tissue_general == 'tongue'\" --layer raw",
            "penstock pack cells.soma cells.pack --part 3/16",
            "penstock pack cells.h5ad s3://bucket/cells.pack --scratch /scratch",
        ),
    )
    parser.add_argument(
        "source",
        metavar="SRC",
        help="path or URI of a SOMA experiment, an AnnData (h5ad, zarr) or a pack",
    )
    parser.add_argument(
        "destination", metavar="DST", help="folder of the new pack, also in a bucket"
    )
    parser.add_argument(
        "--obs-query", metavar="TEXT",
        help="filter of obs that selects cells, such as \"sex == 'female'\" (default: all cells)",
    )  # fmt: skip
    parser.add_argument(
        "--measurement", metavar="NAME", action="append",
        help="measurement to copy; may be given several times (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--layer", metavar="NAME", action="append",
        help="layer of X to copy; may be given several times (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", metavar="N", type=int, help="threads that read and pack (default: all cores)"
    )
    parser.add_argument(
        "--memory-budget", metavar="SIZE", default="2GiB",
        help="memory for decoded chunks; for layers stored by genes (CSC), more memory needs fewer passes",
    )  # fmt: skip
    parser.add_argument(
        "--rows-per-file", metavar="N", type=int, default=ROWS_PER_FILE,
        help="about how many cells a file of X has (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--part", metavar="K/N", type=_part,
        help="pack the K-th of N parts, for a task of a job array; K counts from 1. When all parts are "
        "done, the same command without --part finishes the pack",
    )  # fmt: skip
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a pack that is already at DST"
    )
    add_storage_option(parser)
    parser.add_argument(
        "--destination-option", metavar="NAME=VALUE", action="append", default=[],
        help="storage option of the bucket that is written to, if it differs from that of SRC",
    )  # fmt: skip
    parser.add_argument(
        "--scratch", metavar="DIR",
        help="folder on a local disk, in which the files of a pack in a bucket are made (default: that of "
        "temporary files)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def _part(text: str) -> tuple[int, int]:
    """Return number from 0 and count of "3/16"."""
    number, slash, count = text.partition("/")
    are_numbers = slash and number.isdecimal() and count.isdecimal() and len(count) < 9
    if not (are_numbers and 1 <= int(number) <= int(count) <= MOST_PARTS):
        raise argparse.ArgumentTypeError(
            f"a part is K/N, such as 3/16, with K from 1 to N (sbatch --array=1-16), got {text!r}"
        )
    return int(number) - 1, int(count)


def run(parsed: argparse.Namespace) -> None:
    """Pack, and print a summary."""
    if parsed.threads is not None:
        checked_int("--threads", parsed.threads, least=1, most=1024)
    checked_int("--rows-per-file", parsed.rows_per_file, least=1)
    parse_memory_size("--memory-budget", parsed.memory_budget)
    options = {
        "obs_query": parsed.obs_query,
        "measurements": parsed.measurement,
        "layers": parsed.layer,
        "overwrite": parsed.overwrite,
        "threads": parsed.threads,
        "memory_budget": parsed.memory_budget,
        "rows_per_file": parsed.rows_per_file,
        "storage_options": storage_options_of(parsed.storage_option) or None,
        "destination_options": storage_options_of(parsed.destination_option) or None,
        "scratch": parsed.scratch,
    }
    last: list[PackProgress] = []
    begin = time.monotonic()
    with _bar() as show:

        def seen(progress: PackProgress) -> None:
            last[:] = [progress]
            show(progress)

        if parsed.part:
            pack_part(parsed.source, parsed.destination, *parsed.part, progress=seen, **options)
        else:
            packed = pack(parsed.source, parsed.destination, progress=seen, **options)
    seconds = time.monotonic() - begin
    if parsed.part:
        lines = _part_summary(parsed.part, last[-1], seconds)
    else:
        lines = _summary(parsed.destination, packed, last[-1], seconds, parsed.memory_budget)
    for line in lines:
        print(printable(line))


def _part_summary(part: tuple[int, int], progress: PackProgress, seconds: float) -> Iterator[str]:
    number, count = part
    yield f"part {number + 1} of {count} is done: {plural(progress.rows_total, 'row')}"
    yield from _rows(progress, seconds)


def _summary(
    destination: str, packed: Any, progress: PackProgress, seconds: float, budget: str
) -> Iterator[str]:
    if packed is None:
        yield f"{destination} is packed"
    else:
        layers = [(name, layer) for name in packed.measurements for layer in packed.layers(name)]
        stored = sum(packed.x(*layer).stored_bytes for layer in layers)
        yield (
            f"{packed.uri}: {plural(packed.n_obs, 'cell')}, "
            f"{plural(len(layers), 'layer')}, {size(stored)}"
        )
    yield from _rows(progress, seconds)
    for layer, passes in progress.passes.items():
        yield (
            f"{layer} is stored by genes: read in {plural(passes, 'pass')} with --memory-budget {budget}"
            + ("; a larger budget needs fewer" if passes > _LEAST_PASSES else "")
        )


def _rows(progress: PackProgress, seconds: float) -> Iterator[str]:
    written = progress.rows_done - progress.rows_kept
    if progress.rows_kept:
        yield f"{plural(progress.rows_kept, 'row')} had been packed before"
    if written:
        yield (
            f"{plural(written, 'row')} packed in {seconds:,.1f} s, "
            f"{written / max(seconds, 1e-9):,.0f} cells/s"
        )


def _doing(progress: PackProgress) -> str:
    """Return the layer, and the pass over a layer that is stored by genes."""
    if not progress.pass_number:
        return progress.layer
    passes = progress.passes.get(progress.layer)
    return (
        f"{progress.layer}, stored by genes: pass {progress.pass_number}"
        + (f" of {passes}" if passes else "")
        + f", {progress.pass_share:.0%}"
    )


@contextmanager
def _bar() -> Iterator[Callable[[PackProgress], None]]:
    """Show a progress bar on a terminal if rich is installed."""
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield lambda progress: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("[cyan]{task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda progress: None
        return
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None, speed="")
        begin = time.monotonic()

        def show(progress: PackProgress) -> None:
            done = progress.rows_done - progress.rows_kept
            speed = done / max(time.monotonic() - begin, 1e-9)
            bars.update(
                task,
                description=_doing(progress).replace("[", r"\["),
                completed=progress.rows_done,
                total=progress.rows_total,
                speed=f"{speed:>9,.0f} cells/s",
            )

        yield show
