"""``penstock bench remote``: S3 with a chosen latency and bandwidth against local disk."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import compare, shared_options

# Clients give up beyond these: Penstock after 20 seconds without a byte.
_MOST_LATENCY = 10_000
_LEAST_BANDWIDTH = 0.1


def add_arguments(commands: Any) -> None:
    """Add the command to the parser; options are those of ``compare``."""
    parser = add_command(
        commands,
        "remote",
        help="speed from S3 against the local disk, with the latency and bandwidth that you set",
        description="Serves the experiment's folder as an S3 bucket on loopback with a latency of "
        "each request and a bandwidth of all bodies, and measures each method on the folder and on "
        "the bucket.",
        examples=(
            "penstock bench remote cells.soma",
            "penstock bench remote cells.soma --latency 100 --bandwidth 200 -m penstock",
        ),
    )
    compare.add_options(parser, methods="penstock,tiledbsoma_ml", report=False)
    parser.add_argument("--latency", type=float, default=50.0, metavar="MS",
                        help="milliseconds until the first byte of an answer (default: %(default)g)")  # fmt: skip
    parser.add_argument("--bandwidth", type=float, default=1000.0, metavar="MBIT",
                        help="bandwidth in megabits a second; 0: no limit (default: %(default)g)")  # fmt: skip
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Serve, measure, print."""
    from penstock.bench import locations
    from penstock.bench.loopback_s3 import served
    from penstock.bench.sweep import require_some

    say = shared_options.say(parsed)
    compare.check(parsed)
    if not 0 <= parsed.latency <= _MOST_LATENCY:
        raise InvalidArgument(
            f"--latency must be from 0 to {_MOST_LATENCY:,} milliseconds, got {parsed.latency:g}"
        )
    if parsed.bandwidth != 0 and not _LEAST_BANDWIDTH <= parsed.bandwidth < float("inf"):
        raise InvalidArgument(
            f"--bandwidth must be 0 (no bound) or from {_LEAST_BANDWIDTH:g} megabits a second on, "
            f"got {parsed.bandwidth:g}"
        )
    planned = compare.contestants(parsed, say)
    if not planned:
        require_some([], None)
    folder = locations.folder_of(planned[0].request.work.source)
    limit = f", {parsed.bandwidth:,g} Mbit/s" if parsed.bandwidth else ""
    place = f"S3 at {parsed.latency:g} ms{limit}"
    bandwidth = parsed.bandwidth * 1e6 / 8 or None
    with served(folder.parent, parsed.latency / 1e3, bandwidth, folder.name) as endpoint:
        both = locations.on_disk_and_in_s3(planned, endpoint, folder.name, place)
        counted = locations.counting_bytes_sent(endpoint)
        rows = compare.measure(parsed, both, say, counted)
    print()
    print(locations.report(rows, place, locations.DISK), end="")
