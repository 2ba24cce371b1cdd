"""``penstock bench plot``: speed, waits and memory, from one file of measurements or several."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int, checked_local_path
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options

_LARGEST_MARKER = 200  # points


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "plot",
        help="plot of speed against memory, waits for batches, or memory over time",
        description="Draws measurements of several files, also of other machines and of arrayloader-benchmarks (alb), "
        "as an interactive page that opens offline, PNG, SVG and JSON.",
        examples=(
            "penstock bench plot epochs.parquet",
            "penstock bench plot epochs.parquet --what memory -f png -o memory",
        ),
    )
    parser.add_argument("files", nargs="*", default=[shared_options.RESULTS], metavar="FILE",
                        help=f"files of measurements (default: {shared_options.RESULTS})")  # fmt: skip
    parser.add_argument("--what", choices=("speed", "batches", "memory"), default="speed",
                        help="speed against memory, the distribution of waits for a batch, or memory over time")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="PATH",
                        help="path of the plots, without a file ending, or their folder with / at the end "
                        "(default: speed_vs_mem, batches or memory)")  # fmt: skip
    parser.add_argument("-f", "--format", default="html,json,png", metavar="NAMES",
                        help="formats, separated by commas: html, json, png, svg")  # fmt: skip
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
        "-s",
        "--since",
        metavar="TIME",
        help="earliest start of the measurements to draw, a date or time (UTC)",
    )
    parser.add_argument(
        "--s3",
        action=argparse.BooleanOptionalAction,
        help="draw only experiments in S3, or only experiments elsewhere (default: all)",
    )
    parser.add_argument("-t", "--title", metavar="TEXT", help="title of the plot")
    parser.add_argument("--linear", action="store_true",
                        help="linear axes from 0, as alb's (default: logarithmic axes)")  # fmt: skip
    parser.add_argument("-a", "--marker-size-anchor", metavar="CELLS=POINTS",
                        help="size of the marker of a block; areas are proportional to blocks, alb has 65536=10 "
                        "(default: 22 for the largest)")  # fmt: skip
    parser.add_argument("-A", "--no-default-marker-annotations", action="store_true",
                        help="mark no measurement as the default of the Census's loaders")  # fmt: skip
    shared_options.refuse(parser, ("-O", "--no-open"), "nothing is opened; leave it out")
    shared_options.refuse(parser, ("-r", "--out-root"), "give the whole path as -o")
    shared_options.refuse(
        parser,
        ("--annotation-text", "--ann-offset", "--ann-arrow-offset", "--ann-size"),
        "the mark of the default has one form; -A leaves it out, -t is the title",
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Read, filter, draw."""
    from penstock.bench.dataset_slice import DatasetSlice
    from penstock.bench.reports import plot, plot_lines
    from penstock.bench.reports.plot_columns import Style
    from penstock.bench.reports.results_file import read_all

    formats = [name.strip() for name in parsed.format.split(",")]
    for name in formats:
        if name not in plot.FORMATS:
            raise InvalidArgument(f"-f must be of {', '.join(plot.FORMATS)}, got {name!r}")
    if parsed.what != "speed" and (
        parsed.linear or parsed.marker_size_anchor or parsed.no_default_marker_annotations
    ):
        raise InvalidArgument(f"--linear, -a and -A are for --what speed, not {parsed.what}")
    output = _output(parsed)
    style = Style(parsed.linear, not parsed.no_default_marker_annotations, _anchor(parsed))
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
        s3=parsed.s3,
        methods=[name.strip() for name in parsed.method.split(",")] if parsed.method else (),
    )
    _check_sizes(style, chosen)
    curves = plot_lines.CURVES.get(parsed.what)
    if curves is None:
        drawn = plot.figure(chosen, parsed.title or "Speed against memory", style)
    else:
        drawn = plot_lines.figure(curves, chosen, parsed.title)
    for path in plot.write(drawn, chosen, output, formats, curves, style):
        print(f"{path}: {plural(len(chosen), 'measurement')}")


def _output(parsed: argparse.Namespace) -> Path:
    """Return the path of the plots without an ending; that of a folder gets the default name."""
    default = "speed_vs_mem" if parsed.what == "speed" else parsed.what
    if parsed.output is None:
        return Path(default)
    path = Path(checked_local_path("-o", parsed.output, "file"))
    if parsed.output.endswith("/") or path.is_dir():
        return path / default
    if not path.name:
        raise InvalidArgument(f"-o must name a file, got {parsed.output!r}")
    return path


def _anchor(parsed: argparse.Namespace) -> tuple[int, float] | None:
    """Return cells and points of ``-a``."""
    if parsed.marker_size_anchor is None:
        return None
    match = re.fullmatch(r"([1-9]\d{0,15})=(\d{1,4}(?:\.\d{1,9})?)", parsed.marker_size_anchor)
    if match is None or float(match[2]) == 0:
        raise InvalidArgument(
            f"-a must be given as CELLS=POINTS, such as 65536=10, got {parsed.marker_size_anchor!r}"
        )
    return int(match[1]), float(match[2])


def _check_sizes(style: Any, frame: Any) -> None:
    """Refuse markers that are larger than a picture."""
    largest = frame["block_size"].astype(float).max()
    size = style.marker_size(largest, largest)
    if size > _LARGEST_MARKER:
        raise InvalidArgument(
            f"-a makes the marker of {largest:,.0f} cells {size:,.0f} points, at most {_LARGEST_MARKER}"
        )
