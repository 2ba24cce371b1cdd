"""``penstock bench compare``: loaders side by side in one run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.base.validation import checked_int, checked_local_path, parse_memory_size
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options

if TYPE_CHECKING:
    from penstock.bench.measuring.measurement import Measurement

DEFAULT_METHODS = "penstock,tiledbsoma_ml,annbatch,scDataset"


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "compare",
        help="speed and memory of loaders side by side, measured in turns",
        description="Measures each loader once a round, for several rounds, and prints a table in Markdown "
        "with the ratio of each loader to the first one, taken within a round. Loaders other than "
        "Penstock are installed by 'penstock bench peers install'.",
        examples=(
            "penstock bench compare cells.soma",
            "penstock bench compare cells.soma -m penstock,annbatch --memory-budget 256MiB,2GiB --report report",
        ),
    )
    add_options(parser)
    parser.set_defaults(run=run)


def add_options(
    parser: argparse.ArgumentParser, rounds: int = 3, methods: str = DEFAULT_METHODS,
    report: bool = True,
) -> None:  # fmt: skip
    """Add the options of a comparison, which ``shuffle``, ``slicing`` and ``remote`` share."""
    shared_options.add_target(parser)
    group = parser.add_argument_group("the comparison")
    group.add_argument("-m", "--method", default=methods, metavar="NAMES",
                       help="methods by name or unique prefix, separated by commas")  # fmt: skip
    group.add_argument("-R", "--rounds", type=int, default=rounds, metavar="N",
                       help="number of rounds; each method is measured once a round")  # fmt: skip
    group.add_argument("-b", "--block-spec", action="append", default=[], metavar="SPEC",
                       help="size of shuffle blocks, such as 64x2048 (64 chunks of 2,048 cells), for methods "
                       "that have blocks; may be given several times (default: each method's own)")  # fmt: skip
    group.add_argument("-B", "--batch-size", type=int, default=128, metavar="N",
                       help="cells in a batch")  # fmt: skip
    group.add_argument("-n", "--max-batches", type=int, default=0, metavar="N",
                       help="number of batches after which an epoch is ended; 0: no limit")  # fmt: skip
    group.add_argument("--max-seconds", type=shared_options.seconds, metavar="N",
                       help="seconds after which an epoch is ended, at the next batch")  # fmt: skip
    group.add_argument(
        "--dense", action="store_true", help="make dense batches (default: CSR batches)"
    )
    group.add_argument("--genes", metavar="FILE",
                       help=".npy file with the joinids of the genes to load (default: all genes)")  # fmt: skip
    group.add_argument(
        "--torch",
        action="store_true",
        help="let penstock make torch tensors (default: numpy and scipy arrays)",
    )
    group.add_argument("--memory-budget", default="", metavar="SIZES",
                       help="memory budgets of penstock, separated by commas; each is measured (default: 2GiB)")  # fmt: skip
    group.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads of methods that have this setting (default: all cores)",
    )
    group.add_argument("-g", "--gc-freq", type=int, default=0, metavar="N",
                       help="batches between two garbage collections; 0: no collection")  # fmt: skip
    group.add_argument("--seed", type=int, default=0, metavar="N",
                       help="seed of the shuffle")  # fmt: skip
    parser.set_defaults(num_epochs=1)
    if report:
        group.add_argument("-E", "--num-epochs", type=int, default=1, metavar="N",
                           help="epochs of each process, each with a table of its own")  # fmt: skip
        group.add_argument("--report", metavar="FOLDER",
                           help="folder for a page with figures and plots")  # fmt: skip
        group.add_argument(
            "--title",
            default="Loaders side by side",
            metavar="TEXT",
            help="title of the page",
        )
        group.add_argument(
            "--note", default="", metavar="TEXT", help="paragraph that is added to the page"
        )
    shared_options.add_measuring(parser)


def run(parsed: argparse.Namespace) -> None:
    """Measure, print the table, write the page."""
    from penstock.bench.reports.comparison import markdown
    from penstock.bench.reports.report import check_folder, write_report
    from penstock.bench.reports.results_file import check_writable

    check(parsed)
    report = None if parsed.report is None else Path(checked_local_path("--report", parsed.report))
    check_writable(parsed.results)
    if report is not None:
        check_folder(report)
    say = shared_options.say(parsed)
    command = shared_options.command_line()
    planned = contestants(parsed, say)
    rows = measure(parsed, planned, say)
    reference = planned[0].label
    print()
    print(markdown(rows, reference), end="")
    if report is not None:
        work = planned[0].request.work
        form = "CSR" if work.sparse else "dense"
        what = (
            f"{planned[0].expected_rows or 0:,} cells of `{Path(work.source).name}`, shuffled, {form} batches "
            f"of {work.batch_size}."
        )
        page = write_report(
            report,
            rows,
            title=parsed.title,
            command=command,
            reference=reference,
            target=what,
            note=parsed.note,
        )
        print(f"\nwritten: {page}")


def check(parsed: argparse.Namespace) -> None:
    """Check the numbers and paths before anything is opened."""
    shared_options.check_results(parsed)
    if parsed.genes is not None:
        checked_local_path("--genes", parsed.genes, "file")
    checked_int("-R", parsed.rounds, least=1)
    checked_int("-E", parsed.num_epochs, least=1)
    checked_int("-B", parsed.batch_size, least=1)
    checked_int("-n", parsed.max_batches, least=0)
    checked_int("-g", parsed.gc_freq, least=0)
    checked_int("--seed", parsed.seed, least=0)
    if parsed.threads is not None:
        checked_int("--threads", parsed.threads, least=1)
    if parsed.genes is not None and parsed.n_vars is not None:
        raise InvalidArgument("--genes and -v both say which genes: give one of them")


def measure(
    parsed: argparse.Namespace, planned: Sequence[Measurement], say: Any, on_row: Any = None
) -> list[dict[str, Any]]:
    """Measure all in turns; raise if no measurement succeeds."""
    from penstock.bench.measuring.rounds import in_rounds
    from penstock.bench.sweep import require_some
    from penstock.bench.sweep import run as run_sweep

    turns = in_rounds(planned, parsed.rounds)
    rows = run_sweep(turns, parsed.results, shared_options.command_line(), say, on_row)
    require_some(rows, parsed.results)
    return rows


def contestants(parsed: argparse.Namespace, say: Any) -> list[Measurement]:
    """Return every installed method with every block and memory budget."""
    from penstock.bench.block_spec import parse_block_specs
    from penstock.bench.measuring.rounds import with_budgets
    from penstock.bench.methods import parse_methods
    from penstock.bench.sources import Sources
    from penstock.bench.sweep import Settings, measurements
    from penstock.bench.worker.request import Work

    methods = parse_methods(parsed.method)
    blocks = [block for text in parsed.block_spec for block in parse_block_specs(text)]
    budgets: list[str | None] = [
        text.strip() for text in parsed.memory_budget.split(",") if text.strip()
    ]
    for budget in budgets:
        parse_memory_size("--memory-budget", budget)
    shared_options.check_used(parsed, methods)
    labels = shared_options.labels(parsed)
    limit = shared_options.memory_limit(parsed)
    if parsed.genes is not None and not Path(parsed.genes).is_file():
        raise FileNotFoundError(2, "no such file of genes", parsed.genes)
    given = shared_options.given_sources(parsed)
    target = shared_options.target(parsed)
    work = Work(
        target.uri,
        target.measurement,
        target.layer,
        batch_size=parsed.batch_size,
        sparse=not parsed.dense,
        torch=parsed.torch,
        seed=parsed.seed,
        threads=parsed.threads,
        region=target.region,
        genes_path=parsed.genes,
    )
    request = {
        "epochs": parsed.num_epochs,
        "max_batches": parsed.max_batches,
        "gc_freq": parsed.gc_freq,
        "memory_limit": limit,
        "max_seconds": parsed.max_seconds,
    }
    settings = Settings(work, request, parsed.cache, parsed.timeout, labels)
    sources = Sources(target, given, not parsed.no_export, say)
    planned = list(measurements(methods, blocks or [None], sources, settings, say))
    return with_budgets(planned, budgets or [None])
