"""``penstock bench scale``: cost per cell and memory as cells, genes, density … grow."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.base.validation import checked_int, checked_path, parse_memory_size
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options

_DEFAULTS = (
    "cells=16384,65536",
    "genes=16000,60664",
    "density=500,2000",
    "fragments=1,16",
    "threads=1,2",
    "processes=1,2",
    "ranks=1,2",
)


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "scale",
        help="cost per cell and memory as cells, genes, density, fragments, threads, processes, ranks grow",
        description="Makes Census-like experiments along each axis, measures Penstock on them and "
        "shows what bounds it: decompression of the same tiles, memory bandwidth, or a network. "
        "On the axis 'processes', so many processes load the "
        "same cells at the same time; on the axis 'ranks' they divide the cells.",
        examples=(
            "penstock bench scale",
            "penstock bench scale cells=16384,65536 threads=1,2 -R 5",
        ),
    )
    parser.add_argument("axes", nargs="*", default=list(_DEFAULTS), metavar="NAME=N,N…",
                        help="axis and its values: cells, genes, density, fragments, threads, processes or ranks "
                        f"(default: {' '.join(_DEFAULTS)})")  # fmt: skip
    group = parser.add_argument_group("values of the other axes while one axis varies")
    group.add_argument(
        "--cells",
        type=int,
        default=32_768,
        metavar="N",
        help="number of cells",
    )
    group.add_argument(
        "--genes",
        type=int,
        default=60_664,
        metavar="N",
        help="number of genes",
    )
    group.add_argument("--density", type=float, default=1_950.0, metavar="N",
                       help="mean number of non-zero genes in a cell (default: %(default)g)")  # fmt: skip
    group.add_argument("--fragments", type=int, default=2, metavar="N",
                       help="number of fragments of X")  # fmt: skip
    group.add_argument("--threads", type=int, default=2, metavar="N",
                       help="threads of each process")  # fmt: skip
    parser.add_argument("-B", "--batch-size", type=int, default=128, metavar="N",
                        help="cells in a batch")  # fmt: skip
    parser.add_argument("-R", "--rounds", type=int, default=3, metavar="N",
                        help="measurements of each point")  # fmt: skip
    parser.add_argument("--memory-budget", default="256MiB", metavar="SIZE",
                        help="memory budget of penstock")  # fmt: skip
    parser.add_argument(
        "--on",
        metavar="URI",
        help="experiment to measure instead of generated ones, along the axes threads, processes and ranks",
    )
    parser.add_argument(
        "--forget", action="store_true", help="remove the generated experiments afterwards"
    )
    shared_options.add_output(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Make the experiments, measure, and print a table."""
    from penstock.bench import scale
    from penstock.bench.measuring.measurement import with_labels

    shared_options.check_results(parsed)
    if parsed.on is not None:
        checked_path("--on", parsed.on)
    axes = scale.parse_axes(parsed.axes)
    for name in ("cells", "genes", "fragments", "threads"):
        checked_int(f"--{name}", getattr(parsed, name), least=1)
    if not 0 < parsed.density < float("inf"):
        raise InvalidArgument(f"--density must be above 0, got {parsed.density:g}")
    checked_int("-B", parsed.batch_size, least=1)
    checked_int("-R", parsed.rounds, least=1)
    parse_memory_size("--memory-budget", parsed.memory_budget)
    base = scale.Point(parsed.cells, parsed.genes, parsed.density, parsed.fragments, parsed.threads)
    say = shared_options.say(parsed)
    labels = shared_options.labels(parsed)
    found: list[scale.Cost | scale.Failed] = []
    for axis, point in scale.points(axes, base, parsed.on):
        try:
            measurement = scale.measurement(
                point,
                given=parsed.on,
                batch_size=parsed.batch_size,
                memory_budget=parsed.memory_budget,
                say=say,
            )
        except OSError as error:  # such as a disk that is full
            if parsed.on is not None:
                raise
            found.append(scale.Failed(axis, point, f"could not be made: {error}"))
            continue
        rows = []
        for number in range(parsed.rounds):
            labelled = with_labels(measurement, round=number, **labels)
            rows += scale.in_processes(
                labelled, point.at_once, parsed.results, shared_options.command_line(), say,
                divided=point.ranks > 1,
            )  # fmt: skip
        found.append(scale.cost(axis, point, measurement, rows))
    print()
    print(scale.table(found), end="")
    if parsed.forget:
        scale.forget()
    errors = [each.error for each in found if isinstance(each, scale.Failed)]
    if len(errors) == len(found):
        raise InvalidArgument(f"no point could be measured; of the first: {errors[0]}")
