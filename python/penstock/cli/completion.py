"""Completion of commands and options in a shell, if argcomplete is installed."""

from __future__ import annotations

import argparse
import importlib
import os


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and exit, if it asks for completions; otherwise do nothing."""
    if "_ARGCOMPLETE" not in os.environ:  # which argcomplete's shell function sets
        return
    try:
        argcomplete = importlib.import_module("argcomplete")
    except ModuleNotFoundError:
        return
    argcomplete.autocomplete(parser)
