"""``penstock bench``: speed and memory of loaders, side by side. Needs penstock's extra [bench]."""

from __future__ import annotations

from typing import Any

from penstock.cli.parser import add_group

from . import (
    compare,
    data_loader,
    download,
    peers,
    plot,
    read_chunks,
    remote,
    scale,
    shuffle,
    slicing,
    train,
    tune,
)


def add_arguments(commands: Any) -> None:
    """Add the command and those below it to the parser."""
    below = add_group(
        commands, "bench", metavar="COMMAND",
        help="measure loaders side by side, on any experiment",
        description="Speed, memory and shuffle of loaders, Penstock and others, each measurement in "
        "a process of its own; docs/reference/benchmarks.md. Needs penstock's extra [bench].",
        examples=("penstock bench tune cells.soma --label cell_type",
                  "penstock bench compare cells.soma --report report"),
    )  # fmt: skip
    for command in (data_loader, read_chunks, download, plot, compare, shuffle, slicing, remote, scale,
                    train, tune, peers):  # fmt: skip
        command.add_arguments(below)
