"""The command ``penstock``."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from .. import __version__
from ..errors import PenstockError
from . import bench, demo, index, info, pack, synth, train


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Streams single-cell count matrices that do not fit in memory into PyTorch.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="show where in the code an error came from"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    info.add_arguments(commands)
    index.add_arguments(commands)
    pack.add_arguments(commands)
    demo.add_arguments(commands)
    train.add_arguments(commands)
    synth.add_arguments(commands)
    bench.add_arguments(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    parsed = build_parser().parse_args(arguments)
    try:
        parsed.run(parsed)
    except KeyboardInterrupt:
        print("\npenstock: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe has gone (`penstock info … | head`); keep the shutdown quiet too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (PenstockError, OSError, ImportError, MemoryError) as error:
        if parsed.traceback:
            traceback.print_exc()
        print(f"penstock: {_message(error, parsed.command)}", file=sys.stderr)
        return 1
    return 0


#: What the modules that `penstock train` imports come with; the others with the command's.
_EXTRA = {"scvi": "scvi", "lightning": "scvi", "cloudpickle": "scvi"}


def _message(error: Exception, command: str) -> str:
    if isinstance(error, ImportError) and error.name:
        of_command = "bench" if command in ("bench", "synth") else "demo"
        extra = _EXTRA.get(error.name, of_command)
        return (
            f"this command needs {error.name}, which is not installed; "
            f"pip install 'penstock[{extra}]' brings it"
        )
    if isinstance(error, OSError) and error.strerror and not isinstance(error, PenstockError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__
