"""Options that several of the commands have, and what they come to."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from penstock.base.validation import checked_int, parse_memory_size
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.bench.methods import Method
    from penstock.bench.target import Target

_BUFFER_SIZE = "1GiB"  # as alb's
_SOURCES = ("--pack", "--annbatch", "--h5ad")  # each for some methods only, as its help says


def add_target(parser: argparse.ArgumentParser, uri_required: bool = False) -> None:
    """URI and what selects of it; ``alb``'s letters."""
    parser.add_argument("uri", metavar="URI", nargs=None if uri_required else "?",
                        help="path or URI of a TileDB-SOMA experiment")  # fmt: skip
    group = parser.add_argument_group("what is loaded")
    group.add_argument("-V", "--census", metavar="RELEASE",
                       help="release of the Census to load, in place of URI")  # fmt: skip
    group.add_argument("--organism", metavar="NAME",
                       help="organism of the Census (homo_sapiens)")  # fmt: skip
    group.add_argument(
        "-u", "--census-uri", metavar="URI", help="address of a Census to load, in place of URI"
    )
    group.add_argument("--directory", metavar="URL", help="address of the list of Census releases")
    group.add_argument(
        "-c",
        "--collection-id",
        metavar="ID",
        help="collection of the Census whose datasets are loaded",
    )
    group.add_argument("-s", "--start", metavar="N", type=int,
                       help="number of the first dataset, from 0")  # fmt: skip
    group.add_argument("-e", "--end", metavar="N", type=int,
                       help="number of the dataset after the last one")  # fmt: skip
    group.add_argument("-S", "--sorted-datasets", action="store_true",
                       help="order of the datasets by size, before -s and -e count them")  # fmt: skip
    group.add_argument("-v", "--n-vars", metavar="N", type=int,
                       help="number of genes to load, the first ones (default: all)")  # fmt: skip
    group.add_argument("--filter", metavar="TEXT",
                       help="filter of obs that selects cells (default: all cells)")  # fmt: skip
    group.add_argument("--measurement", default="RNA", metavar="NAME", help="measurement (RNA)")
    group.add_argument("--layer", default="raw", metavar="NAME", help="layer of X (raw)")
    group.add_argument("-r", "--region", metavar="NAME", help="S3 region of the experiment")


def target(parsed: argparse.Namespace) -> Target:
    """What those options say."""
    from penstock.bench.dataset_slice import DatasetSlice
    from penstock.bench.target import make_target

    datasets = None
    for option, number, least in (("-s", parsed.start, 0), ("-e", parsed.end, 1)):
        if number is not None:
            checked_int(option, number, least=least)
    if parsed.start is not None or parsed.end is not None:
        datasets = DatasetSlice(parsed.start or 0, parsed.end, parsed.sorted_datasets)
    elif parsed.sorted_datasets:
        raise InvalidArgument("-S sorts the datasets that -s and -e slice; give one of them")
    if parsed.n_vars is not None:
        checked_int("-v", parsed.n_vars, least=1)
    return make_target(
        parsed.uri,
        census=parsed.census,
        organism=parsed.organism,
        directory=parsed.directory,
        census_uri=parsed.census_uri,
        collection_id=parsed.collection_id,
        datasets=datasets,
        measurement=parsed.measurement,
        layer=parsed.layer,
        obs_filter=parsed.filter,
        n_vars=parsed.n_vars,
        region=parsed.region,
        say=say(parsed),
    )


def seconds(text: str) -> float:
    """A time that a wait may take."""
    number = float(text)
    if not 0 < number <= 1e8:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1e8, got {text}")
    return number


def add_measuring(parser: argparse.ArgumentParser, exports: bool = True) -> None:
    """How measurements are made and where they go; `exports` of the experiment for other loaders."""
    group = parser.add_argument_group("how it is measured")
    group.add_argument("--cache", choices=("warm", "cold", "as-is"), default="warm",
                       help="state of the source's page cache before each measurement: filled (warm), "
                       "emptied (cold) or left alone (as-is) (warm)")  # fmt: skip
    group.add_argument("--timeout", type=seconds, default=3600.0, metavar="SECONDS",
                       help="time limit of one measurement (3600)")  # fmt: skip
    group.add_argument("--memory-limit", metavar="SIZE",
                       help="limit of the address space of one measurement (default: none)")  # fmt: skip
    group.add_argument("-d", "--results", default="epochs.parquet", metavar="FILE",
                       help="Parquet file that rows are appended to (epochs.parquet)")  # fmt: skip
    group.add_argument("-M", "--metadata", action="append", default=[], metavar="KEY=VALUE",
                       help="further column of the rows; may be given several times")  # fmt: skip
    group.add_argument("-q", "--quiet", action="count", default=0, help="less output")
    if not exports:
        return
    for kind, what, of in (
        ("h5ad", "h5ad file", "h5ad"),
        ("annbatch", "collection of annbatch", "such a collection"),
        ("pack", "folder of a pack", "packs"),
    ):
        group.add_argument(
            f"--{kind}",
            metavar="PATH",
            help=f"{what} for methods that read {of} (default: made if needed)",
        )
    group.add_argument("--no-export", action="store_true",
                       help="no making of such files: methods that read no SOMA need --h5ad, --annbatch or --pack")  # fmt: skip


