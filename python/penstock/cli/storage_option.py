"""The option of a command that says how a remote store is reached."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from penstock.errors import InvalidArgument


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Add ``-o NAME=VALUE``, for `storage_options_of`."""
    parser.add_argument(
        "--storage-option", "-o", metavar="NAME=VALUE", action="append", default=[],
        help="setting of a remote store, such as anonymous=true or region=us-west-2; may be given several times",
    )  # fmt: skip


def storage_options_of(given: Sequence[str]) -> dict[str, str]:
    """Return the storage options of the command line."""
    options = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            # The text may be a secret without its name, so it is not shown.
            raise InvalidArgument(
                "a storage option must be given as NAME=VALUE, got one without "
                + ("NAME" if equals else "=")
            )
        options[name] = value
    return options
