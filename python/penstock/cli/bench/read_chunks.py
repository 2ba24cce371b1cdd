"""``penstock bench read-chunks``: bare reads by tiledbsoma, in four forms and three orders."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options

_KINDS = ("table", "blockwise_table", "blockwise_coo", "blockwise_csr")
_ORDERS = ("", "+chunk", "+global")


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "read-chunks",
        help="speed of bare reads of chunks of rows by tiledbsoma",
        description="Reads every row once, chunk by chunk, as a table, a blockwise table, blockwise "
        "COO and blockwise CSR: in order, with -s in random order within a chunk, with -ss over all.",
        examples=(
            "penstock bench read-chunks cells.soma",
            "penstock bench read-chunks cells.soma -c 2000 -V 20000 -ss",
        ),
    )
    parser.add_argument("uri", metavar="URI", help="path or URI of an experiment")
    parser.add_argument("-c", "--chunk-size", type=int, default=10_000, metavar="N",
                        help="rows in a chunk")  # fmt: skip
    parser.add_argument("-s", "--shuffle", action="count", default=0,
                        help="shuffle the rows within each chunk (-s), or all rows (-ss)")  # fmt: skip
    parser.add_argument("-r", "-R", "--rng-seed", type=int, default=0, metavar="N",
                        help="seed of the shuffle; -r as in arrayloader-benchmarks")  # fmt: skip
    parser.add_argument("-V", "--n-vars", type=int, metavar="N",
                        help="number of genes to read, the first ones (default: all)")  # fmt: skip
    shared_options.refuse(
        parser, ("-v",), "no line is printed for each chunk; -V is the number of genes, as in alb"
    )
    shared_options.add_buffer_sizes(parser)
    parser.add_argument("-S", dest="soma_buffer_size", default=argparse.SUPPRESS, metavar="SIZE",
                        help="buffer size of tiledbsoma: -z, by the letter of arrayloader-benchmarks")  # fmt: skip
    parser.add_argument(
        "--filter", metavar="TEXT", help="filter of obs that selects cells (default: all cells)"
    )
    shared_options.add_layer(parser)
    parser.add_argument(
        "--region", metavar="NAME", help="S3 region of the experiment; -r is the seed here"
    )
    shared_options.add_measuring(parser, exports=False)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Measure the four forms of reading."""
    from penstock.bench.block_spec import BlockSpec
    from penstock.bench.methods import Method
    from penstock.bench.sources import Sources
    from penstock.bench.sweep import Settings, measurements, require_some
    from penstock.bench.sweep import run as run_sweep
    from penstock.bench.target import make_target
    from penstock.bench.worker.request import Work

    shared_options.check_results(parsed)
    checked_int("-c", parsed.chunk_size, least=1)
    checked_int("-r", parsed.rng_seed, least=0)
    if parsed.n_vars is not None:
        checked_int("-V", parsed.n_vars, least=1)
    if parsed.shuffle > 2:
        raise InvalidArgument(
            "-s shuffles the rows of each chunk, -ss all rows: give -s at most twice, "
            f"got {parsed.shuffle} times"
        )
    python_buffer, soma_buffer = shared_options.buffer_sizes(parsed, soma_option="-z (or -S)")
    say = shared_options.say(parsed)
    target = make_target(
        parsed.uri,
        measurement=parsed.measurement,
        layer=parsed.layer,
        obs_filter=parsed.filter,
        n_vars=parsed.n_vars,
        region=parsed.region,
        say=say,
    )
    work = Work(
        target.uri,
        target.measurement,
        target.layer,
        batch_size=parsed.chunk_size,
        sparse=True,
        seed=parsed.rng_seed,
        py_buffer_size=python_buffer,
        soma_buffer_size=soma_buffer,
        region=target.region,
    )
    order = _ORDERS[parsed.shuffle]
    methods = [
        Method(
            f"read_{kind}{order}", "read_chunks", f"{kind}{order}", blocks=True, peer="tiledbsoma"
        )
        for kind in _KINDS
    ]
    request = {"first_batch_included": True, "memory_limit": shared_options.memory_limit(parsed)}
    labels = shared_options.labels(parsed)
    settings = Settings(work, request, parsed.cache, parsed.timeout, labels)
    planned = measurements(
        methods, [BlockSpec(1, parsed.chunk_size)], Sources(target), settings, say
    )
    rows = run_sweep(planned, parsed.results, shared_options.command_line(), lambda text: None)
    for row in rows:
        if row["status"] == "ok":
            print(
                f"{row['method']} elapsed: {row['elapsed']:.2f} s, {plural(row['n_nonzeros'], 'count')}"
            )
        else:
            print(f"{row['method']} {row['status']}: {row['error']}")
    require_some(rows, parsed.results)
    counts = {row["n_nonzeros"] for row in rows if row["status"] == "ok"}
    if len(counts) > 1:
        raise InvalidArgument(f"the forms did not read the same number of counts: {sorted(counts)}")
