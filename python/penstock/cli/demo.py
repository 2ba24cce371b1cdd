"""``penstock demo``: train on real cells and on many synthetic cells, or on the user's own."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.base.missing_package import require
from penstock.base.validation import checked_int, checked_local_path, checked_memory_budget
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

DEFAULT_CELLS = 49_152

#: Options for the user's own data, with their defaults.
_OF_DATA = {"label": "cell_type", "filter": None, "measurement": "RNA", "layer": None}


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "demo",
        help="demonstration: stream cells, train a cell-type classifier, plot speed and accuracy",
        description="Streams cells, trains a cell-type classifier and plots its loss and accuracy: on "
        "2,638 real blood cells that come with the package, then on a Census-like experiment that "
        "it makes. With --data, on your own cells alone. Needs penstock's extra [demo].",
        examples=(
            "penstock demo",
            "penstock demo --data cells.h5ad --label cell_type --epochs 2",
        ),
    )
    parser.add_argument("--data", metavar="PATH", help="path or URI of your own cells")
    parser.add_argument(
        "--label", metavar="COLUMN",
        help=f"obs column of --data that is predicted (default: {_OF_DATA['label']})",
    )  # fmt: skip
    parser.add_argument(
        "--filter", metavar="TEXT",
        help="filter of obs that selects cells of --data, such as \"sex == 'female'\"",
    )  # fmt: skip
    parser.add_argument(
        "--measurement", metavar="NAME",
        help=f"measurement of --data (default: {_OF_DATA['measurement']})",
    )  # fmt: skip
    parser.add_argument(
        "--layer", metavar="NAME", help="layer of X of --data (default: raw of SOMA, X of AnnData)"
    )
    parser.add_argument(
        "--cells", metavar="N", type=int,
        help=f"number of cells in the experiment that is made without --data (default: {DEFAULT_CELLS})",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", metavar="N", type=int, default=3,
        help="number of training epochs",
    )  # fmt: skip
    parser.add_argument(
        "--memory", metavar="SIZE", default="1GiB",
        help="memory budget of the loader",
    )  # fmt: skip
    parser.add_argument(
        "--output", metavar="FOLDER", default="demo_output",
        help="folder for the plots and for the experiment that is made",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Check the arguments, then run the demo."""
    _check_choice_of_data(parsed)
    checked_local_path("--output", parsed.output)
    checked_int("--epochs", parsed.epochs, least=1, most=1000)
    checked_int("--cells", parsed.cells, least=2_000, most=10_000_000)
    checked_memory_budget(parsed.memory)
    made = () if parsed.data is not None else ("tiledb", "tiledbsoma", "scipy")
    require("torch", "matplotlib", "plotly", "rich", *made, extra="demo", what="this command")
    # Imported here, because `penstock info` must not need torch or wait for it.
    from penstock.demo.run import play

    play(parsed)


def _check_choice_of_data(parsed: argparse.Namespace) -> None:
    """Refuse options that would be ignored, and set defaults."""
    if parsed.data is None:
        for name in _OF_DATA:
            if getattr(parsed, name) is not None:
                raise InvalidArgument(f"--{name} is for an experiment of yours; give its --data")
    elif not parsed.data:
        raise InvalidArgument("--data must name an experiment, got an empty string")
    elif parsed.cells is not None:
        raise InvalidArgument("--cells is for the experiment that is made, not for that of --data")
    for name, default in _OF_DATA.items():
        if getattr(parsed, name) is None:
            setattr(parsed, name, default)
    if parsed.cells is None:
        parsed.cells = DEFAULT_CELLS
