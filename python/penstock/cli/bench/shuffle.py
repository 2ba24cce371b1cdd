"""``penstock bench shuffle``: how well each method mixes, against its speed and memory."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from . import compare


def add_arguments(commands: Any) -> None:
    """Add the command to the parser; options are those of ``compare``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "shuffle",
        help="entropy of batches against speed, for each method",
        description="Measures each method as compare does and looks at which cells came in which "
        "batch: the entropy of a column of obs in the batches, over that of a uniform shuffle.",
    )
    compare.add_options(parser, rounds=1, report=False)
    parser.add_argument("--label", default="dataset_id", metavar="COLUMN",
                        help="the column of obs (dataset_id)")  # fmt: skip
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Measure, then look at the joinids."""
    from ...bench.joinid_record import mixing
    from ...bench.target import label_codes
    from . import shared_options

    say = shared_options.say(parsed)
    compare.check(parsed)
    planned = compare.contestants(parsed, say)
    joinids, codes = label_codes(shared_options.target(parsed), parsed.label)
    lines = [
        f"| method | share of a uniform shuffle's entropy of {parsed.label} | bits | cells/s | peak USS MiB |",
        "| --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        recorded = [
            dataclasses.replace(
                each, request=dataclasses.replace(each.request, joinids_path=f"{folder}/{i}.npz")
            )
            for i, each in enumerate(planned)
        ]

        def look(each: Any, row: dict[str, Any]) -> None:
            path = Path(each.request.joinids_path)
            if row["status"] != "ok" or not path.exists():
                lines.append(f"| {each.label} | {row['status']}: {row['error']} | | | |")
                return
            mixed = mixing(path, joinids, codes, parsed.batch_size)
            if not mixed.batches:
                lines.append(f"| {each.label} | no whole batch | | | |")
                return
            row["shuffle_label"], row["shuffle_share"] = parsed.label, mixed.share
            row["shuffle_entropy"] = mixed.entropy
            lines.append(
                f"| {each.label} | {mixed.share:.1%} | {mixed.entropy:.3f} of {mixed.uniform:.3f} | "
                f"{row['cells_per_second'] or 0:,.0f} | {row['max_mem'] / 2**20:,.0f} |"
            )

        compare.measure(parsed, recorded, say, look)
    print()
    print("\n".join(lines))
