"""``penstock bench shuffle``: shuffle quality, speed and memory of each method."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.text import markdown_table
from penstock.cli.parser import add_command

from . import compare

if TYPE_CHECKING:
    from penstock.bench.measuring.batch_entropy import Mixing


def add_arguments(commands: Any) -> None:
    """Add the command to the parser; options are those of ``compare``."""
    parser = add_command(
        commands,
        "shuffle",
        help="shuffle quality (entropy of batches), speed and memory of each method",
        description="Measures each method as compare does, and the entropy of a column of obs in "
        "its batches, as a share of a uniform shuffle's entropy.",
        examples=(
            "penstock bench shuffle cells.soma",
            "penstock bench shuffle cells.soma --label cell_type -m penstock,penstock:chunks -b 64x64",
        ),
    )
    compare.add_options(parser, rounds=1, report=False)
    parser.add_argument("--label", default="dataset_id", metavar="COLUMN",
                        help="obs column whose entropy in the batches is measured")  # fmt: skip
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Measure, then compute the entropy from the joinids."""
    from penstock.bench.measuring.batch_entropy import mixing, wrong_joinids
    from penstock.bench.target import label_codes

    from . import shared_options

    say = shared_options.say(parsed)
    compare.check(parsed)
    planned = compare.contestants(parsed, say)
    joinids, codes = label_codes(shared_options.target(parsed), parsed.label)
    mixed_of: dict[str, list[Mixing]] = {}
    rows_of: dict[str, list[dict[str, Any]]] = {}
    failed: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        recorded = [
            dataclasses.replace(
                each, request=dataclasses.replace(each.request, joinids_path=f"{folder}/{i}.npz")
            )
            for i, each in enumerate(planned)
        ]

        def look(each: Any, row: dict[str, Any]) -> None:
            path = Path(each.request.joinids_path)
            if row["status"] == "ok" and path.exists():
                row["error"] = wrong_joinids(path, joinids)
                row["status"] = "wrong" if row["error"] else "ok"
            if row["status"] != "ok" or not path.exists():
                failed.append((each.label, f"{row['status']}: {row['error']}"))
                return
            mixed = mixing(path, joinids, codes, parsed.batch_size)
            if not mixed.batches:
                failed.append((each.label, "no whole batch"))
                return
            row["shuffle_label"], row["shuffle_share"] = parsed.label, mixed.share
            row["shuffle_entropy"] = mixed.entropy
            mixed_of.setdefault(each.label, []).append(mixed)
            rows_of.setdefault(each.label, []).append(row)

        compare.measure(parsed, recorded, say, look)
    print()
    head = ("method", f"share of a uniform shuffle's entropy of {parsed.label}", "bits", "whole epoch, cells/s",
            "after the first batch, cells/s", "peak USS MiB")  # fmt: skip
    measured = [_cells(label, mixed, rows_of[label]) for label, mixed in mixed_of.items()]
    print(markdown_table(head, [*measured, *failed]), end="")


def _cells(
    label: str, mixed: Sequence[Mixing], rows: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return a row of the table: medians of the rounds, with least and most."""
    from penstock.bench.reports.comparison import Spread

    def figures(values: Sequence[float | None], digits: int) -> str:
        spread = Spread.of([value for value in values if value is not None])
        return "-" if spread is None else spread.text(digits)

    whole = [row["epoch_cells_per_second"] if row["whole_epoch"] else None for row in rows]
    return (
        label,
        f"{figures([100 * each.share for each in mixed], 1)} %",
        f"{figures([each.entropy for each in mixed], 3)} of {mixed[0].uniform:.3f}",
        figures(whole, 0),
        figures([row["cells_per_second"] for row in rows], 0),
        figures([row["max_mem"] / 2**20 for row in rows], 0),
    )
