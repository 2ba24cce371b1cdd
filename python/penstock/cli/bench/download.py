"""``penstock bench download``: copy a slice of an experiment into a local one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_local_path
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "download",
        help="copy a slice of an experiment into a local experiment",
        description="Copies the selected cells and genes into a local experiment in the Census's "
        "array settings, to measure loading without selecting while reading.",
        examples=(
            "penstock bench download -V 2023-12-15 -s 0 -e 4",
            "penstock bench download cells.soma -v 2000 -d slices -n genes-2000",
        ),
    )
    shared_options.add_target(parser, as_alb=True)
    parser.add_argument("-d", "--out-root", default="data", metavar="FOLDER",
                        help="folder that the copy is put into")  # fmt: skip
    parser.add_argument("-n", "--out-dir-name", metavar="NAME",
                        help="name of the copy's folder in --out-root (default: census-benchmark_START:END, or download)")  # fmt: skip
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing copy")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Resolve the selection, then copy it."""
    from penstock.bench.dataset_slice import DatasetSlice
    from penstock.bench.download import download

    if parsed.out_dir_name == "":
        raise InvalidArgument("-n must be the name of a folder, got ''")
    for option, place in (("-d", parsed.out_root), ("-n", parsed.out_dir_name)):
        if place is not None:
            checked_local_path(option, place)
    target = shared_options.target(parsed)
    name = parsed.out_dir_name
    if name is None:
        name = "download"
        if parsed.start is not None or parsed.end is not None:
            chosen = DatasetSlice(parsed.start or 0, parsed.end, parsed.sorted_datasets)
            name = f"census-benchmark_{chosen}"
    folder = Path(parsed.out_root) / name
    cells, counts = download(target, folder, parsed.force, print)
    print(f"{folder}: {plural(cells, 'cell')}, {plural(counts, 'count')}")
