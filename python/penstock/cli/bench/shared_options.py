"""Options that several commands share, and their values."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from penstock.base.validation import (
    check_regular,
    checked_int,
    checked_local_path,
    checked_path,
    parse_memory_size,
)
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.bench.methods import Method
    from penstock.bench.target import Target

RESULTS = "epochs.parquet"
#: What alb loads if nothing else is said: this release, and so many of its genes.
ALB_CENSUS, ALB_GENES = "2023-12-15", 20_000
_BUFFER_SIZE = "1GiB"  # as in alb
_SOURCES = ("--pack", "--annbatch", "--h5ad")  # each is for some methods only, as its help says


class _Refusal(argparse.Action):
    """An option of ``alb`` that has no counterpart here: an error that says what there is."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        parser.error(f"{option}: {self.const}")


def refuse(parser: argparse.ArgumentParser, options: Sequence[str], instead: str) -> None:
    """Add options of ``alb`` that are an error, which says what to use `instead`."""
    parser.add_argument(
        *options, action=_Refusal, nargs="?", const=instead, dest=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )  # fmt: skip


def add_target(
    parser: argparse.ArgumentParser, uri_required: bool = False, as_alb: bool = False
) -> None:
    """Add the URI and the options that select cells and genes, with ``alb``'s letters.

    With `as_alb`, the defaults for a Census are ``alb``'s, and so is the Census.
    """
    parser.set_defaults(as_alb=as_alb)
    release = f" (default without URI and -u: {ALB_CENSUS})" if as_alb else ""
    genes = f"; for a Census {ALB_GENES:,}, 0: all" if as_alb else ""
    parser.add_argument("uri", metavar="URI", nargs=None if uri_required else "?",
                        help="path or URI of an experiment")  # fmt: skip
    group = parser.add_argument_group("what is loaded")
    group.add_argument("-V", "--census", metavar="RELEASE",
                       help=f"release of the Census to load, in place of URI{release}")  # fmt: skip
    group.add_argument("--organism", metavar="NAME",
                       help="organism of the Census (default: homo_sapiens)")  # fmt: skip
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
                       help="end of the range of datasets, exclusive")  # fmt: skip
    group.add_argument("-S", "--sorted-datasets", action="store_true",
                       help="number the datasets for -s and -e by size, smallest first")  # fmt: skip
    group.add_argument("-v", "--n-vars", metavar="N", type=int,
                       help=f"number of genes to load, the first ones (default: all{genes})")  # fmt: skip
    if as_alb:
        group.add_argument("--all", action="store_true",
                           help="all cells of a Census; without, the datasets of -c, as in alb, unless --filter is given")  # fmt: skip
    group.add_argument("--filter", metavar="TEXT",
                       help="filter of obs that selects cells (default: all cells)")  # fmt: skip
    add_layer(group)
    group.add_argument("-r", "--region", metavar="NAME", help="S3 region of the experiment")


def add_layer(group: Any) -> None:
    """Add ``--measurement`` and ``--layer``."""
    group.add_argument(
        "--measurement", default="RNA", metavar="NAME", help="measurement that has the counts"
    )
    group.add_argument(
        "--layer", metavar="NAME", help="layer of X to load (default: raw of SOMA, X of AnnData)"
    )


def target(parsed: argparse.Namespace) -> Target:
    """Return the target that these options select."""
    from penstock.bench.dataset_slice import DatasetSlice
    from penstock.bench.target import make_target

    census, n_vars, datasets = parsed.census, parsed.n_vars, None
    if parsed.as_alb and parsed.uri is None and parsed.census_uri is None:
        census = census or ALB_CENSUS
    for option, number, least in (("-s", parsed.start, 0), ("-e", parsed.end, 1)):
        if number is not None:
            checked_int(option, number, least=least)
    given = parsed.start is not None or parsed.end is not None
    of_census = parsed.as_alb and bool(census or parsed.census_uri)
    whole = parsed.as_alb and parsed.all
    if whole and (
        given or parsed.sorted_datasets or parsed.collection_id or parsed.uri is not None
    ):
        raise InvalidArgument(
            "--all loads all cells of a Census: leave it, or URI, -c, -s, -e and -S, out"
        )
    if given or (of_census and not whole and (parsed.filter is None or parsed.sorted_datasets)):
        datasets = DatasetSlice(parsed.start or 0, parsed.end, parsed.sorted_datasets)
    elif parsed.sorted_datasets:
        raise InvalidArgument("-S sorts the datasets that -s and -e slice; give one of them")
    if n_vars is not None:
        checked_int("-v", n_vars, least=0 if parsed.as_alb else 1)
    if of_census and n_vars is None:
        n_vars = ALB_GENES
    return make_target(
        parsed.uri,
        census=census,
        organism=parsed.organism,
        directory=parsed.directory,
        census_uri=parsed.census_uri,
        collection_id=parsed.collection_id,
        datasets=datasets,
        measurement=parsed.measurement,
        layer=parsed.layer,
        obs_filter=parsed.filter,
        n_vars=n_vars or None,
        region=parsed.region,
        say=say(parsed),
    )


