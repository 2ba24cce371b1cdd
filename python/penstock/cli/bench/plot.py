"""``penstock bench plot``: speed, waits and memory, from one file of measurements or several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_local_path
from penstock.errors import InvalidArgument

from . import shared_options


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plot",
        help="plot of speed against memory, waits for batches, or memory over time",
        description="Draws measurements of several files, also of other machines and of arrayloader-benchmarks (alb), "
        "as an interactive page that opens offline, PNG, SVG and JSON.",
    )
    parser.add_argument("files", nargs="*", default=[shared_options.RESULTS], metavar="FILE",
                        help=f"files of measurements (default: {shared_options.RESULTS})")  # fmt: skip
    parser.add_argument("--what", choices=("speed", "batches", "memory"), default="speed",
                        help="speed against memory, the distribution of waits for a batch, or memory over time "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="PATH",
                        help="path of the plots, without a file ending (default: speed_vs_mem, batches or memory)")  # fmt: skip
    parser.add_argument("-f", "--format", default="html,json,png", metavar="NAMES",
                        help="formats, separated by commas: html, json, png, svg (default: %(default)s)")  # fmt: skip
    parser.add_argument("-D", "--dataset-slice", metavar="SLICE",
                        help="slice of datasets to draw, as START:END: ':138', or 's2:7' where the datasets "
                        "were sorted by size")  # fmt: skip
    parser.add_argument("--host", metavar="REGEX", help="regular expression for the hosts to draw")
    parser.add_argument("-i", "--instance-type", metavar="NAME", help="kind of machine to draw")
    parser.add_argument(
        "-n",
        "--max-batches",
        type=int,
        metavar="N",
        help="value of --max-batches of the measurements to draw",
    )
    parser.add_argument(
        "--epoch",
        type=int,
        metavar="N",
        help="epoch of each process to draw, from 1 (default: all)",
    )
    parser.add_argument(
        "-m",
        "--method",
        metavar="NAMES",
        help="methods to draw, by name or unique prefix, separated by commas",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="earliest start of the measurements to draw, a date or time (UTC)",
    )
    parser.add_argument("-t", "--title", metavar="TEXT", help="title of the plot")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Read, filter, draw."""
    from penstock.bench import plot, plot_lines
    from penstock.bench.dataset_slice import DatasetSlice
    from penstock.bench.results_file import read_all

    formats = [name.strip() for name in parsed.format.split(",")]
    for name in formats:
        if name not in plot.FORMATS:
            raise InvalidArgument(f"-f must be of {', '.join(plot.FORMATS)}, got {name!r}")
    output = "speed_vs_mem" if parsed.what == "speed" else parsed.what
    output = output if parsed.output is None else parsed.output
    if not Path(output).name:
        raise InvalidArgument(f"-o must name a file, got {output!r}")
    checked_local_path("-o", output, "file")
    if parsed.epoch is not None:
        checked_int("--epoch", parsed.epoch, least=1)
    frame = read_all(parsed.files)
    chosen = plot.filtered(
        frame,
        datasets=None if parsed.dataset_slice is None else DatasetSlice.parse(parsed.dataset_slice),
        host=parsed.host,
        instance_type=parsed.instance_type,
        max_batches=parsed.max_batches,
        epoch=parsed.epoch,
        since=parsed.since,
        methods=[name.strip() for name in parsed.method.split(",")] if parsed.method else (),
    )
    curves = plot_lines.CURVES.get(parsed.what)
    if curves is None:
        drawn = plot.figure(chosen, parsed.title or "Speed against memory")
    else:
        drawn = plot_lines.figure(curves, chosen, parsed.title)
    for path in plot.write(drawn, chosen, Path(output), formats, curves):
        print(f"{path}: {plural(len(chosen), 'measurement')}")
