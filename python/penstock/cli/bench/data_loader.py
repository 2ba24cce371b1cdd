"""``penstock bench data-loader``: methods with several block sizes, one row per epoch."""

from __future__ import annotations

import argparse
import re
from typing import Any

from penstock.base.text import plural
from penstock.base.validation import checked_int, parse_memory_size
from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument

from . import shared_options

_ALB_METHODS = "np.array,scipy.csr"
_DEVICE = re.compile(r"(cpu|cuda|hpu|mps|mtia|xpu)(:[0-9]+)?")


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "data-loader",
        help="sweep of every method over every size of block",
        description="Measures epochs of shuffled batches, every method with every block, and appends "
        "one row per epoch to a Parquet file. The letters are those of data-loader in "
        "arrayloader-benchmarks (alb).",
        examples=(
            "penstock bench data-loader cells.soma",
            "penstock bench data-loader cells.soma -m penstock,np.array -b '131072 / [1,4096]' -B 512",
        ),
    )
    shared_options.add_target(parser, as_alb=True)
    group = parser.add_argument_group("the sweep")
    group.add_argument("-b", "--block-spec", action="append", default=[], metavar="SPEC",
                       help="sizes of shuffle blocks: '64x2048' is 64 chunks of 2,048 cells; '131072 / 64' is 131,072 cells "
                       "in 64 chunks; '131072 / [1,4096]' is 13 sizes, 131,072 cells in 1, 2, 4 ... 4,096 chunks; "
                       "may be given several times (default: 2000x64)")  # fmt: skip
    group.add_argument("-m", "--method", metavar="NAMES",
                       help="methods by name or unique prefix, separated by commas, or 'all' "
                       f"(default: penstock; with -b: {_ALB_METHODS})")  # fmt: skip
    group.add_argument("-B", "--batch-size", type=int, default=1024, metavar="N",
                       help="cells in a batch")  # fmt: skip
    group.add_argument("-n", "--max-batches", type=int, default=0, metavar="N",
                       help="number of batches after which an epoch is ended; 0: no limit")  # fmt: skip
    group.add_argument("-E", "--num-epochs", type=int, default=1, metavar="N",
                       help="epochs of each process")  # fmt: skip
    group.add_argument("-F", "--first-batch", action="store_true",
                       help="include opening and the first batch in the measured times")  # fmt: skip
    group.add_argument("-g", "--gc-freq", type=int, default=10, metavar="N",
                       help="batches between two garbage collections, which are timed separately; 0: none")  # fmt: skip
    group.add_argument("--cuda", nargs="?", const="cuda", metavar="DEVICE",
                       help="device that each batch is copied to, in the measured time; %(const)s if no name follows "
                       "(default: none)")  # fmt: skip
    group.add_argument("-C", "--no-cuda-conversion", action="store_true",
                       help="copy no batch to a device, as without --cuda")  # fmt: skip
    shared_options.add_buffer_sizes(group)
    group.add_argument(
        "--sparse", action="store_true", help="make CSR batches (default: dense batches)"
    )
    group.add_argument("--memory-budget", metavar="SIZE",
                       help="memory budget of penstock (default: 2GiB)")  # fmt: skip
    group.add_argument("--threads", type=int, metavar="N",
                       help="threads of methods that have this setting (default: all cores)")  # fmt: skip
    group.add_argument("--seed", type=int, default=0, metavar="N",
                       help="seed of the shuffle")  # fmt: skip
    shared_options.add_measuring(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """Check all arguments, then measure."""
    from penstock.bench.block_spec import parse_block_specs
    from penstock.bench.methods import parse_methods
    from penstock.bench.sources import Sources
    from penstock.bench.sweep import DEFAULT_BLOCKS, Settings, measurements, require_some
    from penstock.bench.sweep import run as run_sweep
    from penstock.bench.worker.request import Work

    shared_options.check_results(parsed)
    default = _ALB_METHODS if parsed.block_spec else "penstock"
    methods = parse_methods(default if parsed.method is None else parsed.method)
    blocks = [block for text in parsed.block_spec for block in parse_block_specs(text)]
    _part_device_from_address(parsed)
    if parsed.no_cuda_conversion and parsed.cuda is not None:
        raise InvalidArgument(
            f"-C copies no batch to a device: leave it or --cuda {parsed.cuda} out"
        )
    checked_int("-B", parsed.batch_size, least=1)
    checked_int("-n", parsed.max_batches, least=0)
    checked_int("-E", parsed.num_epochs, least=1)
    checked_int("-g", parsed.gc_freq, least=0)
    checked_int("--seed", parsed.seed, least=0)
    if parsed.threads is not None:
        checked_int("--threads", parsed.threads, least=1)
    if parsed.memory_budget is not None:
        parse_memory_size("--memory-budget", parsed.memory_budget)
    python_buffer, soma_buffer = shared_options.buffer_sizes(parsed)
    shared_options.check_used(parsed, methods)
    labels = shared_options.labels(parsed)
    limit = shared_options.memory_limit(parsed)
    given = shared_options.given_sources(parsed)
    say = shared_options.say(parsed)
    target = shared_options.target(parsed)
    work = Work(
        target.uri,
        target.measurement,
        target.layer,
        batch_size=parsed.batch_size,
        sparse=parsed.sparse,
        torch=parsed.cuda is not None,
        seed=parsed.seed,
        memory_budget=parsed.memory_budget,
        threads=parsed.threads,
        device=parsed.cuda,
        py_buffer_size=python_buffer,
        soma_buffer_size=soma_buffer,
        region=target.region,
    )
    request = {
        "epochs": parsed.num_epochs,
        "max_batches": parsed.max_batches,
        "first_batch_included": parsed.first_batch,
        "gc_freq": parsed.gc_freq,
        "device": parsed.cuda,
        "memory_limit": limit,
    }
    settings = Settings(work, request, parsed.cache, parsed.timeout, labels)
    sources = Sources(target, given, not parsed.no_export, say)
    planned = measurements(methods, blocks or DEFAULT_BLOCKS, sources, settings, say)
    rows = run_sweep(planned, parsed.results, shared_options.command_line(), say)
    require_some(rows, parsed.results)
    say(f"{plural(len(rows), 'row')} appended to {parsed.results}")


def _part_device_from_address(parsed: argparse.Namespace) -> None:
    """Correct ``--cuda URI``: argparse takes the URI for the device."""
    if parsed.cuda is None or _DEVICE.fullmatch(parsed.cuda):
        return
    if parsed.uri is not None:
        raise InvalidArgument(
            f"--cuda must be a device such as cuda, cuda:1 or cpu, got {parsed.cuda!r}"
        )
    parsed.uri, parsed.cuda = parsed.cuda, "cuda"