def seconds(text: str) -> float:
    """Return a number of seconds, for argparse."""
    number = float(text)
    if not 0 < number <= 1e8:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1e8, got {text}")
    return number


def add_measuring(parser: argparse.ArgumentParser, exports: bool = True) -> None:
    """Add options of measuring and results, and with `exports` those of exported files."""
    group = parser.add_argument_group("how it is measured")
    group.add_argument("--cache", choices=("warm", "cold", "as-is"), default="warm",
                       help="state of the source's page cache before each measurement: filled (warm), "
                       "emptied (cold) or left alone (as-is)")  # fmt: skip
    group.add_argument("--timeout", type=seconds, default=3600.0, metavar="SECONDS",
                       help="time limit of one measurement (default: %(default)g)")  # fmt: skip
    group.add_argument("--memory-limit", metavar="SIZE",
                       help="limit of the address space of one measurement (default: none)")  # fmt: skip
    add_output(group)
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
                       help="make no h5ad file, annbatch collection or pack: methods that read one need --h5ad, --annbatch or --pack")  # fmt: skip


def add_output(group: Any) -> None:
    """Add ``-d``, ``-M`` and ``-q``."""
    group.add_argument("-d", "--results", default=RESULTS, metavar="FILE",
                       help="Parquet file that rows are appended to")  # fmt: skip
    group.add_argument("-M", "--metadata", action="append", default=[], metavar="KEY=VALUE",
                       help="further column of the rows, such as run=first; may be given several times")  # fmt: skip
    group.add_argument("-q", "--quiet", action="count", default=0, help="print less")


def check_results(parsed: argparse.Namespace) -> None:
    """Refuse a URL in ``-d``."""
    checked_local_path("-d", parsed.results, "file")


def add_buffer_sizes(group: Any) -> None:
    """Add ``-P`` and ``-z``."""
    for letter, of in (("-P", "py"), ("-z", "soma")):
        group.add_argument(letter, f"--{of}-buffer-size", metavar="SIZE",
                           help=f"buffer size of tiledbsoma, {of}.init_buffer_bytes (default: {_BUFFER_SIZE})")  # fmt: skip


def buffer_sizes(parsed: argparse.Namespace, soma_option: str = "-z") -> tuple[int, int]:
    """Return the bytes of ``-P`` and of ``-z``."""
    given = (("-P", parsed.py_buffer_size), (soma_option, parsed.soma_buffer_size))
    python, soma = (
        parse_memory_size(option, _BUFFER_SIZE if size is None else size) for option, size in given
    )
    return python, soma


def check_used(parsed: argparse.Namespace, methods: Sequence[Method]) -> None:
    """Refuse an option that no method uses, and print methods that an option does not apply to.

    Options for a source print nothing, because each is for some methods only.

    Raises
    ------
    InvalidArgument
        No method uses an option; the message names the methods that would.
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
        # annbatch's collection is made from an h5ad file
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
    """Return the given paths by kind.

    Raises
    ------
    InvalidArgument
        A path is a URL (but a pack may be at one), or that of the h5ad file is no regular file.
    """
    kinds = ("h5ad", "annbatch", "pack")
    given = {kind: getattr(parsed, kind) for kind in kinds if getattr(parsed, kind)}
    for kind, path in given.items():
        if kind == "pack":
            checked_path("--pack", path)
        else:
            checked_local_path(f"--{kind}", path, "file" if kind == "h5ad" else "folder")
    if "h5ad" in given:
        check_regular("--h5ad", given["h5ad"])
    return given


def labels(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the columns of ``-M``."""
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
    """Return the bytes of ``--memory-limit``."""
    if parsed.memory_limit is None:
        return None
    return parse_memory_size("--memory-limit", parsed.memory_limit)


def command_line() -> str:
    """Return the command line of this process."""
    return shlex.join(["penstock", *sys.argv[1:]])


def say(parsed: argparse.Namespace) -> Any:
    """Return a function that prints, or with ``-q`` one that does nothing."""
    if getattr(parsed, "quiet", 0):
        return lambda text: None
    return lambda text: print(text, flush=True)
