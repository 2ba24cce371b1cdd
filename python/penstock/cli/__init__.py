# PYTHON_ARGCOMPLETE_OK
"""The command ``penstock``."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from penstock import __version__
from penstock.base.missing_package import missing_text
from penstock.base.text import printable
from penstock.errors import InvalidArgument, PenstockError, ResourceExhausted

from . import bench, demo, index, info, pack, synth, train
from .completion import complete
from .encodings import allow_any_encoding
from .options import in_options
from .parser import Parser, commands_of


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="penstock",
        description="Streams single-cell count matrices that do not fit in memory into PyTorch. "
        "The options of a command: penstock COMMAND --help.",
        epilog="examples:\n  $ penstock info cells.h5ad\n  $ penstock demo",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="print the Python traceback of an error"
    )
    commands = commands_of(parser, "command")
    info.add_arguments(commands)
    index.add_arguments(commands)
    pack.add_arguments(commands)
    demo.add_arguments(commands)
    train.add_arguments(commands)
    synth.add_arguments(commands)
    bench.add_arguments(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    allow_any_encoding()
    parser = build_parser()
    complete(parser)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["help"]:
        given = [*given[1:], "-h"]
    parsed = parser.parse_args(given)
    try:
        parsed.run(parsed)
    except KeyboardInterrupt:
        print("\npenstock: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the pipe has ended (`penstock info … | head`); exit without a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (PenstockError, OSError, ImportError, MemoryError) as error:
        if parsed.traceback:
            print(printable(traceback.format_exc()), end="", file=sys.stderr)
        message = _message(error, parsed.command)
        # NotFound is left as it is: a name in the store may equal that of an argument.
        if isinstance(error, (InvalidArgument, ResourceExhausted, ImportError)):
            message = in_options(message, parser, parsed)
        print(printable(f"penstock: {message}"), file=sys.stderr)
        return 1
    return 0


#: Extra with the packages that a command needs.
_EXTRAS = {"bench": "bench", "synth": "bench", "demo": "demo", "train": "scvi"}
#: Packages that the extra lacks.
_NOT_OF_EXTRAS = {("bench", "torch"), ("train", "matplotlib"), ("train", "umap")}


def _message(error: Exception, command: str) -> str:
    if isinstance(error, ImportError) and error.name:
        module = error.name.partition(".")[0]
        extra = None if (command, module) in _NOT_OF_EXTRAS else _EXTRAS.get(command)
        return missing_text("this command", module, extra)
    if isinstance(error, OSError) and error.strerror and not isinstance(error, PenstockError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__
