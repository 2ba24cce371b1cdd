"""``penstock demo``: the main job, on real cells, then at scale, or on the user's own."""

from __future__ import annotations

import argparse
from typing import Any

from ..arguments import checked_int, parse_memory_size


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="stream cells, train a cell-type classifier, draw what happened",
        description="First on 2,638 real blood cells that come with the package, then on a "
        "Census-like experiment that it makes; or, with --data, on an experiment of yours. "
        "Needs pip install 'penstock[demo]'.",
    )
    parser.add_argument("--data", metavar="PATH", help="a TileDB-SOMA experiment of yours")
    parser.add_argument(
        "--label", metavar="COLUMN", default="cell_type", help="obs column to predict (cell_type)"
    )
    parser.add_argument("--filter", metavar="TEXT", help="only these cells of --data")
    parser.add_argument("--measurement", metavar="NAME", default="RNA", help="of --data (RNA)")
    parser.add_argument("--layer", metavar="NAME", default="raw", help="of --data (raw)")
    parser.add_argument(
        "--cells", metavar="N", type=int, default=49_152,
        help="cells in the experiment that is made (49152)",
    )  # fmt: skip
    parser.add_argument("--epochs", metavar="N", type=int, default=3, help="epochs to train (3)")
    parser.add_argument(
        "--memory", metavar="SIZE", default="1GiB", help="memory budget of the loader (1GiB)"
    )
    parser.add_argument(
        "--output", metavar="FOLDER", default="demo_output",
        help="for the plots and the experiment that is made (demo_output)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Check the arguments, then do it."""
    checked_int("--epochs", parsed.epochs, least=1, most=1000)
    checked_int("--cells", parsed.cells, least=2_000, most=10_000_000)
    parse_memory_size("--memory", parsed.memory)
    # Here and not above: `penstock info` must not wait for torch, nor need it.
    from ..demo.play import play

    play(parsed)
