"""Messages of a command: they name its options, not the Python arguments that these give."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

#: Options by the argument that they give, where the two have different names. A command has one of them.
_OPTIONS = {
    "categorical_covariate_keys": ("--categorical",),
    "consolidated": ("--consolidated",),
    "continuous_covariate_keys": ("--continuous",),
    "early_stopping": ("--patience",),
    "early_stopping['patience']": ("--patience",),
    "max_epochs": ("--epochs",),
    "mean_genes_per_cell": ("--genes-per-cell",),
    "memory_budget": ("--memory", "--budgets"),
    "n_cells": ("--cells",),
    "n_datasets": ("--datasets",),
    "n_fragments": ("--fragments",),
    "n_genes": ("--genes",),
    "n_latent": ("--latent",),
    "obs_query": ("--filter",),
    "unlabeled_category": ("--unlabeled",),
    "value_filter": ("--filter",),
}


def in_options(message: str, parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> str:
    """Return the message with options in the places of the arguments that the command gives.

    Only the first line speaks of arguments: a filter of the user's may follow. What begins with an
    option is a message of the command itself.
    """
    first, newline, rest = message.partition("\n")
    if first.startswith("-"):
        return message
    actions = list(_actions(parser, parsed))
    flags = {action.option_strings[0] for action in actions if action.nargs == 0}
    named = _by_argument(actions)
    for argument in sorted(named, key=len, reverse=True):
        option = named[argument]
        name = rf"(?<![\w'\"/.-]){re.escape(argument)}"
        if option in flags:
            first = re.sub(rf"(?:with )?{name}=False\b", f"without {option}", first)
            first = re.sub(rf"{name}=True\b", option, first)
        if "_" not in argument and argument not in _OPTIONS:
            # A word, which in the middle of a sentence may mean something else.
            name = rf"(?:^|(?<=: )){re.escape(argument)}(?= must |=\w)"
        first = re.sub(rf"{name}=(?=\w)", f"{option} ", first)
        first = re.sub(rf"{name}(?![\w'\"/]|\.\w)=?", option, first)
    return first + newline + rest


def _by_argument(actions: list[argparse.Action]) -> dict[str, str]:
    """Options by the argument that they give."""
    named = {action.dest: action.option_strings[0] for action in actions}
    there = {option for action in actions for option in action.option_strings}
    for argument, options in _OPTIONS.items():
        for option in options:
            if option in there:
                named.setdefault(argument, option)
    return named


def _actions(
    parser: argparse.ArgumentParser, parsed: argparse.Namespace
) -> Iterator[argparse.Action]:
    """Options of the command that was given, and of those above it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from _actions(action.choices[getattr(parsed, action.dest)], parsed)
        elif action.option_strings:
            yield action
