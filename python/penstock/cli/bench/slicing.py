"""``penstock bench slicing``: cells sliced in advance against cells sliced while reading."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.parser import add_command

from . import compare, shared_options


def add_arguments(commands: Any) -> None:
    """Add the command to the parser; options are those of ``compare``."""
    parser = add_command(
        commands,
        "slicing",
        help="speed of a copy of the selected cells and genes, against selecting while reading",
        description="Measures each method twice: selecting cells and genes of the experiment while "
        "reading, and on a copy that holds only the selected ones. The copy is made as by 'download' and "
        "kept in the cache folder.",
        examples=(
            "penstock bench slicing cells.soma -s 0 -e 4",
            "penstock bench slicing cells.soma --filter \"sex == 'female'\" -v 2000",
        ),
    )
    compare.add_options(parser, methods="penstock,tiledbsoma_ml", report=False)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Slice, measure, print."""
    from penstock.bench import locations

    say = shared_options.say(parsed)
    compare.check(parsed)
    planned = locations.sliced_both_ways(compare.contestants(parsed, say), say)
    rows = compare.measure(parsed, planned, say)
    print()
    print(locations.report(rows, locations.IN_ADVANCE, locations.WHILE_READING), end="")
