"""``penstock bench peers``: list and install other loaders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.parser import add_command
from penstock.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from penstock.bench.peers import Peer


def add_arguments(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "peers",
        help="list or install the other loaders",
        description="'list' shows the methods and where their packages are. 'install' makes an "
        "environment for each peer under the cache folder (PENSTOCK_BENCH_CACHE). Environments "
        "that are complete and up to date are kept. 'install' fails if an environment cannot be "
        "made; peers that were not named are skipped if there is no suitable Python.",
        examples=(
            "penstock bench peers",
            "penstock bench peers install annbatch scDataset",
        ),
    )
    parser.add_argument("what", nargs="?", choices=("list", "install"), default="list",
                        help="list the methods, or install the peers (default: list)")  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="PEER", help="names of peers (default: all)")
    parser.add_argument("--again", action="store_true", help="also reinstall peers that are ready")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> None:
    """List or install."""
    from penstock.bench.methods import METHODS
    from penstock.bench.peers import PEERS, interpreter, peer_named

    chosen = [peer_named(name) for name in parsed.names]
    if parsed.what == "install":
        _install(chosen or list(PEERS.values()), named=bool(chosen), again=parsed.again)
        return
    if parsed.again:
        raise InvalidArgument("--again goes with install")
    modules = {peer.module for peer in chosen}
    for method in METHODS.values():
        if chosen and method.peer not in modules:
            continue
        try:
            where = interpreter(method)
        except ModuleNotFoundError:
            where = "not installed"
        print(f"{method.name:22} {method.what:52} {where}")


def _install(peers: Sequence[Peer], *, named: bool, again: bool) -> None:
    """Install all; raise at the end if a required one is missing."""
    from penstock.bench.peers import install

    made = {peer.module: install(peer, print, again) for peer in peers}
    missing = [name for name, ready in made.items() if ready is False or (named and not ready)]
    if missing:
        raise Unsupported(f"not installed: {', '.join(missing)}")
