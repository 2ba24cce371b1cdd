"""``penstock bench peers``: which other loaders are there, and installing them."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "peers",
        help="which other loaders are installed; install them",
        description="Without a word lists the methods and where their packages are. 'install' makes "
        "an environment for each peer under the cache folder (PENSTOCK_BENCH_CACHE).",
    )
    parser.add_argument("what", nargs="?", choices=("list", "install"), default="list")
    parser.add_argument("names", nargs="*", metavar="PEER", help="only these")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """List or install."""
    from ...bench.methods import METHODS
    from ...bench.peers import PEERS, install, interpreter, peer_named

    if parsed.what == "install":
        for peer in [peer_named(name) for name in parsed.names] or PEERS.values():
            install(peer, print)
        return
    for method in METHODS.values():
        try:
            where = interpreter(method)
        except ModuleNotFoundError:
            where = "not installed"
        print(f"{method.name:22} {method.what:52} {where}")
