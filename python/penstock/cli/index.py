"""``penstock index``: make a folder readable over plain http(s)."""

from __future__ import annotations

from typing import Any

from penstock.base.text import plural, printable, size
from penstock.cli.parser import add_command
from penstock.experiment.web_index import write_index


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "index",
        help="write the list of files that makes a folder readable from a web server",
        description="Writes the file .penstock-index.json into a folder. The file lists the names and "
        "sizes of all files below the folder. Copy the folder with it to a web server: Penstock then "
        "opens the experiments by https://. Run the command again after every change.",
        examples=(
            "penstock index /data/atlas",
            "penstock index /data/atlas/blood.soma",
        ),
    )
    parser.add_argument(
        "path", metavar="DIR", help="folder of an experiment, or of several experiments"
    )
    parser.set_defaults(run=lambda parsed: run(parsed.path))


def run(path: str) -> None:
    """Write the index, and print its path and totals."""
    written, files, total = write_index(path)
    print(printable(f"{written}: {plural(files, 'file')}, {size(total)}"))