def add_buffer_sizes(group: Any) -> None:
    """``-P`` and ``-z``."""
    for letter, of in (("-P", "py"), ("-z", "soma")):
        group.add_argument(letter, f"--{of}-buffer-size", metavar="SIZE",
                           help=f"buffer size of tiledbsoma, {of}.init_buffer_bytes ({_BUFFER_SIZE})")  # fmt: skip


def buffer_sizes(parsed: argparse.Namespace, soma_option: str = "-z") -> tuple[int, int]:
    """Bytes of ``-P`` and of ``-z``."""
    given = (("-P", parsed.py_buffer_size), (soma_option, parsed.soma_buffer_size))
    python, soma = (
        parse_memory_size(option, _BUFFER_SIZE if size is None else size) for option, size in given
    )
    return python, soma


def check_used(parsed: argparse.Namespace, methods: Sequence[Method]) -> None:
    """Refuse an option that no method uses. Name on stderr the methods that an option does not apply to.

    That a source is for some methods only goes without saying.

    Raises
    ------
    InvalidArgument
        It names the option and the methods that it is for.
    """
    from penstock.bench.methods import METHODS, READ_BY_TILEDBSOMA

    def by_tiledbsoma(method: Method) -> bool:
        return method.loader in READ_BY_TILEDBSOMA

    uses: tuple[tuple[str, object, Callable[[Method], bool]], ...] = (
        ("-b", parsed.block_spec, lambda method: method.blocks),
        ("--memory-budget", parsed.memory_budget, lambda method: method.loader == "penstock"),
        ("--threads", parsed.threads, lambda method: method.threads),
        ("-P", getattr(parsed, "py_buffer_size", None), by_tiledbsoma),
        ("-z", getattr(parsed, "soma_buffer_size", None), by_tiledbsoma),
        ("--pack", parsed.pack, lambda method: method.source == "pack"),
        ("--annbatch", parsed.annbatch, lambda method: method.source == "annbatch"),
        # annbatch's collection is made from one
        ("--h5ad", parsed.h5ad, lambda method: method.source in ("h5ad", "annbatch")),
    )
    for option, given, means_something in uses:
        if not given:
            continue
        users = [method.name for method in methods if means_something(method)]
        others = [method.name for method in methods if not means_something(method)]
        if not users:
            names = ", ".join(name for name, each in METHODS.items() if means_something(each))
            raise InvalidArgument(
                f"{option} needs a method that uses it, got -m {','.join(others)}; "
                f"methods that do: {names}"
            )
        if others and option not in _SOURCES:
            print(
                f"penstock: {option} does not apply to {', '.join(others)}, only to {', '.join(users)}",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def given_sources(parsed: argparse.Namespace) -> dict[str, str]:
    """Paths by kind."""
    kinds = ("h5ad", "annbatch", "pack")
    return {kind: getattr(parsed, kind) for kind in kinds if getattr(parsed, kind)}


def labels(parsed: argparse.Namespace) -> dict[str, str]:
    """The columns of ``-M``."""
    from penstock.bench.schema import COLUMNS

    found: dict[str, str] = {}
    for each in parsed.metadata:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise InvalidArgument(f"-M must be given as KEY=VALUE, got {each!r}")
        if key in COLUMNS and key not in ("host", "instance_type"):
            raise InvalidArgument(f"-M {key}: a column of this name is measured")
        found[key] = value
    return found


def memory_limit(parsed: argparse.Namespace) -> int | None:
    """Bytes of ``--memory-limit``."""
    if parsed.memory_limit is None:
        return None
    return parse_memory_size("--memory-limit", parsed.memory_limit)


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["penstock", *sys.argv[1:]])


def say(parsed: argparse.Namespace) -> Any:
    """Prints, unless told to be quiet."""
    if getattr(parsed, "quiet", 0):
        return lambda text: None
    return lambda text: print(text, flush=True)
