"""``penstock bench tune``: find settings with a short sweep on your own data."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.base.validation import checked_int, checked_memory_budget
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "tune",
        help="short sweep on your own data that ends in the settings to use",
        description="Measures the beginning of an epoch with several memory budgets and numbers of "
        "threads, computes how well each budget mixes, and prints the call to use.",
        examples=(
            "penstock bench tune cells.soma",
            "penstock bench tune cells.soma --label cell_type --budgets 512MiB,4GiB --dense",
        ),
    )
    shared_options.add_target(parser)
    group = parser.add_argument_group("the sweep")
    group.add_argument("-B", "--batch-size", type=int, default=128, metavar="N",
                       help="cells in a batch")  # fmt: skip
    group.add_argument(
        "--dense", action="store_true", help="make dense batches (default: CSR batches)"
    )
    group.add_argument("--budgets", default="256MiB,1GiB,2GiB", metavar="SIZES",
                       help="memory budgets to measure, separated by commas")  # fmt: skip
    group.add_argument("--threads", metavar="NUMBERS",
                       help="numbers of threads to measure, separated by commas (default: half of the cores, and all)")  # fmt: skip
    group.add_argument("--max-seconds", type=shared_options.seconds, default=5.0, metavar="N",
                       help="seconds after which each measurement is ended (default: %(default)g)")  # fmt: skip
    group.add_argument("--label", metavar="COLUMN",
                       help="obs column that the batches are to mix well (default: none)")  # fmt: skip
    group.add_argument("--share", type=float, default=0.98, metavar="N",
                       help="how well --label must mix: entropy in the batches over that of a uniform shuffle")  # fmt: skip
    shared_options.add_measuring(parser, exports=False)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Measure, choose, print."""
    from penstock.bench.tune import advice, sweep

    shared_options.check_results(parsed)
    checked_int("-B", parsed.batch_size, least=1)
    if not 0 < parsed.share <= 1:
        raise InvalidArgument(f"--share must be above 0 and at most 1, got {parsed.share:g}")
    budgets = [text.strip() for text in parsed.budgets.split(",")]
    for budget in budgets:
        checked_memory_budget(budget)
    threads = _threads(parsed.threads)
    say = shared_options.say(parsed)
    target = shared_options.target(parsed)
    rows, shares = sweep(
        target,
        budgets,
        threads,
        batch_size=parsed.batch_size,
        sparse=not parsed.dense,
        max_seconds=parsed.max_seconds,
        label=parsed.label,
        cache=parsed.cache,
        timeout=parsed.timeout,
        memory_limit=shared_options.memory_limit(parsed),
        results=parsed.results,
        command=shared_options.command_line(),
        labels=shared_options.labels(parsed),
        say=say,
    )
    print()
    print(
        advice(
            target, rows, shares, parsed.label, parsed.share, parsed.batch_size, not parsed.dense
        )
    )


def _threads(text: str | None) -> list[int]:
    import os

    if text is None:
        cores = len(os.sched_getaffinity(0))
        return sorted({max(1, cores // 2), cores})
    numbers = []
    for part in text.split(","):
        number = int(part) if part.strip().isdigit() else part.strip()
        numbers.append(checked_int("--threads", number, least=1))
    return numbers
